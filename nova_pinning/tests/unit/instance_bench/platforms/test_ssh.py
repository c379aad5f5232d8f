# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import time

import ddt
import fixtures
import testtools

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import ssh

#: An ssh that leads to this host; it keeps its arguments.
PROGRAM = """#!/bin/sh
printf '%s\\n' "$@" >>{log}
[ -e {broken} ] && {{ echo 'Permission denied' >&2; exit 255; }}
while [ "$1" != -- ]; do
    [ "$1" = -O ] && exit 0
    shift
done
exec /bin/sh -c "$2"
"""


@ddt.ddt
class SshTestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        program = self.home / 'ssh'
        program.write_text(PROGRAM.format(
            log=self.home / 'log', broken=self.home / 'broken'))
        program.chmod(0o755)
        (self.home / 'work').mkdir()
        self.ssh = ssh.Ssh(
            ssh.SshTarget(address='192.0.2.1', key='/key',
                          program=str(program)),
            'one', work=str(self.home / 'work'),
            sleep=lambda seconds: os.sched_yield())
        self.addCleanup(self.ssh.close)

    def wait(self, job):
        # What ends it is not for this process to decide.
        job._process.wait()
        return job.poll()

    @ddt.data(
        ('echo a; echo b >&2', 0, 'a\n', 'b\n'),
        ('exit 3', 3, '', ''),
        ('kill -9 $$', -9, '', ''),
        ("printf %s '\"{}$ \\'", 0, '"{}$ \\', ''),
    )
    @ddt.unpack
    def test_outcome(self, command, status, stdout, stderr):
        outcome = self.wait(self.ssh.start(command))
        self.assertEqual((status, stdout), (outcome.status, outcome.stdout))
        # A shell may say that something was killed.
        self.assertEqual(stderr, outcome.stderr.removesuffix('Killed\n'))

    def test_running(self):
        fifo = self.home / 'fifo'
        os.mkfifo(fifo)
        job = self.ssh.start(f'read -r line <{fifo}; echo "$line"')
        self.assertIsNone(job.poll())
        fifo.write_text('go\n')
        self.assertEqual('go\n', self.wait(job).stdout)

    def test_stop_ends_children(self):
        fifo = self.home / 'fifo'
        os.mkfifo(fifo)
        job = self.ssh.start(f'(echo; exec sleep 1000) >{fifo} & wait')
        with open(fifo) as lines:
            lines.readline()
            begun = time.monotonic()
            job.stop()
            self.assertEqual('', lines.read())
        self.assertLess(time.monotonic() - begun, 60)
        self.assertIsNotNone(job._process.poll())

    def test_not_let_in(self):
        (self.home / 'broken').touch()
        error = self.assertRaises(
            bench_errors.InstanceError, self.ssh.await_ready, 0)
        self.assertIn('root@192.0.2.1 did not accept a login', str(error))
        self.assertIn('Permission denied', str(error))
        job = self.ssh.start('true')
        error = self.assertRaises(bench_errors.InstanceError, self.wait, job)
        self.assertIn('Permission denied', str(error))

    def test_options(self):
        self.ssh.await_ready(0)
        said = (self.home / 'log').read_text().splitlines()
        self.assertIn('-oBatchMode=yes', said)
        self.assertIn('-oIdentityFile=/key', said)
        self.assertIn('-oStrictHostKeyChecking=accept-new', said)

    def test_clock(self):
        reading = self.ssh.clock()
        self.assertLess(abs(reading.offset), reading.uncertainty + 0.001)

    def test_no_clock(self):
        (self.home / 'broken').touch()
        error = self.assertRaises(bench_errors.InstanceError, self.ssh.clock)
        self.assertIn('does not tell its time: Permission denied',
                      str(error))

    def test_close_can_be_repeated(self):
        self.ssh.close()
        self.ssh.close()
        self.assertFalse(self.ssh.directory.exists())

    def test_no_program(self):
        absent = ssh.Ssh(ssh.SshTarget(address='a', program='/nonexistent'),
                         'x')
        self.addCleanup(absent.close)
        self.assertRaises(bench_errors.InstanceError, absent.await_ready, 0)
        self.assertRaises(bench_errors.InstanceError, absent.start, 'true')
