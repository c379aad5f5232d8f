# SPDX-License-Identifier: Apache-2.0

import io

from oslotest import base

from minicloud import progress
from minicloud import service


class Output(io.StringIO):

    def __init__(self, tty):
        super().__init__()
        self.tty = tty

    def isatty(self):
        return self.tty


class TestProgress(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.now = 0.0

    def progress(self, tty=False):
        self.output = Output(tty)
        # Nobody looks but the test.
        return progress.Progress('ready', self.output, lambda: self.now)

    def part(self, name):
        part = service.Part(None, None)
        part.name = name
        return part

    def said(self):
        """Return what was written since the last time."""
        text = self.output.getvalue()
        self.output.seek(0)
        self.output.truncate()
        return text

    def test_parts(self):
        shown, a, b = self.progress(), self.part('a'), self.part('b')
        shown.started(a)
        shown.started(b)
        self.assertEqual('', self.said())
        self.now = 1.5
        shown.ended(a)
        self.assertEqual(['a', 'ready', '1.5', 's'], self.said().split())
        shown.look()
        self.assertEqual('', self.said())

    def test_no_long_silence_in_a_log(self):
        """Nor a line each second."""
        shown, a = self.progress(), self.part('a')
        shown.started(a)
        told = []
        for second in range(200):
            self.now = float(second)
            shown.look()
            if text := self.said():
                self.assertEqual(f'waiting for a ({second} s)\n', text)
                told.append(second)
        self.assertEqual([2, 6, 14, 30, 60, 90, 120, 150, 180], told)
        shown.ended(a)
        self.said()
        shown.started(a)
        self.now += 2
        shown.look()
        self.assertEqual('waiting for a (2 s)\n', self.said())

    def test_terminal(self):
        shown, a = self.progress(tty=True), self.part('a')
        shown.started(a)
        for second in (0, 1):
            self.now = float(second)
            shown.look()
            self.assertEqual(f'\r\x1b[Kwaiting for a ({second} s)',
                             self.said())
        shown.ended(a)
        self.assertTrue(self.said().startswith('\r\x1b[Ka '))
        shown.look()
        self.assertEqual('', self.said())

    def test_what_a_part_is_at(self):
        shown, a = self.progress(), self.part('a')
        shown.started(a)
        a.detail = 'started again'
        self.now = 3.0
        shown.look()
        self.assertEqual('waiting for a (3 s: started again)\n', self.said())
        shown.ended(a)
        self.assertEqual('a ready 3.0 s: started again',
                         ' '.join(self.said().split()))

    def test_no_part(self):
        shown = self.progress()
        with shown.doing('something', lambda: 'half of it'):
            self.assertEqual('something ...\n', self.said())
            self.now = 3.0
            shown.look()
            self.assertEqual('waiting for something (3 s: half of it)\n',
                             self.said())
        self.now = 30.0
        shown.look()
        self.assertEqual('', self.said())

    def test_what_fails_is_not_waited_for(self):
        shown = self.progress()
        with self.assertRaisesRegex(ValueError, 'no'):
            with shown.doing('something'):
                raise ValueError('no')
        self.said()
        self.now = 30.0
        shown.look()
        self.assertEqual('', self.said())

    def test_ends(self):
        with self.progress() as shown:
            self.assertTrue(shown._thread.is_alive())
        self.assertFalse(shown._thread.is_alive())
