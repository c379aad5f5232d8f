# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import time

import fixtures
import testtools

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.platforms import ssh
from nova_pinning.tests.unit.instance_bench.platforms import channel_contract

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


class SshTestCase(channel_contract.ChannelContract, testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        program = self.home / 'ssh'
        program.write_text(PROGRAM.format(
            log=self.home / 'log', broken=self.home / 'broken'))
        program.chmod(0o755)
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', f'{self.home}:{os.environ["PATH"]}'))
        self.channel = ssh.Ssh(settings.PlatformSettings(ssh_key='/key'),
                               '192.0.2.1', 'one')
        self.addCleanup(self.channel.close)

    def ended(self, job):
        # What ends it is not for this process to decide.
        job._process.wait()
        return job.poll()

    def stop(self, job):
        begun = time.monotonic()
        job.stop()
        self.assertLess(time.monotonic() - begun, 60)
        self.assertIsNotNone(job._process.poll())

    def test_not_let_in(self):
        (self.home / 'broken').touch()
        error = self.assertRaises(
            bench_errors.InstanceError, self.channel.await_ready, 0)
        self.assertIn('root@192.0.2.1 did not accept a login', str(error))
        self.assertIn('Permission denied', str(error))
        job = self.channel.start('true')
        error = self.assertRaises(bench_errors.InstanceError, self.ended, job)
        self.assertIn('Permission denied', str(error))

    def test_options(self):
        self.channel.await_ready(0)
        said = (self.home / 'log').read_text().splitlines()
        self.assertIn('-oBatchMode=yes', said)
        self.assertIn('-oIdentityFile=/key', said)
        self.assertIn('-oStrictHostKeyChecking=accept-new', said)

    def test_no_clock(self):
        (self.home / 'broken').touch()
        error = self.assertRaises(bench_errors.InstanceError,
                                  self.channel.clock)
        self.assertIn('does not tell its time: Permission denied',
                      str(error))

    def test_close_can_be_repeated(self):
        self.channel.close()
        self.channel.close()
        self.assertFalse(self.channel.directory.exists())

    def test_no_program(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', '/nonexistent'))
        for use in (self.channel.await_ready, 0), (self.channel.start, 'true'):
            self.assertRaises(bench_errors.InstanceError, *use)
