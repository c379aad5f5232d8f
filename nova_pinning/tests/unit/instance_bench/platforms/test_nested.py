# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import shlex
from unittest import mock

import ddt

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import nested
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes
from nova_pinning.tests.unit.instance_bench.platforms import test_guest
from nova_pinning.tests.unit import unit_base

CPUS = cpuset.CpuSet.parse
PINNED = CPUS('2'), CPUS('3')
FLOATING = (CPUS('2-3'),) * 2


@ddt.ddt
class TestContainerInGuest(unit_base.TestCase):

    def instance(self, *jobs, vcpus=PINNED):
        self.agents = self.useFixture(platform_fakes.GuestAgents(*jobs))
        spec = dataclasses.replace(
            test_guest.WISH, instance_cpus=platform_interface.InstanceCpus(
                vcpus=vcpus, emulator=CPUS('2')))
        return nested.NestedInstance(
            platform_fakes.request(size=bench_model.InstanceSize(
                vcpus=2, memory_mib=512)), spec,
            hypervisor.ComputeHypervisor(prefix=(), connect=''), mock.Mock())

    @ddt.data((PINNED, '0-1'), (FLOATING, None))
    @ddt.unpack
    def test_set_up(self, vcpus, expected):
        self.instance(vcpus=vcpus).await_ready(5)
        self.assertEqual([5], self.agents.waited)
        script, = self.agents.commands
        words = shlex.split(script)
        document = json.loads(words[words.index('%s') + 1])
        self.assertEqual(expected, document['linux']['resources'].get(
            'cpu', {}).get('cpus'))
        self.assertTrue(document['root']['readonly'])
        writable = [one['destination'] for one in document['mounts']
                    if 'bind' in one['options'] and 'ro' not in one['options']]
        self.assertEqual([remote.WORK], writable)

    def test_set_up_failed(self):
        instance = self.instance(platform_fakes.Job(
            status=1, stderr='at first\nthere is no runc\n'))
        error = self.assertRaises(
            bench_errors.InstanceError, instance.await_ready, 5)
        self.assertEqual('the container in enterprise-0 cannot be started: '
                         'there is no runc', str(error))

    def test_set_up_does_not_end(self):
        self.useFixture(platform_fakes.PassingTime())
        error = self.assertRaises(
            bench_errors.InstanceError,
            self.instance(platform_fakes.Job(None)).await_ready, 5)
        self.assertIn('within 120 s', str(error))

    def test_command(self):
        job = self.instance(
            platform_fakes.Job(1, status=3, stdout='yes')).start(
                'echo "it\'s" $HOME')
        self.assertIsNone(job.poll())
        self.assertEqual((3, 'yes'), (job.poll().status, job.poll().stdout))
        words = shlex.split(self.agents.commands[0])
        self.assertEqual(['exec', 'runc', 'exec'], words[:3])
        self.assertEqual(['/bin/sh', '-c', 'echo "it\'s" $HOME'], words[-3:])
