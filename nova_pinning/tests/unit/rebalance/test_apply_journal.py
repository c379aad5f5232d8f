# SPDX-License-Identifier: Apache-2.0
"""What is written down of moves, whatever becomes of the writer."""

import datetime
import errno
import os
from unittest import mock

import fixtures
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.rebalance import apply_journal

NOW = datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.UTC)


class TestJournal(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'plan.journal')

    def journal(self, plan='sha256:1'):
        return apply_journal.ApplyJournal(self.path, plan, lambda: NOW)

    def text(self):
        with open(self.path, encoding='utf-8') as file:
            return file.read()

    def test_lines(self):
        with self.journal() as journal:
            journal.write('asked', move=3, guest='g')
            self.assertIsNone(journal.last(2, 'asked'))
        self.assertEqual(
            '{"at": "2026-01-31T12:00:00.000000Z", "event": "begun", '
            '"version": 1, "plan": "sha256:1"}\n'
            '{"at": "2026-01-31T12:00:00.000000Z", "event": "asked", '
            '"move": 3, "guest": "g"}\n', self.text())
        with self.journal() as journal:
            self.assertEqual('g', journal.last(3, 'asked', 'ended')['guest'])
            self.assertIsNone(journal.last(3, 'ended'))
            self.assertEqual(2, len(journal.entries))

    def test_one_at_a_time(self):
        with self.journal():
            error = self.assertRaises(errors.InputError, self.journal)
            self.assertIn('another process is carrying this plan out',
                          str(error))
        self.journal().close()

    def test_another_plan(self):
        self.journal().close()
        error = self.assertRaises(errors.InputError, self.journal, 'sha256:2')
        self.assertIn('journal of another plan', str(error))
        self.journal().close()

    def test_cut_off_anywhere(self):
        """A line is there as a whole or not at all."""
        with self.journal() as journal:
            journal.write('asked', move=0)
        text = self.text()
        for end in range(len(text)):
            with open(self.path, 'w', encoding='utf-8') as file:
                file.write(text[:end])
            with self.journal() as journal:
                self.assertEqual(
                    1, len(journal.entries), end)
                journal.write('asked', move=0)
            self.assertEqual(text, self.text(), end)

    def test_odd_lines(self):
        for line in ('x', '[]', '{}', '{"event": 3}', '[' * 100_000):
            with open(self.path, 'w', encoding='utf-8') as file:
                file.write(f'{{"event": "begun", "version": 1, '
                           f'"plan": "sha256:1"}}\n{line}\n')
            error = self.assertRaises(errors.InputError, self.journal)
            self.assertIn('plan.journal:2: is not a line of a journal',
                          str(error))
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write('{"event": "begun", "version": 2}\n')
        error = self.assertRaises(errors.InputError, self.journal)
        self.assertIn('is of version 2, not 1', str(error))

    def test_full_disk(self):
        with self.journal() as journal:
            before = self.text()
            write = os.write

            def half(descriptor, data):
                write(descriptor, data[:10])
                raise OSError(errno.ENOSPC, 'No space left on device')

            with mock.patch('os.write', half):
                error = self.assertRaises(
                    errors.InputError, journal.write, 'asked', move=1)
            self.assertIn('cannot be written: No space left', str(error))
            self.assertEqual(before, self.text())
            self.assertIsNone(journal.last(1, 'asked'))

    def test_no_directory(self):
        self.path = '/nowhere/plan.journal'
        error = self.assertRaises(errors.InputError, self.journal)
        self.assertIn('cannot be written: No such file', str(error))
