# SPDX-License-Identifier: Apache-2.0
"""What a guest that there is asks for, were it placed once more."""

from collections.abc import Mapping
from types import MappingProxyType

from nova_pinning.admission import guest_request
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory
from nova_pinning import units

_TRAIT_KEY = 'trait:'


def of_guest(
    guest: snapshot.FleetGuest,
    extra_specs: Mapping[str, str] = MappingProxyType({}),
) -> guest_request.GuestRequest:
    """A guest as if it were to be placed again, without its devices.

    :param extra_specs: of its flavor, for the traits; {} if not known
    """
    required = traits(extra_specs, 'required')
    forbidden = traits(extra_specs, 'forbidden')
    return guest_request.GuestRequest(
        name=guest.flavor, vcpus=guest.vcpus, memory_mib=guest.memory_mib,
        disk_gib=guest.disk_gib, guest_class=guest.guest_class,
        topology=guest.topology, extra_specs=guest_request.pairs(extra_specs),
        queries=tuple(
            guest_request.query(
                {**resources, **guest.resources}, required, forbidden)
            for resources in inventory.resource_requests(
                guest.vcpus, guest.memory_mib, guest.disk_gib,
                guest.topology)))


def device_requests(
    guest: snapshot.FleetGuest,
    aliases: Mapping[str, snapshot.PciAlias],
) -> tuple[snapshot.PciRequest, ...]:
    """The PCI devices that a guest asks a new host for.

    :param aliases: of the fleet, for the affinity of the devices
    """
    counts: dict[snapshot.DeviceKind, int] = {}
    for use in guest.devices:
        counts[use.kind] = counts.get(use.kind, 0) + use.count
    return tuple(_device_request(kind, count, aliases)
                 for kind, count in counts.items())


def _device_request(
    kind: snapshot.DeviceKind, count: int,
    aliases: Mapping[str, snapshot.PciAlias],
) -> snapshot.PciRequest:
    for name, alias in sorted(aliases.items()):
        if kind in alias.kinds:
            return snapshot.PciRequest(name, alias.kinds, count, alias.policy)
    return snapshot.PciRequest('', (kind,), count)


def traits(extra_specs: Mapping[str, str], value: str) -> frozenset[str]:
    """The traits that a flavor has as 'required', or as 'forbidden'."""
    return frozenset(
        key.removeprefix(_TRAIT_KEY) for key, setting in extra_specs.items()
        if key.startswith(_TRAIT_KEY) and setting == value)
