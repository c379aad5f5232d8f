# SPDX-License-Identifier: Apache-2.0
"""What the script tells the kernel, on a tree that looks like /proc, /sys.

What it writes is read back as the check of hosts reads it.
"""

import os
import pathlib
import subprocess

import ddt
import fixtures

from nova_pinning import cpuset
from nova_pinning.host.check import interrupt_lines
from nova_pinning.host.check import processes
from nova_pinning.host.check.rules import services
from nova_pinning.host import machine_files
from nova_pinning.host import render
from nova_pinning.host.render import host_unit
from nova_pinning.host.render import options
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host.render import render_samples
from nova_pinning.tests.unit import unit_base

PARSE = cpuset.CpuSet.parse
# What the kernel refuses to write to: an address at which nothing is.
_REFUSES = '/proc/self/mem'
# It moves nothing but what may be moved, and says what it was told.
_TASKSET = """#!/bin/sh
echo "$*" >>"$TOLD"
[ "$3" != 17 ]
"""


@ddt.ddt
class TestScript(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = machine_files.Tree(self.root)
        self.script = self.root / 'script'
        self._render(render_samples.planned(plan_values={'interrupts': ()}))
        taskset = self.root / 'bin/taskset'
        self._file('bin/taskset', _TASKSET)
        taskset.chmod(0o755)
        self.workqueue = self._file(
            'sys/devices/virtual/workqueue/cpumask', 'ff\n')
        self.governors = [self._file(
            f'sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor',
            'powersave\n') for cpu in range(8)]
        self.balancing = self._file('proc/sys/kernel/numa_balancing', '1\n')
        self.merging = self._file('sys/kernel/mm/ksm/run', '1\n')
        for pid, name, parent in (
                (1, 'systemd', 0), (2, 'kthreadd', 0), (17, 'migration/1', 2),
                (60, 'kswapd1', 2), (61, 'irq/24-acpi', 2),
                (62, 'vhost-900', 2), (63, 'kvm-pit/900', 2),
                (64, 'kvm-nx-lpage-recovery-900', 2), (65, 'odd) S 2 (', 1),
                (900, 'qemu', 1)):
            self._file(f'proc/{pid}/stat',
                       f'{pid} ({name}) S {parent} 0 0 0 -1 2097152\n')
        self._file('proc/70/cmdline', '')
        self._file('proc/irq/default_smp_affinity', 'ff\n')

    def _render(self, host):
        files = render.files(host)
        self.assertIn(f'etc/systemd/system/{host_unit.UNIT}', files)
        self.script.write_text(files[host_unit.SCRIPT].text)

    def _file(self, path, text):
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def _run(self):
        return subprocess.run(
            ['sh', self.script], capture_output=True, text=True,
            env=os.environ | {
                'NOVA_PINNING_SYS': str(self.root / 'sys'),
                'NOVA_PINNING_PROC': str(self.root / 'proc'),
                'PATH': f'{self.root}/bin:{os.environ["PATH"]}',
                'TOLD': str(self.root / 'told')})

    def test_told(self):
        done = self._run()
        self.assertEqual(
            (0, '0 interrupts placed\n2 threads of the kernel placed\n', ''),
            (done.returncode, done.stdout, done.stderr))
        self.assertEqual(PARSE('0,4'),
                         interrupt_lines.workqueue_cpus(self.tree))
        self.assertEqual(
            ['powersave', 'performance', 'performance', 'powersave',
             'powersave', 'performance', 'performance', 'powersave'],
            [file.read_text().strip() for file in self.governors])
        self.assertEqual('0\n', self.balancing.read_text())
        self.assertEqual('2\n', self.merging.read_text())
        # What must not be moved is left to the kernel to refuse.
        self.assertEqual(
            ['-pc 0,4 17', '-pc 0,4 2', '-pc 0,4 60'],
            (self.root / 'told').read_text().splitlines())

    def test_threads_of_others(self):
        """What the script leaves alone, the check does as well."""
        for name in ('irq/24-acpi', 'kvm-pit/900', 'kvm-nx-lpage-re'):
            self.assertTrue(services.is_of_others(name), name)
        for name in ('kswapd1', 'kthreadd', 'kvm', 'irq'):
            self.assertFalse(services.is_of_others(name), name)

    def test_an_older_kernel(self):
        for file in (self.workqueue, self.balancing, self.merging,
                     *self.governors):
            file.unlink()
        done = self._run()
        self.assertEqual((0, ''), (done.returncode, done.stderr))

    def test_not_allowed(self):
        self.workqueue.unlink()
        self.workqueue.symlink_to(_REFUSES)
        done = self._run()
        self.assertEqual(1, done.returncode)
        self.assertEqual(f'11 cannot be written to {self.workqueue}\n',
                         done.stderr)
        # All else is done nevertheless.
        self.assertEqual('0\n', self.balancing.read_text())

    def test_polling_only(self):
        self._render(render_samples.planned(
            plan_values={'poll_cpus': PARSE('1,5')},
            nova=host_samples.settings(shared='2-3,6-7'),
            traits=frozenset({'CUSTOM_PINNING_SHARED'})))
        self.assertEqual(0, self._run().returncode)
        self.assertEqual('performance', self.governors[5].read_text().strip())
        self.assertEqual('powersave', self.governors[6].read_text().strip())
        self.assertEqual('1\n', self.balancing.read_text())

    @ddt.data((None, None, False), (None, '3,7', True),
              (options.Confinement.AFFINITY, None, True))
    @ddt.unpack
    def test_tuned(self, confinement, shared, is_here):
        """What its profile does is left to it, unless guests float there."""
        text = render.files(render_samples.planned(
            nova=host_samples.settings(
                '1-3,5-7' if shared is None else '1-2,5-6', shared)),
            options.RenderOptions(confinement=confinement))[
                host_unit.SCRIPT].text
        for word in ('workqueue', 'scaling_governor', 'numa_balancing',
                     'taskset'):
            self.assertEqual(is_here, word in text)
        self.assertIn('ksm/run', text)
        self.assertIn('default_smp_affinity', text)

    def test_nothing_to_keep_quiet(self):
        files = render.files(render_samples.planned(
            nova=host_samples.settings(shared='1-3,5-7'),
            traits=frozenset({'CUSTOM_PINNING_SHARED'})))
        text = files[host_unit.SCRIPT].text
        self.assertIn('default_smp_affinity', text)
        self.assertNotIn('workqueue', text)

    def test_this_machine(self):
        """The children of kthreadd are what the check has for the kernel's."""
        tree = machine_files.Tree()
        if tree.text('/proc/2/comm') != 'kthreadd':
            self.skipTest('the threads of the kernel are not to be seen')
        # What the kernel starts as a program, such as modprobe, is a child of
        # kthreadd as well, and soon ends.
        self.assertEqual(set(), self.misjudged(tree) & self.misjudged(tree))

    def misjudged(self, tree):
        found = set()
        for pid in processes.pids(tree):
            process = processes.process(tree, pid)
            stat = tree.text(f'/proc/{pid}/stat')
            if process and stat:
                parent = stat.rpartition(') ')[2].split()[1]
                if process.of_kernel != (parent == '2' or pid == 2):
                    found.add((pid, process.name))
        return found
