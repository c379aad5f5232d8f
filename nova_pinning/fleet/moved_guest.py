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
from nova_pinning import model
from nova_pinning.placement import inventory

#: In a flavor's extra specs: what outweighs the affinity policy of aliases.
POLICY_KEY = 'hw:pci_numa_affinity_policy'


def asked_topology(
    claimed: model.Guest, extra_specs: Mapping[str, str],
    image: Mapping[str, str],
) -> model.Guest:
    """What a guest asked for, by what nova has claimed for it.

    The claim puts the page size that it finds in place of "large" or "any".
    That of a move begins with these again, see
    nova.compute.claims.MoveClaim.numa_topology.

    :param image: of its properties those that are known
    """
    size = model.PAGE_WORDS.get(image.get('hw_mem_page_size') or
                                extra_specs.get('hw:mem_page_size', ''))
    return claimed if size is None else dataclasses.replace(
        claimed, cells=tuple([dataclasses.replace(cell, page_size_kib=size)
                              for cell in claimed.cells]))


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
            guest.vcpus, guest.memory_mib, guest.disk_gib, extra_specs,
            guest_request.pairs(guest.image) or None, guest.topology)
        queries = reader.queries()
        # Which devices it has is known, if it is told to have any.
        doubts = tuple(doubt for doubt in reader.doubts()
                       if not guest.devices or doubt.about != pci_alias.KEY)
    return guest_request.GuestRequest(
        name=guest.flavor, vcpus=guest.vcpus, memory_mib=guest.memory_mib,
        disk_gib=guest.disk_gib, guest_class=guest.guest_class,
        topology=guest.topology, extra_specs=guest_request.pairs(extra_specs),
        image=None, queries=queries, doubts=doubts)


class RequestReader:
    """Makes of the guests of a fleet what each asks a new host for."""

    def __init__(self, fleet: snapshot.Fleet) -> None:
        self._aliases = fleet.pci_aliases
        self._in_placement = fleet.rules.pci_in_placement
        self._specs = {flavor.name: flavor.extra_specs
                       for flavor in fleet.flavors}
        self._requests: dict[Hashable, guest_request.GuestRequest] = {}

    def request(
        self, guest: resident_guest.ResidentGuest,
    ) -> guest_request.GuestRequest:
        """What a guest asks for; the same object for guests that are alike."""
        key = (guest.flavor, guest.vcpus, guest.memory_mib, guest.disk_gib,
               guest.guest_class, guest.topology, guest.devices,
               guest.device_policy, tuple(guest.resources.items()),
               guest.allocations, tuple(guest.image.items()))
        request = self._requests.get(key)
        if request is None:
            specs = self._specs.get(guest.flavor, {})
            request = of_guest(guest, specs)
            if guest.devices:
                asked, doubts = device_requests(guest, specs, self._aliases)
                request = dataclasses.replace(
                    request, devices=asked, doubts=(*request.doubts, *doubts))
                if self._in_placement and all(
                        one.alias for one in asked):
                    request = pci_alias.asked(request, self._aliases, True)
                # What the claim minds, see AdmissionJudge.
                request = dataclasses.replace(request, claims=tuple([
                    dataclasses.replace(
                        one, groups=(), policy=self._aliases[one.alias].policy
                        if one.alias in self._aliases else one.policy)
                    for one in request.devices]))
            self._requests[key] = request
        return request


def device_requests(
    guest: resident_guest.ResidentGuest, extra_specs: Mapping[str, str],
    aliases: Mapping[str, pci_alias.PciAlias],
) -> tuple[tuple[devices.PciRequest, ...], list[outcome.Doubt]]:
    """The PCI devices that a guest asks a new host for, and doubts of them.

    :param extra_specs: of its flavor, whose aliases and policy count; {} if
        not known, and then any alias may have stood for a device
    :param aliases: of the fleet, for the affinity of the devices
    """
    counts: dict[devices.Pairs, int] = {}
    for use in guest.devices:
        keys = tuple(pair for pair in use.keys if pair[0] != 'address')
        counts[keys] = counts.get(keys, 0) + use.count
    names = pci_alias.names(extra_specs)
    numbers = pci_alias.counts(extra_specs)
    policy = guest.device_policy or extra_specs.get(POLICY_KEY, '')
    if {name for name, _number in numbers} == set(names) <= set(aliases) and (
            sum(number for _name, number in numbers) == sum(counts.values())):
        return tuple([devices.PciRequest(
            name, aliases[name].specs, number, policy or aliases[name].policy)
            for name, number in numbers]), []
    requests, doubts = [], []
    for keys, count in counts.items():
        had = devices.PciPool(keys, None, count,
                              is_complete='dev_type' in dict(keys))
        found = [
            request for name, alias in sorted(aliases.items())
            # What has no ids, Placement alone can tell.
            if name in (names or aliases) and all(
                'product_id' in dict(spec) for spec in alias.specs)
            for request in [devices.PciRequest(
                name, alias.specs, count, policy or alias.policy)]
            if request.may_have(had)]
        if len({request.policy for request in found}) > 1 or (
                names and not found):
            doubts.append(outcome.Doubt(
                outcome.DoubtKind.DEVICES, 'it is not known by which alias it '
                f'has its devices {devices.kind(keys)}'))
        requests.append(found[0] if found else devices.PciRequest(
            '', (keys,), count, policy or 'legacy'))
    return tuple(requests), doubts
