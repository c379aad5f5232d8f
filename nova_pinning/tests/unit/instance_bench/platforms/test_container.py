# SPDX-License-Identifier: Apache-2.0
"""Containers, as far as can be told without starting any."""

import dataclasses
import json
import os
import pathlib
import signal
from unittest import mock

import ddt
import fixtures

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench.platforms import container
from nova_pinning.instance_bench.platforms import local
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench import workspace
from nova_pinning.tests import local_instances
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes
from nova_pinning.tests.unit import unit_base

cpus = cpuset.CpuSet.parse
VANILLA = bench_model.Provisioning.VANILLA

V1 = '''
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
/dev/sda1 / ext4 rw 0 0
'''
V2 = 'cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n'


def tenant(**values):
    return local_instances.tenant('cn', **values)


@ddt.ddt
class LimitsTestCase(unit_base.TestCase):

    @ddt.data(
        # Pinned: the CPUs say it all.
        (bench_model.Provisioning.PINNED, 2, '2,10', {}),
        # Floating over more CPUs than it has vCPUs.
        (VANILLA, 2, '2-5', {'period': 100_000, 'quota': 200_000}),
        (VANILLA, 4, '2-5', {}), (VANILLA, 6, '2-5', {}))
    @ddt.unpack
    def test_version_1(self, provisioning, vcpus, where, quota):
        found = cgroups.resources(
            tenant(provisioning=provisioning, weight=50,
                   size=bench_model.InstanceSize(vcpus=vcpus, memory_mib=7)),
            cpus(where), 1)
        self.assertEqual(
            {'cpu': {'cpus': where, 'shares': 512, **quota},
             'memory': {'limit': 7 * 1024 * 1024}}, found)

    def test_version_2(self):
        found = cgroups.resources(tenant(weight=50), cpus('0'), 2)

        self.assertEqual({'cpu.weight': '50'}, found['unified'])
        self.assertNotIn('shares', found['cpu'])

    @ddt.data((100, 1024), (50, 512), (1, 10), (10_000, 102_400))
    @ddt.unpack
    def test_shares_keep_ratios(self, weight, shares):
        self.assertEqual(shares, cgroups.resources(
            tenant(weight=weight), cpus('0'), 1)['cpu']['shares'])

    @ddt.data(0, -1, 10_001)
    def test_no_weight(self, weight):
        error = self.assertRaises(
            errors.InputError, cgroups.check_weight, 'a-0', weight)
        self.assertIn(str(weight), str(error))


class HierarchiesTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = machine_files.Tree(self.root)

    def mounted(self, text):
        (self.root / 'proc').mkdir()
        (self.root / 'proc/mounts').write_text(text)
        for line in text.split('\n'):
            if 'cgroup' in line:
                (self.root / line.split()[1][1:]).mkdir(
                    parents=True, exist_ok=True)

    def test_version_1_beside_2(self):
        self.mounted(V1)
        self.assertEqual(1, cgroups.version(self.tree))

    def test_version_2(self):
        self.mounted(V2)
        self.assertEqual(2, cgroups.version(self.tree))

    def test_sweep(self):
        self.mounted(V1)
        top = self.root / 'sys/fs/cgroup/cpuset'
        for name in ('run-a/0/below', 'run-a/1', 'run-b/0'):
            (top / name).mkdir(parents=True)

        cgroups.sweep(self.tree, 'run-a')

        self.assertEqual({top / 'run-b'}, set(top.iterdir()))
        self.assertTrue((top / 'run-b/0').exists())

    def test_a_group_that_is_left_while_it_is_swept(self):
        self.mounted(V1)
        time = self.useFixture(platform_fakes.PassingTime())
        process = self.root / 'sys/fs/cgroup/cpuset/run/0/process'
        process.parent.mkdir(parents=True)
        process.touch()
        sleep = time.sleep
        time.sleep = lambda seconds: (sleep(seconds), process.unlink())

        cgroups.sweep(self.tree, 'run')

        self.assertFalse(process.parents[1].exists())

    def test_a_group_that_is_not_left(self):
        self.mounted(V1)
        self.useFixture(platform_fakes.PassingTime())
        group = self.root / 'sys/fs/cgroup/cpuset/run/0'
        (group / 'process').mkdir(parents=True)
        (group / 'process/file').touch()
        error = self.assertRaises(
            bench_errors.BenchError, cgroups.sweep, self.tree, 'run')
        self.assertIn(f'control group {group}', str(error))


