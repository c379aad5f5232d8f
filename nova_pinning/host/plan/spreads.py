# SPDX-License-Identifier: Apache-2.0
"""How what is taken of a host is spread over its nodes, and what that sells.

Which CPUs are taken of a node does not count here, only how many are left.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import functools
import heapq
import itertools
from typing import NamedTuple

from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import core_allocations

#: Of spreads, those on the fewest nodes are looked at if there are more.
_MAX_SPREADS = 3000

#: What is sold; the larger the better. It is guests of the mix, then vCPUs
#: that are sold if all guests are of one size, summed up over the sizes, each
#: times its weight, and then guests of each size if there are no others.
SaleValue = tuple[int, ...]


class NodeLevel(NamedTuple):
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
Spread = tuple[tuple[int, int], ...]


class Spreads:
    """All ways to spread what is taken over the nodes of a host.

    :param allocations: of each node
    :param poll_cpus: by node
    :param sizes: that are sold, with the weight of each
    """

    def __init__(
        self, nodes: Sequence[allocatable_cores.AllocatableNode],
        allocations: Sequence[Sequence[core_allocations.CoreAllocation]],
        poll_cpus: Mapping[int, int], sizes: tuple[fit.Size, ...],
        weights: tuple[int, ...],
    ) -> None:
        self._sizes, self._weights = sizes, weights
        self._sums = _sums({size.vcpus for size in sizes},
                           max(node.cpu_count for node in nodes))
        #: For each size the guest cells that a room takes.
        self._cells_in = [
            {room: fit.Room(room).takes(size) for room in self._sums}
            for size in sizes]
        self.levels_left = functools.cache(self._levels_left)
        self.levels: list[NodeLevel] = []
        #: Nodes of each class, and its levels, by number.
        self._classes: list[tuple[int, range]] = []
        #: Of each node, a number for all that are alike.
        self.class_of: list[int] = []
        classes: dict[object, int] = {}
        for node, node_allocations in zip(nodes, allocations):
            poll = poll_cpus.get(node.id, 0)
            number = classes.setdefault(
                (node.core_sizes, node.sells, poll), len(classes))
            self.class_of.append(number)
            if number == len(self._classes):
                first = len(self.levels)
                self.levels += self._levels_of(
                    number, node, poll, node_allocations)
                self._classes.append((0, range(first, len(self.levels))))
            members, levels = self._classes[number]
            self._classes[number] = members + 1, levels

    def best(self, total: int) -> Iterator[tuple[SaleValue, Spread]]:
        """The ways to spread what is taken, those that sell most first.

        What each sells is worked out when it is its turn by a bound.

        :param total: CPUs for the host and shared ones
        :returns: what each sells, as a loss, and the way
        """
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

    def _levels_of(
            self, number: int, node: allocatable_cores.AllocatableNode,
            poll: int,
            node_allocations: Iterable[core_allocations.CoreAllocation]
    ) -> list[NodeLevel]:
        """The levels of a node, those that take most first."""
        taken_by_room: dict[int, list[int]] = {}
        for taken in sorted(set(map(
                core_allocations.cpus_taken, node_allocations))):
            left = node.cpu_count - poll - taken if node.sells else 0
            room = next(total for total in self._sums if total <= left)
            taken_by_room.setdefault(room, []).append(taken)
        return [NodeLevel(number, room, min(taken), max(taken))
                for room, taken in sorted(taken_by_room.items())]

    def _spread(self, number: int, at_least: int,
                at_most: int) -> Iterator[Spread]:
        """Spread what is taken over a class and those after it.

        :param at_least: CPUs that they have to be able to take
        :param at_most: CPUs that they must be able to make do with
        """
        if number == len(self._classes):
            yield ()
            return
        after = self._classes[number + 1:]
        least_after = sum(self.levels[levels[-1]].least * members
                          for members, levels in after)
        most_after = sum(self.levels[levels[0]].most * members
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
    ) -> Iterator[tuple[Spread, int, int]]:
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
            _class, _room, least, most = self.levels[number]
            if most * nodes < at_least:
                # On levels after it nodes only take less.
                return
            others = range(number + 1, levels.stop)
            utmost = self.levels[number + 1].most if others else 0
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

    def _loss(self, spread: Spread, is_bound: bool = False) -> SaleValue:
        """What a spread sells, or a bound for it, below 0."""
        left: list[int] = []
        for number, nodes in spread:
            room = self.levels[number].room
            if room:
                left += [room] * nodes
        alone = tuple(
            fit.spread([cells[room] for room in left], size.cells)
            for size, cells in zip(self._sizes, self._cells_in))
        mixed = (
            capacity.mix_bound(sum(left), alone, self._sizes, self._weights)
            if is_bound else sum(capacity.mix(
                list(map(fit.Room, left)), self._sizes, self._weights)))
        return -mixed, -sum(
            guests * size.guest_vcpus * weight for guests, size, weight
            in zip(alone, self._sizes, self._weights)), *(
                -guests for guests in alone)

    def _levels_left(self, node_class: int, spread: Spread) -> list[
            tuple[int, Spread, int, int]]:
        """The levels that a spread allows a class, and what each leaves.

        :returns: (level, nodes left, CPUs that those take at least, and at
            most)
        """
        found = []
        for index, (level, nodes) in enumerate(spread):
            if self.levels[level].node_class == node_class:
                left = (*spread[:index], *([(level, nodes - 1)] * (nodes > 1)),
                        *spread[index + 1:])
                found.append((
                    level, left,
                    sum(self.levels[number].least * count
                        for number, count in left),
                    sum(self.levels[number].most * count
                        for number, count in left)))
        return found


def _sums(parts: Iterable[int], most: int) -> list[int]:
    """All sums of parts, each taken any number of times, largest first."""
    sums = 1
    for part in parts:
        for _time in range(most // part):
            sums |= sums << part
    return [total for total in range(most, -1, -1) if sums >> total & 1]
