# SPDX-License-Identifier: Apache-2.0
"""The allocation candidates that Placement makes of a host's providers.

The rules are those of placement/objects/allocation_candidate.py and
research_context.py at microversion 1.36, by which nova-scheduler asks
(SchedulerReportClient.get_allocation_candidates). What a group without a name
asks for may come from several providers of the host, class by class, and they
need its traits between them; a named group comes from one. The providers that
share with the host count as its own.

Placement gives candidates in no defined order. Nova takes the first that its
filters pass, among those that take something of the host's own provider.

What is not known of a host is supposed to be as it is asked for, by a
provider that nobody knows: such candidates come last, with doubts.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import re
import sys
from typing import NamedTuple
from typing import TypeAlias

import os_traits

from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.placement import inventory

#: What may be tried for one query on one host.
STEPS = 20_000

#: What is used of each provider, by its index in ``OfferedHost.providers``.
Used: TypeAlias = Sequence[Mapping[str, int]]

#: The index of the host's own provider.
ROOT = 0
# What stands for the index of a provider that is not known.
_UNKNOWN = -1
# The name of a group for one of a request's devices: its UUID and a number.
_OF_DEVICE = re.compile('([0-9a-f-]{36})-[0-9]+')
_DISABLED = os_traits.COMPUTE_STATUS_DISABLED
# What nova-compute reports of a host's own provider, and of no other.
_OF_CELLS = frozenset((inventory.VCPU, inventory.PCPU, inventory.MEMORY_MB))


class Candidate(NamedTuple):
    """One way to meet a query.

    :param allocations: as in ``HostUse``, sorted, without providers that are
        not known
    :param mappings: the providers that each group comes from, by its suffix,
        sorted; without those that are not known
    :param doubts: what is supposed of the host; () if nothing is
    """

    allocations: tuple[tuple[int, outcome.Amounts], ...] = ()
    mappings: tuple[tuple[str, tuple[int, ...]], ...] = ()
    doubts: tuple[outcome.Doubt, ...] = ()


class UnfinishedSearch(Exception):
    """There may be more candidates, but to look for them takes too long.

    :ivar doubt: the same for an outcome
    """

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.doubt = outcome.Doubt(
            outcome.DoubtKind.PROVIDERS,
            f'the first {steps:,} combinations of its providers that were '
            'tried may not be all')


def candidates(
    host: offered_host.OfferedHost, used: Used,
    query: guest_request.CandidatesQuery, steps: int = STEPS,
) -> Iterator[Candidate]:
    """The allocation candidates of a host, those without doubts first.

    :param steps: how many choices of a provider are tried at most
    :raises UnfinishedSearch: if that was not enough to find all
    """
    groups = query.groups
    if (len(groups) == 1 and not groups[0].suffix
            and _only_root_offers(host, query)):
        # Most guests on most hosts.
        if _gives_all(host, used[ROOT], query):
            yield of_root(query)
            return
        unknown = doubts(host, query)
        if not unknown:
            return
    else:
        unknown = doubts(host, query)
    certain = set[Candidate]()
    for found in Search(host, used, query, steps).candidates():
        if unknown:
            certain.add(found)
        yield found
    if unknown:
        for found in Search(host, used, query, steps, True).candidates():
            if found not in certain:
                yield found._replace(doubts=unknown)


def takeable(
    host: offered_host.OfferedHost, used: Used,
    query: guest_request.CandidatesQuery,
) -> Iterator[Candidate]:
    """The candidates that nova finds by the host's own provider.

    See alloc_reqs_by_rp_uuid in nova/scheduler/manager.py.

    :raises UnfinishedSearch: as :func:`candidates`
    """
    return (candidate for candidate in candidates(host, used, query)
            if not candidate.allocations
            or candidate.allocations[0][0] == ROOT)


def of_root(query: guest_request.CandidatesQuery) -> Candidate:
    """The candidate by which its own provider meets a query of one group."""
    return Candidate(((ROOT, query.groups[0].asked),), (('', (ROOT,)),))


def has_enough_at_best(
    host: offered_host.OfferedHost, query: guest_request.CandidatesQuery,
) -> bool | None:
    """Whether a host meets a query while enough of each class is left.

    :returns: False if it never does; None if more than what its own provider
        has left counts, so that only :func:`candidates` tells
    """
    if (len(query.groups) != 1 or query.groups[0].suffix
            or not _only_root_offers(host, query)):
        return None
    if _gives_all(host, dict.fromkeys(query.resources, -sys.maxsize), query):
        return True
    return None if doubts(host, query) else False


def doubts(
    host: offered_host.OfferedHost, query: guest_request.CandidatesQuery,
) -> tuple[outcome.Doubt, ...]:
    """What the query asks for of which nobody knows whether the host has it.

    Traits that follow from what is known of the host are known; and what
    Placement has allocated there beside its guests is, in ``held``.
    """
    found = [
        outcome.Doubt(
            outcome.DoubtKind.PROVIDERS,
            f'it is not known how much {name} it has', name)
        for name, amount in query.resources.items()
        if amount and not is_told(host, name)]
    if query.required or query.forbidden:
        found += [
            outcome.Doubt(
                outcome.DoubtKind.TRAITS,
                f'it is not known whether it has trait {trait}', trait)
            for trait in sorted(frozenset[str]().union(*[
                unsure for _has, unsure in _traits(host, query)]))]
    return tuple(found)


def _only_root_offers(
    host: offered_host.OfferedHost, query: guest_request.CandidatesQuery,
) -> bool:
    """Whether what is asked for can come from the host's own provider only."""
    return not host.children or all(
        index == ROOT for name in query.resources
        for index, _has in host.offers.get(name, ()))


