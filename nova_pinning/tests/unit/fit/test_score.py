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

"""Scores, against selling guests one by one until no more fits."""

import dataclasses
import functools
import itertools

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fit import score
from nova_pinning import model
from nova_pinning.model import PagePool
from nova_pinning.model import ThreadPolicy
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders

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
        sold = fit.fit(builders.host(cell), guest)
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


_SIZES = strategies.builds(
    score.Size, strategies.integers(1, 5),
    strategies.sampled_from([2, 512, 1024, 3072]),
    strategies.sampled_from([PREFER, REQUIRE]),
    strategies.sampled_from([None, None, 4, 2048, model.PAGES_SMALL]))


class TestStranded(oslotest.BaseTestCase):

    @base.settings(200)
    @hypothesis.given(_cells(), _SIZES)
    def test_against_selling_one_by_one(self, cell, size):
        self.assertEqual(
            _stranded(cell, size), score.stranded(score.stock(cell), size))

    @base.settings(80)
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
        found = fit.fit(builders.host(cell), guest)
        hypothesis.assume(found)
        self.assertEqual(
            score.stock(_with(cell, found.cells[0], gib * 1024)),
            score.stock(cell, found.cells[0], gib * 1024))

    def test_stock(self):
        cell = builders.host_cell(
            0, range(12), 4, pinned_cpus=[4, 8, 9, 10],
            shared_cpus=range(12), memory_mib=1000, memory_used_mib=400)
        self.assertEqual(
            score.Stock(free=8, paired=7, whole_cores=1, threads=4,
                        memory_kib={0: 600 * 1024}), score.stock(cell))

    def test_cores_without_threads_are_not_whole(self):
        """An empty sibling list is no core that could be sold."""
        cell = builders.host_cell(0, range(2), cores=((0,), (), (1,)))
        self.assertEqual(2, score.stock(cell).whole_cores)

    def test_pages_of_several_sizes(self):
        """A guest that takes any large pages can take those of each size."""
        cell = builders.host_cell(0, range(8), pages=(
            PagePool(4, 1048576), PagePool(2048, 2048),
            PagePool(1048576, 4)))
        for wanted in (model.PAGES_LARGE, model.PAGES_ANY):
            size = score.Size(1, 2048, PREFER, wanted)
            self.assertEqual(
                _stranded(cell, size),
                score.stranded(score.stock(cell), size), wanted)

    def test_no_size_at_all(self):
        left = score.stock(builders.host_cell(0, range(4)))
        self.assertEqual(4, score.stranded(left, score.Size(0, 0)))

    def test_more_memory_used_than_there_is(self):
        left = score.stock(builders.host_cell(
            0, range(4), memory_mib=1024, memory_used_mib=4096))
        self.assertEqual(4, score.stranded(left, score.Size(1, 1024)))
        self.assertEqual(0, score.stranded(left, score.Size(1, 0)))

    def test_isolate_needs_whole_cores(self):
        left = score.stock(builders.host_cell(
            0, range(8), 2, pinned_cpus=[0], shared_cpus=range(8)))
        # The other threads of their cores are taken too.
        self.assertEqual(
            7 - 4, score.stranded(left, score.Size(2, 1, ISOLATE)))
        self.assertEqual(7, score.stranded(left, score.Size(4, 1, ISOLATE)))

    def test_isolate_takes_whole_cores(self):
        cell = builders.host_cell(0, range(8), 2, shared_cpus=range(8))
        guest = builders.guest((2, 1), thread_policy=ISOLATE)
        found = fit.fit(builders.host(cell), guest)
        left = score.stock(cell, found.cells[0], 1, is_isolated=True)
        self.assertEqual((4, 2), (left.free, left.whole_cores))

    def test_isolate_is_never_sold_beside_shared_cpus(self):
        """Nova does not fit it on threads of a dedicated set."""
        left = score.stock(builders.host_cell(0, range(8), 2))
        self.assertEqual(8, score.stranded(left, score.Size(1, 1, ISOLATE)))


class TestGrowth(oslotest.BaseTestCase):

    @base.settings(80)
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
        found = fit.fit(builders.host(*cells), guest)
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

    @base.settings(80)
    @hypothesis.given(
        strategies.tuples(_cells(0), _cells(1), _cells(2)),
        strategies.integers(1, 4),
        strategies.builds(
            score.Size, strategies.integers(1, 3),
            strategies.sampled_from([512, 1024]),
            strategies.sampled_from([PREFER, REQUIRE]),
            cells=strategies.integers(1, 4)))
    def test_guests_of_several_cells(self, cells, vcpus, size):
        """They are sold to the whole host, however the cells are paired."""
        guest = builders.guest((vcpus, 512))
        found = fit.fit(builders.host(*cells), guest)
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
        found = fit.fit(builders.host(*cells), guest)
        mix = [(score.Size(8, 1024, cells=2), 1.0)]
        self.assertEqual(14.0, score.fragmentation_growth(
            guest, cells[:1], found, mix, cells[1:]))

    def test_taking_what_was_stranded_shrinks_it(self):
        # 8 CPUs of which only every second is free: no room for "require".
        cell = builders.host_cell(
            0, range(8), 2, pinned_cpus=[0, 2, 4, 6])
        guest = builders.guest((2, 1024))
        found = fit.fit(builders.host(cell), guest)
        mix = [(score.Size(2, 1024, REQUIRE), 1.0)]
        self.assertEqual(-2.0, score.fragmentation_growth(
            guest, [cell], found, mix))

    def test_nothing_on_sale(self):
        cell = builders.host_cell(0, range(8))
        guest = builders.guest((2, 1024))
        found = fit.fit(builders.host(cell), guest)
        self.assertEqual(0.0, score.fragmentation_growth(
            guest, [cell], found, []))


