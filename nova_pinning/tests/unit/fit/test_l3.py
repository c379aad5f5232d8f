# SPDX-License-Identifier: Apache-2.0
"""L3 domains that CPU numbers tell, and what they cost a guest."""

import dataclasses

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning.fit import score
from nova_pinning import model
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base


@dataclasses.dataclass(frozen=True)
class Machine:
    """Cells with cores in L3 domains, of which some threads are sold.

    :param rounds: whether the numbers of cores go round the cells
    :param siblings: where the next thread of a core is: beside it, or after
        all cores of the host or of the cell
    """

    cells: int
    domains: int
    cores: int
    threads: int
    rounds: bool
    siblings: str
    sold: tuple[bool, ...]

    def cpu(self, cell, core, thread):
        """The number of a CPU.

        :param core: its number within the cell
        """
        of_cell = self.domains * self.cores
        number = (core * self.cells + cell if self.rounds
                  else cell * of_cell + core)
        if self.siblings == 'beside':
            return number * self.threads + thread
        if self.siblings == 'after the host':
            return thread * of_cell * self.cells + number
        return (cell * self.threads + thread) * of_cell + core

    def lists(self):
        """For each cell its cores, those with CPUs that are sold."""
        sold = iter(self.sold)
        return [
            [core for core in [
                {self.cpu(cell, core, thread)
                 for thread in range(self.threads) if next(sold)}
                for core in range(self.domains * self.cores)] if core]
            for cell in range(self.cells)]

    def places(self):
        """For each CPU of the machine its cell, and its core there."""
        return {self.cpu(cell, core, thread): (cell, core)
                for cell in range(self.cells)
                for core in range(self.domains * self.cores)
                for thread in range(self.threads)}


@strategies.composite
def _machines(draw):
    cells = draw(strategies.integers(1, 4))
    domains = draw(strategies.integers(1, 3))
    cores = draw(strategies.integers(1, 4))
    threads = draw(strategies.sampled_from([1, 2, 2, 4]))
    rounds = draw(strategies.booleans())
    siblings = ['beside', 'after the host'] + ['after the cell'] * (not rounds)
    sold = []
    how = [[True] * threads, [False] * threads, None]
    for _core in range(cells * domains * cores):
        sold += draw(strategies.sampled_from(how)) or draw(strategies.lists(
            strategies.booleans(), min_size=threads, max_size=threads))
    return Machine(cells, domains, cores, threads, rounds,
                   draw(strategies.sampled_from(siblings)), tuple(sold))


def _can_be_told(machine, cores, others):
    """Whether what is sold of a cell and of others tells all about it."""
    if max(len(core) for cell in (cores, *others) for core in cell
           ) < machine.threads:
        return False
    if machine.cells == 1 or not machine.rounds:
        return True
    places = machine.places()

    def numbers(cell):
        return [place * machine.cells + number for core in cell
                for number, place in [places[min(core)]]]

    own = numbers(cores)
    return any(min(other) < max(own) and min(own) < max(other)
               for other in map(numbers, filter(None, others)))


def _cores(firsts, *offsets):
    return [{first + offset for offset in (0, *offsets)} for first in firsts]


