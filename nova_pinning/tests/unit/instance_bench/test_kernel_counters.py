# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts, as far as it does."""

import os
import pathlib

import ddt
import fixtures

from nova_pinning import cpuset
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.tests.unit import unit_base

_STATUS = ('Name:\tx\nvoluntary_ctxt_switches:\t{}\n'
           'nonvoluntary_ctxt_switches:\t{}\n')
_SCHED = 'x (7, #threads: 1)\n---\nse.nr_migrations             :    {}\n'
_STAT = ('cpu  10 0 10 70 1 0 1 {} 0 0\ncpu0 5 0 5 35 1 0 1 {} 0 0\n'
         'cpu1 5 0 5 35 0 0 0 {} 0 0\nintr 1 2 3\n')


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = machine_files.Tree(self.root)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@ddt.ddt
class ThreadsTestCase(TestCase):

    def thread(self, pid, tid, delay, switches=(1, 2), moved=3):
        path = f'proc/{pid}/task/{tid}'
        self.write(f'{path}/schedstat', f'9 {delay * 10**9} 4\n')
        self.write(f'{path}/status', _STATUS.format(*switches))
        self.write(f'{path}/sched', _SCHED.format(moved))

    def test_a_thread(self):
        self.thread(7, 8, 5)
        counted = kernel_counters.of_thread(self.tree, '/proc/7/task/8')
        self.assertEqual(
            {'run_delay_seconds': 5.0, 'voluntary_switches': 1.0,
             'involuntary_switches': 2.0, 'migrations': 3.0}, counted)
        self.assertLessEqual(set(counted), set(bench_model.COUNTERS))

    @ddt.data(('sched', 'migrations'), ('schedstat', 'run_delay_seconds'))
    @ddt.unpack
    def test_a_kernel_that_counts_less(self, file, name):
        self.thread(7, 8, 5)
        (self.root / 'proc/7/task/8' / file).unlink()
        self.assertNotIn(name, kernel_counters.of_thread(
            self.tree, '/proc/7/task/8'))

    def test_none(self):
        self.assertEqual({}, kernel_counters.of_thread(
            self.tree, '/proc/7/task/8'))

    def test_vcpu_threads(self):
        for tid, name in enumerate(
                ('qemu-system-x86', 'CPU 0/KVM', 'CPU 1/TCG', 'vnc_worker'),
                10):
            self.write(f'proc/7/task/{tid}/comm', name)
        self.assertEqual(
            ['/proc/7/task/11', '/proc/7/task/12'],
            kernel_counters.vcpu_threads(self.tree, 7))

    def test_these_tests(self):
        tree = machine_files.Tree()
        counted = kernel_counters.of_thread(
            tree, f'/proc/{os.getpid()}/task/{os.getpid()}')
        self.assertGreater(counted['voluntary_switches']
                           + counted['involuntary_switches'], 0)


class CgroupTestCase(TestCase):

    V1 = ('cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n'
          'cgroup /c/cpuset cgroup rw,cpuset 0 0\n'
          'cgroup2 /c/unified cgroup2 rw 0 0\n')

    def counted(self):
        return kernel_counters.of_cgroup(self.tree, 7)

    def test_version_2(self):
        self.write('proc/mounts', 'cgroup2 /c cgroup2 rw 0 0\n')
        self.write('proc/7/cgroup', '0::/one/libvirt/emulator\n')
        self.write('c/one/libvirt/cpu.stat',
                   'usage_usec 5\nnr_throttled 2\nthrottled_usec 1500000\n')
        for name, total in ('cpu', 2), ('memory', 3), ('io', 4):
            self.write(f'c/one/libvirt/{name}.pressure',
                       f'some avg10=1.00 avg60=0 avg300=0 total={total}000000'
                       '\nfull avg10=0 avg60=0 avg300=0 total=9000000\n')
        self.assertEqual(
            {'throttled_seconds': 1.5, 'cpu_pressure_seconds': 2.0,
             'memory_pressure_seconds': 3.0, 'io_pressure_seconds': 4.0},
            self.counted())
        self.assertLessEqual(set(self.counted()), set(bench_model.COUNTERS))

    def test_version_1(self):
        self.write('proc/mounts', self.V1)
        self.write('proc/7/cgroup',
                   '3:cpuset:/other\n2:cpu,cpuacct:/one\n0::/\n')
        self.write('c/cpu,cpuacct/one/cpu.stat',
                   'nr_periods 3\nnr_throttled 2\nthrottled_time 500000000\n')
        self.write('c/unified/cpu.pressure', 'some avg10=1 total=5\n')
        # Of the pressure on the host as a whole nothing is told.
        self.assertEqual({'throttled_seconds': 0.5}, self.counted())

    def test_no_cgroup_of_its_own(self):
        self.write('proc/mounts', self.V1)
        self.write('proc/7/cgroup', '2:cpu,cpuacct:/\n0::/\n')
        self.write('c/cpu,cpuacct/cpu.stat', 'throttled_time 5\n')
        self.assertEqual({}, self.counted())

    def test_it_has_ended(self):
        self.write('proc/mounts', self.V1)
        self.assertEqual({}, self.counted())