def _cores(firsts, *offsets):
    return [{first + offset for offset in (0, *offsets)} for first in firsts]


class TestL3Domains(oslotest.BaseTestCase):

    def _domains(self, cores, cpus_per_domain):
        """The domains as sets of CPUs, whatever their numbers."""
        domain_of = score.l3_domains(cores, cpus_per_domain)
        self.assertEqual(
            {cpu for core in cores for cpu in core}, set(domain_of))
        return sorted(
            sorted(cpu for cpu, domain in domain_of.items() if domain == one)
            for one in set(domain_of.values()))

    def test_unknown_is_one_domain(self):
        self.assertEqual(
            [[0, 1, 2, 64, 65, 66]],
            self._domains(_cores(range(3), 64), None))

    def test_no_cores(self):
        for cores in ([], [set()]):
            for cpus in (None, 16):
                self.assertEqual([], self._domains(cores, cpus))

    def test_layouts(self):
        def both(*firsts, offset):
            return sorted([*firsts, *(cpu + offset for cpu in firsts)])

        for name, cores, cpus_per_domain, expected in (
                # AMD EPYC, 16 CPUs to an L3: 8 cores and their siblings.
                ('1 x 64 cores', _cores(range(64), 64), 16,
                 [both(*range(n, n + 8), offset=64)
                  for n in range(0, 64, 8)]),
                ('socket 0 of 2 x 64 cores', _cores(range(64), 128), 16,
                 [both(*range(n, n + 8), offset=128)
                  for n in range(0, 64, 8)]),
                ('socket 1 of 2 x 64 cores', _cores(range(64, 128), 128), 16,
                 [both(*range(n, n + 8), offset=128)
                  for n in range(64, 128, 8)]),
                ('NPS4, node 1', _cores(range(16, 32), 128), 16,
                 [both(*range(n, n + 8), offset=128) for n in (16, 24)]),
                # Zen 2: 4 cores to an L3.
                ('8 CPUs to an L3', _cores(range(8, 16), 64), 8,
                 [both(*range(n, n + 4), offset=64) for n in (8, 12)]),
                ('no SMT', _cores(range(8)), 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
                # Arm, POWER and others number siblings one after the other.
                ('adjacent siblings', _cores(range(0, 32, 2), 1), 8,
                 [list(range(n, n + 8)) for n in range(0, 32, 8)]),
                ('four adjacent siblings', _cores(range(0, 32, 4), 1, 2, 3),
                 16, [list(range(16)), list(range(16, 32))]),
                # Two sockets whose cores are numbered in turns.
                ('even CPUs', _cores(range(0, 32, 2), 32), 16,
                 [both(*range(n, n + 16, 2), offset=32) for n in (0, 16)]),
                ('odd CPUs', _cores(range(1, 32, 2), 32), 16,
                 [both(*range(n, n + 16, 2), offset=32) for n in (1, 17)]),
                # Cores kept for the host leave their place empty.
                ('first cores kept', _cores(range(2, 16), 64), 16,
                 [both(*range(2, 8), offset=64),
                  both(*range(8, 16), offset=64)]),
                ('cores kept of each domain',
                 _cores([1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15], 64),
                 16, [both(*range(1, 8), offset=64),
                      both(*range(9, 16), offset=64)]),
                ('a whole domain kept', _cores(range(8, 24), 64), 16,
                 [both(*range(8, 16), offset=64),
                  both(*range(16, 24), offset=64)]),
                ('one core left', _cores([12], 64), 16, [[12, 76]]),
                ('more to a domain than there are', _cores(range(4), 4), 64,
                 [[0, 1, 2, 3, 4, 5, 6, 7]]),
                ('less to a domain than a core', _cores(range(2), 2), 1,
                 [[0, 2], [1, 3]])):
            self.assertEqual(
                expected, self._domains(cores, cpus_per_domain), name)

    def test_a_thread_kept_for_the_host(self):
        """CPU 64, whose sibling 0 is not listed, is near 65 all the same."""
        self.assertEqual(
            [[*range(1, 8), *range(64, 72)],
             [*range(8, 16), *range(72, 80)]],
            self._domains([{64}, *_cores(range(1, 16), 64)], 16))

    def test_sibling_lists_in_any_order(self):
        cores = _cores(range(16), 16)
        self.assertEqual(
            self._domains(cores, 16), self._domains(cores[::-1], 16))

    def test_the_same_cpus_twice(self):
        self.assertEqual(
            [[0, 1]], self._domains([{0, 1}, {0, 1}], 2))
