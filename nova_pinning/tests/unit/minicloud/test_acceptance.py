# SPDX-License-Identifier: Apache-2.0
"""The fixture of the acceptance tests."""

import io
import os
import sys
from unittest import mock

from oslotest import base

from minicloud import progress
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

        with (mock.patch.object(minicloud_runner, 'run_command',
                                side_effect=run),
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
                AssertionError, minicloud_runner.run_command,
                [sys.executable, '-c', program], (0,))
        self.assertIn('ended with status 1, not 0', str(error))
        first, *shown, last = said.getvalue().splitlines()
        self.assertEqual(['    a', '    b'], shown)
        for line in (first, last):
            self.assertRegex(line, r'^\[ *\d+ s\] .*print')

    def test_what_takes_long_is_told_again(self):
        """The command ends when the second line about it was written."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        said = mock.Mock(**{'isatty.return_value': False})

        def write(text):
            if text.startswith('waiting for'):
                os.write(writing, b'x')

        said.write.side_effect = write
        self.addCleanup(os.close, writing)
        with (mock.patch.object(sys, '__stderr__', said),
              mock.patch.object(progress, 'SILENCE_SECONDS', 0),
              mock.patch.object(progress, 'TERMINAL_SECONDS', 0.01)):
            self.assertEqual('told\n', minicloud_runner.run_command(
                [sys.executable, '-c', 'import os, select, sys\n'
                 'fd = int(sys.argv[1])\n'
                 'if select.select([fd], [], [], 30)[0]: print("told")',
                 str(reading)], (0,), pass_fds=[reading]))

    def test_one_that_was_there_before(self):
        # What fails to come up cleans up itself, or is not ours.
        self.assertEqual(['up'], self.calls('up'))

    def test_no_point_in_waiting(self):
        cloud, reasons = minicloud_runner.MiniCloud(), iter(['', 'it is gone'])
        with mock.patch.object(minicloud_runner.time, 'sleep'):
            error = self.assertRaises(
                AssertionError, cloud.wait, lambda: False,
                lambda: next(reasons))
        self.assertEqual('it is gone', str(error))
        # It may have come all the same.
        cloud.wait(lambda: True, lambda: 'it is gone')


class TestWhyNotMoved(base.BaseTestCase):

    def why(self, status, *events, log=''):
        """Ask after a migration with these events, as nova's API has them.

        :param events: result, finish_time, details
        :param log: of the nova-compute that it leaves
        """
        bodies = {
            '/os-migrations?instance_uuid=guest': {'migrations': [{
                'migration_type': 'evacuation', 'instance_uuid': 'guest',
                'source_compute': 'one', 'dest_compute': 'two',
                'status': status}]},
            '/servers/guest/os-instance-actions': {
                'instanceActions': [{'request_id': 'req-1'}]},
            '/servers/guest/os-instance-actions/req-1': {
                'instanceAction': {'events': [
                    {'event': 'rebuild', 'host': 'two', 'result': result,
                     'finish_time': time, 'details': details}
                    for result, time, details in events]}}}
        return minicloud_runner.why_not_moved(
            bodies.__getitem__, {'nova-compute-one': log}.__getitem__, 'guest')

    def test_underway_or_done(self):
        for status in ('accepted', 'pre-migrating', 'running', 'done',
                       'completed'):
            self.assertEqual(
                '', self.why(status, ('Error', 'now', 'of another move')))

    def test_failed(self):
        for status in ('error', 'failed', 'cancelled'):
            self.assertEqual(
                f'evacuation of guest from one to two: {status}\n'
                'rebuild on two: no room',
                self.why(status, ('Success', 'now', None),
                         ('Error', 'now', 'no room')))

    def test_failed_behind_an_event(self):
        """What a live migration says when its thread fails is in the log."""
        self.assertEqual(
            'evacuation of guest from one to two: error\n'
            'one: now ERROR nova [None req-1] [instance: guest] No route',
            self.why('error', ('Success', 'now', None), log="""
now INFO nova [None req-1] [instance: guest] It begins
now ERROR nova [None req-1] [instance: guest] No route
now ERROR nova [instance: guest]   File "driver.py", line 1
now ERROR nova [None req-1] [instance: other] No disk
"""))

    def test_about_to_say_why(self):
        self.assertEqual('', self.why('failed', (None, None, None)))
