# SPDX-License-Identifier: Apache-2.0
"""What one more guest asks for, of a flavor or as one that there is.

``bridge.flavor_request`` makes it of a flavor and an image by nova's own code.
"""

from collections.abc import Mapping
import dataclasses
from types import MappingProxyType

from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning import units

_TRAIT_KEY = 'trait:'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlacementQuery:
    """What nova asks Placement for, all groups together.

    :param resources: amounts by resource class (PCPU, VCPU, MEMORY_MB,
        DISK_GB, ...)
    :param required: traits, each of which a host has to have
    :param forbidden: traits, none of which it may have
    """

    resources: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestRequest:
    """A guest that is to be placed.

    :param topology: None if it has none: its vCPUs float
    :param queries: what nova asks Placement, PCPU before VCPU in its place;
        a host that answers any of them will do
    """

    flavor: flavor_model.Flavor
    guest_class: hostclass.HostClass
    topology: model.Guest | None
    devices: tuple[snapshot.PciRequest, ...] = ()
    queries: tuple[PlacementQuery, ...] = ()

    @property
    def name(self) -> str:
        return self.flavor.name

    @property
    def disk_gib(self) -> int:
        """What nova counts it with on its host's own disks."""
        flavor = self.flavor
        return (flavor.disk_gib + flavor.ephemeral_gib
                + -(-flavor.swap_mib // units.MIB_PER_GIB))


def of_guest(
    guest: snapshot.FleetGuest,
    extra_specs: Mapping[str, str] = MappingProxyType({}),
) -> GuestRequest:
    """A guest as if it were to be placed again, without its devices.

    :param extra_specs: of its flavor, for the traits; {} if not known
    """
    required = traits(extra_specs, 'required')
    forbidden = traits(extra_specs, 'forbidden')
    return GuestRequest(
        flavor=flavor_model.Flavor(
            name=guest.flavor, vcpus=guest.vcpus,
            memory_mib=guest.memory_mib, disk_gib=guest.disk_gib),
        guest_class=guest.guest_class, topology=guest.topology,
        queries=tuple(
            PlacementQuery(resources={**resources, **guest.resources},
                           required=required, forbidden=forbidden)
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