def _gives_all(
    host: offered_host.OfferedHost, used: Mapping[str, int],
    query: guest_request.CandidatesQuery,
) -> bool:
    """Whether its own provider certainly meets a query of one group."""
    if query.same_subtree or not any(query.resources.values()):
        return False
    offers = host.offers
    for name, amount in query.groups[0].resources:
        if amount and (name not in offers or not offers[name][0][1].gives(
                amount, used.get(name, 0))):
            return False
    if not (query.required or query.forbidden):
        return True
    has, unsure = _traits(host, query)[ROOT]
    return (query.required <= has
            and not query.forbidden & (has | unsure))


def is_told(host: offered_host.OfferedHost, name: str) -> bool:
    """Whether it is known how much of a resource class a host has.

    Without Placement that is what nova-compute makes of cells and disks. It
    may share the disks of another provider. A gap about no class in
    particular is about those that its own provider has nothing of.
    """
    if name in _OF_CELLS:
        return bool(host.cells) or host.inventories is not None
    if host.inventories is None and name not in host.offers:
        return False
    abouts = [gap.about for gap in host.gaps
              if gap.kind is outcome.DoubtKind.PROVIDERS]
    return name not in abouts and (
        '' not in abouts or name in host.root_inventories)


def _traits(
    host: offered_host.OfferedHost, query: guest_request.CandidatesQuery,
) -> list[tuple[frozenset[str], frozenset[str]]]:
    """The traits of each provider: those it has, and those it may have.

    The latter are among those that the query is about. Of its own provider
    nova-compute tells whether cores have several threads (_get_cpu_traits in
    nova/virt/libvirt/driver.py) and whether nova-scheduler may choose the
    host (_sync_compute_service_disabled_trait in
    nova/compute/resource_tracker.py).
    """
    asked = query.required | query.forbidden
    found = []
    untold = [gap for gap in host.gaps
              if gap.kind is outcome.DoubtKind.TRAITS]
    for traits in (host.traits, *[child.traits for child in host.children]):
        has = frozenset() if traits is None else traits
        found.append((has, asked - has if traits is None else frozenset()))
    has, unsure = found[ROOT]
    unsure |= {trait for trait in asked - has for gap in untold
               if not gap.about or not trait.startswith(gap.about)}
    if inventory.THREADS in asked and host.cells:
        if any(size > 1 for cell in host.cells for size in cell.core_sizes):
            has |= {inventory.THREADS}
        unsure -= {inventory.THREADS}
    if _DISABLED in unsure:
        if not host.is_enabled:
            has |= {_DISABLED}
        unsure -= {_DISABLED}
    found[ROOT] = has, unsure
    return found


