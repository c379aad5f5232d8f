# SPDX-License-Identifier: Apache-2.0

import json
import shlex
from unittest import mock

import ddt
import testtools

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import guest
from nova_pinning.instance_bench.platforms import nested
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes


def container(*jobs, provisioning=bench_model.Provisioning.PINNED):
    """The ways into a guest and into its container."""
    outer = platform_fakes.Channel(*jobs)
    wanted = platform_fakes.request(
        provisioning=provisioning,
        size=bench_model.InstanceSize(vcpus=2, memory_mib=512))
    with mock.patch.object(guest.GuestPlatform, '_channel',
                           return_value=outer):
        return outer, nested.NestedPlatform(
            settings.PlatformSettings())._channel(wanted, None)


@ddt.ddt
class TestContainerChannel(testtools.TestCase):

    def test_its_clock_and_end_are_the_guests(self):
        outer, channel = container()
        self.assertEqual('clock', channel.clock())
        channel.close()
        self.assertEqual(1, outer.closed)

    @ddt.data((bench_model.Provisioning.PINNED, '0-1'),
              (bench_model.Provisioning.VANILLA, None))
    @ddt.unpack
    def test_set_up(self, provisioning, expected):
        outer, channel = container(provisioning=provisioning)
        channel.await_ready(5)
        self.assertEqual([5], outer.waited)
        script, = outer.commands
        words = shlex.split(script)
        document = json.loads(words[words.index('%s') + 1])
        self.assertEqual(expected, document['linux']['resources'].get(
            'cpu', {}).get('cpus'))
        self.assertTrue(document['root']['readonly'])
        writable = [one['destination'] for one in document['mounts']
                    if 'bind' in one['options'] and 'ro' not in one['options']]
        self.assertEqual([remote.WORK], writable)

    def test_set_up_failed(self):
        _outer, channel = container(platform_fakes.Job(
            status=1, stderr='at first\nthere is no runc\n'))
        error = self.assertRaises(
            bench_errors.InstanceError, channel.await_ready, 5)
        self.assertEqual('the container in enterprise-0 cannot be started: '
                         'there is no runc', str(error))

    def test_set_up_does_not_end(self):
        self.useFixture(platform_fakes.PassingTime())
        job = platform_fakes.Job(None)
        _outer, channel = container(job)
        error = self.assertRaises(
            bench_errors.InstanceError, channel.await_ready, 5)
        self.assertIn('within 120 s', str(error))

    def test_command(self):
        outer, channel = container(
            platform_fakes.Job(1, status=3, stdout='yes'))
        job = channel.start('echo "it\'s" $HOME')
        self.assertIsNone(job.poll())
        self.assertEqual((3, 'yes'), (job.poll().status, job.poll().stdout))
        words = shlex.split(outer.commands[0])
        self.assertEqual(['exec', 'runc', 'exec'], words[:3])
        self.assertEqual(['/bin/sh', '-c', 'echo "it\'s" $HOME'], words[-3:])
