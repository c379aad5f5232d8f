#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The choice of a host's CPUs that leaves most to sell.

What can be sold depends only on how many CPUs each node has left. So it is
worked out for each way to spread what is taken over nodes that are alike, and
then nodes and cores are found for the best of them.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import heapq
import itertools
from typing import NamedTuple

from nova_pinning import cpuset
from nova_pinning.fit import capacity
from nova_pinning.host.plan import ground
from nova_pinning.host.plan import model
from nova_pinning.host.plan import ways

#: Bounds on what is looked at, so that no host takes more than seconds. It
#: takes a host of many nodes, and many of its CPUs shared, to meet them. Of
#: spreads, those on the fewest nodes are looked at then, and of what is found
#: from node to node what is least bad so far.
_MAX_SPREADS = 3000
_MAX_EQUAL_SPREADS = 64
#: Choices that only serve to be compared with need not be the best ones.
_MAX_WORSE_SPREADS = 4
_MAX_STATES = 1000
#: Steps after which no more equal spreads are looked at.
_MAX_STEPS = 200000


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """What to look for.

    :param host_cpus: exactly, as poll_cpus by node
    :param shared_cpus: exactly; None to share all that others leave
    :param weights: of each size
    """

    purpose: model.Purpose
    host_cpus: int
    shared_cpus: int | None
    poll_cpus: Mapping[int, int]
    sizes: tuple[capacity.Size, ...]
    weights: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Value:
    """What is sold; the larger the better.

    :param mixed: guests of the mix
    :param vcpus: vCPUs that are sold if all guests are of one size, summed
        up over the sizes, each times its weight
    :param alone: guests of each size if there are no others
    """

    mixed: int
    vcpus: int
    alone: tuple[int, ...]


class _Reversed(NamedTuple):
    """A value that sorts before those it is larger than."""

    value: Value

    def __lt__(self, other: tuple[Value, ...]) -> bool:
        return other[0] < self.value


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """CPUs for each use; together all that are online."""

    host_cpus: cpuset.CpuSet
    poll_cpus: cpuset.CpuSet
    shared_cpus: cpuset.CpuSet
    dedicated_cpus: cpuset.CpuSet


def search(grounds: Sequence[ground.Ground], demand: Demand,
           count: int = 1) -> list[Choice]:
    """The best choices, the best first.

    The best is that of the largest :class:`Value`, and among those the one
    that is least bad by what :mod:`nova_pinning.host.plan.ways` has. After it
    comes the next best of the same value that is of another kind, and then
    the best of each value below. Two choices are of one kind if they take as
    many CPUs from nodes that are alike.

    :param count: of choices, at most
    :returns: none if the host has no cores that make up these numbers
    """
    field = _Field(grounds, demand)
    if not field.is_possible:
        return []
    found: list[Choice] = []
    for _value, equal in itertools.groupby(
            field.best_spreads(), lambda one: one[0]):
        best: list[_Entry] = []
        most = _MAX_WORSE_SPREADS if found else _MAX_EQUAL_SPREADS
        for _same, spread in itertools.islice(equal, most):
            if best and field.steps > _MAX_STEPS:
                break
            for entry in field.place(spread):
                _add(best, entry)
        for entry in best[:1 if found else 2]:
            found.append(field.choice(entry))
            if len(found) == count:
                return found
    return found


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

    badness: int
    kind: int
    way: ways.Way | None = None
    before: '_Entry | None' = None


#: (nodes of each class and level, host CPUs, shared CPUs) still to be had.
_State = tuple[_Spread, int, int]