class SearchPart(NamedTuple):
    """What has to come from one provider.

    :param suffix: of the group that it is of
    :param resources: one class of a group without a name, all of another
    :param options: indices of the providers that can give it
    """

    suffix: str
    resources: outcome.Amounts
    options: tuple[int, ...]


def _are_of_one_request(part: SearchPart, other: SearchPart) -> bool:
    """Whether both are for devices of one request, which are all alike.

    Nova counts what Placement chose for a request, and minds no order: see
    nova.pci.stats.PciDeviceStats._get_rp_uuids_for_request.
    """
    request = _OF_DEVICE.fullmatch(part.suffix)
    return (request is not None and part.options == other.options
            and other.suffix.startswith(f'{request[1]}-'))


class Search:
    """One query on one host.

    :param supposes: whether what is not known is supposed to be as it is
        asked for, or to be missing
    :ivar parts: those with the fewest options first
    :ivar had: the traits of each provider that count where they are required
    :ivar shown: and those that count where they are forbidden
    """

    def __init__(
        self, host: offered_host.OfferedHost, used: Used,
        query: guest_request.CandidatesQuery, steps: int = STEPS,
        supposes: bool = False,
    ) -> None:
        self.host = host
        self.used = used
        self.query = query
        self._supposes = supposes
        self._steps = self._steps_left = steps
        traits = _traits(host, query)
        # The last is the provider that is not known.
        self.had = [has | unsure if supposes else has
                    for has, unsure in traits] + [query.required]
        self.shown = [has if supposes else has | unsure
                      for has, unsure in traits] + [frozenset[str]()]
        self._left = {
            (index, name): has.left(used[index].get(name, 0))
            for name in query.resources
            for index, has in host.offers.get(name, ())}
        self.parts = sorted(self._parts(), key=lambda part: len(part.options))
        self._subtrees = [
            subtree for subtree in query.same_subtree if len(subtree) > 1]
        self._chosen: list[int] = []
        self._taken: dict[tuple[int, str], int] = {}

    def _parts(self) -> Iterator[SearchPart]:
        for group in self.query.groups:
            pieces: list[outcome.Amounts] = [
                (resource,) for resource in group.asked]
            if group.suffix and group.is_sent:
                pieces = [group.asked]
            for piece in pieces:
                yield SearchPart(group.suffix, piece, tuple(
                    index for index in self.giving(piece)
                    if not group.forbidden & self.shown[index]
                    and (not group.suffix
                         or group.required <= self.had[index])
                    # Placement finds none that only lacks traits.
                    and (piece or group.required)))

    def giving(self, resources: outcome.Amounts) -> list[int]:
        """The providers that can give all of it, whatever their traits.

        What nova-compute reports is the host's own if nobody knows of it:
        another provider could bring traits along.
        """
        found = set(range(len(self.shown) - 1))
        is_unknown = self._supposes and bool(resources)
        for name, amount in resources:
            is_supposed = self._supposes and not is_told(self.host, name)
            gives = {
                index for index, has in self.host.offers.get(name, ())
                if has.gives(amount, self.used[index].get(name, 0))}
            is_own = name in inventory.COUNTED
            if is_supposed and (is_own or len(resources) > 1):
                gives.add(ROOT)
            is_unknown = is_unknown and is_supposed and not is_own
            found &= gives
        return sorted(found) + [_UNKNOWN] * is_unknown

    def offering(self, resources: outcome.Amounts) -> set[int]:
        """The providers that give all of it, if not so much of it."""
        return set.intersection(*[
            {index for index, _has in self.host.offers.get(name, ())}
            for name, _amount in resources]) if resources else set()

    def candidates(self) -> Iterator[Candidate]:
        """All there are.

        :raises UnfinishedSearch: if it takes too many steps to find them
        """
        query = self.query
        if not query.groups:
            yield Candidate()
        elif not (query.fault
                  or query.root_required - self.had[ROOT]
                  or query.root_forbidden & self.shown[ROOT]
                  or self.is_short_of_all()):
            yield from self._place(0)

    def is_short_of_all(self) -> bool:
        """Whether its providers have too little for all groups together."""
        for name, need in self.query.resources.items():
            options = {index for part in self.parts for index in part.options
                       if any(name == asked for asked, _ in part.resources)}
            if need > sum(self.left(index, name) for index in options):
                return True
        return False

    def left(self, index: int, name: str) -> int:
        """How much a provider has; what is not known is supposed to do."""
        return self._left.get((index, name), sys.maxsize)

    def _place(self, depth: int) -> Iterator[Candidate]:
        if depth == len(self.parts):
            if self._meets_unnamed_traits() and self._keeps_subtrees():
                yield self._candidate()
            return
        part = self.parts[depth]
        options = part.options
        if depth and _are_of_one_request(part, self.parts[depth - 1]):
            options = options[options.index(self._chosen[-1]):]
        for index in options:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise UnfinishedSearch(self._steps)
            if not self._has_room(part, index):
                continue
            self._chosen.append(index)
            for name, amount in part.resources:
                self._taken[index, name] = (
                    self._taken.get((index, name), 0) + amount)
            yield from self._place(depth + 1)
            self._chosen.pop()
            for name, amount in part.resources:
                self._taken[index, name] -= amount

    def _has_room(self, part: SearchPart, index: int) -> bool:
        """See exceeds_capacity and _satisfies_group_policy."""
        if (self.query.group_policy == 'isolate' and part.suffix
                and index != _UNKNOWN and any(
                    index == taken and other.suffix
                    for other, taken in zip(self.parts, self._chosen))):
            return False
        return all(
            self._taken.get((index, name), 0) + amount
            <= self.left(index, name)
            for name, amount in part.resources)

    def _meets_unnamed_traits(self) -> bool:
        """See _check_traits_for_alloc_request."""
        required = {trait for group in self.query.groups if not group.suffix
                    for trait in group.required}
        return not required or required <= frozenset[str]().union(*[
            self.had[index] for part, index in zip(self.parts, self._chosen)
            if not part.suffix])

    def _keeps_subtrees(self) -> bool:
        """See _check_same_subtree."""
        for subtree in self._subtrees:
            indices = {
                index for part, index in zip(self.parts, self._chosen)
                if part.suffix in subtree}
            if _UNKNOWN not in indices and not indices.intersection(
                    *map(self._ancestors, indices)):
                return False
        return True

    def _ancestors(self, index: int | None) -> set[int]:
        """A provider and all that it is below."""
        found = set[int]()
        while index is not None:
            found.add(index)
            index = self.host.children[index - 1].parent if index else None
        return found

    def _candidate(self) -> Candidate:
        amounts: dict[int, dict[str, int]] = {}
        groups: dict[str, set[int]] = {}
        for part, index in zip(self.parts, self._chosen):
            group = groups.setdefault(part.suffix, set())
            if index != _UNKNOWN:
                group.add(index)
                for name, amount in part.resources:
                    of_index = amounts.setdefault(index, {})
                    of_index[name] = of_index.get(name, 0) + amount
        return Candidate(
            tuple((index, tuple(sorted(amounts[index].items())))
                  for index in sorted(amounts)),
            tuple((suffix, tuple(sorted(groups[suffix])))
                  for suffix in sorted(groups)))
