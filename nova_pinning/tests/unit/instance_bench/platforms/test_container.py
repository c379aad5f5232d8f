# SPDX-License-Identifier: Apache-2.0
"""Containers, as far as can be told without starting any."""

import dataclasses
import json
import os
import pathlib
import subprocess
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
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import runc
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench import workspace
from nova_pinning.tests import local_instances
from nova_pinning.tests.unit import unit_base

cpus = cpuset.CpuSet.parse
VANILLA = bench_model.Provisioning.VANILLA

# What tests put something else in the place of.
_POPEN = subprocess.Popen
V1 = '''
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
/dev/sda1 / ext4 rw 0 0
'''
V2 = 'cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n'
LIMITS = cgroups.CgroupLimits(cpus=cpus('2,10'), weight=50, memory_mib=512,
                              quota_us=150_000)


def tenant(**values):
    return local_instances.tenant('cn', **values)


@ddt.ddt
class LimitsTestCase(unit_base.TestCase):

    @ddt.data(
        # Pinned: the CPUs say it all.
        (bench_model.Provisioning.PINNED, 2, '2,10', None),
        # Floating over more CPUs than it has vCPUs.
        (VANILLA, 2, '2-5', 200_000),
        (VANILLA, 4, '2-5', None), (VANILLA, 6, '2-5', None))
    @ddt.unpack
    def test_quota(self, provisioning, vcpus, where, expected):
        found = cgroups.limits(
            tenant(provisioning=provisioning,
                   size=bench_model.InstanceSize(vcpus=vcpus, memory_mib=7)),
            cpus(where))
        self.assertEqual(expected, found.quota_us)
        self.assertEqual(7, found.memory_mib)

    def test_version_1(self):
        self.assertEqual(
            {'cpu': {'cpus': '2,10', 'shares': 512, 'period': 100_000,
                     'quota': 150_000},
             'memory': {'limit': 512 * 1024 * 1024}},
            cgroups.resources(LIMITS, 1))

    def test_version_2(self):
        found = cgroups.resources(LIMITS, 2)

        self.assertEqual({'cpu.weight': '50'}, found['unified'])
        self.assertNotIn('shares', found['cpu'])

    @ddt.data((100, 1024), (50, 512), (1, 10), (10_000, 102_400))
    @ddt.unpack
    def test_shares_keep_ratios(self, weight, shares):
        self.assertEqual(shares, cgroups.limits(
            tenant(weight=weight), cpus('0')).shares)

    @ddt.data(0, -1, 10_001)
    def test_no_weight(self, weight):
        error = self.assertRaises(
            errors.InputError, cgroups.check_weight, 'a-0', weight)
        self.assertIn(str(weight), str(error))


@ddt.ddt
class HierarchiesTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = machine_files.Tree(self.root)

    def mounted(self, text, controllers=''):
        (self.root / 'proc').mkdir()
        (self.root / 'proc/mounts').write_text(text)
        for line in text.split('\n'):
            if 'cgroup' in line:
                (self.root / line.split()[1][1:]).mkdir(
                    parents=True, exist_ok=True)
        if controllers:
            (self.root / 'sys/fs/cgroup/cgroup.controllers').write_text(
                controllers)

    def test_version_1_beside_2(self):
        self.mounted(V1)
        self.assertEqual(1, cgroups.version(self.tree))

    def test_version_2(self):
        self.mounted(V2, 'cpuset cpu io memory pids')
        self.assertEqual(2, cgroups.version(self.tree))

    @ddt.data(
        ('', '', 'no cpu controller'),
        (V2, 'cpu memory pids', 'no cpuset controller'),
        (V2, '', 'no cpu controller'),
        (V1.replace('rw,relatime,cpuset', 'ro,cpuset'), '', 'cpuset'))
    @ddt.unpack
    def test_what_cannot_be_used(self, text, controllers, words):
        self.mounted(text, controllers)
        error = self.assertRaises(
            errors.InputError, cgroups.version, self.tree)
        self.assertIn(words, str(error))
        self.assertTrue(error.advice)

    def test_not_writable(self):
        self.mounted(V1)
        with mock.patch.object(os, 'access', return_value=False):
            error = self.assertRaises(
                errors.InputError, cgroups.version, self.tree)
        self.assertIn('as root', error.advice)

    def test_sweep(self):
        self.mounted(V1)
        top = self.root / 'sys/fs/cgroup/cpuset/nova-pinning-bench'
        for name in ('run-a-0/below', 'run-a-1'):
            (top / name).mkdir(parents=True)
        other = self.root / 'sys/fs/cgroup/memory/nova-pinning-bench/run-b-0'
        other.mkdir(parents=True)

        cgroups.sweep(self.tree, 'run-a')

        self.assertFalse(top.exists())
        self.assertTrue(other.exists())


