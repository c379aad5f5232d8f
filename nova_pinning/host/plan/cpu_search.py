# SPDX-License-Identifier: Apache-2.0
"""The choice of a host's CPUs that leaves most to sell.

What can be sold depends only on how many CPUs each node has left. So it is
worked out for each way to spread what is taken over nodes that are alike, and
then nodes and cores are found for the best of them.
"""

import bisect
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import heapq
import itertools
from typing import NamedTuple

from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import core_allocations
from nova_pinning.host import plan_model

#: Bounds on what is looked at, so that no host takes more than seconds. It
#: takes a host of many nodes, and many of its CPUs shared, to meet them. Of
#: spreads, those on the fewest nodes are looked at then, and of what is found
#: from node to node what is least bad so far.
_MAX_SPREADS = 3000
_MAX_EQUAL_SPREADS = 64
#: Choices that only serve to be compared with need not be the best ones.
_MAX_WORSE_SPREADS = 4
_MOST_STATES = 1000
#: To find out what can be sold, any choice will do.
_MOST_ROUGH_STATES = 100
#: Steps after which no more equal spreads are looked at.
_STEPS_PER_STATE = 200


@dataclasses.dataclass(frozen=True, slots=True)
class CpuDemand:
    """What to look for.

    :param host_cpus: exactly, as poll_cpus by node
    :param shared_cpus: exactly; None to share all that others leave
    :param weights: of each size
    """

    purpose: plan_model.Purpose
    host_cpus: int
    shared_cpus: int | None
    poll_cpus: Mapping[int, int]
    sizes: tuple[fit.Size, ...]
    weights: tuple[int, ...]


#: What is sold; the larger the better. It is guests of the mix, then vCPUs
#: that are sold if all guests are of one size, summed up over the sizes, each
#: times its weight, and then guests of each size if there are no others.
SaleValue = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CpuChoice:
    """CPUs for each use; together all that are online."""

    host_cpus: cpuset.CpuSet
    poll_cpus: cpuset.CpuSet
    shared_cpus: cpuset.CpuSet
    dedicated_cpus: cpuset.CpuSet


def search(allocatable_nodes: Sequence[allocatable_cores.AllocatableNode],
           demand: CpuDemand,
           count: int = 1, is_rough: bool = False) -> list[CpuChoice]:
    """The best choices, the best first.

    The best is that of the largest SaleValue, and among those the one
    of the least cost by what :mod:`nova_pinning.host.plan.core_allocations`
    has. After it comes the next best of the same value that is of another
    kind, and then the best of each value below. Two choices are of one kind if
    they take as many CPUs from nodes that are alike.

    :param count: of choices, at most
    :param is_rough: whether another choice of the largest SaleValue is as
        good as the best
    :returns: none if the host has no cores that make up these numbers
    """
    field = _Field(allocatable_nodes, demand)
    if not field.is_possible:
        return []
    most_states = _MOST_ROUGH_STATES if is_rough else _MOST_STATES
    choices: list[CpuChoice] = []
    for _loss, equal in itertools.groupby(
            field.best_spreads(), lambda ranked: ranked[0]):
        best: list[_Entry] = []
        most = (1 if is_rough else
                _MAX_WORSE_SPREADS if choices else _MAX_EQUAL_SPREADS)
        for _same, spread in itertools.islice(equal, most):
            if best and field.steps > _STEPS_PER_STATE * most_states:
                break
            for entry in field.best_for(spread, most_states):
                _add(best, entry)
        for entry in best[:1 if choices else 2]:
            choices.append(field.choice(entry))
            if len(choices) == count:
                return choices
    return choices


@dataclasses.dataclass(frozen=True, slots=True)
class _Level:
    """How far the CPUs of a node are taken.

    :param room: CPUs left that guests can use; a node may have some more
    :param least: CPUs taken for the host and shared
    """

    room: int
    least: int
    most: int


#: For each class of nodes that are alike, nodes on each of its levels.
_Spread = tuple[tuple[int, ...], ...]


class _Entry(NamedTuple):
    """Ways for some of the nodes.

    :param kind: a number for what is taken from which kinds of nodes
    :param before: that of the nodes before the last
    """

    cost: int
    kind: int
    allocation: core_allocations.CoreAllocation | None = None
    before: '_Entry | None' = None


#: Whether there are CPUs for the host in the socket so far, the first socket
#: with some where distances count, and whether there are some for the host,
#: and shared ones, in the L3 domain that reaches over nodes.
_Touched = tuple[bool, int | None, bool, bool]
_UNTOUCHED = False, None, False, False


