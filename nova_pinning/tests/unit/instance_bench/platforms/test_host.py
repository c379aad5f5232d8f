# SPDX-License-Identifier: Apache-2.0
"""Processes of the host: what is asked of the kernel, and what it may say."""

import os
import pathlib
from unittest import mock

import fixtures

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import host
from nova_pinning.instance_bench.platforms import local
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import select
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.tests import local_instances
from nova_pinning.tests.unit.host.discover import sample_machines
from nova_pinning.tests.unit import unit_base

cpus = cpuset.CpuSet.parse


def request(where='1', **values):
    return platform_interface.InstanceRequest(
        name='a-0',
        tenant=local_instances.tenant('bm', **values),
        workload=local_instances.WORKLOAD,
        instance_cpus=platform_interface.InstanceCpus(vcpus=(cpus(where), ),
                                                      emulator=cpus(where)))


class CheckTestCase(unit_base.TestCase):
    """What is wrong is told before anything is measured."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.instance_bench.workspace.PARENT', pathlib.Path(
                self.useFixture(fixtures.TempDir()).path)))
        self.started = []
        self.useFixture(fixtures.MockPatchObject(
            local.LocalInstance, '__init__',
            lambda _instance, **values: self.start(**values)))

    def start(self, **values):
        self.started.append(values)
        raise bench_errors.InstanceError('unshare: not permitted')

    def refused(self, *requests):
        with host.HostPlatform(settings.PlatformSettings()) as platform:
            return str(self.assertRaises(
                errors.InputError, platform.check, requests))

    def keeper(self, user=0):
        with mock.patch.object(os, 'geteuid', return_value=user):
            said = self.refused(request('0-1'), request('2'))
        self.assertIn('unshare: not permitted; run it as root', said)
        started, = self.started
        self.assertEqual(cpus('0-2'), started['cpus'])
        return list(started['keeper'])

    def test_it_is_bound_first(self):
        keeper = self.keeper()
        self.assertEqual(['taskset', '--cpu-list', '0-2', 'unshare',
                          '--mount'], keeper[:5])

    def test_whoever_is_not_root_gets_a_namespace_of_users(self):
        self.assertIn('--map-root-user', self.keeper(user=1000))


class SelectTestCase(unit_base.TestCase):

    def test_each_name_has_a_platform(self):
        made = {type(select.make(name, settings.PlatformSettings()))
                for name in bench_model.PlatformName}
        self.assertEqual(len(bench_model.PlatformName), len(made))
        self.assertIn(host.HostPlatform, made)


class FilesTestCase(unit_base.TestCase):
    """What is read of /proc, from made-up files."""

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine()).small()
        self.tree = self.machine.tree()

    def process(self, pid, name, threads, namespace='pid:[1]'):
        for tid, where in threads.items():
            path = f'proc/{pid}/task/{tid}'
            self.machine.write(
                f'{path}/stat', f'{tid} ({name}) S ' + ' '.join(
                    ['0'] * 60))
            self.machine.write(f'{path}/status',
                               f'Cpus_allowed_list:\t{where}')
        self.machine.write(f'proc/{pid}/comm', name)
        self.machine.link(f'proc/{pid}/ns/pid', namespace)
        self.machine.link(f'proc/{pid}/exe', '/bin/x')

    def test_affinities(self):
        self.process(7, 'sysbench', {7: '1', 8: '1-2'})
        self.process(9, 'sh', {9: '1'})

        bad, good = local.affinities_of(
            self.tree, [7, 8, 9, 10], cpus('1'))

        self.assertEqual(
            ('process 7 (sysbench)', cpus('1-2'), False),
            (bad.thread, bad.seen, bad.is_in_force))
        self.assertEqual(('process 9 (sh)', True),
                         (good.thread, good.is_in_force))

    def test_members(self):
        for pid, namespace in ((7, 'pid:[1]'), (30, 'pid:[2]'),
                               (200, 'pid:[2]'), (100, 'pid:[2]')):
            self.process(pid, 'x', {pid: '0'}, namespace)
        # It has ended, and nobody has looked yet.
        (self.machine.root / 'proc/100/exe').unlink()

        self.assertEqual([30, 200], process.members(self.tree, 30))
        self.assertEqual([], process.members(self.tree, 5))
