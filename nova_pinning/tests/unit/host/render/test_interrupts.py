# SPDX-License-Identifier: Apache-2.0
"""Interrupts as the script places them, on a tree that looks like /proc."""

import os
import pathlib
import shutil
import subprocess

import ddt
import fixtures

from nova_pinning.host import hardware
from nova_pinning.host import plan_model
from nova_pinning.host import render
from nova_pinning.host.render import host_unit
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host.render import render_samples
from nova_pinning.tests.unit import unit_base

# What the kernel refuses to write to: an address at which nothing is.
_REFUSES = '/proc/self/mem'
_THREADS = '0 threads of the kernel placed'


@ddt.ddt
class TestScript(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.script = self.root / 'script'
        self.script.write_text(
            render.files(render_samples.planned())[host_unit.SCRIPT].text)
        (self.root / 'proc/irq').mkdir(parents=True)
        self.default = self.root / 'proc/irq/default_smp_affinity'
        self.default.write_text('ff\n')
        for irq in (0, 1, 9, 10, 11, 100, 101, 30):
            self._file(irq).parent.mkdir()
            self._file(irq).write_text('0-7\n')
        self._device(render_samples.NIC, 100, 9, 10, 11)
        disk = self.root / 'sys/bus/pci/devices' / render_samples.DISK
        disk.mkdir(parents=True)
        (disk / 'irq').write_text('30\n')

    def _file(self, irq):
        return self.root / 'proc/irq' / str(irq) / 'smp_affinity_list'

    def _device(self, address, *irqs):
        place = self.root / 'sys/bus/pci/devices' / address / 'msi_irqs'
        place.mkdir(parents=True)
        for irq in irqs:
            (place / str(irq)).write_text('msix\n')

    def _run(self, shell='sh'):
        return subprocess.run(
            [shell, self.script], capture_output=True, text=True,
            env=os.environ | {'NOVA_PINNING_SYS': str(self.root / 'sys'),
                              'NOVA_PINNING_PROC': str(self.root / 'proc')})

    def _placed(self):
        return {int(path.parent.name): path.read_text().strip()
                for path in self.root.glob('proc/irq/*/smp_affinity_list')}

    @ddt.data('sh', 'bash')
    def test_place(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f'{shell} is not installed')
        done = self._run(shell)
        self.assertEqual((0, f'8 interrupts placed\n{_THREADS}\n', ''),
                         (done.returncode, done.stdout, done.stderr))
        self.assertEqual({
            # Of the NIC, by number: its CPUs take turns.
            9: '0', 10: '4', 11: '0', 100: '4',
            # Of the disk.
            30: '4',
            # All others.
            0: '0,4', 1: '0,4', 101: '0,4'}, self._placed())
        self.assertEqual('11\n', self.default.read_text())

    def test_what_the_kernel_places(self):
        for irq in (0, 10):
            self._file(irq).unlink()
            self._file(irq).symlink_to(_REFUSES)
        done = self._run()
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertEqual(
            ['6 interrupts placed',
             'placed by the kernel itself, or CPUs are offline: 10 0',
             _THREADS],
            done.stdout.splitlines())

    def test_one_is_gone(self):
        self._file(9).unlink()
        done = self._run()
        self.assertEqual((0, f'7 interrupts placed\n{_THREADS}\n', ''),
                         (done.returncode, done.stdout, done.stderr))

    def test_a_device_is_gone(self):
        shutil.rmtree(self.root / 'sys/bus/pci/devices' / render_samples.DISK)
        done = self._run()
        self.assertEqual(
            (0, f'there is no device {render_samples.DISK}\n'),
            (done.returncode, done.stderr))
        self.assertEqual('0,4', self._placed()[30])

    def test_not_allowed(self):
        self.default.unlink()
        self.default.symlink_to(_REFUSES)
        done = self._run()
        self.assertEqual(1, done.returncode)
        self.assertIn('needs root', done.stderr)
        self.assertEqual({'0-7'}, set(self._placed().values()))

    def test_a_device_of_this_machine(self):
        """The real /sys, which is only read."""
        found = sorted(pathlib.Path('/sys/bus/pci/devices').glob(
            '*/msi_irqs'))
        if not found:
            self.skipTest('no PCI device here has MSI interrupts')
        device = found[0].parent.name
        irqs = sorted(int(path.name) for path in found[0].iterdir())
        # Without CPUs to keep quiet: nothing else is written.
        host = render_samples.planned(
            plan_values={'interrupts': (plan_model.Interrupts(
                device, 'x', render_samples.PARSE('0,4')),)},
            nova=host_samples.settings(shared='1-3,5-7'),
            traits=frozenset({'CUSTOM_PINNING_SHARED'}))
        self.script.write_text(render.files(host)[host_unit.SCRIPT].text)
        shutil.rmtree(self.root / 'proc/irq')
        for irq in irqs:
            self._file(irq).parent.mkdir(parents=True)
            self._file(irq).write_text('0-7\n')
        (self.root / 'sys').rename(self.root / 'other')
        (self.root / 'sys').symlink_to('/sys')
        self.assertEqual(0, self._run().returncode)
        self.assertEqual(
            {irq: ('0', '4')[place % 2] for place, irq in enumerate(irqs)},
            self._placed())

    def test_no_devices(self):
        host = render_samples.planned(plan_values={'interrupts': ()})
        self.script.write_text(render.files(host)[host_unit.SCRIPT].text)
        self._run()
        self.assertEqual({'0,4'}, set(self._placed().values()))


class TestShellcheck(unit_base.TestCase):

    def test_scripts(self):
        if shutil.which('shellcheck') is None:
            self.skipTest('shellcheck is not installed')
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        files = render.files(render_samples.polling(
            pages=(1024, 512), system=hardware.System()))
        scripts = []
        for path, file in files.items():
            if file.executable or path.endswith('.cfg'):
                scripts.append(root / pathlib.PurePath(path).name)
                scripts[-1].write_text(file.text)
        self.assertEqual(3, len(scripts))
        done = subprocess.run(
            ['shellcheck', '--shell=sh', '--exclude=SC2034', *scripts],
            capture_output=True, text=True)
        self.assertEqual((0, ''), (done.returncode, done.stdout))
