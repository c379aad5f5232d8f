# SPDX-License-Identifier: Apache-2.0
"""Random fleets and what guests ask of them, and what is held against nova.

A fleet is some hosts, of which everything is known, and some queries; each
host with each query is a case. So a question to Placement answers many cases.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import random
from typing import NamedTuple
import uuid

import os_traits

from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import providers
from nova_pinning.placement import inventory
from nova_pinning.tests.oracle import placement_app

#: Of one fleet.
HOSTS = 20
QUERIES = 20

SHARES = os_traits.MISC_SHARES_VIA_AGGREGATE
_TRAITS = ('CUSTOM_A', 'CUSTOM_B', 'CUSTOM_C', 'HW_CPU_X86_AVX')
_ON_ROOT = ('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB', 'CUSTOM_GOLD')
_BELOW = ('VGPU', 'CUSTOM_PCI', 'CUSTOM_GOLD', 'VCPU', 'MEMORY_MB')
_SHARED = ('DISK_GB', 'CUSTOM_GOLD', 'CUSTOM_IP')

#: A candidate: its allocations and its mappings, by the providers' UUIDs.
Found = tuple[frozenset[object], frozenset[object]]
Used = tuple[Mapping[str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Fleet:
    """Hosts with what is used of them, and what guests ask for.

    :param used: by host and by provider
    """

    hosts: tuple[offered_host.OfferedHost, ...]
    used: tuple[Used, ...]
    queries: tuple[guest_request.CandidatesQuery, ...]


def fleet(seed: int, number: int) -> Fleet:
    """A random fleet; the same whenever it is asked for."""
    chance = random.Random(f'{seed} {number}')
    kind = chance.choice(('flat', 'nested', 'shared', 'all', 'all'))
    shared = [
        _provider(chance, None, _SHARED, is_shared=True)
        for _ in range(chance.choice((1, 2)))] if kind in (
            'shared', 'all') else []
    used_of_shared = [_used(chance, provider) for provider in shared]
    made = []
    used = []
    for _ in range(HOSTS):
        root = _provider(chance, None, _ON_ROOT)
        children = [
            _provider(chance, parent, _BELOW)
            for parent in _parents(chance, kind in ('nested', 'all'))]
        near = [number for number, _provider in enumerate(shared)
                if chance.random() < 0.7]
        made.append(offered_host.OfferedHost(
            name=root.uuid, cells=(), traits=root.traits,
            inventories=dict(root.inventories),
            children=(*children, *[shared[number] for number in near])))
        used.append((
            *[_used(chance, provider) for provider in (root, *children)],
            *[used_of_shared[number] for number in near]))
    return Fleet(tuple(made), tuple(used), tuple(
        _query(chance) for _ in range(QUERIES)))


def _parents(chance: random.Random, is_nested: bool) -> Iterator[int]:
    for index in range(1, 1 + (chance.randrange(5) if is_nested else 0)):
        yield 0 if chance.random() < 0.6 else chance.randrange(index)


def _provider(
    chance: random.Random, parent: int | None, classes: tuple[str, ...],
    is_shared: bool = False,
) -> offered_host.OfferedProvider:
    offered = [name for name in classes if chance.random() < 0.65]
    traits = {name for name in _TRAITS if chance.random() < 0.4}
    return offered_host.OfferedProvider(
        parent, tuple(sorted((name, _inventory(chance)) for name in offered)),
        frozenset(traits | ({SHARES} if is_shared else set())), is_shared,
        uuid=str(uuid.UUID(int=chance.getrandbits(128), version=4)))


def _inventory(chance: random.Random) -> inventory.Inventory:
    total = chance.choice((1, 2, 4, 8, 8, 16))
    return inventory.Inventory(
        total, chance.choice((0, 0, 0, 1, min(2, total))),
        chance.choice((1.0, 1.0, 1.0, 0.9, 1.5, 4.0)),
        chance.choice((1, 1, 1, 1, 2)),
        chance.choice((None, None, None, 1, 2, 4)),
        chance.choice((1, 1, 1, 1, 2, 3)))


def _used(chance: random.Random,
          provider: offered_host.OfferedProvider) -> Mapping[str, int]:
    return {name: chance.choice((0, 0, 1, 2, has.total))
            for name, has in provider.inventories}


def _query(chance: random.Random) -> guest_request.CandidatesQuery:
    named = [f'_{index}' for index in range(
        chance.choice((0, 0, 0, 1, 1, 2, 2, 3)))]
    groups = [_group(chance, '', _ON_ROOT + _BELOW + _SHARED,
                     chance.choice((1, 2, 2, 3)))]
    groups += [
        _group(chance, suffix, _BELOW + _SHARED,
               chance.choice((1, 1, 1, 2))) for suffix in named]
    if named and chance.random() < 0.2:
        del groups[0]
    subtrees = []
    if len(named) > 1 and chance.random() < 0.4:
        chosen = frozenset(chance.sample(named, 2))
        subtrees.append(chosen)
        if chance.random() < 0.3:
            bare = chance.choice(sorted(chosen))
            groups = [group._replace(resources=())
                      if group.suffix == bare else group for group in groups]
    required, forbidden = _asked_traits(chance, 0.15)
    return guest_request.CandidatesQuery(
        groups=tuple(groups), root_required=required,
        root_forbidden=forbidden, same_subtree=tuple(subtrees),
        group_policy=chance.choice(('none', 'none', 'isolate')))


def _group(chance: random.Random, suffix: str, classes: tuple[str, ...],
           count: int) -> guest_request.RequestGroup:
    names = sorted(set(chance.sample(classes, count)))
    return guest_request.RequestGroup(
        suffix, tuple((name, chance.choice((0, 1, 1, 1, 2, 2, 4)))
                      for name in names), *_asked_traits(chance, 0.3))


def _asked_traits(chance: random.Random, share: float) -> tuple[
        frozenset[str], frozenset[str]]:
    if chance.random() > share:
        return frozenset(), frozenset()
    required = {name for name in _TRAITS if chance.random() < 0.25}
    forbidden = {name for name in _TRAITS if chance.random() < 0.2}
    return frozenset(required), frozenset(forbidden)


def ours(host: offered_host.OfferedHost, used: Used,
         query: guest_request.CandidatesQuery) -> list[Found]:
    """The candidates of providers.candidates, by the providers' UUIDs."""
    uuids = [host.name, *[child.uuid for child in host.children]]
    return [
        (frozenset((uuids[index], amounts)
                   for index, amounts in candidate.allocations),
         frozenset((suffix, frozenset(uuids[index] for index in indices))
                   for suffix, indices in candidate.mappings))
        for candidate in providers.candidates(
            host, used, query, steps=10_000_000)
        if not _must_be_certain(candidate)]