class _Field:
    """All nodes of a host, and what can be taken from each."""

    def __init__(self, grounds: Sequence[ground.Ground],
                 demand: Demand) -> None:
        self._grounds = grounds
        self._demand = demand
        self._shared = demand.shared_cpus or 0
        scale = ways.Scale(sorted(
            cpu for place in grounds for domain in place.domains
            for group in domain.groups for core in group.cores
            for cpu in core))
        self._ways = [
            ways.ways(place, demand.purpose, ways.Limits(
                demand.host_cpus, demand.poll_cpus.get(place.id, 0),
                demand.shared_cpus), scale)
            for place in grounds]
        #: Whether each node has the cores for polling that it has to have.
        self.is_possible = all(self._ways)
        self._sums = _sums({size.cell_vcpus for size in demand.sizes},
                           max(place.cpu_count for place in grounds))
        #: How much has been looked at.
        self.steps = 0
        self._classes: list[tuple[_Level, ...]] = []
        self._members: list[int] = []
        self._class_of: list[int] = []
        self._sort_nodes()

    def best_spreads(self) -> Iterator[tuple[Value, _Spread]]:
        """The ways to spread what is taken, those that sell most first.

        What each sells is worked out when it is its turn by a bound.
        """
        total = self._demand.host_cpus + self._shared
        heap: list[tuple[_Reversed, int, _Spread]] = [
            (_Reversed(self._value(spread, is_bound=True)), number, spread)
            for number, spread in enumerate(itertools.islice(
                self._spread(0, total, total), _MAX_SPREADS))]
        heapq.heapify(heap)
        exact: set[int] = set()
        while heap:
            bound, number, spread = heap[0]
            if number in exact:
                heapq.heappop(heap)
                yield bound.value, spread
                continue
            exact.add(number)
            heapq.heapreplace(heap, (
                _Reversed(self._value(spread)), number, spread))

    def place(self, spread: _Spread,
              most_states: int | None = _MAX_STATES) -> list[_Entry]:
        """The best nodes for a spread, and the best of another kind.

        :param most_states: how many to go on with from node to node, None
            for all
        """
        is_cut = False
        most = self._most_after()
        states: dict[_State, list[_Entry]] = {
            (spread, self._demand.host_cpus, self._shared): [_Entry(0, 0)]}
        for number in range(len(self._grounds)):
            most_host, most_shared = most[number + 1]
            after: dict[_State, list[_Entry]] = {}
            for (nodes, host, shared), entries in states.items():
                for way, kind, nodes_left, least, utmost in self._next(
                        number, nodes):
                    host_left = host - way.host_cpus
                    shared_left = shared - way.shared_cpus
                    if not (0 <= host_left <= most_host
                            and 0 <= shared_left <= most_shared
                            and least <= host_left + shared_left <= utmost):
                        continue
                    best = after.setdefault(
                        (nodes_left, host_left, shared_left), [])
                    self.steps += 1
                    for entry in entries:
                        badness = entry.badness + way.badness
                        if len(best) < 2 or badness < best[1].badness:
                            _add(best, _Entry(
                                badness, entry.kind + kind, way, entry))
            states = after
            if most_states is not None and len(states) > most_states:
                is_cut = True
                states = dict(sorted(
                    states.items(), key=lambda one: one[1][0].badness,
                )[:most_states])
        if is_cut and not states:
            return self.place(spread, None)
        # Nothing is left to be had: what nodes after the last can give is 0.
        return list(itertools.chain.from_iterable(states.values()))

    def choice(self, entry: _Entry) -> Choice:
        """The CPUs that ways for all nodes take."""
        uses: list[list[int]] = [[], [], [], []]
        found: list[ways.Way] = []
        while entry.before is not None:
            assert entry.way is not None
            found.append(entry.way)
            entry = entry.before
        for place, way in zip(self._grounds, reversed(found)):
            groups = (group for domain in place.domains
                      for group in domain.groups)
            for group, taken in zip(groups, way.taken):
                cores = iter(group.cores)
                for use, count in enumerate((*taken, len(group.cores))):
                    for core in itertools.islice(cores, count):
                        uses[use] += core
        return Choice(*map(cpuset.CpuSet, uses))

    def _sort_nodes(self) -> None:
        """Find the nodes that are alike, and those of one kind."""
        classes: dict[object, int] = {}
        kinds: dict[object, int] = {}
        takings: dict[tuple[int, int, int], int] = {}
        #: Ways of each node by level, each with a number for what it takes
        #: from a node of this kind. Such numbers can be added up without two
        #: sums being the same, since there are not so many nodes.
        self._ways_on: list[list[list[tuple[ways.Way, int]]]] = []
        bits = len(self._grounds).bit_length()
        for place, found in zip(self._grounds, self._ways):
            poll = self._demand.poll_cpus.get(place.id, 0)
            key = place.core_sizes, place.sells, poll
            if key not in classes:
                classes[key] = len(self._classes)
                self._classes.append(self._levels(place, poll, found))
                self._members.append(0)
            number = classes[key]
            self._class_of.append(number)
            self._members[number] += 1
            has_cpu0 = any(
                core[0] == 0 for domain in place.domains
                for group in domain.groups for core in group.cores)
            shape = tuple(sorted(
                tuple(sorted((group.threads, group.is_slow, len(group.cores))
                             for group in domain.groups))
                for domain in place.domains))
            kind = kinds.setdefault(
                (key, place.busy_devices, place.idle_devices, has_cpu0,
                 shape), len(kinds))
            self._ways_on.append([[
                (way, 1 << bits * takings.setdefault(
                    (kind, way.host_cpus, way.shared_cpus), len(takings)))
                for way in found
                if level.least <= way.host_cpus + way.shared_cpus
                <= level.most] for level in self._classes[number]])

    def _levels(self, place: ground.Ground, poll: int,
                found: Iterable[ways.Way]) -> tuple[_Level, ...]:
        """The levels of a node, those that take most first."""
        taken_by_room: dict[int, list[int]] = {}
        for taken in sorted({
                way.host_cpus + way.shared_cpus for way in found}):
            left = place.cpu_count - poll - taken if place.sells else 0
            room = next(one for one in self._sums if one <= left)
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

    def _value(self, spread: _Spread, is_bound: bool = False) -> Value:
        """What a spread sells, or a bound for it."""
        demand = self._demand
        rooms = [
            capacity.Room(level.room)
            for levels, counts in zip(self._classes, spread)
            for level, nodes in zip(levels, counts) if level.room
            for _node in range(nodes)]
        alone = tuple(capacity.guests(rooms, size) for size in demand.sizes)
        mixed = (
            capacity.mix_bound(rooms, demand.sizes, demand.weights)
            if is_bound
            else sum(capacity.mix(rooms, demand.sizes, demand.weights)))
        return Value(
            mixed, sum(
                guests * size.vcpus * weight for guests, size, weight
                in zip(alone, demand.sizes, demand.weights)), alone)

    def _next(self, number: int, spread: _Spread,
              ) -> Iterator[tuple[ways.Way, int, _Spread, int, int]]:
        """The ways of a node that a spread allows, and what it leaves.

        :returns: (way, its number, nodes left, CPUs that those take at least,
            and at most)
        """
        kind = self._class_of[number]
        for level, nodes in enumerate(spread[kind]):
            if not nodes:
                continue
            counts = list(spread[kind])
            counts[level] -= 1
            left = (*spread[:kind], tuple(counts), *spread[kind + 1:])
            least, most = self._range(left)
            for way, kind_number in self._ways_on[number][level]:
                yield way, kind_number, left, least, most

    def _range(self, spread: _Spread) -> tuple[int, int]:
        """How many CPUs the nodes of a spread take, at least and at most."""
        nodes = [(level, count)
                 for levels, counts in zip(self._classes, spread)
                 for level, count in zip(levels, counts)]
        return (sum(level.least * count for level, count in nodes),
                sum(level.most * count for level, count in nodes))

    def _most_after(self) -> list[tuple[int, int]]:
        """Host and shared CPUs to be had of each node and those after it."""
        found = [(0, 0)]
        for one in reversed(self._ways):
            host, shared = found[-1]
            found.append((
                host + max((way.host_cpus for way in one), default=0),
                shared + max((way.shared_cpus for way in one), default=0)))
        return found[::-1]


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
    if not best or entry.badness < best[0].badness:
        if best and best[0].kind != entry.kind:
            best[1:] = best[:1]
        best[:1] = [entry]
    elif entry.kind != best[0].kind and (
            len(best) < 2 or entry.badness < best[1].badness):
        best[1:] = [entry]


def _sums(parts: Iterable[int], most: int) -> list[int]:
    """All sums of parts, each taken any number of times, largest first."""
    found = 1
    for part in parts:
        for _time in range(most // part):
            found |= found << part
    return [one for one in range(most, -1, -1) if found >> one & 1]
