# SPDX-License-Identifier: Apache-2.0
"""What a guest that there is asks for, were it placed once more."""

import collections
from collections.abc import Hashable
from collections.abc import Mapping
import dataclasses
from types import MappingProxyType

from nova_pinning.admission import devices
from nova_pinning.admission import flavor_reader
from nova_pinning.admission import guest_request
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory


def of_guest(
    guest: resident_guest.ResidentGuest,
    extra_specs: Mapping[str, str] = MappingProxyType({}),
) -> guest_request.GuestRequest:
    """A guest as if it were to be placed again, without its devices.

    :param extra_specs: of its flavor; {} if not known, and then it asks for
        what it has
    """
    held = collections.Counter(guest.resources)
    for _provider, amounts in guest.allocations:
        held.update(dict(amounts))
    for name in inventory.COUNTED:
        # Of those it asks for what it is of; its disks may be shared ones.
        held.pop(name, None)
    queries = tuple(
        guest_request.query({**resources, **held})
        for resources in inventory.resource_requests(
            guest.vcpus, guest.memory_mib, guest.disk_gib, guest.topology))
    doubts: tuple[outcome.Doubt, ...] = ()
    if extra_specs:
        reader = flavor_reader.FlavorReader(
            guest.vcpus, guest.memory_mib, guest.disk_gib, extra_specs, None,
            guest.topology)
        queries = reader.queries()
        # Which devices it has is known.
        doubts = tuple(doubt for doubt in reader.doubts()
                       if doubt.about != pci_alias.KEY)
    return guest_request.GuestRequest(
        name=guest.flavor, vcpus=guest.vcpus, memory_mib=guest.memory_mib,
        disk_gib=guest.disk_gib, guest_class=guest.guest_class,
        topology=guest.topology, extra_specs=guest_request.pairs(extra_specs),
        image=None, queries=queries, doubts=doubts)


class RequestReader:
    """Makes of the guests of a fleet what each asks a new host for."""

    def __init__(self, fleet: snapshot.Fleet) -> None:
        self._aliases = fleet.pci_aliases
        self._specs = {flavor.name: flavor.extra_specs
                       for flavor in fleet.flavors}
        self._requests: dict[Hashable, guest_request.GuestRequest] = {}

    def request(
        self, guest: resident_guest.ResidentGuest,
    ) -> guest_request.GuestRequest:
        """What a guest asks for; the same object for guests that are alike."""
        key = (guest.flavor, guest.vcpus, guest.memory_mib, guest.disk_gib,
               guest.guest_class, guest.topology, guest.devices,
               tuple(guest.resources.items()), guest.allocations)
        request = self._requests.get(key)
        if request is None:
            request = of_guest(guest, self._specs.get(guest.flavor, {}))
            if guest.devices:
                request = dataclasses.replace(
                    request, devices=device_requests(guest, self._aliases))
            self._requests[key] = request
        return request


def device_requests(
    guest: resident_guest.ResidentGuest,
    aliases: Mapping[str, pci_alias.PciAlias],
) -> tuple[devices.PciRequest, ...]:
    """The PCI devices that a guest asks a new host for.

    :param aliases: of the fleet, for the affinity of the devices
    """
    counts: dict[devices.Pairs, int] = {}
    for use in guest.devices:
        keys = tuple(pair for pair in use.keys if pair[0] != 'address')
        counts[keys] = counts.get(keys, 0) + use.count
    return tuple(_device_request(keys, count, aliases)
                 for keys, count in counts.items())


def _device_request(
    keys: devices.Pairs, count: int,
    aliases: Mapping[str, pci_alias.PciAlias],
) -> devices.PciRequest:
    had = devices.PciPool(keys, None, count,
                          is_complete='dev_type' in dict(keys))
    for name, alias in sorted(aliases.items()):
        if any('product_id' not in dict(spec) for spec in alias.specs):
            # Placement alone can tell what it stands for.
            continue
        request = devices.PciRequest(name, alias.specs, count, alias.policy)
        if request.wants(had) and request.may_use(had):
            return request
    return devices.PciRequest('', (keys,), count)
