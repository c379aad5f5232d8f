# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts, as far as it does."""

import pathlib

import ddt
import fixtures

from nova_pinning import cpuset
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.tests.unit import unit_base

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


class ThreadsTestCase(TestCase):

    def thread(self, tid, name, schedstat):
        self.write(f'proc/7/task/{tid}/comm', name)
        self.write(f'proc/7/task/{tid}/schedstat', schedstat)

    def test_run_delay(self):
        """Of vCPUs alone."""
        for tid, name in enumerate(
                ('qemu-system-x86', 'CPU 0/KVM', 'CPU 1/TCG', 'vnc_worker'),
                10):
            self.thread(tid, name, f'9 {tid * 10**9} 4\n')
        self.assertEqual({'run_delay_seconds': 23.0},
                         kernel_counters.run_delay(self.tree, 7))

    def test_a_kernel_that_does_not_count(self):
        self.thread(8, 'CPU 0/KVM', '')
        for pid in 7, 8:
            self.assertEqual({}, kernel_counters.run_delay(self.tree, pid))


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

    def test_nothing_is_told(self):
        for text in '', 'cpu 1 2\n', 'intr 5\n':
            self.assertEqual({}, kernel_counters.steal(
                text, cpuset.CpuSet([0])))
