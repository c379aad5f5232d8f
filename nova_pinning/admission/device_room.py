# SPDX-License-Identifier: Apache-2.0
"""Which devices of a host a guest may have."""

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host


def usable(
    request: guest_request.GuestRequest, host: offered_host.OfferedHost,
) -> list[list[int]]:
    """The pools that each PCI request of a guest may have devices of.

    By what nova and Placement ask of a device, wherever it is and whoever
    has it; what is not known of it is taken to be as it is wanted.

    :returns: their places in ``OfferedHost.pci_pools``
    """
    groups = {group.suffix: group for query in request.queries
              for group in query.groups}
    return [[place for place, pool in enumerate(host.pci_pools)
             if asked.wants(pool) and asked.may_use(pool)
             and all(_gives(host, pool, groups[suffix])
                     for suffix in asked.groups[:1] if suffix in groups)]
            for asked in request.devices]


def _gives(host: offered_host.OfferedHost, pool: devices.PciPool,
           group: guest_request.RequestGroup) -> bool:
    """Whether Placement may choose devices of a pool for a group."""
    if pool.provider is None:
        return False
    provider = host.providers[pool.provider]
    names = {name for name, _has in provider.inventories}
    return all(name in names for name, _amount in group.asked) and (
        provider.traits is None or group.required <= provider.traits)