class TestL3Domains(oslotest.BaseTestCase):

    def _domains(self, cores, cpus_per_domain, *others):
        """The domains as sets of CPUs, whatever their numbers."""
        domain_of = score.l3_domains(cores, cpus_per_domain, others)
        self.assertEqual(
            {cpu for core in cores for cpu in core}, set(domain_of))
        return sorted(
            sorted(cpu for cpu, domain in domain_of.items() if domain == one)
            for one in set(domain_of.values()))

    @unit_base.settings(1000)
    @hypothesis.given(_machines())
    def test_any_machine(self, machine):
        """No two domains are taken for one, and none for two."""
        places = machine.places()
        lists = machine.lists()
        for number, cores in enumerate(lists):
            others = lists[:number] + lists[number + 1:]
            if not cores or not _can_be_told(machine, cores, others):
                continue
            found = score.l3_domains(
                cores, machine.cores * machine.threads, others)
            self.assertEqual(
                {cpu for core in cores for cpu in core}, set(found))
            pairs = {(domain, places[cpu][1] // machine.cores)
                     for cpu, domain in found.items()}
            for side in zip(*pairs):
                self.assertEqual(len(pairs), len(set(side)), pairs)

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

    def test_cells_in_turns(self):
        """Two sockets of which one has the even cores, one the odd ones."""
        for start in 0, 1:
            self.assertEqual(
                [[*range(n, n + 16, 2), *range(n + 32, n + 48, 2)]
                 for n in (start, start + 16)],
                self._domains(_cores(range(start, 32, 2), 32), 16,
                              _cores(range(1 - start, 32, 2), 32)))

    def test_every_other_core_sold(self):
        """That is not what cores look like that alternate between cells."""
        for cores, others, expected in (
                # Both cells, or one of them.
                (_cores(range(0, 16, 2), 32), [_cores(range(17, 32, 2), 32)],
                 [[0, 2, 4, 6, 32, 34, 36, 38],
                  [8, 10, 12, 14, 40, 42, 44, 46]]),
                (_cores(range(0, 16, 2), 16), [],
                 [[0, 2, 4, 6, 16, 18, 20, 22],
                  [8, 10, 12, 14, 24, 26, 28, 30]]),
                # Neighbours are siblings.
                (_cores(range(0, 32, 4), 1), [],
                 [[0, 1, 4, 5, 8, 9, 12, 13],
                  [16, 17, 20, 21, 24, 25, 28, 29]]),
                # Second threads come after all cores of the cell.
                (_cores(range(0, 16, 2), 16), [_cores(range(33, 48, 2), 16)],
                 [[0, 2, 4, 6, 16, 18, 20, 22],
                  [8, 10, 12, 14, 24, 26, 28, 30]]),
                # Cores do alternate, and every other one of a cell is sold.
                (_cores(range(0, 32, 4), 32), [_cores(range(1, 32, 4), 32)],
                 [[0, 4, 8, 12, 32, 36, 40, 44],
                  [16, 20, 24, 28, 48, 52, 56, 60]])):
            self.assertEqual(expected, self._domains(cores, 16, *others))

    def test_groups_of_cells_in_turns(self):
        """Two sockets of two cells, the sockets one after the other."""
        cells = [_cores(range(start, start + 16, 2), 32)
                 for start in (0, 1, 16, 17)]
        self.assertEqual(
            [[1, 3, 5, 7, 33, 35, 37, 39], [9, 11, 13, 15, 41, 43, 45, 47]],
            self._domains(cells[1], 8, cells[0], *cells[2:]))

    def test_cells_without_cpus_for_guests(self):
        """They count among the cells that numbers go round."""
        cells = [_cores(range(start, 64, 4)) for start in range(3)]
        self.assertEqual(
            [list(range(n + 1, n + 16, 4)) for n in range(0, 64, 16)],
            self._domains(cells[1], 4, cells[0], [], cells[2]))

    def test_a_thread_kept_for_the_host(self):
        """CPU 64, whose sibling 0 is not listed, is near 65 all the same."""
        self.assertEqual(
            [[*range(1, 8), *range(64, 72)],
             [*range(8, 16), *range(72, 80)]],
            self._domains([{64}, *_cores(range(1, 16), 64)], 16))

    def test_a_thread_kept_of_each_core(self):
        """The other cell shows that there are two."""
        self.assertEqual(
            [[0, 2, 17, 19], [4, 6, 21, 23]],
            self._domains([{0}, {17}, {2}, {19}, {4}, {21}, {6}, {23}], 8,
                          _cores(range(8, 16), 16)))

    def test_sibling_lists_in_any_order(self):
        cores = _cores(range(16), 16)
        self.assertEqual(
            self._domains(cores, 16), self._domains(cores[::-1], 16))

    def test_the_same_cpus_twice(self):
        self.assertEqual(
            [[0, 1]], self._domains([{0, 1}, {0, 1}], 2))


class TestCost(oslotest.BaseTestCase):
    """What a guest on CPUs 0 to 5, in domains of 4 CPUs, is said to cost."""

    FIT = model.CellFit(0, tuple((cpu, cpu) for cpu in range(6)))

    def cost(self, is_exclusive=True, **values):
        cell = builders.host_cell(0, range(16), **values)
        return score.l3_cost(score.l3_domains(cell.cores, 4), cell, self.FIT,
                             is_exclusive)

    def test_alone(self):
        for is_exclusive in (False, True):
            self.assertEqual(2, self.cost(is_exclusive))

    def test_others_who_are_pinned(self):
        for pinned, cost in (([6], 4), ([8], 2), ([3, 6, 8], 6)):
            self.assertEqual(cost, self.cost(pinned_cpus=pinned))
            self.assertEqual(2, self.cost(False, pinned_cpus=pinned))

    def test_others_who_float(self):
        """Though nothing tells whether anybody does right now."""
        for shared, cost in (([6, 7], 4), ([8], 2), ([3, 6], 6)):
            values = {'shared_cpus': shared,
                      'dedicated_cpus': set(range(16)) - set(shared)}
            self.assertEqual(cost, self.cost(**values))
            self.assertEqual(2, self.cost(False, **values))

    def test_where_all_cpus_are_for_both(self):
        for floating, cost in ((0, 2), (1, 6)):
            self.assertEqual(cost, self.cost(
                shared_cpus=range(16), shared_used=floating))

    def test_no_lists_of_cores(self):
        cell = builders.host_cell(0, range(16), cores=(), pinned_cpus=[9])
        self.assertEqual({}, score.l3_domains(cell.cores, 4))
        self.assertEqual(3, score.l3_cost({}, cell, self.FIT, True))
