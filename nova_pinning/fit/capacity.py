# SPDX-License-Identifier: Apache-2.0
"""How many guests fit at once, exactly.

What a host has room for is given as the room of each of its NUMA nodes, and
guests as sizes. Nova puts each cell of a guest on its own node, and a
node takes cells while it has CPUs and memory for them. Thread policies are
for others to look at.

The figures are what can be placed at most. Guests of one cell and one size
get there in any order. With several sizes, or guests of several cells, it
takes the right order, or the right choice among nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence
import functools
import itertools
import math

from nova_pinning.fit import _sizing


# Ways to put guests on one node from which on a simple way is tried first.
_MANY_FILLINGS = 10000


def guests(rooms: Sequence[_sizing.Room], size: _sizing.Size) -> int:
    """How many guests of one size fit."""
    return _sizing.spread([room.takes(size) for room in rooms], size.cells)


def sale_order(weights: Sequence[int]) -> Iterator[int]:
    """An endless even sequence that follows the weights.

    The next is the one with the largest weight / (2 * times had + 1), the
    first of them if several are: the method of Webster and Sainte-Lague.

    :param weights: each 1 or more
    :returns: positions in weights
    """
    had = [0] * len(weights)
    while True:
        best = 0
        for index in range(1, len(weights)):
            if (weights[index] * (2 * had[best] + 1)
                    > weights[best] * (2 * had[index] + 1)):
                best = index
        had[best] += 1
        yield best


def mix(rooms: Sequence[_sizing.Room], sizes: Sequence[_sizing.Size],
        weights: Sequence[int]) -> tuple[int, ...]:
    """How many guests of each size fit, if they are sold as weights say.

    Guests are taken in the even sequence of :func:`order`, and what counts is
    its longest beginning that can be packed at once. A longer one never fits
    where a shorter one does not.
    """
    used = sorted((room for room in rooms if room.cpus), key=_key)
    return _mix(tuple(used), tuple(sizes), tuple(weights))


def mix_bound(cpus: int, alone: tuple[int, ...],
              sizes: tuple[_sizing.Size, ...],
              weights: tuple[int, ...]) -> int:
    """A number of guests that no mix exceeds, found in a moment.

    :param cpus: that there are
    :param alone: guests of each size that fit if there are no others
    """
    return len(_beginnings(cpus, alone, sizes, weights)) - 1 if sizes else 0


@functools.lru_cache(maxsize=4096)
def _beginnings(
    cpus: int, alone: tuple[int, ...], sizes: tuple[_sizing.Size, ...],
    weights: tuple[int, ...],
) -> Sequence[tuple[int, ...]]:
    """What may fit of an even sequence, by its number of guests.

    :param cpus: that there are
    :param alone: guests of each size that fit if there are no others
    """
    beginnings = [(0,) * len(sizes)]
    for index in sale_order(weights):
        counts = list(beginnings[-1])
        counts[index] += 1
        cpus -= sizes[index].guest_vcpus
        if counts[index] > alone[index] or cpus < 0:
            break
        beginnings.append(tuple(counts))
    return beginnings


@functools.lru_cache(maxsize=65536)
def _mix(rooms: tuple[_sizing.Room, ...], sizes: tuple[_sizing.Size, ...],
         weights: tuple[int, ...]) -> tuple[int, ...]:
    if not sizes:
        return ()
    beginnings = _beginnings(
        sum(room.cpus for room in rooms),
        tuple(guests(rooms, size) for size in sizes), sizes, weights)
    low, high = 0, len(beginnings) - 1
    while low < high:
        # What fits is mostly close to what could fit by the bounds above.
        middle = high if high - low < 4 else (low + 3 * high + 3) // 4
        if packs(rooms, sizes, beginnings[middle]):
            low = middle
        else:
            high = middle - 1
    return beginnings[low]


def packs(rooms: Sequence[_sizing.Room], sizes: Sequence[_sizing.Size],
          counts: Sequence[int]) -> bool:
    """Whether so many guests of each size fit at once."""
    ordered = sorted(
        ((size, count) for size, count in zip(sizes, counts) if count),
        key=lambda size_count: _rank(size_count[0]))
    if _is_chain(rooms, [size for size, _count in ordered]):
        return _chain_packs(rooms, ordered)
    return find_packing(rooms, sizes, counts) is not None


def find_packing(
    rooms: Sequence[_sizing.Room], sizes: Sequence[_sizing.Size],
    counts: Sequence[int],
) -> tuple[tuple[int, ...], ...] | None:
    """A way to have so many guests of each size at once.

    :returns: for each room the cells of each size that it takes, None if
        there is no way
    """
    order_of = sorted(
        (index for index, count in enumerate(counts) if count),
        key=lambda index: _rank(sizes[index]))
    places = sorted(range(len(rooms)), key=lambda index: _key(rooms[index]))
    fillings = _Packing([rooms[index] for index in places],
                        [sizes[index] for index in order_of],
                        [counts[index] for index in order_of]).find()
    if fillings is None:
        return None
    cells = [[0] * len(sizes) for _room in rooms]
    for room, filling in zip(places, fillings):
        for index, taken in zip(order_of, filling):
            cells[room][index] = taken
    return tuple(map(tuple, cells))


def _rank(size: _sizing.Size) -> tuple[int, int]:
    """A key by which the largest cells come first."""
    return -size.vcpus, -size.memory_mib


def _key(room: _sizing.Room) -> tuple[int, tuple[_sizing.PagePool, ...]]:
    return room.cpus, room.pools or ()


def _is_chain(rooms: Sequence[_sizing.Room],
              sizes: Sequence[_sizing.Size]) -> bool:
    """Whether only CPUs count, and each size divides the one before it."""
    return (all(size.cells == 1 for size in sizes)
            and not any(larger.vcpus % smaller.vcpus
                        for larger, smaller in zip(sizes, sizes[1:]))
            and not (any(size.memory_mib for size in sizes)
                     and any(room.pools is not None for room in rooms)))


def _chain_packs(rooms: Sequence[_sizing.Room],
                 sizes: Sequence[tuple[_sizing.Size, int]]) -> bool:
    """Whether sizes fit of which each divides the one before it.

    A larger guest takes a whole number of places for smaller ones, wherever
    it is put, so that counting places is enough.
    """
    taken = 0
    for size, count in sizes:
        taken += size.vcpus * count
        if taken > sum(room.cpus // size.vcpus
                       for room in rooms) * size.vcpus:
            return False
    return True


class _Packing:
    """A search for room for so many guests of each size.

    It fills one node after the other and keeps in mind what has been in vain.

    :param sizes: the largest cells first
    :param counts: guests of each size
    """

    def __init__(
        self, rooms: Sequence[_sizing.Room], sizes: Sequence[_sizing.Size],
        counts: Sequence[int],
    ) -> None:
        self._rooms = rooms
        self._sizes = sizes
        # No two cells of a guest go on one node.
        self._limits = tuple(counts)
        self._cells = tuple(size.cells * count
                            for size, count in zip(sizes, counts))
        self._vain: set[tuple[int, tuple[int, ...]]] = set()
        #: CPUs of each node and those after it.
        self._cpus_from = list(itertools.accumulate(
            (room.cpus for room in reversed(rooms)), initial=0))[::-1]

    def find(self) -> list[tuple[int, ...]] | None:
        """Cells of each size for each of the first nodes, None for no way."""
        if math.prod(count + 1 for count in self._cells) > _MANY_FILLINGS:
            simple = self._simple()
            if simple is not None:
                return simple
        fillings = self._place(0, self._cells)
        return fillings and fillings[::-1]

    def _simple(self) -> list[tuple[int, ...]] | None:
        """Put each cell, the largest first, where it leaves the fewest CPUs.

        Where many small guests are in the mix, that finds a way in a moment,
        and looking at all of them would take minutes.

        :returns: None if that leads nowhere, or cells go on several nodes
        """
        if any(size.cells > 1 for size in self._sizes):
            return None
        rooms = list(self._rooms)
        cells = [[0] * len(self._sizes) for _room in rooms]
        for index, size in enumerate(self._sizes):
            for _guest in range(self._cells[index]):
                best = min((number for number, room in enumerate(rooms)
                            if room.takes(size)), default=None,
                           key=lambda number: rooms[number].cpus)
                if best is None:
                    return None
                rooms[best] = _left(rooms[best], (size,), (1,))
                cells[best][index] += 1
        return list(map(tuple, cells))

    def _place(self, number: int,
               left: tuple[int, ...]) -> list[tuple[int, ...]] | None:
        """Place the cells that are left on a node and those after it.

        :returns: the last node first
        """
        if not any(left):
            return []
        if sum(cells * size.vcpus for cells, size
               in zip(left, self._sizes)) > self._cpus_from[number]:
            return None
        if number == len(self._rooms) or (number, left) in self._vain:
            return None
        nodes = len(self._rooms) - number
        if any(cells > nodes * limit
               for cells, limit in zip(left, self._limits)):
            return None
        most = tuple(map(min, left, self._limits))
        for filling in _fillings(self._rooms[number], tuple(self._sizes),
                                 most):
            fillings = self._place(number + 1, tuple(
                cells - taken for cells, taken in zip(left, filling)))
            if fillings is not None:
                fillings.append(filling)
                return fillings
        self._vain.add((number, left))
        return None


@functools.lru_cache(maxsize=65536)
def _fillings(room: _sizing.Room, sizes: tuple[_sizing.Size, ...],
              most: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The ways to fill a node to which nothing can be added.

    :param most: cells of each size
    :returns: cells of each size, those first that leave the fewest CPUs
    """
    fillings = []
    for filling in _some(room, sizes, most):
        left = _left(room, sizes, filling)
        if not any(taken < limit and left.takes(size)
                   for size, taken, limit in zip(sizes, filling, most)):
            fillings.append((left.cpus, filling))
    return tuple(filling for _left_cpus, filling in sorted(
        fillings, key=lambda candidate: (
            candidate[0], [-taken for taken in candidate[1]])))


def _some(room: _sizing.Room, sizes: Sequence[_sizing.Size],
          most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to fill a node, with as many cells of the last size as fit."""
    if not sizes:
        yield ()
        return
    fit = min(room.takes(sizes[0]), most[0])
    for taken in range(fit, -1 if len(sizes) > 1 else fit - 1, -1):
        for others in _some(_left(room, sizes[:1], (taken,)), sizes[1:],
                            most[1:]):
            yield taken, *others


def _left(room: _sizing.Room, sizes: Sequence[_sizing.Size],
          cells: Sequence[int]) -> _sizing.Room:
    """What a node has left beside so many cells of each size."""
    for size, count in zip(sizes, cells):
        room = room.without(size, count)
    return room
