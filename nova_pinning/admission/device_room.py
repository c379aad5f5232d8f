# SPDX-License-Identifier: Apache-2.0
"""Which devices of a host a guest may have."""

from collections.abc import Sequence

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host


def usable(
    request: guest_request.GuestRequest, pools: Sequence[devices.PciPool],
    providers: Sequence[offered_host.OfferedProvider],
) -> list[list[int]]:
    """The pools that each PCI request of a guest may have devices of.

    By what nova and Placement ask of a device, wherever it is and whoever
    has it; what is not known of it is taken to be as it is wanted.

    :param pools: of a host
    :param providers: of that host
    :returns: the places of the pools
    """
    groups = {group.suffix: group for query in request.queries
              for group in query.groups}
    return [[place for place, pool in enumerate(pools)
             if asked.wants(pool) and asked.may_use(pool)
             and all(_gives(providers, pool, groups[suffix])
                     for suffix in asked.groups[:1] if suffix in groups)]
            for asked in request.devices]


def _gives(providers: Sequence[offered_host.OfferedProvider],
           pool: devices.PciPool,
           group: guest_request.RequestGroup) -> bool:
    """Whether Placement may choose devices of a pool for a group."""
    if pool.provider is None:
        return False
    provider = providers[pool.provider]
    names = {name for name, _has in provider.inventories}
    return all(name in names for name, _amount in group.asked) and (
        provider.traits is None or group.required <= provider.traits)
