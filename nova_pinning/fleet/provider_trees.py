# SPDX-License-Identifier: Apache-2.0
"""What Placement has of hosts, and how hosts and guests of a snapshot get it.

A host's own provider, those below it, and those that share with it through an
aggregate: what each has, and what is allocated of it to whom.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import concurrent.futures
import dataclasses
from typing import Protocol
from typing import TypeAlias
from typing import TypeVar

import os_traits

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.placement import client
from nova_pinning.placement import inventory
from nova_pinning.placement import provider_reader

_SHARES = os_traits.MISC_SHARES_VIA_AGGREGATE
#: Requests at once; Placement serves nova meanwhile.
JOBS = 4

_T = TypeVar('_T')


@dataclasses.dataclass(frozen=True, slots=True)
class TreeProvider:
    """A provider as Placement has it.

    :param parent: UUID, None for one that is below none, or shares
    :param allocations: by consumer and resource class
    """

    uuid: str
    name: str
    parent: str | None
    inventories: Mapping[str, inventory.Inventory]
    traits: frozenset[str]
    allocations: Mapping[str, Mapping[str, int]]


#: The provider of a host, those below it, parents first, and those that share.
HostTree: TypeAlias = tuple[TreeProvider, ...]
#: Gives the trees of hosts by the UUIDs of their own providers, as does
#: :func:`read`.
ReadTrees: TypeAlias = Callable[[Sequence[str]], Mapping[str, HostTree]]


class Follow(Protocol):
    """Gives on what it is given, and shows how far that is."""

    def __call__(self, results: Iterator[_T], total: int) -> Iterator[_T]: ...


def read(
    placement: client.PlacementClient, hosts: Iterable[str],
    follow: Follow = lambda results, total: results,
    jobs: int = JOBS,
) -> dict[str, HostTree]:
    """The trees of some hosts: three requests for each provider.

    :param hosts: the UUIDs of their own providers
    :param follow: is given what is answered, one provider after the other,
        with how many there are, and gives it on
    :param jobs: requests at once
    :returns: by UUID, without those that Placement does not have
    :raises errors.CloudError: if Placement does not answer
    """
    hosts = list(hosts)
    if not hosts:
        return {}
    listed = {one.uuid: one for one in placement.providers()}
    below = collections.defaultdict[str | None, list[str]](list)
    for uuid, one in listed.items():
        below[one.parent].append(uuid)
    shared = _shared(placement, listed)
    trees = {}
    for host in hosts:
        if host in listed:
            own = list(_subtree(host, below))
            trees[host] = own, [uuid for uuid in shared.get(host, ())
                                if uuid not in own]
    wanted = sorted({uuid for parts in trees.values()
                     for part in parts for uuid in part})
    found: dict[str, TreeProvider] = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            for provider in follow(pool.map(
                    lambda uuid: _described(placement, listed[uuid]),
                    wanted), len(wanted)):
                if provider is not None:
                    found[provider.uuid] = provider
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return {
        host: (*[found[uuid] for uuid in own if uuid in found],
               *[dataclasses.replace(found[uuid], parent=None)
                 for uuid in sharing if uuid in found])
        for host, (own, sharing) in trees.items() if host in found}


def _subtree(uuid: str,
             below: Mapping[str | None, Sequence[str]]) -> Iterator[str]:
    yield uuid
    for child in below.get(uuid, ()):
        yield from _subtree(child, below)


def _shared(
    placement: client.PlacementClient,
    listed: Mapping[str, provider_reader.ResourceProvider],
) -> Mapping[str, Sequence[str]]:
    """The providers that share with a tree, by its topmost provider.

    An aggregate brings to a tree what any of its providers is in it with.
    """
    found: dict[str, dict[str, None]] = {}
    for sharing in placement.providers(required=_SHARES):
        if sharing.uuid not in listed:
            continue
        for aggregate in placement.aggregates(sharing.uuid):
            for member in placement.providers(member_of=aggregate):
                root = member.uuid
                while root in listed and listed[root].parent is not None:
                    root = listed[root].parent or ''
                found.setdefault(root, {})[sharing.uuid] = None
    return {root: list(sharing) for root, sharing in found.items()}


def _described(
    placement: client.PlacementClient,
    listed: provider_reader.ResourceProvider,
) -> TreeProvider | None:
    """A provider with all that it has; None if it is gone since."""
    uuid = listed.uuid
    try:
        return TreeProvider(
            uuid, listed.name, listed.parent, placement.inventories(uuid),
            placement.traits(uuid).names, placement.allocations(uuid))
    except errors.RefusedError:
        return None


def renewed(trees: Mapping[str, HostTree],
            newer: Mapping[str, HostTree]) -> dict[str, HostTree]:
    """Trees that were read before, with those of some hosts as they are now.

    What shares with several hosts has changed for all of them.
    """
    sharing = {
        provider.uuid: provider for tree in newer.values()
        for provider in tree[1:] if provider.parent is None}
    return {
        **{host: tuple([sharing.get(provider.uuid, provider)
                        if provider.parent is None else provider
                        for provider in tree])
           if sharing else tree for host, tree in trees.items()}, **newer}


def with_tree(
    host: offered_host.OfferedHost,
    guests: Sequence[resident_guest.ResidentGuest],
    tree: HostTree, pool_providers: Sequence[str] = (),
) -> tuple[offered_host.OfferedHost, tuple[resident_guest.ResidentGuest, ...]]:
    """A host and its guests with what Placement has of both.

    What is allocated there to others than its guests is held: by a migration,
    by a server that is being built, or by what is forgotten.

    :param guests: all that are on the host
    :param pool_providers: UUIDs of those that its PCI pools are counted by,
        '' for none
    """
    own = tree[0]
    places = {provider.uuid: index for index, provider in enumerate(tree)}
    on_pcpus = inventory.PCPU in own.inventories
    allocated = tuple([_allocated(guest, tree, on_pcpus) for guest in guests])
    held = [
        sum(map(collections.Counter, provider.allocations.values()),
            collections.Counter[str]()) for provider in tree]
    for guest in allocated:
        for index, amounts in host_occupancy.allocations(
                guest, own.inventories):
            held[index].subtract(dict(amounts))
    beside = [{name: amount for name, amount in sorted(of_provider.items())
               if amount} for of_provider in held]
    children = tuple([
        offered_host.OfferedProvider(
            None if provider.parent is None
            else places.get(provider.parent, 0),
            tuple(sorted(provider.inventories.items())), provider.traits,
            is_shared=provider.parent is None,
            held=tuple(beside[index].items()),
            uuid=provider.uuid, name=provider.name)
        for index, provider in enumerate(tree[1:], 1)])
    return dataclasses.replace(
        host, traits=own.traits, inventories=own.inventories,
        held=beside[0], children=children,
        pci_pools=tuple([
            pool._replace(provider=places.get(uuid))
            for pool, uuid in zip(host.pci_pools, pool_providers)
        ]) if pool_providers else host.pci_pools), allocated


def _allocated(guest: resident_guest.ResidentGuest, tree: HostTree,
               on_pcpus: bool) -> resident_guest.ResidentGuest:
    """A guest with what is allocated to it.

    Of the host's own provider that is what it is counted with anyway, mostly;
    what differs is written down. One to which nothing is allocated there, as
    it moves, is counted with what it would be.
    """
    amounts = [provider.allocations.get(guest.uuid, {}) for provider in tree]
    if not any(amounts):
        return dataclasses.replace(guest, resources={}, allocations=())
    own = dict(amounts[0])
    counted = inventory.allocation(
        guest.vcpus, guest.memory_mib, guest.disk_gib, guest.topology,
        on_pcpus=on_pcpus)
    return dataclasses.replace(
        guest,
        resources={name: own.get(name, 0) for name in sorted({*own, *counted})
                   if own.get(name, 0) != counted.get(name, 0)},
        allocations=tuple([
            (index, tuple(sorted(amounts[index].items())))
            for index in range(1, len(tree)) if amounts[index]]))
