# SPDX-License-Identifier: Apache-2.0


import errno
import os
import stat
import subprocess
import sys
import threading
from unittest import mock

import ddt
import fixtures

from nova_pinning.scheduler import metrics_files
from nova_pinning.tests.unit import unit_base

#: Only a test that fails waits for it.
_PATIENCE_S = 30


def dead_process():
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, '-S', '-c', ''])
    process.wait()
    return process.pid


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'metrics')
        os.mkdir(self.directory)
        self.state = 1
        self.made = []

    def _writer(self, interval_seconds=3600):
        return metrics_files.ProcessFileWriter(
            self.directory, interval_seconds, lambda: self.state, self._text)

    def _text(self, state):
        self.made.append(state)
        return f'state {state}\n'

    def _path(self, process=None):
        return os.path.join(
            self.directory, f'nova-pinning-{process or os.getpid()}.prom')

    def _read(self):
        with open(self._path()) as file:
            return file.read()

    def _touch(self, name):
        path = os.path.join(self.directory, name)
        with open(path, 'w'):
            pass
        return path


@ddt.ddt
class TestWrite(TestCase):

    def test_mode(self):
        before = os.umask(0o077)
        self.addCleanup(os.umask, before)
        self._writer().write()
        self.assertEqual(1, len(os.listdir(self.directory)))
        self.assertEqual('state 1\n', self._read())
        self.assertEqual(0o640, stat.S_IMODE(os.stat(self._path()).st_mode))

    def test_what_has_changed(self):
        writer = self._writer()
        writer.write()
        before = os.stat(self._path()).st_ino
        writer.write()
        self.assertEqual([1], self.made)
        self.assertEqual(before, os.stat(self._path()).st_ino)
        self.state = 2
        writer.write()
        self.assertEqual([1, 2], self.made)
        self.assertEqual('state 2\n', self._read())

    def test_a_directory_that_was_cleared(self):
        writer = self._writer()
        writer.write()
        os.unlink(self._path())
        writer.write()
        self.assertEqual('state 1\n', self._read())
        self.assertEqual([1, 1], self.made)

    def test_no_directory(self):
        os.rmdir(self.directory)
        writer = self._writer()
        with unit_base.log_records() as records:
            writer.write()
            writer.write()
        [record] = records
        self.assertEqual('ERROR', record.levelname)
        for text in (self._path(), 'No such file or directory',
                     'metrics_directory must exist'):
            self.assertIn(text, record.getMessage())

        os.mkdir(self.directory)
        with unit_base.log_records() as records:
            writer.write()
            writer.write()
        [record] = records
        self.assertEqual('INFO', record.levelname)
        self.assertIn(self.directory, record.getMessage())
        self.assertEqual('state 1\n', self._read())

    @ddt.data(
        ('os.fsync', errno.ENOSPC), ('os.replace', errno.EIO),
        ('tempfile.mkstemp', errno.EACCES), ('tempfile.mkstemp', errno.EROFS))
    @ddt.unpack
    def test_faults(self, where, number):
        """What was written before stays; nothing else is left behind."""
        writer = self._writer()
        writer.write()
        self.state = 2
        error = OSError(number, os.strerror(number))
        with unit_base.log_records() as records:
            with mock.patch(where, side_effect=error):
                writer.write()
                writer.write()
            self.assertEqual(1, len(records))
            self.assertIn(os.strerror(number), records[0].getMessage())
            self.assertEqual('state 1\n', self._read())
            self.assertEqual(1, len(os.listdir(self.directory)))
            with mock.patch(where, side_effect=OSError(5, 'odd')):
                writer.write()
            self.assertEqual(2, len(records))
            writer.write()
            self.assertEqual(3, len(records))
        self.assertEqual('state 2\n', self._read())

    def test_must_not_write(self):
        if os.geteuid() == 0:
            self.skipTest('root may write anywhere')
        os.chmod(self.directory, 0o500)
        self.addCleanup(os.chmod, self.directory, 0o700)
        with unit_base.log_records() as records:
            self._writer().write()
        self.assertIn('Permission denied', records[0].getMessage())

    def test_an_error_of_our_own(self):
        writer = self._writer()
        del self.state
        with unit_base.log_records() as records:
            writer.write()
            writer.write()
        [record] = records
        self.assertIn('AttributeError', record.getMessage())