def _must_be_certain(candidate: providers.Candidate) -> None:
    """All is known of the hosts of a case.

    :raises RuntimeError: if a candidate has doubts nevertheless
    """
    if candidate.doubts:
        raise RuntimeError(f'undecided: {candidate.doubts}')


def placements(
    query: guest_request.CandidatesQuery,
) -> Iterator[Found]:
    """Those of Placement, of all hosts."""
    for found in placement_app.app().candidates(query):
        yield (frozenset(
            (provider, tuple(sorted(of_provider['resources'].items())))
            for provider, of_provider in found['allocations'].items()),
            frozenset((suffix, frozenset(indices))
                      for suffix, indices in found['mappings'].items()))


def is_luck(drawn: Fleet, query: guest_request.CandidatesQuery) -> bool:
    """Whether Placement's answer may hang on the order of its sets.

    An amount that several groups are added up in is copied under
    group_policy=none only; under 'isolate' the next candidate starts from the
    sum, where a provider gives one class to the group without a name and to
    a named one (copy_arr_if_needed). And what the group without a name takes
    from nothing but sharing providers is kept for one host of those that they
    share with (AllocationRequest.__eq__ leaves the anchor out). Nova's own
    groups without a name take memory of the host.
    """
    unnamed = {name for group in query.groups if not group.suffix
               for name, _amount in group.asked}
    named = {name for group in query.groups if group.suffix
             for name, _amount in group.asked}
    shared = {name for host in drawn.hosts for child in host.children
              if child.is_shared for name, _has in child.inventories}
    return bool(
        query.group_policy == 'isolate' and unnamed & named
        or unnamed and named and unnamed <= shared)


class Verdict(NamedTuple):
    """What came of one case.

    :param host: index of the host in its fleet
    :param query: index of the query
    :param candidates: how many there are
    :param difference: what Placement says otherwise, '' if nothing
    """

    host: int
    query: int
    candidates: int
    difference: str


def verdicts(drawn: Fleet) -> Iterator[Verdict]:
    """Compare each case of a fleet with Placement."""
    app = placement_app.app()
    app.define(drawn.queries)
    app.fill(drawn.hosts, drawn.used)
    owners = {}
    for number, host in enumerate(drawn.hosts):
        owners[host.name] = number
        owners.update((child.uuid, number) for child in host.children
                      if not child.is_shared)
    for asked, query in enumerate(drawn.queries):
        # What only providers give that share is of no host in particular.
        theirs = collections.defaultdict[int | None, set[Found]](set)
        with (app.without_luck() if is_luck(drawn, query)
              else contextlib.nullcontext()):
            for found in placements(query):
                theirs[_owner(found, owners)].add(found)
        for number, host in enumerate(drawn.hosts):
            mine = ours(host, drawn.used[number], query)
            yield Verdict(number, asked, len(mine), _difference(
                mine, theirs[number], theirs[None], owners))


def _owner(found: Found, owners: Mapping[str, int]) -> int | None:
    """The host of a candidate, None if it is of any that is near enough."""
    [*hosts] = {owners[provider] for _suffix, group in found[1]
                for provider in group if provider in owners}
    if len(hosts) > 1:
        raise RuntimeError(f'a candidate of two trees: {found}')
    return hosts[0] if hosts else None


def _difference(mine: list[Found], theirs: set[Found], shared: set[Found],
                owners: Mapping[str, int]) -> str:
    from_shared = {one for one in mine if _owner(one, owners) is None}
    own = set(mine) - from_shared
    wrong = (own - theirs) | (from_shared - shared)
    if len(set(mine)) < len(mine):
        return 'a candidate is given twice'
    if wrong:
        return f'wrong: {min(map(str, wrong))}'
    if theirs - own:
        return f'left out: {min(map(str, theirs - own))}'
    return ''