@ddt.ddt
class HostTestCase(TestCase):

    @ddt.data(('0', 2.0), ('0-1', 5.0))
    @ddt.unpack
    def test_steal(self, cpus, expected):
        stolen = [kernel_counters.steal(text, cpuset.CpuSet.parse(cpus))
                  for text in (_STAT.format(500, 200, 300),
                               _STAT.format(1000, 400, 600))]
        found = kernel_counters.difference(*stolen)
        self.assertEqual({'steal_seconds': expected}, found)
        self.assertLessEqual(set(found), set(bench_model.HOST_COUNTERS))

    @ddt.data(('0', 1000.0), ('0-1', 2000.0), ('2', None))
    @ddt.unpack
    def test_frequency(self, cpus, expected):
        for cpu, khz in (0, 1_000_000), (1, 3_000_000):
            self.write(f'sys/devices/system/cpu/cpu{cpu}/cpufreq/'
                       'scaling_cur_freq', f'{khz}\n')
        self.assertEqual(expected, kernel_counters.mhz(
            self.tree, cpuset.CpuSet.parse(cpus)))

    @ddt.data((False, {0: 0.36, 1: 0.35}), (True, {0: 0.37, 1: 0.35}))
    @ddt.unpack
    def test_idle(self, or_interrupted, expected):
        self.assertEqual(expected, kernel_counters.idle(
            _STAT.format(0, 0, 0), or_interrupted))

    def test_cpu_time(self):
        for pid, name in (7, 'x'), (8, ') R 1 (('):
            self.write(f'proc/{pid}/stat', f'{pid} ({name}) S 1 7 7 0 -1 4 '
                       '1 2 3 4 100 20 3000 400 20 0 1 0 99\n')
        self.assertEqual(
            70.4, kernel_counters.cpu_seconds(self.tree, [7, 8, 9]))

    @ddt.data(
        # One of two that share CPUs is on either, and so is what is not.
        ({'a': ('0-1', 4.0), 'b': ('1-2', 8.0)}, {'a': 5.0, 'b': 5.0}),
        ({'a': ('0-1', 4.0), 'b': ('2', 8.0)}, {'a': 7.5, 'b': 0.0}),
        # By way of what they both share some with.
        ({'a': ('0', 4.0), 'b': ('1', 4.0), 'c': ('0-1', 5.0)},
         dict.fromkeys('abc', 3.0)),
        # Nobody tells of CPU 5.
        ({'a': ('0', 4.0), 'b': ('5', 0.0)}, {'a': 6.0}))
    @ddt.unpack
    def test_foreign(self, instances, expected):
        self.assertEqual(expected, kernel_counters.foreign_seconds(
            {0: 10.0, 1: 9.0, 2: 8.0},
            {name: (cpuset.CpuSet.parse(cpus), seconds)
             for name, (cpus, seconds) in instances.items()}))

    def test_all_cpus(self):
        self.assertEqual({'steal_seconds': 5.0}, kernel_counters.steal(
            _STAT.format(500, 200, 300)))

    def test_nothing_is_told(self):
        for text in '', 'cpu 1 2\n', 'intr 5\n':
            self.assertEqual({}, kernel_counters.steal(
                text, cpuset.CpuSet([0])))