class RootTestCase(unit_base.TestCase):

    def test_make_root(self):
        of = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('usr', 'etc', 'proc', 'tmp', 'mnt', 'bench'):
            (of / name).mkdir()
        (of / 'bin').symlink_to('usr/bin')
        (of / 'vmlinuz').write_text('')

        binds = runc.make_root(root, of)

        self.assertEqual({f'/{name}': str(of / name)
                          for name in ('etc', 'usr')}, binds)
        self.assertEqual('usr/bin', os.readlink(root / 'bin'))
        self.assertEqual(
            {'bench', 'programs', 'dev', 'proc', 'run', 'sys', 'tmp', 'bin',
             'etc', 'usr'}, set(os.listdir(root)))


class FakeProcess:
    """A runtime that is started, and whatever it is asked."""

    def __init__(self, states=(), said=b'', status=None):
        self.states = list(states)
        self.said = said
        self.status = status
        self.started = []
        self.ran = []

    def popen(self, arguments, **options):
        self.started.append(list(arguments))
        options['stdout'].write(self.said)
        options['stdout'].flush()
        made = mock.Mock(spec=_POPEN)
        made.poll.return_value = self.status
        return made

    def run(self, arguments, seconds=0.0):
        self.ran.append(list(arguments))
        if 'state' in arguments:
            state = self.states.pop(0) if self.states else None
            if state is None:
                raise bench_errors.BenchError('there is none')
            return state
        return ''


@ddt.ddt
class RuntimesTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.bundle = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.bundle / 'root').mkdir()
        self.binds = {'/usr': '/usr', '/bench': str(self.bundle),
                      '/programs': '/built'}

    def use(self, fake):
        self.useFixture(fixtures.MonkeyPatch('subprocess.Popen', fake.popen))
        self.useFixture(fixtures.MockPatchObject(
            process, 'run', side_effect=fake.run))
        self.useFixture(fixtures.MonkeyPatch('time.sleep', lambda _s: None))
        return fake

    def test_a_bundle(self):
        fake = self.use(FakeProcess([
            None, '{"status": "created", "pid": 7}',
            '{"status": "running", "pid": 7}']))
        runtime = runc.Runc(self.bundle / 'state', 2)

        runtime.start('one-0', self.bundle, self.binds, LIMITS)

        # It was waited for.
        self.assertEqual([], fake.states)
        self.assertEqual(
            [['runc', '--root', str(self.bundle / 'state'), 'run',
              '--bundle', str(self.bundle), 'one-0']], fake.started)
        found = json.loads((self.bundle / 'config.json').read_text())
        self.assertEqual('/nova-pinning-bench/one-0',
                         found['linux']['cgroupsPath'])
        self.assertEqual(cgroups.resources(LIMITS, 2), {
            name: value for name, value
            in found['linux']['resources'].items() if name != 'devices'})
        self.assertTrue(found['root']['readonly'])
        mounts = {one['destination']: one for one in found['mounts']}
        for target, source in self.binds.items():
            self.assertEqual(source, mounts[target]['source'])
            self.assertEqual(target != '/bench',
                             'ro' in mounts[target]['options'])
        # It has the network of the host.
        self.assertNotIn({'type': 'network'}, found['linux']['namespaces'])
        self.assertIn({'type': 'pid'}, found['linux']['namespaces'])

    def test_exec(self):
        self.assertEqual(
            ('exec', '--env=A=b c', 'one-0'),
            runc.Runc(pathlib.Path('/s'), 1).exec('one-0', {'A': 'b c'})[3:])

    @ddt.data(
        (b'time="now" level=error msg="no such cgroup"\n', 'no such cgroup'),
        (b'', 'it does not start'))
    @ddt.unpack
    def test_one_that_does_not_start(self, said, reason):
        fake = self.use(FakeProcess(said=said, status=1))
        error = self.assertRaises(
            bench_errors.InstanceError,
            runc.Runc(self.bundle / 'state', 1).start, 'one-0', self.bundle,
            self.binds, LIMITS)
        self.assertEqual(f'runc: {reason}', str(error))
        self.assertIn('delete', fake.ran[-1])


