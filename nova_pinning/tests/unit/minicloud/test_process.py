# SPDX-License-Identifier: Apache-2.0

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from unittest import mock

from minicloud import errors
from minicloud import process
from nova_pinning.tests import ports
from nova_pinning.tests.unit.minicloud import minicloud_case


class TestProcess(minicloud_case.DirectoryTestCase):

    def setUp(self):
        super().setUp()
        self.path = self.directory
        self.record = self.path / 'one.json'
        self.log = self.path / 'one.log'
        self.addCleanup(process.stop, self.record, 1)

    def start(self, code, record=None):
        """Start Python code and wait until it has printed a line."""
        made = process.start(
            [sys.executable, '-u', '-c', code], record or self.record,
            self.log, 'digest', dict(os.environ))
        while not self.log.read_text().endswith('\n') and made.alive():
            pass
        return made

    FOREVER = 'import signal; print("ready"); signal.pause()'

    def test_start_and_stop(self):
        made = self.start(self.FOREVER)
        self.assertTrue(made.alive())
        self.assertEqual(made, process.read(self.record))
        self.assertEqual(made.pid, os.getpgid(made.pid))
        self.assertTrue(process.stop(self.record))
        self.assertFalse(made.alive())
        self.assertFalse(self.record.exists())

    def test_stop_twice(self):
        self.start(self.FOREVER)
        self.assertTrue(process.stop(self.record))
        self.assertFalse(process.stop(self.record))

    def test_stop_one_that_does_not_listen(self):
        made = self.start(
            'import signal\n'
            'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
            'print("ready")\n'
            'while True: signal.pause()')
        self.assertTrue(process.stop(self.record, 0.1))
        self.assertFalse(made.alive())

    def test_stop_also_ends_children(self):
        self.start(
            'import signal, subprocess, sys\n'
            'child = subprocess.Popen([sys.executable, "-c", '
            '"import signal; signal.pause()"])\n'
            'print(child.pid)\n'
            'signal.pause()')
        child = int(self.log.read_text())
        self.assertIsNotNone(process.start_ticks(child))
        process.stop(self.record)
        # Its new parent may take a moment to collect it.
        while pathlib.Path(f'/proc/{child}').exists():
            if process.start_ticks(child) is None:
                break

    def test_pid_used_again(self):
        # This very process has that pid, but is not what was started.
        self.record.write_text(json.dumps(
            {'pid': os.getpid(), 'start_ticks': 1, 'made_from': ''}))
        self.assertFalse(process.read(self.record).alive())
        self.assertFalse(process.stop(self.record))

    def test_zombie_is_not_alive(self):
        child = subprocess.Popen([sys.executable, '-c', ''])
        self.addCleanup(child.wait)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assertIsNone(process.start_ticks(child.pid))

    def test_first_thread_ends_before_the_others(self):
        # The kernel may end the threads of a process in any order, and the
        # last one closes its ports.
        port = ports.free()
        made = self.start(
            'import ctypes, os, socket, threading\n'
            f'server = socket.create_server(("127.0.0.1", {port}))\n'
            'def stay():\n'
            '    stat = f"/proc/{os.getpid()}/stat"\n'
            '    while ") Z " not in open(stat).read(): pass\n'
            '    print("ready")\n'
            '    threading.Event().wait()\n'
            'threading.Thread(target=stay, daemon=True).start()\n'
            # pthread_exit() without what Python would do before.
            'libc = ctypes.CDLL(None)\n'
            'libc.pthread_exit(None)')
        self.assertTrue(made.alive())
        self.assertTrue(process.stop(self.record, 0))
        self.assertFalse(made.alive())
        with socket.socket() as mine:
            mine.bind(('127.0.0.1', port))

    def test_what_cannot_be_killed(self):
        made = self.start(self.FOREVER)
        self.addCleanup(os.waitpid, made.pid, 0)
        self.addCleanup(os.kill, made.pid, signal.SIGKILL)
        with mock.patch.multiple(
                process, _signal=mock.DEFAULT, KILL_SECONDS=0.0):
            error = self.assertRaises(
                errors.MiniCloudError, process.stop, self.record, 0)
        self.assertIn(f'its processes are {made.pid}', str(error))
        # For the next try.
        self.assertEqual(made, process.read(self.record))

    def test_killed_behind_our_back(self):
        made = self.start(self.FOREVER)
        os.kill(made.pid, signal.SIGKILL)
        os.waitpid(made.pid, 0)
        self.assertFalse(process.stop(self.record))
        self.assertFalse(self.record.exists())

    def test_killed_behind_our_back_with_children_left(self):
        made = self.start(
            'import signal, subprocess, sys\n'
            'child = subprocess.Popen([sys.executable, "-c", '
            '"import signal; signal.pause()"])\n'
            'print(child.pid)\n'
            'signal.pause()')
        child = int(self.log.read_text())
        os.kill(made.pid, signal.SIGKILL)
        os.waitpid(made.pid, 0)
        self.assertIsNotNone(process.start_ticks(child))
        self.assertTrue(process.stop(self.record))
        self.assertIsNone(process.start_ticks(child))

    def test_group_of_others(self):
        # They have the number of a group that was ours once.
        other = subprocess.Popen(
            [sys.executable, '-c', 'import signal; signal.pause()'],
            start_new_session=True)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        self.record.write_text(json.dumps(
            {'pid': other.pid, 'start_ticks': 1, 'made_from': ''}))
        self.assertFalse(process.stop(self.record))
        self.assertIsNotNone(process.start_ticks(other.pid))

    def test_no_such_program(self):
        error = self.assertRaises(
            errors.MiniCloudError, process.start, ['no-such-program'],
            self.record, self.log, '', {})
        self.assertIn('no-such-program is not installed', str(error))
        self.assertIn('minicloud deps', str(error))
        self.assertFalse(self.record.exists())

    def test_unreadable_record(self):
        for text in ('', '{', '[]', '{"pid": 1}'):
            self.record.write_text(text)
            self.assertIsNone(process.read(self.record))
            self.assertFalse(process.stop(self.record))

    def test_log_of_the_run_before(self):
        for number in (1, 2):
            self.start(f'print("run {number}")')
            process.stop(self.record)
        self.assertEqual('run 2\n', self.log.read_text())
        self.assertEqual('run 1\n', (self.path / 'one.log.1').read_text())

    def test_tail(self):
        self.log.write_text(''.join(f'line {n}\n' for n in range(99)))
        tail = process.tail(self.log, 2)
        self.assertEqual(
            f'The end of {self.log}:\n  line 97\n  line 98', tail)
        self.assertEqual('', process.tail(self.path / 'none'))
