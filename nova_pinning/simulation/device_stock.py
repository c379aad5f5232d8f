# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a host, as FragmentationWeigher counts them."""

from collections.abc import Iterable
import functools

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import providers
from nova_pinning import fit
from nova_pinning.fit import score


def demands(
    requests: Iterable[devices.PciRequest],
) -> tuple[fit.DeviceDemand, ...]:
    """What a guest asks for, as its size has it."""
    return tuple(
        fit.DeviceDemand(request.specs, request.count, request.policy)
        for request in requests)


def stock(
    occupancy: host_occupancy.HostOccupancy,
    request: guest_request.GuestRequest, decision: fit.Decision,
    candidate: providers.Candidate | None,
) -> score.DeviceStock | None:
    """The devices of a host without and with a guest, None if none are free.

    :param candidate: of Placement; None for the first with which it fits
    """
    pools, uses = occupancy.host.pci_pools, occupancy.device_uses
    free = devices.free(pools, uses) if pools else ()
    if not free:
        return None
    use = judge.use_of(request, occupancy, decision.fit, candidate)
    ids = [cell.id for cell in decision.cells]
    return score.DeviceStock(
        [*ids, *[cell.id for cell in occupancy.engine.cells
                 if cell.id not in ids]],
        functools.partial(_free_for, free),
        functools.partial(
            _free_for, devices.free(pools, (*uses, *use.pci_devices))))


def _free_for(
    pools: tuple[devices.PciPool, ...], demand: fit.DeviceDemand,
) -> list[tuple[int | None, int]]:
    assert isinstance(demand.wish, tuple)
    request = devices.PciRequest('', demand.wish, demand.number)
    return [(pool.numa_node, pool.total) for pool in pools
            if request.may_have(pool)]