@ddt.ddt
class PlatformTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.instance_bench.workspace.PARENT', pathlib.Path(
                self.useFixture(fixtures.TempDir()).path)))
        self.useFixture(fixtures.MockPatchObject(
            cgroups, 'version', return_value=1))
        self.useFixture(fixtures.MockPatchObject(cgroups, 'sweep'))

    def request(self, **values):
        one = tenant(**values)
        return platform_interface.InstanceRequest(
            name='a-0', tenant=one, workload=local_instances.WORKLOAD,
            instance_cpus=platform_interface.InstanceCpus(vcpus=(cpus('1'),),
                                                          emulator=cpus('1')))

    def platform(self):
        platform = container.ContainerPlatform(settings.PlatformSettings())
        self.useFixture(fixtures.MockPatchObject(
            platform, '_trial', side_effect=self.trial))
        self.addCleanup(platform.__exit__)
        return platform.__enter__()

    def trial(self, _runtime, _cpus):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    #: The CPUs that the trial gets.
    outcome = cpus('1')
    installed = ('runc', 'spin')

    def check(self, *requests):
        with mock.patch('shutil.which', side_effect=lambda name, path=None:
                        name if name in self.installed else None):
            platform = self.platform()
            platform.check(requests or [self.request()])
        return platform

    def refused(self, *requests):
        return self.assertRaises(errors.InputError, self.check, *requests)

    def test_one_that_does_not_work(self):
        self.outcome = bench_errors.BenchError('runc: not permitted')
        self.assertIn('runc: not permitted', str(self.refused()))

    def test_other_cpus(self):
        self.outcome = cpus('0')
        self.assertIn('got CPUs 0 instead of 1', str(self.refused()))

    def test_it_is_not_installed(self):
        self.installed = ()
        self.assertIn('install runc', self.refused().advice)

    @ddt.data(
        ({'weight': 0}, 'weight 0'),
        ({'network_cpus': bench_model.NetworkCpus.VCPUS}, 'network_cpus'))
    @ddt.unpack
    def test_what_it_cannot_do(self, values, words):
        error = self.assertRaises(errors.InputError, self.check,
                                  self.request(**values))
        self.assertIn(words, str(error))

    def test_versions_of_what_is_measured(self):
        workload = dataclasses.replace(
            local_instances.WORKLOAD, programs={'spin': 'spinner'})
        self.useFixture(fixtures.MockPatchObject(
            runc.Runc, 'version', return_value='1.1'))
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
        error = self.assertRaises(
            errors.InputError, self.check, request)
        self.assertIn('apt-get install gcc', error.advice)

    def test_all_is_ended_though_the_runtime_fails(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        keeper = mock.Mock(spec=_POPEN)
        keeper.poll.return_value = None
        runtime = mock.Mock()
        runtime.start.return_value = keeper
        runtime.delete.side_effect = bench_errors.BenchError(
            'runc: it hangs')
        made = container.ContainerInstance(
            name='a-0', directory=directory / 'own', runtime=runtime,
            identity='x', limits=LIMITS, binds={})
        (directory / 'own').mkdir()
        made._jobs.append(job := mock.Mock())
        self.assertRaises(bench_errors.BenchError, made.close)
        keeper.kill.assert_called_once_with()
        job.forget.assert_called_once_with()
        self.assertFalse((directory / 'own').exists())

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
        space = workspace.Workspace(self.parent)
        self.assertEqual([], list(workspace.left_over(self.parent)))
        # As when its process is killed.
        space.unlock()
        self.assertEqual([space.path],
                         list(workspace.left_over(self.parent)))

    def test_what_only_looks_like_one_is_left_alone(self):
        for name in ('nova-pinning-bench-image', 'nova-pinning-bench-of-mine',
                     'nova-pinning-bench-'):
            (self.parent / name).mkdir()
            (self.parent / name / '.nova-pinning-lock').touch()
        # One that has no lock is just being made.
        (self.parent / 'nova-pinning-bench-abcdefgh').mkdir()
        self.assertEqual([], list(workspace.left_over(self.parent)))

    def test_what_cannot_be_cleared_stays(self):
        fault = bench_errors.BenchError('still mounted')
        spaces = [workspace.Workspace(self.parent) for _number in range(2)]
        for space in spaces:
            space.unlock()
        cleared = []

        def clear(path):
            cleared.append(path)
            raise fault

        with self.assertLogs(workspace.LOG) as logs:
            workspace.clear_left_over(clear, self.parent)
        self.assertEqual({space.path for space in spaces}, set(cleared))
        self.assertIn(str(fault), logs.output[0])

    def test_no_directory(self):
        error = self.assertRaises(
            errors.InputError, workspace.Workspace,
            self.parent / 'missing')
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
