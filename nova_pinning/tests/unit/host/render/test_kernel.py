# SPDX-License-Identifier: Apache-2.0
"""The kernel's command line, and huge pages by node."""

import dataclasses
import pathlib
import shutil
import subprocess

import ddt
import fixtures

from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import render
from nova_pinning.host.render import kernel
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host.render import render_samples
from nova_pinning.tests.unit import unit_base

MIB = host_samples.MIB_PAGES
GIB = host_samples.GIB_PAGES


def line(host, **values):
    """The command line, word by word."""
    return [str(flag) for flag in kernel.flags(
        planned_host.planned_host_of(host), options.RenderOptions(**values))]


def without_cards(**values):
    return render_samples.planned(pci_devices=(), **values)


@ddt.ddt
class TestFlags(unit_base.TestCase):

    @ddt.data(('5.4.0-190-generic', ''), ('5.5.1', ''),
              ('5.6.0', 'managed_irq,'), ('6.1.0', 'managed_irq,'),
              ('', 'managed_irq,'))
    @ddt.unpack
    def test_managed_interrupts(self, release, word):
        """Older kernels would drop all of isolcpus= for this word."""
        host = render_samples.planned(system=hardware.System(kernel=release))
        self.assertEqual(f'isolcpus={word}domain,1-2,5-6', line(
            host, isolation=options.Isolation.FULL)[-1])

    def test_conservative(self):
        self.assertEqual(
            ['default_hugepagesz=2M', 'hugepagesz=2M', 'hugepages=2048',
             'intel_iommu=on', 'iommu=pt', 'irqaffinity=0,4'],
            line(render_samples.planned()))

    @ddt.data(
        # Alike on all nodes: any kernel spreads them.
        ((512, 512), '5.10.0', ['1024']), ((512, 512), '', ['1024']),
        ((512, 511), '6.1.0-18', ['0:512,1:511']),
        ((512, 0), '5.16', ['0:512']), ((512, 0), '5.15.0-91', []),
        ((512, 0), 'odd', []), ((512, 0), '', []), ((0, 0), '6.1', []),
        ((512, 0), '10.0', ['0:512']))
    @ddt.unpack
    def test_pages(self, pages, release, expected):
        host = render_samples.planned(
            pages=pages, system=hardware.System(kernel=release))
        self.assertEqual(
            expected, [word.partition('=')[2] for word in line(host)
                       if word.startswith('hugepages=')])
        self.assertEqual(
            any(pages) and not expected,
            kernel.PAGES_PATH in render.files(host))

    def test_nodes_without_memory_do_not_count(self):
        host = render_samples.planned(pages=(512, 0),
                                      system=hardware.System(kernel='5.10'))
        first, second = host.nodes
        host = dataclasses.replace(host, nodes=(
            first, dataclasses.replace(second, memory_mib=0)))
        self.assertIn('hugepages=512', line(host))

    @ddt.data((GIB, '1G'), (MIB, '2M'), (16 * GIB, '16G'), (64, '64K'),
              (512 * 1024, '512M'))
    @ddt.unpack
    def test_sizes(self, size_kib, text):
        host = without_cards(plan_values={'page_size_kib': size_kib})
        host = dataclasses.replace(host, nodes=tuple(
            dataclasses.replace(node, huge_pages={size_kib: 1})
            for node in host.nodes))
        self.assertEqual([f'default_hugepagesz={text}', f'hugepagesz={text}',
                          'hugepages=2', 'irqaffinity=0,4'], line(host))

    def test_two_sizes(self):
        host = without_cards(plan_values={'page_size_kib': GIB})
        host = dataclasses.replace(host, nodes=tuple(
            dataclasses.replace(node, huge_pages={MIB: 8, GIB: 2})
            for node in host.nodes))
        self.assertEqual(
            ['default_hugepagesz=1G', 'hugepagesz=1G', 'hugepages=4',
             'hugepagesz=2M', 'hugepages=16', 'irqaffinity=0,4'], line(host))

    def test_no_pages(self):
        host = without_cards(plan_values={'page_size_kib': 0}, pages=(0, 0))
        self.assertEqual(['irqaffinity=0,4'], line(host))

    @ddt.data(
        ('x86_64', 'Intel', '', ['intel_iommu=on', 'iommu=pt']),
        ('x86_64', '', 'vmx', ['intel_iommu=on', 'iommu=pt']),
        ('x86_64', '', '', ['intel_iommu=on', 'iommu=pt']),
        ('x86_64', 'AMD', '', ['iommu=pt']),
        ('x86_64', 'AuthenticAMD', '', ['iommu=pt']),
        ('x86_64', '', 'svm', ['iommu=pt']),
        ('aarch64', 'ARM', '', ['iommu.passthrough=1']))
    @ddt.unpack
    def test_iommu(self, arch, vendor, virtualization, expected):
        values = {
            'cpu_model': host_model.CpuModel(arch=arch, vendor=vendor),
            'system': hardware.System(virtualization=virtualization)}
        self.assertEqual(expected, [
            word for word in line(render_samples.planned(**values))
            if 'iommu' in word])
        self.assertNotIn('iommu', ' '.join(line(without_cards(**values))))
        self.assertIn('iommu', ' '.join(line(render_samples.polling(
            pci_devices=(), **values))))

    @ddt.data(
        (options.Isolation.NONE, []),
        (options.Isolation.TICKLESS, ['nohz_full=1-2,5-6',
                                      'rcu_nocbs=1-2,5-6']),
        (options.Isolation.FULL, ['nohz_full=1-2,5-6', 'rcu_nocbs=1-2,5-6',
                                  'isolcpus=managed_irq,domain,1-2,5-6']))
    @ddt.unpack
    def test_isolation(self, isolation, expected):
        for host in (without_cards(), render_samples.polling(pci_devices=())):
            found = line(host, isolation=isolation)
            self.assertEqual(
                expected, found[found.index('irqaffinity=0,4') + 1:])

    def test_nothing_to_isolate(self):
        host = render_samples.planned(nova=host_samples.settings(
            shared='1-3,5-7'))
        line(host)
        error = self.assertRaises(
            errors.InputError, line, host, isolation=options.Isolation.FULL)
        self.assertIn('nothing to isolate', str(error))

    def test_cpu_0_without_tick(self):
        host = render_samples.planned(
            nova=host_samples.settings(dedicated='0,4'),
            plan_values={'host_cpus': render_samples.PARSE('1,5')})
        told = {flag.name: flag.why for flag in kernel.flags(
            planned_host.planned_host_of(host),
            options.RenderOptions(isolation=options.Isolation.TICKLESS))}
        self.assertIn('CPU 0 is among them', told['nohz_full'])

    def test_contradictions(self):
        host = render_samples.planned(system=hardware.System(
            kernel='6.1', command_line='BOOT_IMAGE=/x ro hugepagesz=1G '
            'hugepages=4 hugepagesz=2M isolcpus=2 iommu=pt quiet nohz_full=2 '
            'irqaffinity=0,4 intel_iommu=off'))
        self.assertEqual(
            ('hugepagesz=1G', 'hugepages=4', 'isolcpus=2', 'nohz_full=2',
             'intel_iommu=off'), kernel.contradictions(
                 planned_host.planned_host_of(host),
                 kernel.flags(planned_host.planned_host_of(host),
                              options.RenderOptions()),
                 options.RenderOptions()))
        for path in (kernel.GRUB_PATH, kernel.TEXT_PATH):
            text = render.files(host)[path].text
            self.assertIn('hugepages=4', text)
            # tuned has written that, and would again.
            self.assertNotIn('nohz_full', text)

    def test_each_flag_is_explained(self):
        wanted = options.RenderOptions(
            isolation=options.Isolation.FULL,
            confinement=options.Confinement.AFFINITY)
        host = render_samples.planned()
        files = render.files(host, wanted)
        for flag in kernel.flags(planned_host.planned_host_of(host), wanted):
            for path in (kernel.GRUB_PATH, kernel.TEXT_PATH):
                told = ' '.join(files[path].text.replace('#', ' ').split())
                self.assertIn(' '.join(flag.why.split()), told)


class TestPagesFile(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        host = render_samples.planned(pages=(700, 3), system=hardware.System())
        self.file = render.files(host)[kernel.PAGES_PATH]

    def test_lines(self):
        path = ('/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/'
                'nr_hugepages')
        self.assertEqual(
            [['w', path.format(0), '-', '-', '-', '-', '700'],
             ['w', path.format(1), '-', '-', '-', '-', '3']],
            [line.split() for line in self.file.text.splitlines()
             if not line.startswith('#')])

    def test_systemd_does_it(self):
        tmpfiles = shutil.which('systemd-tmpfiles')
        if tmpfiles is None:
            self.skipTest('systemd-tmpfiles is not installed')
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        places = [root.joinpath(
            'sys/devices/system/node', f'node{node}',
            'hugepages/hugepages-2048kB/nr_hugepages') for node in (0, 1)]
        for place in places:
            place.parent.mkdir(parents=True)
            place.write_text('0\n')
        config = root / 'pages.conf'
        config.write_text(self.file.text)
        done = subprocess.run(
            [tmpfiles, '--create', f'--root={root}', config],
            capture_output=True, text=True)
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertEqual(['700', '3'],
                         [place.read_text().strip() for place in places])
