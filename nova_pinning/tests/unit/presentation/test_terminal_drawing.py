# SPDX-License-Identifier: Apache-2.0

import itertools
import textwrap

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import presentation
from nova_pinning.tests.unit import unit_base


def text(lines):
    return '\n'.join(map(presentation.plain, lines)) + '\n'


def split_cores(count, threads):
    """Cores whose threads have ids far apart, as on most servers."""
    return tuple(tuple(range(core, count * threads, count))
                 for core in range(count))


class TestSymbols(oslotest.BaseTestCase):

    def test_order(self):
        names = list(itertools.islice(presentation.symbols(), 64))
        self.assertEqual(list('ABC'), names[:3])
        self.assertEqual(list('Zab'), names[25:28])
        self.assertEqual(['z', '0', '9'], [names[51], names[52], names[61]])
        self.assertEqual(['AA', 'AB'], names[62:])

    def test_no_name_twice(self):
        names = list(itertools.islice(presentation.symbols(), 1000))
        self.assertEqual(1000, len(set(names)))


class TestDrawCells(oslotest.BaseTestCase):

    def test_sibling_threads_stand_below_each_other(self):
        a = presentation.TextTile('A', 'guest:0')
        lines = presentation.draw_cells(
            [presentation.DrawnCell('cell 0', split_cores(4, 2))],
            {1: a, 5: a, 2: presentation.FREE, 6: presentation.FREE,
             3: presentation.FLOATING, 7: presentation.FLOATING})
        self.assertEqual(textwrap.dedent("""\
            cell 0
              CPUs 0-3 # A . ~
              CPUs 4-7 # A . ~
            """), text(lines))

    def test_marks(self):
        lines = presentation.draw_cells(
            [presentation.DrawnCell('cell 0', ((0, 1),))],
            {0: presentation.TextTile('A', 'guest:0')})
        self.assertEqual(
            [[('cell 0', 'title')],
             [('  CPUs 0', 'label'), (' ', ''), ('A', 'guest:0')],
             [('  CPUs 1', 'label'), (' ', ''), ('#', 'kept')]],
            [[tuple(span) for span in line] for line in lines])

    def test_neighbouring_ids(self):
        cores = tuple((cpu, cpu + 1) for cpu in range(0, 8, 2))
        lines = presentation.draw_cells(
            [presentation.DrawnCell('cell 0', cores)], {})
        self.assertEqual(textwrap.dedent("""\
            cell 0
              CPUs 0-6:2 # # # #
              CPUs 1-7:2 # # # #
            """), text(lines))

    def test_too_wide(self):
        lines = presentation.draw_cells(
            [presentation.DrawnCell('cell 0', split_cores(6, 2))], {},
            width=20)
        self.assertEqual(textwrap.dedent("""\
            cell 0
              CPUs 0-3   # # # #
              CPUs 6-9   # # # #
              CPUs 4-5   # #
              CPUs 10-11 # #
            """), text(lines))

    def test_much_too_narrow(self):
        lines = presentation.draw_cells(
            [presentation.DrawnCell('cell 0', split_cores(2, 1))], {}, width=1)
        self.assertEqual(textwrap.dedent("""\
            cell 0
              CPUs 0 #
              CPUs 1 #
            """), text(lines))

    def test_caches_are_kept_together(self):
        cell = presentation.DrawnCell('cell 0', split_cores(6, 1), (2, 2, 2))
        wide = textwrap.dedent("""\
            cell 0
              CPUs 0-5 # # | # # | # #
            """)
        self.assertEqual(wide, text(presentation.draw_cells([cell], {}, 26)))
        self.assertEqual(textwrap.dedent("""\
            cell 0
              CPUs 0-3 # # | # #
              CPUs 4-5 # #
            """), text(presentation.draw_cells([cell], {}, 25)))
        # No room for a whole one: as if there were none.
        self.assertEqual(textwrap.dedent("""\
            cell 0
              CPUs 0 #
              CPUs 1 #
              CPUs 2 #
              CPUs 3 #
              CPUs 4 #
              CPUs 5 #
            """), text(presentation.draw_cells([cell], {}, 11)))

    def test_missing_thread(self):
        lines = presentation.draw_cells(
            [presentation.DrawnCell('cell 0', ((0, 2), (1,), (3, 4)))], {})
        self.assertEqual(textwrap.dedent("""\
            cell 0
              CPUs 0-1,3 # # #
              CPUs 2,4   #   #
            """), text(lines))

    def test_ids_without_order(self):
        ids = [3, 5, 6, 10, 12, 13, 20, 22, 25, 27, 30]
        lines = presentation.draw_cells(
            [presentation.DrawnCell('', tuple((cpu,) for cpu in ids))], {})
        self.assertEqual('  CPUs 3...30 # # # # # # # # # # #',
                         presentation.plain(lines[1]))

    def test_symbols_of_two_characters(self):
        lines = presentation.draw_cells(
            [presentation.DrawnCell('', ((0,), (1,), (2,)))],
            {0: presentation.TextTile('AA'), 1: presentation.TextTile('B'),
             2: presentation.FREE})
        self.assertEqual('  CPUs 0-2 AA B  .', presentation.plain(lines[1]))

    def test_no_cpus(self):
        lines = presentation.draw_cells([presentation.DrawnCell('cell 0', ())],
                                        {})
        self.assertEqual('cell 0\n  no CPUs\n', text(lines))

    @unit_base.settings(max_examples=200)
    @hypothesis.given(
        strategies.integers(1, 200), strategies.sampled_from([1, 2, 4, 8]),
        strategies.booleans(), strategies.integers(40, 200))
    def test_every_cpu_once_and_no_line_too_long(
        self, count, threads, split, width,
    ):
        if split:
            cores = split_cores(count, threads)
        else:
            cores = tuple(
                tuple(range(core * threads, (core + 1) * threads))
                for core in range(count))
        tiles = {cpu: presentation.TextTile('A', str(cpu))
                 for core in cores for cpu in core}
        lines = presentation.draw_cells([presentation.DrawnCell('', cores)],
                                        tiles, width)
        drawn = sorted(int(span.mark) for line in lines for span in line
                       if span.mark.isdigit())
        self.assertEqual(list(range(count * threads)), drawn)
        for line in lines:
            self.assertLessEqual(len(presentation.plain(line)), width)