class _Way(NamedTuple):
    """An allocation of a node, with what other nodes have a part in.

    :param kind: a number for what it takes from a node of this kind
    :param touched: what the next node has to know
    """

    allocation: core_allocations.CoreAllocation
    cost: int
    kind: int
    touched: _Touched


def _taken(way: _Way) -> int:
    return way.allocation.host_cpus + way.allocation.shared_cpus


#: (nodes of each class and level, host CPUs, shared CPUs) still available.
_State = tuple[_Spread, int, int, _Touched]


class _Field:
    """All nodes of a host, and what can be taken from each."""

    def __init__(
        self, allocatable_nodes: Sequence[allocatable_cores.AllocatableNode],
        demand: CpuDemand,
    ) -> None:
        # Those of a socket, and of a cache in it, one after the other.
        self._nodes = tuple(sorted(allocatable_nodes, key=lambda node: (
            node.socket, node.wide_domain, node.id)))
        self._demand = demand
        self._shared = demand.shared_cpus or 0
        scale = core_allocations.scale_of(
            domain for node in self._nodes for domain in node.domains)
        self._allocations = core_allocations.allocations(
            self._nodes, demand.purpose, demand.host_cpus, demand.poll_cpus,
            demand.shared_cpus, scale)
        (self._socket_cost, self._distance_cost, self._l3_host_cost,
         self._l3_shared_cost) = (
            scale.number(core_allocations.Cost(**{name: 1}))
            for name in ('sockets', 'socket_distances', 'l3_host',
                         'l3_shared'))
        #: Whether each node has the cores for polling that it has to have.
        self.is_possible = all(self._allocations)
        self._sums = _sums({size.vcpus
                            for size in demand.sizes},
                           max(allocatable_node.cpu_count
                               for allocatable_node in allocatable_nodes))
        #: For each size the guest cells that a room takes.
        self._cells_in = [
            {room: fit.Room(room).takes(size) for room in self._sums}
            for size in demand.sizes]
        #: How much has been looked at.
        self.steps = 0
        self._ways = functools.cache(self._ways_of)
        self._levels_left = functools.cache(self._levels_of)
        self._classes: list[tuple[_Level, ...]] = []
        self._members: list[int] = []
        self._class_of: list[int] = []
        self._sort_nodes()

    def best_spreads(self) -> Iterator[tuple[SaleValue, _Spread]]:
        """The ways to spread what is taken, those that sell most first.

        What each sells is worked out when it is its turn by a bound.

        :returns: what each sells, as a loss, and the way
        """
        total = self._demand.host_cpus + self._shared
        heap = [(self._loss(spread, is_bound=True), number, spread)
                for number, spread in enumerate(itertools.islice(
                    self._spread(0, total, total), _MAX_SPREADS))]
        heapq.heapify(heap)
        exact: set[int] = set()
        while heap:
            loss, number, spread = heap[0]
            if number in exact:
                heapq.heappop(heap)
                yield loss, spread
                continue
            exact.add(number)
            heapq.heapreplace(heap, (self._loss(spread), number, spread))

    def best_for(self, spread: _Spread,
                 most_states: int | None) -> list[_Entry]:
        """The best nodes for a spread, and the best of another kind.

        :param most_states: how many to go on with from node to node, None
            for all
        """
        is_cut = False
        states: dict[_State, list[_Entry]] = {
            (spread, self._demand.host_cpus, self._shared, _UNTOUCHED): [
                _Entry(0, 0)]}
        for number in range(len(self._nodes)):
            after: dict[_State, list[_Entry]] = {}
            for (nodes, host, shared, touched), entries in states.items():
                for level, nodes_left, least, utmost in self._levels_left(
                        self._class_of[number], nodes):
                    ways = self._ways(number, level, touched)
                    left = host + shared
                    for way in ways[bisect.bisect_left(
                            ways, left - utmost, key=_taken):
                            bisect.bisect_right(
                                ways, left - least, key=_taken)]:
                        host_left = host - way.allocation.host_cpus
                        shared_left = shared - way.allocation.shared_cpus
                        if host_left < 0 or shared_left < 0:
                            continue
                        best = after.setdefault((
                            nodes_left, host_left, shared_left, way.touched),
                            [])
                        self.steps += 1
                        for entry in entries:
                            cost = entry.cost + way.cost
                            if len(best) < 2 or cost < best[1].cost:
                                _add(best, _Entry(
                                    cost, entry.kind + way.kind,
                                    way.allocation, entry))
            states = after
            if most_states is not None and len(states) > most_states:
                is_cut = True
                states = dict(sorted(
                    states.items(), key=lambda state: state[1][0].cost,
                )[:most_states])
        if is_cut and not states:
            return self.best_for(spread, None)
        # Nothing is left to take: what nodes after the last can give is 0.
        return list(itertools.chain.from_iterable(states.values()))

    def _ways_of(self, number: int, level: int,
                 touched: _Touched) -> list[_Way]:
        """The ways of a node on a level, those that take least first."""
        return sorted((
            _Way(allocation, allocation.cost + more, kind, after)
            for allocation, kind in self._allocations_on[number][level]
            for more, after in (self._beyond(number, allocation, touched),)),
            key=_taken)

    def _beyond(
        self, number: int, allocation: core_allocations.CoreAllocation,
        touched: _Touched,
    ) -> tuple[int, _Touched]:
        """What an allocation costs that other nodes have a part in.

        :param touched: by allocations of the nodes before
        :returns: with what the next node has to know
        """
        node, cost = self._nodes[number], 0
        has_host, first, l3_host, l3_shared = touched
        if allocation.host_cpus and not has_host:
            cost, has_host = self._socket_cost, True
            if first is not None:
                cost += self._distance_cost * dict(
                    node.socket_distances)[first]
            elif node.socket_distances:
                first = node.socket
        if node.wide_domain:
            own, shared = allocation.uses
            size = len(node.wide_domain)
            cost += self._l3_host_cost * (
                (0 if l3_host or not own else size) - own)
            cost += self._l3_shared_cost * (
                (0 if l3_shared or not shared else size) - shared)
            l3_host |= own > 0
            l3_shared |= shared > 0
        after = self._nodes[number + 1:number + 2]
        is_same_l3 = after and node.wide_domain and (
            after[0].wide_domain == node.wide_domain)
        return cost, (
            bool(after) and after[0].socket == node.socket and has_host,
            first,
            *((l3_host, l3_shared) if is_same_l3 else (False, False)))

    def choice(self, entry: _Entry) -> CpuChoice:
        """The CPUs that ways for all nodes take."""
        uses: list[list[int]] = [[], [], [], []]
        allocations: list[core_allocations.CoreAllocation] = []
        while entry.before is not None:
            assert entry.allocation is not None
            allocations.append(entry.allocation)
            entry = entry.before
        for node, allocation in zip(self._nodes, reversed(allocations)):
            groups = (group for domain in node.domains
                      for group in domain.groups)
            for group, taken in zip(groups, allocation.taken):
                cores = iter(group.cores)
                for use, count in enumerate((*taken, len(group.cores))):
                    for core in itertools.islice(cores, count):
                        uses[use] += core
        return CpuChoice(*map(cpuset.CpuSet, uses))

    def _sort_nodes(self) -> None:
        """Find the nodes that are alike, and those of one kind."""
        classes: dict[object, int] = {}
        kinds: dict[object, int] = {}
        takings: dict[tuple[int, int, int], int] = {}
        #: Allocations on each node by level, each with a number for what it
        #: takes from a node of this kind. Such numbers can be added up without
        #: two sums being the same, since there are not so many nodes.
        self._allocations_on: list[list[list[tuple[
            core_allocations.CoreAllocation, int]]]] = []
        bits = len(self._nodes).bit_length()
        for node, node_allocations in zip(self._nodes, self._allocations):
            poll = self._demand.poll_cpus.get(node.id, 0)
            key = node.core_sizes, node.sells, poll
            if key not in classes:
                classes[key] = len(self._classes)
                self._classes.append(
                    self._levels(node, poll, node_allocations))
                self._members.append(0)
            number = classes[key]
            self._class_of.append(number)
            self._members[number] += 1
            has_cpu0 = any(
                core[0] == 0 for domain in node.domains
                for group in domain.groups for core in group.cores)
            shape = tuple(sorted(
                tuple(sorted((group.threads, group.is_slow, len(group.cores))
                             for group in domain.groups))
                for domain in node.domains))
            kind = kinds.setdefault(
                (key, node.busy_devices, node.idle_devices, has_cpu0,
                 shape), len(kinds))
            levels = self._classes[number]
            on_level: list[list[tuple[
                core_allocations.CoreAllocation, int]]] = [
                    [] for _level in levels]
            for allocation in node_allocations:
                taken = allocation.host_cpus + allocation.shared_cpus
                level = bisect.bisect_left(
                    levels, -taken, key=lambda level: -level.least)
                on_level[level].append((
                    allocation, 1 << bits * takings.setdefault(
                        (kind, allocation.host_cpus, allocation.shared_cpus),
                        len(takings))))
            self._allocations_on.append(on_level)

    def _levels(
            self, node: allocatable_cores.AllocatableNode, poll: int,
            node_allocations: Iterable[core_allocations.CoreAllocation]
    ) -> tuple[_Level, ...]:
        """The levels of a node, those that take most first."""
        taken_by_room: dict[int, list[int]] = {}
        for taken in sorted({
                allocation.host_cpus + allocation.shared_cpus
                for allocation in node_allocations}):
            left = node.cpu_count - poll - taken if node.sells else 0
            room = next(total for total in self._sums if total <= left)
            taken_by_room.setdefault(room, []).append(taken)
        return tuple(
            _Level(room, min(taken), max(taken))
            for room, taken in sorted(taken_by_room.items()))

    def _spread(self, number: int, at_least: int,
                at_most: int) -> Iterator[_Spread]:
        """Spread what is taken over a class and those after it.

        :param at_least: CPUs that they have to be able to take
        :param at_most: CPUs that they must be able to make do with
        """
        if number == len(self._classes):
            yield ()
            return
        after = list(zip(self._classes, self._members))[number + 1:]
        least_after = sum(min(level.least for level in levels) * members
                          for levels, members in after)
        most_after = sum(max(level.most for level in levels) * members
                         for levels, members in after)
        for counts, least, most in _counts(
                self._classes[number], self._members[number],
                at_least - most_after, at_most - least_after):
            for others in self._spread(
                    number + 1, at_least - most, at_most - least):
                yield counts, *others

    def _loss(self, spread: _Spread, is_bound: bool = False) -> SaleValue:
        """What a spread sells, or a bound for it, below 0."""
        demand = self._demand
        left = [level.room for levels, counts in zip(self._classes, spread)
                for level, nodes in zip(levels, counts) if level.room
                for _node in range(nodes)]
        alone = tuple(
            capacity.spread([cells[room] for room in left], size.cells)
            for size, cells in zip(demand.sizes, self._cells_in))
        mixed = (
            capacity.mix_bound(sum(left), alone, demand.sizes, demand.weights)
            if is_bound else sum(capacity.mix(
                list(map(fit.Room, left)), demand.sizes, demand.weights)))
        return -mixed, -sum(
            guests * size.guest_vcpus * weight for guests, size, weight
            in zip(alone, demand.sizes, demand.weights)), *(
                -guests for guests in alone)

    def _levels_of(self, kind: int, spread: _Spread) -> list[
            tuple[int, _Spread, int, int]]:
        """The levels that a spread allows a class, and what each leaves.

        :returns: (level, nodes left, CPUs that those take at least, and at
            most)
        """
        found = []
        for level, nodes in enumerate(spread[kind]):
            if nodes:
                counts = list(spread[kind])
                counts[level] -= 1
                left = (*spread[:kind], tuple(counts), *spread[kind + 1:])
                found.append((level, left, *self._range(left)))
        return found

    def _range(self, spread: _Spread) -> tuple[int, int]:
        """How many CPUs the nodes of a spread take, at least and at most."""
        nodes = [(level, count)
                 for levels, counts in zip(self._classes, spread)
                 for level, count in zip(levels, counts)]
        return (sum(level.least * count for level, count in nodes),
                sum(level.most * count for level, count in nodes))


