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


class _Level(NamedTuple):
    """How far the CPUs of a node are taken.

    :param node_class: a number for all nodes that are alike
    :param room: CPUs left that guests can use; a node may have some more
    :param least: CPUs taken for the host and shared
    """

    node_class: int
    room: int
    least: int
    most: int


#: Levels by their numbers, with the nodes on each, where there are any.
_Spread = tuple[tuple[int, int], ...]

#: Ways for some of the nodes: what they cost, a number for what is taken from
#: which kinds of nodes, the last of them, and those of the nodes before. A
#: bare tuple, since hundreds of thousands are made.
_Entry = tuple[
    int, int, core_allocations.CoreAllocation | None, '_Entry | None']


#: Whether there are CPUs for the host in the socket so far, the first socket
#: with some where distances count, and whether there are some for the host,
#: and shared ones, in the L3 domain that reaches over nodes.
_Touched = tuple[bool, int | None, bool, bool]
_UNTOUCHED = False, None, False, False

#: An allocation of a node as what it takes for the host and shared, what it
#: costs, and a number for what it takes from a node of this kind; with what
#: the next node has to know.
_Way = tuple[
    int, int, int, int, _Touched, core_allocations.CoreAllocation]

#: (host CPUs, shared CPUs) still available.
_State = tuple[int, int, _Touched]


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
        self._scale = core_allocations.CostScale(
            domain for node in self._nodes for domain in node.domains)
        self._allocations = [core_allocations.allocations(
            node.domains, demand.purpose, core_allocations.AllocationLimits(
                demand.host_cpus, demand.poll_cpus.get(node.id, 0),
                demand.shared_cpus)) for node in self._nodes]
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
        self._marks = functools.cache(self._marks_of)
        self._levels: list[_Level] = []
        #: Nodes of each class, and its levels, by number.
        self._classes: list[tuple[int, range]] = []
        self._class_of: list[int] = []
        self._kind_of: list[int] = []
        #: Numbers for what is taken from a node of a kind.
        self._takings: dict[tuple[int, int, int], int] = {}
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
        states: dict[_Spread, dict[_State, list[_Entry]]] = {spread: {
            (self._demand.host_cpus, self._shared, _UNTOUCHED): [
                (0, 0, None, None)]}}
        for number in range(len(self._nodes)):
            after: dict[_Spread, dict[_State, list[_Entry]]] = {}
            for nodes, by_state in states.items():
                for level, nodes_left, least, most in self._levels_left(
                        self._class_of[number], nodes):
                    self._go_on(number, level, by_state, least, most,
                                after.setdefault(nodes_left, {}))
            states = after
            if most_states is not None and most_states < sum(
                    map(len, states.values())):
                is_cut = True
                dearest = sorted(
                    best[0][0] for by_state in states.values()
                    for best in by_state.values())[most_states - 1]
                states = {nodes: {
                    state: best for state, best in by_state.items()
                    if best[0][0] <= dearest}
                    for nodes, by_state in states.items()}
        found = [entry for by_state in states.values()
                 for best in by_state.values() for entry in best]
        if is_cut and not found:
            return self.best_for(spread, None)
        # Nothing is left to take: what nodes after the last can give is 0.
        return found

    def _go_on(self, number: int, level: int,
               by_state: Mapping[_State, list[_Entry]], least: int, most: int,
               after: dict[_State, list[_Entry]]) -> None:
        """Take one more node, on one level.

        :param least: CPUs that the nodes after it take, as most
        :param after: where the best for each state are kept
        """
        steps = 0
        for (host, shared, touched), entries in by_state.items():
            left = host + shared
            for (its_host, its_shared, its_cost, its_kind, its_touched,
                 allocation) in self._ways(number, level, touched):
                if its_host > host:
                    break
                if its_shared > shared or not (
                        least <= left - its_host - its_shared <= most):
                    continue
                steps += 1
                state = host - its_host, shared - its_shared, its_touched
                best = after.get(state)
                if best is None:
                    after[state] = [
                        (cost + its_cost, kind + its_kind, allocation, entry)
                        for entry in entries for cost, kind, *_ in (entry,)]
                    continue
                for entry in entries:
                    cost = entry[0] + its_cost
                    if len(best) < 2 or cost < best[1][0]:
                        _add(best, (cost, entry[1] + its_kind, allocation,
                                    entry))
        self.steps += steps

    def _ways_of(self, number: int, level: int,
                 touched: _Touched) -> list[_Way]:
        """The ways of a node on a level, the fewest CPUs for the host first.

        :param touched: by what is taken of the nodes before
        """
        allocations = self._allocations[number]
        bits = len(self._nodes).bit_length()
        ways = []
        for allocation in allocations[
                bisect.bisect_left(allocations, self._levels[level].least,
                                   key=core_allocations.cpus_taken):
                bisect.bisect_right(allocations, self._levels[level].most,
                                    key=core_allocations.cpus_taken)]:
            beyond, after = self._beyond(number, allocation, touched)
            # Such numbers can be added up without two sums being the same,
            # since there are not so many nodes.
            kind = 1 << bits * self._takings.setdefault(
                (self._kind_of[number], allocation.host_cpus,
                 allocation.shared_cpus), len(self._takings))
            ways.append((
                allocation.host_cpus, allocation.shared_cpus,
                self._scale.number(
                    allocation.figures + beyond, zip(
                        self._marks(number), allocation.taken)),
                kind, after, allocation))
        return sorted(ways, key=lambda way: way[0])

    def _marks_of(self, number: int) -> list[list[int]]:
        return [self._scale.marks(group.cores)
                for domain in self._nodes[number].domains
                for group in domain.groups]

    def _beyond(
        self, number: int, allocation: core_allocations.CoreAllocation,
        touched: _Touched,
    ) -> tuple[int, _Touched]:
        """What an allocation costs by devices, and what other nodes have.

        :param touched: by allocations of the nodes before
        :returns: with what the next node has to know
        """
        node = self._nodes[number]
        has_host, first, has_l3_host, has_l3_shared = touched
        busy = idle = sockets = distances = l3_host = l3_shared = 0
        if not allocation.host_cpus:
            busy, idle = node.busy_devices, node.idle_devices
        elif not has_host:
            sockets, has_host = 1, True
            if first is not None:
                distances = dict(node.socket_distances)[first]
            elif node.socket_distances:
                first = node.socket
        if node.wide_domain:
            own, shared = allocation.uses
            size = len(node.wide_domain)
            l3_host = (0 if has_l3_host or not own else size) - own
            l3_shared = (0 if has_l3_shared or not shared else size) - shared
            has_l3_host |= own > 0
            has_l3_shared |= shared > 0
        after = self._nodes[number + 1:number + 2]
        is_same_l3 = after and node.wide_domain and (
            after[0].wide_domain == node.wide_domain)
        return core_allocations.figures(
            busy_devices=busy, idle_devices=idle, l3_host=l3_host,
            l3_shared=l3_shared, sockets=sockets, socket_distances=distances,
        ), (bool(after) and after[0].socket == node.socket and has_host, first,
            *((has_l3_host, has_l3_shared) if is_same_l3 else (False, False)))

    def choice(self, entry: _Entry) -> CpuChoice:
        """The CPUs that ways for all nodes take."""
        uses: list[list[int]] = [[], [], [], []]
        allocations: list[core_allocations.CoreAllocation] = []
        _cost, _kind, allocation, before = entry
        while before is not None:
            assert allocation is not None
            allocations.append(allocation)
            _cost, _kind, allocation, before = before
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
        for node, allocations in zip(self._nodes, self._allocations):
            poll = self._demand.poll_cpus.get(node.id, 0)
            key = node.core_sizes, node.sells, poll
            number = classes.setdefault(key, len(classes))
            self._class_of.append(number)
            if number == len(self._classes):
                first = len(self._levels)
                self._levels += self._levels_of_class(
                    number, node, poll, allocations)
                self._classes.append((0, range(first, len(self._levels))))
            members, levels = self._classes[number]
            self._classes[number] = members + 1, levels
            has_cpu0 = any(
                core[0] == 0 for domain in node.domains
                for group in domain.groups for core in group.cores)
            shape = tuple(sorted(
                tuple(sorted((group.threads, group.is_slow, len(group.cores))
                             for group in domain.groups))
                for domain in node.domains))
            self._kind_of.append(kinds.setdefault(
                (key, node.busy_devices, node.idle_devices, has_cpu0, shape),
                len(kinds)))

    def _levels_of_class(
            self, number: int, node: allocatable_cores.AllocatableNode,
            poll: int,
            node_allocations: Iterable[core_allocations.CoreAllocation]
    ) -> list[_Level]:
        """The levels of a node, those that take most first."""
        taken_by_room: dict[int, list[int]] = {}
        for taken in sorted(set(map(
                core_allocations.cpus_taken, node_allocations))):
            left = node.cpu_count - poll - taken if node.sells else 0
            room = next(total for total in self._sums if total <= left)
            taken_by_room.setdefault(room, []).append(taken)
        return [_Level(number, room, min(taken), max(taken))
                for room, taken in sorted(taken_by_room.items())]

    def _spread(self, number: int, at_least: int,
                at_most: int) -> Iterator[_Spread]:
        """Spread what is taken over a class and those after it.

        :param at_least: CPUs that they have to be able to take
        :param at_most: CPUs that they must be able to make do with
        """
        if number == len(self._classes):
            yield ()
            return
        after = self._classes[number + 1:]
        least_after = sum(self._levels[levels[-1]].least * members
                          for members, levels in after)
        most_after = sum(self._levels[levels[0]].most * members
                         for members, levels in after)
        members, levels = self._classes[number]
        for counts, least, most in self._counts(
                levels, members, at_least - most_after,
                at_most - least_after):
            for others in self._spread(
                    number + 1, at_least - most, at_most - least):
                yield counts + others

    def _counts(
        self, levels: range, nodes: int, at_least: int, at_most: int,
    ) -> Iterator[tuple[_Spread, int, int]]:
        """Numbers of nodes on levels of a class, and what they take together.

        :param levels: those that take most first
        :param at_least: CPUs that the most of them has to come to
        :param at_most: CPUs that the least of them may come to
        :returns: (numbers, least, most)
        """
        if not nodes:
            if at_least <= 0 <= at_most:
                yield (), 0, 0
            return
        for number in levels:
            _class, _room, least, most = self._levels[number]
            if most * nodes < at_least:
                # On levels after it nodes only take less.
                return
            others = range(number + 1, levels.stop)
            utmost = self._levels[number + 1].most if others else 0
            for count in range(nodes, 0, -1):
                if (nodes - count) * utmost + most * count < at_least:
                    break
                if least * count > at_most:
                    continue
                for numbers, more_least, more_most in self._counts(
                        others, nodes - count, at_least - most * count,
                        at_most - least * count):
                    yield (((number, count), *numbers),
                           least * count + more_least,
                           most * count + more_most)

    def _loss(self, spread: _Spread, is_bound: bool = False) -> SaleValue:
        """What a spread sells, or a bound for it, below 0."""
        demand = self._demand
        left: list[int] = []
        for number, nodes in spread:
            room = self._levels[number].room
            if room:
                left += [room] * nodes
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

    def _levels_of(self, node_class: int, spread: _Spread) -> list[
            tuple[int, _Spread, int, int]]:
        """The levels that a spread allows a class, and what each leaves.

        :returns: (level, nodes left, CPUs that those take at least, and at
            most)
        """
        found = []
        for index, (level, nodes) in enumerate(spread):
            if self._levels[level].node_class == node_class:
                left = (*spread[:index], *([(level, nodes - 1)] * (nodes > 1)),
                        *spread[index + 1:])
                found.append((
                    level, left,
                    sum(self._levels[number].least * count
                        for number, count in left),
                    sum(self._levels[number].most * count
                        for number, count in left)))
        return found


def _add(best: list[_Entry], entry: _Entry) -> None:
    """Keep the best, and the best that is of another kind."""
    if not best or entry[0] < best[0][0]:
        if best and best[0][1] != entry[1]:
            best[1:] = best[:1]
        best[:1] = [entry]
    elif entry[1] != best[0][1] and (
            len(best) < 2 or entry[0] < best[1][0]):
        best[1:] = [entry]


def _sums(parts: Iterable[int], most: int) -> list[int]:
    """All sums of parts, each taken any number of times, largest first."""
    sums = 1
    for part in parts:
        for _time in range(most // part):
            sums |= sums << part
    return [total for total in range(most, -1, -1) if sums >> total & 1]
