# SPDX-License-Identifier: Apache-2.0

import itertools
import re
from xml.etree import ElementTree

import fixtures
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning.presentation import drawing
from nova_pinning.presentation import guest_drawing
from nova_pinning.presentation import terminal_drawing
from nova_pinning.tests.unit.presentation import drawings
from nova_pinning.tests.unit import unit_base

_PINNED = drawing.TileStyle.PINNED
_FREE, _FLOATING, _KEPT = (
    drawing.Tile(style, guest_drawing.SIGNS[style]) for style in (
        drawing.TileStyle.FREE, drawing.TileStyle.FLOATING,
        drawing.TileStyle.KEPT))


def drawn(cores, tiles=None, caches=()):
    """A drawing of one cell.

    :param tiles: by CPU, others are kept for the host
    :param caches: how many cores share each
    """
    members = [drawing.DrawnCore(core, '') for core in cores]
    ends = list(itertools.accumulate(caches or [len(members)]))
    node = drawing.DrawnNode(0, '', 1024, tuple(
        drawing.DrawnCache('', tuple(members[first:last]))
        for first, last in zip([0, *ends], ends)) if members else ())
    return drawing.Drawing('', hosts=(drawing.DrawnHost(
        'host', (drawing.DrawnSocket('socket 0', (node,)),),
        (drawing.DrawnState('', dict.fromkeys(
            (cpu for core in cores for cpu in core), _KEPT)
            | (tiles or {})),)),))


def text(*args, width=80, **values):
    """The lines below the cell's name."""
    return '\n'.join(drawings.plain(drawn(*args, **values), width)[1:]) + '\n'


def split_cores(count, threads):
    """Cores whose threads have ids far apart, as on most servers."""
    return tuple(tuple(range(core, count * threads, count))
                 for core in range(count))


class TestCores(oslotest.BaseTestCase):

    def test_sibling_threads_stand_below_each_other(self):
        a = drawing.Tile(_PINNED, 'A')
        self.assertEqual(
            '  CPUs 0-3 # A . ~\n'
            '  CPUs 4-7 # A . ~\n', text(split_cores(4, 2), {
                1: a, 5: a, 2: _FREE, 6: _FREE, 3: _FLOATING, 7: _FLOATING}))

    def test_neighbouring_ids(self):
        self.assertEqual(
            '  CPUs 0-6:2 # # # #\n'
            '  CPUs 1-7:2 # # # #\n',
            text([(cpu, cpu + 1) for cpu in range(0, 8, 2)]))

    def test_too_wide(self):
        self.assertEqual(
            '  CPUs 0-3   # # # #\n'
            '  CPUs 6-9   # # # #\n'
            '  CPUs 4-5   # #\n'
            '  CPUs 10-11 # #\n', text(split_cores(6, 2), width=20))

    def test_much_too_narrow(self):
        self.assertEqual('  CPUs 0 #\n  CPUs 1 #\n',
                         text(split_cores(2, 1), width=4))

    def test_caches_are_kept_together(self):
        cores = split_cores(6, 1)
        for width, lines in (
                (26, ['  CPUs 0-5 # # | # # | # #']),
                (25, ['  CPUs 0-3 # # | # #', '  CPUs 4-5 # #']),
                # No room for a whole one: as if there were none.
                (11, [f'  CPUs {cpu} #' for cpu in range(6)])):
            shown = text(cores, width=width, caches=(2, 2, 2)).splitlines()
            self.assertEqual(lines, shown[:len(lines)])
            self.assertRegex(shown[len(lines)], r'^  \| between')

    def test_missing_thread(self):
        self.assertEqual(
            '  CPUs 0-1,3 # # #\n'
            '  CPUs 2,4   #   #\n', text([(0, 2), (1,), (3, 4)]))

    def test_ids_without_order(self):
        ids = [3, 5, 6, 10, 12, 13, 20, 22, 25, 27, 30]
        self.assertEqual('  CPUs 3...30 # # # # # # # # # # #\n',
                         text([(cpu,) for cpu in ids]))

    def test_signs_of_two_characters(self):
        self.assertEqual(
            '  CPUs 0-2 AA  B  .\n', text([(0,), (1,), (2,)], {
                0: drawing.Tile(_PINNED, 'AA'), 1: drawing.Tile(_PINNED, 'B'),
                2: _FREE}))

    def test_no_cpus(self):
        self.assertEqual('  no CPUs, so no NUMA cell of a guest\n', text([]))

    @unit_base.settings(max_examples=100)
    @hypothesis.given(
        strategies.integers(1, 200), strategies.sampled_from([1, 2, 4, 8]),
        strategies.booleans(), strategies.integers(40, 200))
    def test_every_cpu_once_and_no_line_too_long(
        self, count, threads, split, width,
    ):
        cores = split_cores(count, threads) if split else tuple(
            tuple(range(core * threads, (core + 1) * threads))
            for core in range(count))
        tiles = {cpu: drawing.Tile(_PINNED, f'v{cpu}')
                 for core in cores for cpu in core}
        lines = text(cores, tiles, width=width).splitlines()
        self.assertEqual(
            list(range(count * threads)),
            sorted(int(sign) for line in lines
                   for sign in re.findall(r'v(\d+)', line)))
        for line in lines:
            self.assertLessEqual(len(line), width)


class TestSvg(oslotest.BaseTestCase):

    def _texts(self, svg):
        """The lines without blanks, of which a picture needs no more."""
        found = {}
        for element in ElementTree.fromstring(svg).iter():
            if element.tag.endswith('}text'):
                found.setdefault(element.get('y'), []).append(element.text)
        return [self._signs(''.join(texts)) for texts in found.values()]

    def _signs(self, line):
        return ''.join(line.split())

    def test_it_is_what_a_terminal_shows(self):
        for shown in (drawn([]), drawn(split_cores(6, 2), {1: _FREE}),
                      drawn(split_cores(90, 2), caches=[9] * 10)):
            self.assertEqual(
                list(map(self._signs, drawings.plain(shown, 120))),
                self._texts(terminal_drawing.svg(shown)))

    def test_it_stands_alone(self):
        title = '<script>alert(1)</script> & {x}'
        svg = terminal_drawing.svg(drawing.Drawing(title))
        for word in ('<script', 'href', '@import', '<image', '@font-face'):
            self.assertNotIn(word, svg)
        self.assertEqual({'http://www.w3.org/2000/svg'},
                         set(re.findall(r'https?://[^"\s<]+', svg)))
        root = ElementTree.fromstring(svg)
        self.assertEqual(
            title, root.find('{http://www.w3.org/2000/svg}title').text)
        self.assertEqual([self._signs(title)], self._texts(svg))

    def test_colours_do_not_hang_on_the_environment(self):
        pinned = drawn([(0,)], {0: drawing.Tile(_PINNED, 'A')})
        with fixtures.EnvironmentVariable('NO_COLOR', '1'):
            svg = terminal_drawing.svg(pinned)
        self.assertEqual(svg, terminal_drawing.svg(pinned))
        self.assertIn('#87d787', svg)