def _counts(
    levels: Sequence[_Level], nodes: int, at_least: int, at_most: int,
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Numbers of nodes on each level, with what they take together.

    :param at_least: CPUs that the most of them has to come to
    :param at_most: CPUs that the least of them may come to
    :returns: (numbers, least, most)
    """
    if not levels:
        if not nodes and at_least <= 0 <= at_most:
            yield (), 0, 0
        return
    first, others = levels[0], levels[1:]
    for count in range(nodes, -1, -1):
        least, most = first.least * count, first.most * count
        if least > at_most:
            continue
        rest = nodes - count
        if most + rest * max(
                (level.most for level in others), default=0) < at_least:
            # With fewer nodes on the level that takes most it only gets less.
            return
        for numbers, more_least, more_most in _counts(
                others, rest, at_least - most, at_most - least):
            yield (count, *numbers), least + more_least, most + more_most


def _add(best: list[_Entry], entry: _Entry) -> None:
    """Keep the best, and the best that is of another kind."""
    if not best or entry.cost < best[0].cost:
        if best and best[0].kind != entry.kind:
            best[1:] = best[:1]
        best[:1] = [entry]
    elif entry.kind != best[0].kind and (
            len(best) < 2 or entry.cost < best[1].cost):
        best[1:] = [entry]


def _sums(parts: Iterable[int], most: int) -> list[int]:
    """All sums of parts, each taken any number of times, largest first."""
    sums = 1
    for part in parts:
        for _time in range(most // part):
            sums |= sums << part
    return [total for total in range(most, -1, -1) if sums >> total & 1]
