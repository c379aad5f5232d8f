# SPDX-License-Identifier: Apache-2.0


import functools
import itertools
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning import model
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

Size = fit.Size

_SIZES = strategies.sampled_from([
    Size(1), Size(2), Size(3), Size(4), Size(1, cells=2), Size(2, cells=2),
    Size(1, cells=3), Size(1, 100), Size(2, 50), Size(2, 100, cells=2)])


def Room(cpus, memory_mib=None):
    return fit.Room(cpus, memory_mib if memory_mib is None
                    else ((0, memory_mib * 1024),))


def _memory_mib(room):
    return room.pools and room.pools[0][1] // 1024


# A guest without memory, which the engine knows not, has one part of a
# thousand, and each node a few such parts to spare.
_PARTS = 1000


def _guest(size):
    return builders.guest(*(
        (size.vcpus, size.memory_mib * _PARTS or 1)
        for _cell in range(size.cells)))


def _host(rooms):
    """A host whose nodes have just this room, as the engine sees it."""
    return [
        builders.host_cell(
            number, range(100 * number, 100 * number + room.cpus),
            memory_mib=(10 ** 6 if room.pools is None
                        else _memory_mib(room) * _PARTS + _PARTS - 1))
        for number, room in enumerate(rooms)]


def _engine_places(rooms, wanted):
    return _places(tuple(sorted(rooms)), tuple(wanted))


@functools.cache
def _places(rooms, wanted):
    """Whether the engine gets guests of these sizes onto a host somehow.

    Each guest is tried on every choice of nodes. What it takes is taken off
    the room of those nodes for the guests after it.
    """
    if not wanted:
        return True
    cells = _host(rooms)
    guest = _guest(wanted[0])
    for some in itertools.combinations(cells, len(guest.cells)):
        found = fit.fit_guest(model.Host(some), guest)
        if isinstance(found, model.Refusal):
            continue
        left = list(rooms)
        for cell in found.cells:
            room = left[cell.host_cell]
            left[cell.host_cell] = Room(
                room.cpus - len(cell.pins),
                room.pools and _memory_mib(room) - wanted[0].memory_mib)
        if _places(tuple(sorted(left)), wanted[1:]):
            return True
    return False


@strategies.composite
def _rooms(draw):
    has_memory = draw(strategies.booleans())
    return [
        Room(draw(strategies.integers(0, 6)),
             draw(strategies.integers(150, 400)) if has_memory else None)
        for _node in range(draw(strategies.integers(1, 3)))]


