# SPDX-License-Identifier: Apache-2.0
"""What nova-compute's claim makes of a guest of a fleet.

``predict_claim`` asks nova's fit where the engine cannot tell, and so costs
little; ``claimed_fit`` has nova's claim itself decide, of any guest.

Importing this imports nova: call ``standalone.prepare()`` first.
"""

from collections.abc import Iterator
import contextlib
import functools
from typing import Any
import uuid

import nova.conf
from nova import objects
from nova.pci import stats as nova_stats
from nova.pci import whitelist

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model

CONF = nova.conf.CONF
_PACKING = 'packing_host_numa_cells_allocation_strategy'

objects.register_all()


def predict_claim(
    attempt: fit.ClaimAttempt, choice: fit.CellChoice, bounds: fit.ClaimBounds,
) -> fit.Claim | model.Refusal:
    """As :func:`nova_pinning.bridge.claim.predict_claim`, of the engine's
    objects.

    :param attempt: its host is of ``model.HostCell``
    """
    host = attempt.host
    host_topology = nova_objects.host_topology(host)
    # Read from nova's sets, as the filter does: they can have the threads of
    # a core in another order.
    seen = topology.host_from_nova(
        host_topology, host.cpu_allocation_ratio, host.ram_allocation_ratio)
    return claim.predict_claim(
        _guest(attempt.guest, host.cpu_allocation_ratio,
               host.ram_allocation_ratio),
        host_topology, attempt._replace(host=seen), choice, bounds)


@functools.lru_cache(maxsize=256)
def _guest(guest: model.Guest, cpu_ratio: float | None,
           ram_ratio: float | None) -> claim.NovaGuest:
    limits = None
    if cpu_ratio is not None and ram_ratio is not None:
        limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=cpu_ratio, ram_allocation_ratio=ram_ratio)
        if guest.physnets or guest.tunneled:
            limits.network_metadata = objects.NetworkMetadata(
                physnets=set(guest.physnets), tunneled=guest.tunneled)
    return claim.NovaGuest(guest, limits)


def claimed_fit(
    occupancy: host_occupancy.HostOccupancy,
    request: guest_request.GuestRequest,
    packs_cells: bool = False,
) -> model.Fit | None:
    """What the claim of the nova that is installed makes of a guest.

    That is nova.compute.claims.Claim, with nothing of the engine in between.
    The networks of a guest are minded, its SR-IOV ports are not.

    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :returns: None if it refuses the guest
    """
    if request.topology is None:
        return judge.FLOATING
    host = occupancy.engine
    nova_guest = _guest(request.topology, host.cpu_allocation_ratio,
                        host.ram_allocation_ratio)
    nova_host = nova_objects.host_topology(host)
    with _packing(packs_cells), claim.LOG_SILENCER.silenced():
        claimed = nova_claim.claimed_topology(
            nova_host._to_json(),
            nova_objects.instance_topology(request.topology),
            nova_guest.limits, [
                objects.InstancePCIRequest(
                    request_id=str(uuid.UUID(int=number)),
                    count=wanted.count, alias_name=wanted.alias or None,
                    numa_policy=wanted.policy,
                    spec=list(map(dict, wanted.specs)))
                for number, wanted in enumerate(
                    request.claims or request.devices)],
            _device_stats(occupancy, nova_host))
    return None if claimed is None else claim.fit_from_nova(claimed)


def _device_stats(occupancy: host_occupancy.HostOccupancy,
                  nova_host: Any) -> Any:
    """A host's devices that are free, as nova.pci.stats.PciDeviceStats."""
    stats = nova_stats.PciDeviceStats(
        nova_host, dev_filter=whitelist.Whitelist())
    stats.pools = [
        {**dict(pool.keys), 'numa_node': pool.numa_node, 'count': pool.total}
        for pool in sorted(
            devices.free(occupancy.host.pci_pools, occupancy.device_uses),
            key=lambda pool: pool.claim_rank)]
    return stats


@contextlib.contextmanager
def _packing(packs_cells: bool) -> Iterator[None]:
    """Have nova order the cells of hosts as the fleet's does."""
    if CONF.compute[_PACKING] == packs_cells:
        yield
        return
    CONF.set_override(_PACKING, packs_cells, 'compute')
    try:
        yield
    finally:
        CONF.clear_override(_PACKING, 'compute')
