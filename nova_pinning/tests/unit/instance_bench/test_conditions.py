# SPDX-License-Identifier: Apache-2.0
"""What is said of a host."""

from unittest import mock

import ddt

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.host.check import host_check_run
from nova_pinning.host import discover
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.instance_bench import conditions
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.tests.unit.host.discover import machine_dumps
from nova_pinning.tests.unit.host.discover import sample_machines
from nova_pinning.tests.unit import unit_base

CPU = sample_machines.CPU
_INFO = 'processor\t: 0\nmodel name\t: Fast CPU\nflags\t\t: fpu {}\n\n'


@ddt.ddt
class ConditionsTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine()).small()
        self.machine.write('proc/cpuinfo', _INFO.format('avx'))

    def gather(self):
        root = str(self.machine.root)
        return conditions.gather(cpu_layout.load(root=root), root)

    def test_what_there_is(self):
        for path, text in {
                'proc/sys/kernel/osrelease': '6.1.0-18-amd64',
                'proc/sys/kernel/random/boot_id': '0b3c',
                'proc/loadavg': '0.25 0.10 0.05 1/200 4711',
                f'{CPU}/smt/control': 'on',
                f'{CPU}/vulnerabilities/meltdown': 'Mitigation: PTI',
                f'{CPU}/vulnerabilities/l1tf': 'Not affected'}.items():
            self.machine.write(path, text)
        for cpu in range(4):
            self.machine.write(f'{CPU}/cpu{cpu}/cpufreq/scaling_governor',
                               'performance')

        found = self.gather()

        self.assertEqual('Fast CPU', found.cpu_model)
        self.assertEqual('1 socket, 1 NUMA node, 2 cores, 4 CPUs, 1 L3 '
                         'domain', found.topology)
        self.assertEqual(4, found.cpus)
        self.assertEqual(1024, found.memory_mib)
        self.assertEqual('6.1.0-18-amd64', found.kernel)
        self.assertEqual('performance', found.governor)
        self.assertEqual('on', found.smt)
        self.assertEqual('0b3c', found.boot_id)
        self.assertEqual(0.25, found.load)
        self.assertEqual({'meltdown': 'Mitigation: PTI'}, found.mitigations)
        self.assertEqual(
            {'dedicated': '1,3', 'shared': '0,2', 'host': '0,2'},
            {name: str(cpus) for name, cpus in found.layout.items()})
        self.assertEqual({'nova-pinning', 'python'}, set(found.versions))
        self.assertEqual('', found.virtualised)
        self.assertEqual(1, len(found.findings), found.findings)
        self.assertIn('default layout', found.findings[0])

    def test_what_there_is_not(self):
        found = self.gather()

        self.assertEqual(('', '', '', 0.0), (
            found.governor, found.smt, found.kernel, found.load))
        self.assertEqual({}, found.mitigations)

    @ddt.data('', 'x', '0.5x 1')
    def test_odd_load(self, text):
        self.machine.write('proc/loadavg', text)
        self.assertEqual(0.0, conditions.load(str(self.machine.root)))

    def test_doubts(self):
        self.machine.write('proc/loadavg', '3.00 1.00 1.00 1/200 4711')
        for cpu in range(4):
            self.machine.write(
                f'{CPU}/cpu{cpu}/cpufreq/scaling_governor',
                'powersave' if cpu else 'performance')

        found = self.gather()

        said = '\n'.join(found.findings)
        self.assertEqual(3.0, found.load)
        self.assertIn('powersave (CPUs 1-3)', said)
        self.assertEqual('performance (CPUs 0), powersave (CPUs 1-3)',
                         found.governor)

    @ddt.data(
        ({}, ''),
        ({'proc/cpuinfo': _INFO.format('hypervisor')},
         'by what hypervisor it does not tell'),
        ({conditions._CLOCKS[1:]: 'tsc kvm-clock acpi_pm'}, 'KVM'),
        ({conditions._CLOCKS[1:]: 'hyperv_clocksource_tsc_page tsc',
          'sys/class/dmi/id/sys_vendor': 'Microsoft Corporation'},
         'Hyper-V Microsoft Corporation'),
        ({conditions._CLOCKS[1:]: 'tsc hpet acpi_pm'}, ''),
        ({'proc/cpuinfo': _INFO.format('hypervisor'),
          'sys/class/dmi/id/sys_vendor': 'QEMU',
          'sys/class/dmi/id/product_name': 'Standard PC'},
         'QEMU Standard PC'),
        ({'sys/hypervisor/type': 'xen'}, 'Xen'),
        # Without the flag, as on other architectures.
        ({'sys/class/dmi/id/product_name': 'KVM Virtual Machine'},
         'KVM Virtual Machine'),
        ({'sys/class/dmi/id/sys_vendor': 'Dell Inc.'}, ''))
    @ddt.unpack
    def test_virtualised(self, files, expected):
        for path, text in files.items():
            self.machine.write(path, text)

        found = self.gather()

        self.assertEqual(expected, found.virtualised)

    def test_the_host_check_is_heeded(self):
        machine = discover.discover_host(self.machine.tree())
        here = cpu_layout.of_plan(planner.plan(
            machine, plan_request.PlanOptions()), machine)
        found = [check_rule.Finding(
            code=code, severity=severity, subject='service x',
            message='it floats', why='', advice='') for code, severity in (
                ('H301', check_rule.Severity.ERROR),
                ('H302', check_rule.Severity.NOTE))]

        with mock.patch.object(host_check_run, 'findings', return_value=found):
            said = conditions.gather(here, str(self.machine.root)).findings

        self.assertEqual(('H301 error: service x: it floats',), said)

    def test_a_plan_is_checked(self):
        machine = discover.discover_host(self.machine.tree())
        here = cpu_layout.of_plan(planner.plan(
            machine, plan_request.PlanOptions()), machine)
        # Since it was planned a CPU has been switched off.
        self.machine.write(f'{CPU}/online', '0-2')

        said = conditions.gather(here, str(self.machine.root)).findings

        self.assertIn('H201 error', str(said))

    @ddt.data('16em64t-4s2c2t-offlines', '64amd64-4s2n4ca2co')
    def test_real_machines(self, name):
        root = str(machine_dumps.root(self, name))
        here = cpu_layout.load(root=root)

        found = conditions.gather(here, root)

        self.assertTrue(found.cpu_model)
        self.assertIn(f'{len(here.cpus)} CPUs', found.topology)
        self.assertEqual(here.cpus, cpuset.union(found.layout.values()))