class RootTestCase(unit_base.TestCase):

    def test_make_root(self):
        of = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('usr', 'etc', 'proc', 'tmp', 'mnt', 'bench'):
            (of / name).mkdir()
        (of / 'bin').symlink_to('usr/bin')
        (of / 'vmlinuz').write_text('')

        binds = container.make_root(root, of)

        self.assertEqual({f'/{name}': str(of / name)
                          for name in ('etc', 'usr')}, binds)
        self.assertEqual('usr/bin', os.readlink(root / 'bin'))
        self.assertEqual(
            {'bench', 'programs', 'dev', 'proc', 'run', 'sys', 'tmp', 'bin',
             'etc', 'usr'}, set(os.listdir(root)))


#: Stands for runc: says what it was told, and keeps what it was told to.
RUNC = """#!/bin/sh
echo "$@" >>{log}
while [ $# -gt 0 ]; do
    case $1 in
    --version) echo runc version 1.1; exit ;;
    --bundle) bundle=$2 ;;
    --pid-file) pid_file=$2 ;;
    exec) shift 2; exec "$@" ;;
    esac
    shift
done
echo 'time="now" level=warning msg="cannot clean up"' >&2
{answer}
"""
RUNS = 'echo $$ >"$pid_file"; exec cat'


@ddt.ddt
class PlatformTestCase(unit_base.TestCase):

    answer = RUNS

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.instance_bench.workspace.PARENT', self.home))
        self.useFixture(fixtures.MockPatchObject(
            cgroups, 'version', return_value=2))
        self.useFixture(fixtures.MockPatchObject(cgroups, 'sweep'))
        self.log = self.home / 'log'

    def request(self, where=None, **values):
        places = cpus(where or str(min(os.sched_getaffinity(0))))
        return platform_interface.InstanceRequest(
            name='a-0', tenant=tenant(**values),
            workload=local_instances.WORKLOAD,
            instance_cpus=platform_interface.InstanceCpus(
                vcpus=(places,), emulator=places))

    def platform(self):
        """One whose runc is a script, which keeps to the CPUs of this test."""
        bin_ = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (bin_ / 'runc').write_text(RUNC.format(
            log=self.log, answer=self.answer))
        (bin_ / 'runc').chmod(0o755)
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', f'{bin_}:{os.environ["PATH"]}'))
        # A command fails in /bench/work, which is not there.
        self.useFixture(fixtures.MockPatchObject(
            container.ContainerInstance, 'settle'))
        self.useFixture(fixtures.MockPatchObject(
            container.ContainerInstance, 'affinities',
            lambda instance: [bench_model.Affinity(
                thread='x', asked=instance.cpus, seen=cpus(self.seen)
                if self.seen else instance.cpus)]))
        platform = container.ContainerPlatform(settings.PlatformSettings())
        self.addCleanup(platform.__exit__)
        return platform.__enter__()

    #: The CPUs that instances get, those that they are to have by default.
    seen = ''

    def check(self, *requests):
        platform = self.platform()
        platform.check(requests or [self.request()])
        return platform

    def refused(self, *requests):
        return self.assertRaises(errors.InputError, self.check, *requests)

    def test_a_bundle(self):
        platform = self.check()
        only, = platform.launch([self.request(where='1-2', weight=50)])
        bundle = only._directory
        found = json.loads((bundle / 'config.json').read_text())
        identity = f'{bundle.parent.name}-{bundle.name}'
        self.assertEqual(f'/{bundle.parent.name}/{bundle.name}',
                         found['linux']['cgroupsPath'])
        self.assertEqual(
            cgroups.resources(tenant(weight=50), cpus('1-2'), 2), {
                name: value for name, value
                in found['linux']['resources'].items() if name != 'devices'})
        self.assertTrue(found['root']['readonly'])
        mounts = {one['destination']: one for one in found['mounts']}
        self.assertEqual(str(bundle), mounts['/bench']['source'])
        for target in '/usr', '/programs', '/bench':
            self.assertEqual(target != '/bench',
                             'ro' in mounts[target]['options'])
        # It has the network of the host.
        self.assertNotIn({'type': 'network'}, found['linux']['namespaces'])
        self.assertIn({'type': 'pid'}, found['linux']['namespaces'])
        self.assertEqual(('exec', identity), only._enter[-2:])
        self.assertIn('HOME=/bench/work', found['process']['env'])

    def test_it_ends_with_its_input(self):
        only, = self.check().launch([self.request()])
        self.assertIsNone(only._keeper.poll())
        only.close()
        self.assertEqual(0, only._keeper.poll())
        self.assertFalse(only._directory.exists())

    def test_one_that_does_not_work(self):
        self.answer = ('echo \'time="now" level=error msg="not permitted"\' '
                       '>&2; exit 1')
        error = self.refused()
        self.assertEqual('a trial does not start: runc: not permitted',
                         error.message)
        self.assertIn('as root', error.advice)

    def test_other_cpus(self):
        self.seen = '7'
        self.assertIn('got CPUs 7 instead of', str(self.refused()))

    def test_what_was_tried_is_not_tried_again(self):
        platform = self.check(self.request('0-1'))
        for where, count in ('1', 1), ('1-2', 2), ('2', 2):
            platform.check([self.request(where)])
            self.assertEqual(count, self.log.read_text().count(' run '))

    def test_it_is_not_installed(self):
        with mock.patch('shutil.which', return_value=None):
            self.assertIn('install runc', self.refused().advice)

    def test_versions_of_what_is_measured(self):
        workload = dataclasses.replace(
            local_instances.WORKLOAD, programs={'sh': 'spinner'})
        self.useFixture(fixtures.MockPatchObject(
            programs, 'versions', side_effect=lambda names: {
                name: '1.0' for name in names}))
        platform = self.check(dataclasses.replace(
            self.request(), workload=workload))
        self.assertEqual({'spinner': '1.0', 'runc': '1.1'},
                         platform.versions())

    def test_no_compiler(self):
        workload = dataclasses.replace(
            local_instances.WORKLOAD, source='x.c', build='cc x.c')
        request = dataclasses.replace(self.request(), workload=workload)
        with mock.patch('shutil.which', side_effect=lambda name, path=None:
                        None if name == 'cc' else name):
            self.assertIn('apt-get install gcc', self.refused(request).advice)

    def test_a_program_that_cannot_be_built(self):
        workload = dataclasses.replace(
            local_instances.WORKLOAD, source='x', build='exit 3')
        self.assertEqual('the command is exit 3', self.refused(
            dataclasses.replace(self.request(), workload=workload)).advice)

    def test_all_is_ended_though_it_hangs(self):
        self.useFixture(fixtures.MockPatchObject(local, '_END_SECONDS', 0.1))
        only, = self.check().launch([self.request()])
        pid = only._pid
        os.kill(pid, signal.SIGSTOP)
        only._jobs.append(job := mock.Mock())
        self.assertIn(f'process {pid} does not end', str(
            self.assertRaises(bench_errors.InstanceError, only.close)))
        self.assertIsNotNone(only._keeper.poll())
        job.forget.assert_called_once_with()
        self.assertFalse(only._directory.exists())

    def test_a_full_disk(self):
        platform = self.check()
        with mock.patch.object(pathlib.Path, 'mkdir', side_effect=OSError(
                28, 'No space left on device')):
            error = self.assertRaises(bench_errors.InstanceError,
                                      platform.launch, [self.request()])
        self.assertIn('a-0', str(error))
        self.assertIn('No space left', str(error))


class WorkspaceTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.parent = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def test_one_in_use_is_left_alone(self):
        # What is not cleared is as when its process was killed.
        with workspace.temporary(lambda path: None, self.parent) as space:
            self.assertEqual([], list(workspace.left_over(self.parent)))
        self.assertEqual([space], list(workspace.left_over(self.parent)))

    def test_what_only_looks_like_one_is_left_alone(self):
        for name in ('nova-pinning-bench-image', 'nova-pinning-bench-of-mine',
                     'nova-pinning-bench-'):
            (self.parent / name).mkdir()
            (self.parent / name).chmod(0o711)
        # One that is as mkdtemp makes it is not locked yet.
        (self.parent / 'nova-pinning-bench-abcdefgh').mkdir(0o700)
        (self.parent / 'nova-pinning-bench-hgfedcba').symlink_to('/')
        self.assertEqual([], list(workspace.left_over(self.parent)))

    def test_what_cannot_be_cleared_stays(self):
        fault = bench_errors.BenchError('still mounted')
        with (workspace.temporary(lambda path: None, self.parent) as one,
              workspace.temporary(lambda path: None, self.parent) as two):
            spaces = {one, two}
        cleared = []

        def clear(path):
            cleared.append(path)
            raise fault

        with self.assertLogs(workspace.LOG) as logs:
            workspace.clear_left_over(clear, self.parent)
        self.assertEqual(spaces, set(cleared))
        self.assertIn(str(fault), logs.output[0])

    def test_no_directory(self):
        error = self.assertRaises(
            errors.InputError,
            workspace.temporary(parent=self.parent / 'missing').__enter__)
        self.assertIn('missing', str(error))

    def test_nothing_that_is_mounted_is_removed(self):
        (self.parent / 'a').mkdir()
        mounts = f'/dev/x {self.parent}/a/root/usr ext4 rw 0 0\n'
        with mock.patch.object(pathlib.Path, 'read_text',
                               return_value=mounts):
            self.assertRaises(bench_errors.BenchError, workspace.remove,
                              self.parent / 'a')
        self.assertTrue((self.parent / 'a').exists())
        workspace.remove(self.parent / 'a')
        self.assertFalse((self.parent / 'a').exists())
