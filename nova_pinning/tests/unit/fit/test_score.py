# SPDX-License-Identifier: Apache-2.0
"""Scores, against selling guests one by one until no more fits."""

import dataclasses
import functools
import itertools
import math
import statistics

import hypothesis
from hypothesis import strategies
from nova import weights as nova_weights
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fit import score
from nova_pinning import model
from nova_pinning.model import PagePool
from nova_pinning.model import ThreadPolicy
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

PREFER, REQUIRE, ISOLATE = ThreadPolicy


def _with(cell, cell_fit, memory_mib):
    """The host cell once the guest cell is on it."""
    taken = cpuset.CpuSet(
        [cpu for _vcpu, cpu in cell_fit.pins] + [*cell_fit.emulator_cpus])
    size = cell_fit.page_size_kib or (
        cell.smallest_pages.size_kib if cell.pages else None)
    return dataclasses.replace(
        cell,
        pinned_cpus=cell.pinned_cpus | taken,
        memory_used_mib=cell.memory_used_mib + memory_mib,
        pages=tuple(
            pool._replace(used=pool.used + memory_mib * 1024 // size)
            if pool.size_kib == size else pool for pool in cell.pages))


def _stranded(cell, size):
    """Free CPUs left after selling guests of this size until none fits."""
    guest = builders.guest((size.vcpus, size.memory_mib, size.page_size_kib),
                           thread_policy=size.thread_policy)
    while True:
        sold = fit.fit_guest(builders.host(cell), guest)
        if not sold:
            return cell.free_count
        cell = _with(cell, sold.cells[0], size.memory_mib)


def _most_guests(cells, size):
    """Guests of several cells that a host takes, by trying all sets."""
    rooms = tuple(
        (cell.free_count - _stranded(cell, size)) // size.vcpus
        for cell in cells)

    @functools.cache
    def most(rooms):
        best = 0
        for chosen in itertools.combinations(range(len(rooms)), size.cells):
            if all(rooms[place] for place in chosen):
                best = max(best, 1 + most(tuple(
                    room - (place in chosen)
                    for place, room in enumerate(rooms))))
        return best

    return most(rooms)


@strategies.composite
def _cells(draw, number=0):
    threads = draw(strategies.sampled_from([1, 2]))
    cpus = range(100 * number, 100 * number +
                 threads * draw(strategies.integers(1, 8)))
    pages = draw(strategies.sampled_from([(), (4,), (4, 2048)]))
    return builders.host_cell(
        number, cpus, threads,
        pinned_cpus=draw(strategies.sets(strategies.sampled_from(cpus))),
        memory_mib=8192,
        memory_used_mib=draw(strategies.integers(0, 9)) * 1024,
        pages=tuple(
            PagePool(size, 4 * 1048576 // size,
                     draw(strategies.integers(0, 4)) * 1048576 // size,
                     draw(strategies.integers(0, 1)) * 524288 // size)
            for size in pages))


_WEIGHTS = strategies.one_of(
    strategies.integers(-10 ** 9, 10 ** 9).map(float),
    strategies.floats(-1e9, 1e9), strategies.sampled_from([-1.0, -2.0, -3.0]))
_SIZES = strategies.builds(
    fit.Size, strategies.integers(1, 5),
    strategies.sampled_from([2, 512, 1024, 3072]),
    strategies.sampled_from([PREFER, REQUIRE]),
    strategies.sampled_from([None, None, 4, 2048, model.PAGES_SMALL]),
    strategies.just(1), strategies.just(()))


class TestStranded(oslotest.BaseTestCase):

    @unit_base.settings(200)
    @hypothesis.given(_cells(), _SIZES)
    def test_against_selling_one_by_one(self, cell, size):
        self.assertEqual(
            _stranded(cell, size), fit.Room.of(cell).stranded(size))

    @unit_base.settings(80)
    @hypothesis.given(
        _cells(), strategies.integers(1, 4), strategies.integers(0, 2),
        strategies.sampled_from([PREFER, REQUIRE]),
        strategies.sampled_from([None, 4, 2048]), strategies.booleans())
    def test_stock_after_a_guest(
            self, cell, vcpus, gib, policy, page_size, emulator):
        """What is left is what a cell with the guest on it has."""
        guest = builders.guest(
            (vcpus, gib * 1024, page_size), thread_policy=policy,
            emulator_isolated=emulator)
        found = fit.fit_guest(builders.host(cell), guest)
        hypothesis.assume(found)
        self.assertEqual(
            fit.Room.of(_with(cell, found.cells[0], gib * 1024)),
            fit.Room.of(cell, found.cells[0], gib * 1024))

    def test_stock(self):
        cell = builders.host_cell(
            0, range(12), 4, pinned_cpus=[4, 8, 9, 10],
            shared_cpus=range(12), memory_mib=1000, memory_used_mib=400)
        self.assertEqual(
            fit.Room(cpus=8, paired=7, whole_cores=1, threads=4,
                     pools=((0, 600 * 1024),)), fit.Room.of(cell))

    def test_cores_without_threads_are_not_whole(self):
        """An empty sibling list is not a core that could be sold."""
        cell = builders.host_cell(0, range(2), cores=((0,), (), (1,)))
        self.assertEqual(2, fit.Room.of(cell).whole_cores)

    def test_pages_of_several_sizes(self):
        """A guest that takes any large pages can take those of each size."""
        cell = builders.host_cell(0, range(8), pages=(
            PagePool(4, 1048576), PagePool(2048, 2048),
            PagePool(1048576, 4)))
        for wanted in (model.PAGES_LARGE, model.PAGES_ANY):
            size = fit.Size(1, 2048, PREFER, wanted)
            self.assertEqual(
                _stranded(cell, size),
                fit.Room.of(cell).stranded(size), wanted)

    def test_no_size_at_all(self):
        left = fit.Room.of(builders.host_cell(0, range(4)))
        self.assertEqual(4, left.stranded(fit.Size(0, 0)))

    def test_more_memory_used_than_there_is(self):
        left = fit.Room.of(builders.host_cell(
            0, range(4), memory_mib=1024, memory_used_mib=4096))
        self.assertEqual(4, left.stranded(fit.Size(1, 1024)))
        self.assertEqual(0, left.stranded(fit.Size(1, 0)))

    def test_isolate_needs_whole_cores(self):
        left = fit.Room.of(builders.host_cell(
            0, range(8), 2, pinned_cpus=[0], shared_cpus=range(8)))
        # The other threads of their cores are taken too.
        self.assertEqual(
            7 - 4, left.stranded(fit.Size(2, 1, ISOLATE)))
        self.assertEqual(7, left.stranded(fit.Size(4, 1, ISOLATE)))

    def test_isolate_takes_whole_cores(self):
        cell = builders.host_cell(0, range(8), 2, shared_cpus=range(8))
        guest = builders.guest((2, 1), thread_policy=ISOLATE)
        found = fit.fit_guest(builders.host(cell), guest)
        left = fit.Room.of(cell, found.cells[0], 1, is_isolated=True)
        self.assertEqual((4, 2), (left.cpus, left.whole_cores))

    def test_isolate_is_never_sold_beside_shared_cpus(self):
        """Nova does not fit it on threads of a dedicated set."""
        left = fit.Room.of(builders.host_cell(0, range(8), 2))
        self.assertEqual(8, left.stranded(fit.Size(1, 1, ISOLATE)))


class TestGrowth(oslotest.BaseTestCase):

    @unit_base.settings(80)
    @hypothesis.given(
        strategies.tuples(_cells(0), _cells(1)),
        strategies.lists(
            strategies.tuples(strategies.integers(1, 3),
                              strategies.sampled_from([512, 1024])),
            min_size=1, max_size=2),
        strategies.sampled_from([PREFER, REQUIRE]), strategies.booleans(),
        strategies.lists(_SIZES, min_size=1, max_size=3, unique=True))
    def test_against_selling_one_by_one(
            self, cells, asked, policy, emulator, sizes):
        guest = builders.guest(
            *asked, thread_policy=policy, emulator_isolated=emulator)
        found = fit.fit_guest(builders.host(*cells), guest)
        hypothesis.assume(found)
        mix = [(size, 1 / len(sizes)) for size in sizes]
        expected = 0
        used = [cells[cell.host_cell] for cell in found.cells]
        for cell, cell_fit, (_vcpus, memory_mib) in zip(
                used, found.cells, asked):
            after = _with(cell, cell_fit, memory_mib)
            expected += sum(
                share * (_stranded(after, size) - _stranded(cell, size))
                for size, share in mix)
        self.assertAlmostEqual(expected, score.fragmentation_growth(
            guest, used, found, iter(mix)))

    @unit_base.settings(80)
    @hypothesis.given(
        strategies.tuples(_cells(0), _cells(1), _cells(2)),
        strategies.integers(1, 4),
        strategies.builds(
            fit.Size, strategies.integers(1, 3),
            strategies.sampled_from([512, 1024]),
            strategies.sampled_from([PREFER, REQUIRE]),
            strategies.none(), strategies.integers(1, 4),
            strategies.just(())))
    def test_guests_of_several_cells(self, cells, vcpus, size):
        """They are sold to the whole host, however the cells are paired."""
        guest = builders.guest((vcpus, 512))
        found = fit.fit_guest(builders.host(*cells), guest)
        hypothesis.assume(found)
        place = found.cells[0].host_cell
        after = list(cells)
        after[place] = _with(cells[place], found.cells[0], 512)
        cpus = size.vcpus * size.cells
        expected = -vcpus + cpus * (
            _most_guests(cells, size) - _most_guests(after, size))
        self.assertEqual(expected, score.fragmentation_growth(
            guest, [cells[place]], found, [(size, 1.0)],
            [cell for cell in cells if cell.id != place]))

    def test_the_last_pair_of_cells(self):
        """A guest that takes one of them strands the other too."""
        cells = [builders.host_cell(n, range(8 * n, 8 * n + 8))
                 for n in range(2)]
        guest = builders.guest((2, 1024))
        found = fit.fit_guest(builders.host(*cells), guest)
        mix = [(fit.Size(8, 1024, cells=2), 1.0)]
        self.assertEqual(14.0, score.fragmentation_growth(
            guest, cells[:1], found, mix, cells[1:]))

    def test_taking_what_was_stranded_shrinks_it(self):
        # 8 CPUs of which only every second is free: no room for "require".
        cell = builders.host_cell(
            0, range(8), 2, pinned_cpus=[0, 2, 4, 6])
        guest = builders.guest((2, 1024))
        found = fit.fit_guest(builders.host(cell), guest)
        mix = [(fit.Size(2, 1024, REQUIRE), 1.0)]
        self.assertEqual(-2.0, score.fragmentation_growth(
            guest, [cell], found, mix))

    def test_nothing_on_sale(self):
        cell = builders.host_cell(0, range(8))
        guest = builders.guest((2, 1024))
        found = fit.fit_guest(builders.host(cell), guest)
        self.assertEqual(0.0, score.fragmentation_growth(
            guest, [cell], found, []))


class TestCosts(oslotest.BaseTestCase):

    def test_no_free_cpus_outweigh_a_stranded_one(self):
        """Not the most that a cell of any host on sale could have."""
        self.assertLess(0, score.COST_OF_FREE_CPU)
        self.assertLess(512 * score.COST_OF_FREE_CPU, 1)

    def test_span(self):
        self.assertEqual(0.5, score.span(-1.0, -0.5))
        self.assertEqual(0.0, score.span(2.0, 2.0))
        self.assertEqual(0.75, score.span(-1.0, -0.5, 0.75))


class TestNormalized(oslotest.BaseTestCase):

    @unit_base.settings(300)
    @hypothesis.given(strategies.lists(_WEIGHTS, max_size=30),
                      strategies.sampled_from((0.0, 0.25)))
    def test_as_nova(self, weights, least_range):
        """As nova does where a weigher sets maxval, to the last bit."""
        worst = min(weights, default=0.0)
        self.assertEqual(
            list(nova_weights.normalize(
                weights, worst,
                max(max(weights, default=0.0), worst + least_range))),
            score.normalized(weights, least_range))
        # Which nova then leaves alone.
        found = score.normalized(weights, least_range)
        self.assertEqual(
            found, list(nova_weights.normalize(found, 0.0, 1.0)))

    @unit_base.settings(300)
    @hypothesis.given(
        strategies.lists(_WEIGHTS, min_size=1, max_size=9),
        strategies.lists(strategies.sampled_from(
            [score.UNFIT, score.UNKNOWN]), max_size=9),
        strategies.randoms(), strategies.sampled_from((0.0, 0.25)))
    def test_others_change_nothing(self, known, others, random, least_range):
        """Unfit hosts are as the worst, unknown ones as the average one."""
        weights = [*known, *others]
        random.shuffle(weights)
        alone = score.normalized(known, least_range)
        found = score.normalized(weights, least_range)
        self.assertEqual(
            sorted(alone), sorted(weight for weight, raw in zip(found, weights)
                                  if raw in known))
        for weight, raw in zip(found, weights):
            self.assertTrue(0.0 <= weight <= 1.0)
            if raw == score.UNFIT:
                self.assertEqual(0.0, weight)
            elif math.isnan(raw):
                self.assertEqual(statistics.fmean(alone), weight)

    def test_nothing_is_known(self):
        for weights in ([], [score.UNKNOWN], [score.UNFIT, score.UNKNOWN]):
            self.assertEqual([0.0] * len(weights), score.normalized(weights))

    def test_by_hand(self):
        self.assertEqual(
            [1.0, 0.5, 0.0, 0.5, 0.0],
            score.normalized(
                [-1.0, -2.0, -3.0, score.UNKNOWN, score.UNFIT]))
        self.assertEqual(
            [0.0, 0.5, 0.25], score.normalized(
                [1.0, 1.125, score.UNKNOWN], 0.25))
