# SPDX-License-Identifier: Apache-2.0

import io
import pathlib
import stat

import fixtures
from oslotest import base as oslotest
from rich import console as rich_console

from demo import outcome
from demo import report
from nova_pinning.tests.unit.demo import samples


class TestShow(oslotest.BaseTestCase):

    def show(self, result, width=80, **kwargs):
        file = io.StringIO()
        report.show(result, rich_console.Console(
            file=file, width=width, highlight=False, **kwargs))
        return file.getvalue()

    def test_without_colour(self):
        printed = self.show(samples.small_outcome())
        self.assertNotIn('\x1b', printed)
        for line in ('A  pinned    dedicated  host-d  0     1,5',
                     '~  floating  shared     host-s  any   any of 0-7',
                     '  CPUs 0-3 # A . .', '  CPUs 4-7 # A . .',
                     '  . free: 2-3,6-7', '  # kept for the host: 0,4',
                     '  CPUs 0-3 ~ ~ ~ ~',
                     '    are allowed',
                     '  Placement  4 left, 8 needed',
                     '  yes  one is refused'):
            self.assertIn(
                line + '\n',
                '\n'.join(told.rstrip()
                          for told in printed.splitlines()) + '\n')

    def test_failed_check(self):
        self.assertIn('NO', self.show(samples.small_outcome(held=False)))

    def test_colour_says_nothing_that_letters_do_not(self):
        coloured = self.show(samples.small_outcome(), force_terminal=True,
                             color_system='256')
        self.assertIn('\x1b[', coloured)
        plain = rich_console.Console(file=io.StringIO(), width=80)
        from rich import text
        plain.print(text.Text.from_ansi(coloured))
        self.assertEqual(
            self.show(samples.small_outcome()).split(),
            plain.file.getvalue().split())

    def test_width(self):
        for width in (80, 120):
            printed = self.show(samples.small_outcome(), width=width)
            for line in printed.splitlines():
                self.assertLessEqual(len(line), width)

    def test_nothing_to_show(self):
        self.assertIn('Did it come out', self.show(
            outcome.Outcome((), (), (), {})))


class TestFiles(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def test_guests(self):
        result = samples.small_outcome()
        report.write_guests(result, self.directory)
        floating, pinned = sorted(self.directory.iterdir())
        self.assertEqual(['floating.xml', 'pinned.xml'],
                         [floating.name, pinned.name])
        self.assertEqual(result.guests[0].xml, pinned.read_text())
        self.assertEqual(0o644, stat.S_IMODE(pinned.stat().st_mode))

    def test_new_directory(self):
        directory = self.directory / 'a' / 'b'
        report.check_directory(directory)
        self.assertEqual([], list(directory.iterdir()))

    def test_no_directory(self):
        path = self.directory / 'file'
        path.write_text('')
        self.assertRaises(OSError, report.check_directory, path)
        self.assertRaises(OSError, report.check_directory, path / 'below')
