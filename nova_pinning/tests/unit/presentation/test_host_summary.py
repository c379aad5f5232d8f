# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
import hypothesis
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.presentation import host_summary
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base


def cpus(cpu_list):
    return cpuset.CpuSet.parse(cpu_list)


@ddt.ddt
class TestSummary(oslotest.BaseTestCase):

    def test_hardware(self):
        first, second = host_samples.host().nodes
        host = host_samples.host(
            nodes=(
                dataclasses.replace(first, distances=(10, 21), huge_pages={
                    host_samples.GIB_PAGES: 1, host_samples.MIB_PAGES: 0}),
                dataclasses.replace(second, distances=(21, 10))),
            offline_cpus=cpus('8'),
            cpu_model=host_model.CpuModel(vendor='Intel'),
            system=hardware.System(virtualization='vmx'),
            dies=(hardware.Die(0, 0, cpus('0,4')),
                  hardware.Die(0, 1, cpus('1,5'))),
            caches=(hardware.Caches(1, hardware.CacheKind.DATA, 48,
                                    (cpus('0,4'), cpus('1'))),
                    hardware.Caches(3, hardware.CacheKind.UNIFIED, 33 * 1024,
                                    (cpus('0-3'), cpus('4-7')))),
            core_kinds=(hardware.CoreKind('efficient', cpus('2-3,6-7')),))
        self.assertEqual({
            'CPUs': '2 sockets, 2 NUMA nodes, 4 cores, 8 CPUs, Intel, '
                    'x86_64, vmx',
            'offline': 'CPU 8',
            'dies': 'socket 0 die 0: CPUs 0,4; socket 0 die 1: CPUs 1,5',
            'efficient cores': 'CPUs 2-3,6-7',
            'caches': '2 x L1d 48 KiB for 1-2 CPUs; 2 x L3 33 MiB for 4 CPUs',
            'node 0': 'socket 0, 8 GiB, 1 page of 1 GiB, CPUs 0-1,4-5',
            'node 1': 'socket 1, 8 GiB, CPUs 2-3,6-7',
            'distances': '21 between any two nodes',
        }, dict(host_summary.hardware_rows(host)))

    def test_distances_that_differ(self):
        nodes = tuple(
            dataclasses.replace(
                host_samples.host().nodes[0], id=number, cores=(),
                distances=row)
            for number, row in enumerate(
                ((10, 12, 21), (12, 10, 21), (21, 21, 10))))
        told = dict(host_summary.hardware_rows(host_samples.host(nodes=nodes)))
        self.assertEqual('socket 0, 8 GiB, no CPUs, distances 12 10 21',
                         told['node 1'])
        self.assertNotIn('distances', told)

    def test_kernel(self):
        self.assertEqual({
            'release': '6.1.0', 'command line': 'quiet',
            'isolated': 'CPUs 2-3',
            'nohz_full': 'CPU 2', 'SMT': 'on',
            'governor': 'performance on CPUs 0-1; powersave on CPU 2',
            'cpufreq': 'intel_pstate', 'IOMMU': 'in use',
            'mitigations': '1 not affected, 2 mitigated, sibling threads '
                           'exposed: f, not mitigated: c, not known: d',
        }, dict(host_summary.kernel_rows(hardware.System(
            kernel='6.1.0', command_line='quiet', isolated_cpus=cpus('2-3'),
            nohz_full_cpus=cpus('2'), smt='on', cpufreq_driver='intel_pstate',
            governors={'powersave': cpus('2'), 'performance': cpus('0-1')},
            has_iommu=True, mitigations={
                'a': 'Not affected', 'b': 'Mitigation: x',
                'c': 'Vulnerable', 'd': 'Unknown: x',
                'e': 'KVM: Mitigation: VMX disabled',
                'f': 'Mitigation: x; SMT vulnerable'}))))

    def test_what_is_not_known_is_left_out(self):
        self.assertEqual([], list(host_summary.kernel_rows(hardware.System())))
        self.assertEqual({'release': '6.1.0', 'isolated': 'no CPUs',
                          'IOMMU': 'not in use'},
                         dict(host_summary.kernel_rows(hardware.System(
                             kernel='6.1.0', has_iommu=False))))

    @ddt.data(
        ({'kind': hardware.PciKind.NIC, 'names': ('eth0', 'eth1'),
          'iommu_group': 0, 'queues': 8, 'driver': 'ice',
          'speed_mbps': 25000, 'in_use': 'in bond0'},
         ('NIC eth0 eth1', '0000:01:00.0', '8086:158b', '0', '0', '8', 'ice',
          '25 Gbit/s, in bond0')),
        ({'kind': hardware.PciKind.GPU, 'alias': 'a\x1b'},
         ('GPU', '0000:01:00.0', '8086:158b', '0', '', '', '',
          'for guests as a?')))
    @ddt.unpack
    def test_devices(self, values, row):
        self.assertEqual([row], list(host_summary.device_rows([
            host_model.PciDevice(
                '0000:01:00.0', '8086', '158b', 0, **values)])))
        self.assertEqual(len(host_summary.DEVICE_COLUMNS), len(row))

    def test_virtual_functions_are_told_together(self):
        def function(number, **values):
            return host_model.PciDevice(
                f'0000:01:02.{number}', '8086', '154c', 0,
                kind=hardware.PciKind.NIC, names=(f'eth0v{number}',),
                iommu_group=number, physical_function='0000:01:00.0',
                **values)
        rows = host_summary.device_rows((
            function(0), function(1), function(2, alias='vf'), function(3)))
        self.assertEqual([
            ('NIC 3 VFs', '0000:01:02.0...', '8086:154c', '0', '', '', '', ''),
            ('NIC 1 VF eth0v2', '0000:01:02.2', '8086:154c', '0', '2', '', '',
             'for guests as vf'),
        ], list(rows))

    @unit_base.settings(max_examples=60)
    @hypothesis.given(host_samples.any_host())
    def test_any_host(self, host):
        for rows in (host_summary.hardware_rows(host),
                     host_summary.kernel_rows(host.system),
                     host_summary.device_rows(host.pci_devices)):
            for row in rows:
                for cell in row:
                    self.assertTrue(cell.isprintable(), row)
