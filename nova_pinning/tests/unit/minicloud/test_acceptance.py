# SPDX-License-Identifier: Apache-2.0
"""The fixture of the acceptance tests."""

import io
import sys
from unittest import mock

from oslotest import base

from nova_pinning.tests.acceptance import minicloud_runner


class TestMiniCloud(base.BaseTestCase):

    def calls(self, failing=''):
        """Use the fixture.

        :returns: the commands of minicloud that were called
        """
        called = []

        def run(command, statuses):
            called.append(command[2])
            if command[2] == failing:
                raise AssertionError(failing)
            return '{}'

        with (mock.patch.object(minicloud_runner, '_run', side_effect=run),
              mock.patch.object(minicloud_runner, '_show', side_effect=run)):
            try:
                with minicloud_runner.MiniCloud():
                    pass
            except Exception as e:
                self.assertIn(failing, str(e))
        return called

    def test_taken_down(self):
        self.assertEqual(['up', 'env', 'down'], self.calls())
        self.assertEqual(['up', 'env', 'down'], self.calls('env'))

    def test_nothing_is_done_in_silence(self):
        program = 'print("a"); print("b"); raise SystemExit(1)'
        said = io.StringIO()
        with mock.patch.object(sys, '__stderr__', said):
            self.assertEqual('a\nb\n', minicloud_runner._show(
                [sys.executable, '-c', program], (1,)))
            error = self.assertRaises(
                AssertionError, minicloud_runner._run,
                [sys.executable, '-c', program], (0,))
        self.assertIn('ended with status 1, not 0', str(error))
        first, *shown, last = said.getvalue().splitlines()
        self.assertEqual(['    a', '    b'], shown)
        for line in (first, last):
            self.assertRegex(line, r'^\[ *\d+ s\] .*print')

    def test_one_that_was_there_before(self):
        # What fails to come up cleans up itself, or is not ours.
        self.assertEqual(['up'], self.calls('up'))
