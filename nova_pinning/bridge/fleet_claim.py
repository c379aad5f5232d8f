# SPDX-License-Identifier: Apache-2.0
"""What nova-compute's claim makes of a guest of a fleet.

Importing this imports nova: call ``bridge.standalone.prepare()`` first.
"""

import functools

from nova import objects

from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model

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
