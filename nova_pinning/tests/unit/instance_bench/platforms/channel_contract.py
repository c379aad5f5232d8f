# SPDX-License-Identifier: Apache-2.0
"""What each way into a guest does; the guest is this host."""

import os
import pathlib
from unittest import mock

import ddt
import fixtures

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import remote


@ddt.ddt
class ChannelContract:
    """Tests of a ``channel`` whose commands run in ``work``.

    They begin with :meth:`ended`, how a job that comes to its end ends.
    """

    def setUp(self):
        super().setUp()
        self.work = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.MockPatchObject(remote, 'WORK', self.work))

    @ddt.data(
        ('echo a; echo b >&2', 0, 'a\n', 'b\n'),
        ('exit 3', 3, '', ''),
        ('kill -9 $$', -9, '', ''),
        ('exit 255', 255, '', ''),
        ("printf %s '\"{}$ \\'", 0, '"{}$ \\', ''),
        ("printf '\none\n\n'", 0, '\none\n\n', ''),
        ("printf '1 2 3\n4 5\n'", 0, '1 2 3\n4 5\n', ''))
    @ddt.unpack
    def test_outcome(self, command, status, stdout, stderr):
        outcome = self.ended(self.channel.start(command))
        self.assertEqual((status, stdout), (outcome.status, outcome.stdout))
        # A shell may say that something was killed.
        self.assertEqual(stderr, outcome.stderr.removesuffix('Killed\n'))

    def test_syntax_error(self):
        outcome = self.ended(self.channel.start('if'))
        self.assertNotEqual(0, outcome.status)
        self.assertIn('yntax', outcome.stderr)

    def test_no_room(self):
        with mock.patch.object(remote, 'WORK', '/proc/none'):
            job = self.channel.start('true')
        error = self.assertRaises(
            bench_errors.InstanceError, self.ended, job)
        self.assertIn('could not be started', str(error))
        # Neither is anything left in memory.
        self.assertEqual([], [*pathlib.Path('/dev/shm').glob(
            f'nova-pinning-bench-{os.getpid()}-*')])

    def test_runs_in_work(self):
        self.assertEqual(f'{self.work}\n', self.ended(
            self.channel.start('pwd')).stdout)

    def test_end_of_long_output_is_kept(self):
        outcome = self.ended(self.channel.start(
            'head -c 5000000 /dev/zero | tr "\\0" x; echo end'))
        self.assertEqual(2 * 1024 * 1024, len(outcome.stdout))
        self.assertTrue(outcome.stdout.endswith('xend\n'))

    def fifo(self):
        path = pathlib.Path(self.work, 'fifo')
        os.mkfifo(path)
        return path

    def test_running(self):
        fifo = self.fifo()
        job = self.channel.start(f'read -r line <{fifo}; echo "$line"')
        self.assertIsNone(job.poll())
        fifo.write_text('go\n')
        self.assertEqual('go\n', self.ended(job).stdout)

    def test_clock(self):
        reading = self.channel.clock()
        self.assertLess(abs(reading.offset), reading.uncertainty + 0.001)
