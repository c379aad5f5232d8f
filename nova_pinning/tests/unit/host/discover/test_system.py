# SPDX-License-Identifier: Apache-2.0
"""The kernel, and what the CPUs are."""

import os

import ddt
from oslotest import base

from nova_pinning.host.discover import processors
from nova_pinning.host.discover import system
from nova_pinning.host.discover import text
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.tests.unit.host.discover import sample_machines

cpus = sample_machines.cpus


@ddt.ddt
class TestSystem(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine()).small()

    def read(self):
        tree = self.machine.tree()
        return system.read(tree, processors.read(tree),
                           system.cpu_info(tree), 4)

    def cpu_model(self, root=None):
        tree = machine_files.Tree(root or self.machine.root)
        return system.cpu_model(tree, system.cpu_info(tree))

    def test_nothing(self):
        self.assertEqual(hardware.System(), self.read())

    def test_everything(self):
        cpu_tree = sample_machines.CPU
        for path, told in {
                'proc/sys/kernel/osrelease': '6.1.0-18-amd64',
                'proc/cmdline': 'root=/dev/sda1 isolcpus=2-3\t"a b"',
                'proc/cpuinfo': 'processor: 0\nflags : fpu vmx\n\nflags: svm',
                f'{cpu_tree}/present': '0-4',
                f'{cpu_tree}/isolated': '2-4,90',
                f'{cpu_tree}/nohz_full': '3',
                f'{cpu_tree}/smt/control': 'on',
                f'{cpu_tree}/vulnerabilities/l1tf': 'Not affected',
                f'{cpu_tree}/vulnerabilities/mds': 'Vulnerable: SMT',
                'sys/kernel/iommu_groups/0/type': 'DMA'}.items():
            self.machine.write(path, told)
        for cpu in range(4):
            path = f'{sample_machines.CPU}/cpu{cpu}/cpufreq'
            self.machine.write(f'{path}/scaling_driver', 'intel_pstate')
            self.machine.write(f'{path}/scaling_governor',
                               'performance' if cpu else 'powersave')
        self.assertEqual(hardware.System(
            kernel='6.1.0-18-amd64',
            command_line='root=/dev/sda1 isolcpus=2-3?"a b"',
            # CPU 90 is not one of this machine, 4 is switched off.
            isolated_cpus=cpus('2-4'), nohz_full_cpus=cpus('3'), smt='on',
            cpufreq_driver='intel_pstate',
            governors={'powersave': cpus('0'), 'performance': cpus('1-3')},
            virtualization='vmx', has_iommu=True,
            mitigations={'mds': 'Vulnerable: SMT'}), self.read())

    def test_nohz_full_of_a_kernel_without(self):
        self.machine.write(f'{sample_machines.CPU}/nohz_full', '  (null)')
        self.assertFalse(self.read().nohz_full_cpus)

    def test_no_iommu(self):
        (self.machine.root / 'sys/kernel/iommu_groups').mkdir(parents=True)
        self.assertIs(False, self.read().has_iommu)

    @ddt.data(
        ('vendor_id : GenuineIntel\nflags: lm', 'x86_64', 'Intel'),
        ('vendor_id : AuthenticAMD', 'x86_64', 'AMD'),
        ('vendor_id : SomebodyElse', 'x86_64', ''),
        ('BogoMIPS : 1\nCPU implementer : 0x41', 'aarch64', ''),
        ('cpu\t\t: POWER9, altivec supported', 'ppc64le', ''),
        ('vendor_id       : IBM/S390', 's390x', ''))
    @ddt.unpack
    def test_cpu_model(self, info, arch, vendor):
        self.machine.write('proc/cpuinfo', info)
        self.assertEqual(host_model.CpuModel(arch, vendor=vendor),
                         self.cpu_model())

    @ddt.data(('46 bits physical, 57 bits virtual', 46), ('46', 0),
              ('0 bits physical, 0 bits virtual', 0))
    @ddt.unpack
    def test_addresses(self, sizes, expected):
        self.machine.write('proc/cpuinfo', f'address sizes : {sizes}')
        self.assertEqual(expected, self.cpu_model().maxphysaddr_bits)

    def test_arch(self):
        self.machine.write('proc/cpuinfo', 'vendor_id : GenuineIntel')
        self.machine.write('proc/sys/kernel/arch', 'riscv64')
        self.assertEqual('riscv64', self.cpu_model().arch)
        self.machine.write('proc/sys/kernel/arch', 'A b')
        self.assertEqual('x86_64', self.cpu_model().arch)
        self.assertEqual(os.uname().machine, self.cpu_model('/').arch)

    def test_name(self):
        self.assertEqual(system.name(self.machine.tree()),
                         self.machine.root.name.lstrip('._-'))
        self.machine.write('etc/hostname', 'compute-1.example.org')
        self.assertEqual('compute-1.example.org',
                         system.name(self.machine.tree()))
        self.machine.write('proc/sys/kernel/hostname', '-a b/c')
        self.assertEqual('a-b-c', system.name(self.machine.tree()))
        self.machine.write('proc/sys/kernel/hostname', '...')
        self.assertEqual('host', system.name(self.machine.tree()))

    @ddt.data(('a\tb\n\udcff\x1b', 255, 'a?b???'), ('abcdef', 5, 'ab...'),
              ('abcde', 5, 'abcde'))
    @ddt.unpack
    def test_text(self, raw, most, expected):
        self.assertEqual(expected, text.clean(raw, most))

    @ddt.data(
        ('kvm_intel/parameters/enable_apicv', 'Y', 'dmar0/intel-iommu/cap',
         ('8d2078c106f0466', '8d2078c106f0466'), True),
        ('kvm_intel/parameters/enable_apicv', 'Y', 'dmar0/intel-iommu/cap',
         ('8d2078c106f0466', 'd2078c106f0466'), False),
        ('kvm_intel/parameters/enable_apicv', 'N', 'dmar0/intel-iommu/cap',
         ('8d2078c106f0466',), False),
        ('kvm_intel/parameters/enable_apicv', 'Y', 'x', ('',), None),
        ('kvm_amd/parameters/avic', '1', 'ivhd0/amd-iommu/features',
         ('0:58f77ef22294a5a',), True),
        ('kvm_amd/parameters/avic', '1', 'ivhd0/amd-iommu/features',
         ('58f77ef22094a5a',), False),
        ('kvm_amd/parameters/avic', 'N', 'ivhd0/amd-iommu/features',
         ('58f77ef22294a5a',), False))
    @ddt.unpack
    def test_posted_interrupts(self, parameter, value, path, registers,
                               expected):
        self.machine.write(f'sys/module/{parameter}', value)
        for number, register in enumerate(registers):
            self.machine.write(
                'sys/class/iommu/' + path.replace('0/', f'{number}/', 1),
                register)
        self.assertIs(expected, self.read().posted_interrupts)
