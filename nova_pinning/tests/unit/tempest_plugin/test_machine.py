# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.machine."""

import pathlib
import subprocess

from nova_pinning import cpuset
from nova_pinning.tempest_plugin import machine
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base

SYSFS = '\n'.join([
    '/sys/devices/system/cpu/online:0-7',
    *(f'/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list:'
      f'{cpu // 2 * 2}-{cpu // 2 * 2 + 1}' for cpu in range(8)),
    '/sys/devices/system/node/node0/cpulist:0-3',
    '/sys/devices/system/node/node1/cpulist:4-7',
    '/sys/devices/system/node/node0/hugepages/hugepages-2048kB/'
    'free_hugepages:32',
    '/sys/devices/system/node/node1/hugepages/hugepages-2048kB/'
    'free_hugepages:0',
    '/proc/self/status:CapBnd:\t000001ffffffffff', '/chrt:works'])


class MachineTest(unit_base.TestCase):

    def test_parse(self):
        self.assertEqual(guest_samples.MACHINE, machine.parse(SYSFS))

    def test_in_a_container(self):
        text = SYSFS.replace('000001ffffffffff', '000001fffeffffff')
        found = machine.parse(text.replace('/chrt:works', ''))
        self.assertFalse(found.can_lock_memory)
        self.assertFalse(found.can_run_realtime)

    def test_without_numa(self):
        lines = [line for line in SYSFS.splitlines() if '/node/' not in line]
        self.assertEqual({0: guest_samples.cpus('0-7')},
                         machine.parse('\n'.join(lines)).nodes)

    def test_nothing(self):
        error = self.assertRaises(ValueError, machine.parse, 'no sysfs here')
        self.assertIn('does not tell which CPUs', str(error))

    def test_threads(self):
        self.assertTrue(
            guest_samples.MACHINE.has_threads(guest_samples.cpus('2-4')))
        self.assertFalse(
            guest_samples.MACHINE.has_threads(guest_samples.cpus('1-2,4')))
        self.assertEqual(guest_samples.cpus('2-3'),
                         guest_samples.MACHINE.siblings(3))
        self.assertEqual(guest_samples.cpus('9'),
                         guest_samples.MACHINE.siblings(9))

    def test_per_node(self):
        self.assertEqual({1: guest_samples.cpus('4-5')},
                         guest_samples.MACHINE.per_node(
                             guest_samples.cpus('4-5')))

    def test_this_machine(self):
        """The script, on the kernel that runs the tests."""
        printed = subprocess.run(
            ['sh', '-c', machine.SCRIPT], capture_output=True, text=True,
            check=True)
        online = pathlib.Path('/sys/devices/system/cpu/online')
        if not online.exists():
            self.skipTest('the kernel does not tell which CPUs it has')
        found = machine.parse(printed.stdout)
        self.assertEqual(
            cpuset.CpuSet.parse(online.read_text().strip()), found.online)
        self.assertEqual(
            found.online, cpuset.union(found.cores) & found.online)