class TestThread(TestCase):

    def test_writes_until_it_is_stopped(self):
        written = threading.Event()
        seen = []

        def state():
            seen.append(threading.current_thread().name)
            if len(seen) > 3:
                written.set()
            return len(seen)

        writer = metrics_files.ProcessFileWriter(
            self.directory, 0.001, state, str)
        writer.start()
        self.assertTrue(written.wait(_PATIENCE_S))
        writer.stop()
        self.assertEqual({'pinning-metrics'}, set(seen))
        count = len(seen)
        writer.write()
        self.assertEqual(count, len(seen))
        self.assertEqual([], os.listdir(self.directory))

    def test_a_disk_that_hangs(self):
        """nova-scheduler can still be stopped."""
        self.useFixture(fixtures.MockPatchObject(
            metrics_files, '_STOP_SECONDS', 0.01))
        is_writing, may_go_on = threading.Event(), threading.Event()

        def text(_state):
            is_writing.set()
            may_go_on.wait(_PATIENCE_S)
            return ''

        writer = metrics_files.ProcessFileWriter(
            self.directory, 3600, lambda: '1', text)
        writer.start()
        self.addCleanup(writer.stop)
        self.addCleanup(may_go_on.set)
        self.assertTrue(is_writing.wait(_PATIENCE_S))
        writer.stop()


@ddt.ddt
class TestSweep(TestCase):

    def setUp(self):
        super().setUp()
        self.dead = dead_process()

    def _leave(self):
        return [self._touch(name) for name in (
            f'nova-pinning-{self.dead}.prom',
            f'.nova-pinning-{self.dead}.prom.a_b1c2d3')]

    def test_what_the_dead_leave(self):
        self._leave()
        alive = {self._touch(f'nova-pinning-{process}.prom')
                 for process in (1, os.getpid(), os.getppid())}
        self.assertTrue(metrics_files.sweep(self.directory))
        self.assertEqual(alive, {
            os.path.join(self.directory, name)
            for name in os.listdir(self.directory)})

    @ddt.data('nova-pinning-{}.txt', 'nova-pinning-{}.prom.bak',
              'other-{}.prom', 'nova-pinning-0{}.prom', 'nova-pinning-.prom',
              'nova-pinning-{}{}{}{}{}.prom', 'nova-pinning-x{}.json',
              'nova-pinning-0.prom', 'nova-pinning-{}.prom\n',
              '.nova-pinning-{}.prom.', 'xnova-pinning-{}.prom')
    def test_what_is_not_ours_by_name(self, name):
        path = self._touch(name.replace('{}', f'{self.dead:05}'.lstrip('0')))
        metrics_files.sweep(self.directory)
        self.assertTrue(os.path.lexists(path))

    def test_what_is_not_ours(self):
        os.mkdir(self._path(self.dead))
        os.symlink('/etc/hosts', self._path(dead_process()))
        metrics_files.sweep(self.directory)
        self.assertEqual(2, len(os.listdir(self.directory)))

    def test_another_users(self):
        left = self._leave()
        with mock.patch('os.geteuid', return_value=os.geteuid() + 1):
            metrics_files.sweep(self.directory)
        self.assertEqual(len(left), len(os.listdir(self.directory)))

    def test_another_users_process(self):
        left = self._leave()
        with mock.patch('os.kill', side_effect=PermissionError):
            metrics_files.sweep(self.directory)
        self.assertEqual(len(left), len(os.listdir(self.directory)))

    def test_must_not_remove(self):
        self._leave()
        with mock.patch('os.unlink', side_effect=PermissionError):
            self.assertTrue(metrics_files.sweep(self.directory))

    def test_before_the_first_write(self):
        """Once there is a directory at all."""
        os.rename(self.directory, self.directory + '2')
        writer = self._writer()
        writer.write()
        os.rename(self.directory + '2', self.directory)
        self._leave()
        writer.write()
        self.assertEqual([os.path.basename(self._path())],
                         os.listdir(self.directory))
        left = self._leave()
        writer.write()
        self.assertEqual(1 + len(left), len(os.listdir(self.directory)))