@ddt.ddt
class TestCapacity(oslotest.BaseTestCase):

    @unit_base.settings(max_examples=60)
    @hypothesis.given(_rooms(), _SIZES)
    def test_as_many_guests_as_the_engine_places(self, rooms, size):
        if rooms[0].pools is None:
            size = size._replace(memory_mib=0)
        count = capacity.guests(rooms, size)
        self.assertTrue(_engine_places(rooms, [size] * count))
        self.assertFalse(_engine_places(rooms, [size] * (count + 1)))

    def test_a_guest_without_memory_where_none_is_left(self):
        rooms = [Room(5, 150)]
        sizes = [Size(1), Size(1, 100), Size(2, 50)]
        self.assertTrue(_engine_places(rooms, sizes))
        self.assertTrue(_engine_places(rooms, sizes[::-1]))
        self.assertEqual((2, 1, 1), capacity.mix(rooms, sizes, [1, 1, 1]))

    @unit_base.settings(max_examples=60)
    @hypothesis.given(_rooms(), strategies.lists(
        _SIZES, min_size=1, max_size=3, unique=True), strategies.data())
    def test_as_long_a_mix_as_the_engine_places(self, rooms, sizes, data):
        if rooms[0].pools is None:
            sizes = list(dict.fromkeys(
                size._replace(memory_mib=0) for size in sizes))
        weights = [data.draw(strategies.integers(1, 4)) for _size in sizes]
        counts = capacity.mix(rooms, sizes, weights)
        order = list(itertools.islice(
            capacity.sale_order(weights), sum(counts) + 1))
        self.assertEqual(
            tuple(order[:-1].count(place) for place in range(len(sizes))),
            counts)
        wanted = [sizes[place] for place in order]
        self.assertTrue(_engine_places(rooms, wanted[:-1]))
        self.assertFalse(_engine_places(rooms, wanted))

    @unit_base.settings(max_examples=60)
    @hypothesis.given(_rooms(), strategies.lists(
        _SIZES, min_size=1, max_size=3), strategies.data())
    def test_a_packing_holds(self, rooms, sizes, data):
        counts = [data.draw(strategies.integers(0, 3)) for _size in sizes]
        found = capacity.find_packing(rooms, sizes, counts)
        self.assertEqual(capacity.packs(rooms, sizes, counts),
                         found is not None)
        if found is None:
            return
        for room, cells in zip(rooms, found):
            self.assertLessEqual(
                sum(size.vcpus * count
                    for size, count in zip(sizes, cells)), room.cpus)
            if room.pools is not None:
                self.assertLessEqual(
                    sum(size.memory_mib * count
                        for size, count in zip(sizes, cells)),
                    _memory_mib(room))
            # Else a guest would have two cells on a node.
            self.assertTrue(all(map(int.__le__, cells, counts)))
        for place, (size, count) in enumerate(zip(sizes, counts)):
            self.assertEqual(size.cells * count,
                             sum(cells[place] for cells in found))

    @unit_base.settings(max_examples=60)
    @hypothesis.given(_rooms(), strategies.lists(
        _SIZES, min_size=1, max_size=3, unique=True), strategies.data())
    def test_the_simple_way_changes_no_figure(self, rooms, sizes, data):
        counts = [data.draw(strategies.integers(0, 6)) for _size in sizes]
        fits = capacity.find_packing(rooms, sizes, counts) is not None
        with mock.patch.object(capacity, '_MANY_FILLINGS', 0):
            found = capacity.find_packing(rooms, sizes, counts)
        self.assertEqual(fits, found is not None)
        for room, cells in zip(rooms, found or ()):
            self.assertLessEqual(
                sum(size.vcpus * count
                    for size, count in zip(sizes, cells)), room.cpus)
        for place, (size, count) in enumerate(zip(sizes, counts)):
            self.assertEqual(size.cells * count if fits else 0,
                             sum(cells[place] for cells in found or ()))

    def test_many_sizes_on_large_nodes(self):
        """What would take minutes if all ways to fill a node were listed."""
        sizes = tuple(Size(vcpus) for vcpus in (2, 3, 4, 6, 8, 12))
        rooms = [Room(362), Room(384)]
        alone = tuple(capacity.guests(rooms, size) for size in sizes)
        self.assertEqual(capacity.mix_bound(746, alone, sizes, (1,) * 6),
                         sum(capacity.mix(rooms, sizes, [1] * 6)))

    def test_socket_of_its_own(self):
        """Both cores of the host from one socket leave room for one more."""
        self.assertEqual(
            9, capacity.guests([Room(36), Room(40)], Size(8)))
        self.assertEqual(
            8, capacity.guests([Room(38), Room(38)], Size(8)))

    @ddt.data(([70, 30], [0, 1, 0, 0, 0, 1, 0, 0, 1, 0]),
              ([1, 1, 1], [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]),
              ([5], [0] * 10),
              ([1, 9], [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]))
    @ddt.unpack
    def test_order(self, weights, expected):
        self.assertEqual(expected, list(itertools.islice(
            capacity.sale_order(weights), 10)))

    @unit_base.settings(max_examples=50)
    @hypothesis.given(strategies.lists(
        strategies.integers(1, 9), min_size=1, max_size=4))
    def test_an_order_follows_its_weights(self, weights):
        total = sum(weights)
        had = list(itertools.islice(capacity.sale_order(weights), total))
        self.assertEqual(weights, [
            had.count(place) for place in range(len(weights))])

    def test_large_hosts(self):
        """What would take ages if equal nodes were told apart."""
        rooms = [Room(14)] * 24
        sizes = [Size(6), Size(4), Size(12, cells=2)]
        self.assertEqual(72, capacity.guests(rooms, Size(4)))
        counts = capacity.mix(rooms, sizes, [5, 3, 2])
        self.assertTrue(capacity.packs(rooms, sizes, counts))
        more = list(counts)
        more[next(itertools.islice(
            capacity.sale_order([5, 3, 2]), sum(counts), None))] += 1
        self.assertFalse(capacity.packs(rooms, sizes, more))
