# SPDX-License-Identifier: Apache-2.0
"""Nothing is found on a right host, and each thing that is wrong is."""

import dataclasses
import pathlib

import ddt

from nova_pinning.checks import check_rule
from nova_pinning.host.check import facts
from nova_pinning.host.check import host_check_run
from nova_pinning.host import hardware
from nova_pinning.host import plan_model
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.host.check import host_check_cases
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

PAGE = (pathlib.Path(__file__).parents[5] / 'doc' / 'source' / 'reference' /
        'host-checks.rst')

cpus = fact_samples.cpus
replace = fact_samples.replace


@ddt.ddt
class RulesTestCase(unit_base.TestCase):

    @ddt.data(*host_check_cases.RIGHT)
    def test_right(self, name):
        self.assertEqual((), fact_samples.find(
            host_check_cases.counted(host_check_cases.RIGHT[name]())))

    @ddt.data(*host_check_cases.WRONG)
    def test_wrong(self, name):
        codes, make = host_check_cases.WRONG[name]
        self.assertEqual(codes, ','.join(
            fact_samples.codes(host_check_cases.counted(make()))))

    @ddt.data(('1,3', check_rule.Severity.WARNING),
              ('1,3,5,7', check_rule.Severity.NOTE))
    @ddt.unpack
    def test_irqbalance_is_told_once(self, banned, severity):
        found, = fact_samples.find(fact_samples.right_facts(
            irqbalance=facts.Irqbalance(77, cpus(banned))))
        self.assertEqual(severity, found.severity)
        self.assertIn('which the plan places', found.message)

    def test_every_rule_is_tried(self):
        tried = {code for codes, _make in host_check_cases.WRONG.values()
                 for code in codes.split(',')}
        tried |= {'H200', 'H201', 'H202', 'H306'}
        self.assertEqual(
            sorted(code for code, rule in host_check_run.RULES.items()
                   if rule.find), sorted(tried))

    @ddt.data(('0-15', False), ('0-16', True), ('0-3', False), ('0-2', True),
              ('8-15', True))
    @ddt.unpack
    def test_another_machine(self, where, is_other):
        """Nothing else is told then, least of all commands."""
        first, second = fact_samples.machine().nodes
        seen = host_check_cases.with_host(nodes=(
            replace(first, cores=tuple(
                (cpu,) for cpu in fact_samples.cpus(where)), l3_domains=()),
            replace(second, cores=(), l3_domains=())))
        codes = fact_samples.codes(seen)
        self.assertEqual(is_other, codes == ['H200'])
        self.assertEqual(is_other, 'H200' in codes)

    @ddt.data('0-3', '4-7')
    def test_cpus_that_are_offline_belong_to_a_machine(self, offline):
        seen = host_check_cases.with_host(
            nodes=tuple(
                replace(node, cores=tuple(
                    core for core in node.cores
                    if not set(core) & set(fact_samples.cpus(offline))),
                    l3_domains=())
                for node in fact_samples.machine().nodes),
            offline_cpus=fact_samples.cpus(offline))
        self.assertNotIn('H200', fact_samples.codes(seen))

    def test_no_cpus_for_guests(self):
        """A host that nothing is dedicated on has nothing to be kept off."""
        plan = fact_samples.planned()
        plan = replace(
            plan, nova=host_samples.settings(None, '1-3,5-7'), pci_devices=(),
            plan=replace(plan.plan, purpose=plan_model.Purpose.SHARED,
                         interrupts=()))
        seen = replace(
            host_check_cases.with_process(
                fact_samples.process(600, 'cron', '0-7')),
            nova_conf=None, guests=(
                fact_samples.shared_guest(3000, 'c', '1-3,5-7'),),
            free_pages={})
        self.assertEqual([], fact_samples.codes(seen, plan))

    def test_options_that_do_no_harm(self):
        """What undoes some plans does nothing to others."""
        plan = fact_samples.planned()
        plan = replace(
            plan, nova=host_samples.settings(None, '1-3,5-7'),
            plan=replace(plan.plan, page_size_kib=0))
        seen = replace(
            host_check_cases.with_conf(has_file_backed_memory=True,
                                       manages_cpu_power=True,
                                       settings=plan.nova),
            guests=(fact_samples.shared_guest(3000, 'c', '1-3,5-7'),),
            free_pages={})
        self.assertEqual([], fact_samples.codes(seen, plan))

    @ddt.data(
        (None, False, None), (None, True, check_rule.Severity.NOTE),
        (True, True, None), (False, False, None),
        (True, False, check_rule.Severity.WARNING),
        (False, True, check_rule.Severity.WARNING))
    @ddt.unpack
    def test_order_of_nodes(self, planned, there, severity):
        """Nova's default needs no word in the plan."""
        plan = fact_samples.planned()
        plan = replace(plan, nova=replace(plan.nova, packs_cells=planned))
        self.assertEqual(
            [] if severity is None else [('H110', severity)],
            [(one.code, one.severity) for one in fact_samples.find(
                host_check_cases.with_settings(packs_cells=there), plan)])

    def test_one_shared_cpu(self):
        """A NUMA guest floats over the only shared CPU of its node."""
        plan = fact_samples.planned()
        plan = replace(plan, nova=host_samples.settings(
            '3,7', '0,1,2', reserved_memory_mib=2048))
        seen = host_check_cases.with_guests(fact_samples.guest(
            1000, 'a', ('2', '2'), emulator='2', node=1))
        seen = replace(seen, nova_conf=None)
        self.assertEqual(
            [], fact_samples.codes(host_check_cases.counted(seen), plan))
        # There are two on node 0.
        seen = host_check_cases.with_guests(fact_samples.guest(
            1000, 'a', ('1', '1'), emulator='0-1'))
        seen = replace(seen, nova_conf=None)
        self.assertEqual(['H603', 'H604'],
                         fact_samples.codes(host_check_cases.counted(seen),
                                            plan))

    def test_polling_threads(self):
        seen, plan = host_check_cases.polling_plan()
        seen = replace(seen,
                       processes=(host_check_cases.vswitchd(('3', '7')),))
        self.assertEqual((), fact_samples.find(seen, plan))
        seen = replace(seen,
                       processes=(host_check_cases.vswitchd(('3', '5')),))
        found, idle = fact_samples.find(seen, plan)
        self.assertEqual('H306', idle.code)
        self.assertEqual('H305', found.code)
        self.assertEqual(
            ('ovs-vsctl set Open_vSwitch . '
             'other_config:pmd-cpu-mask=0x88',), found.remediation)

    def test_nothing_polls(self):
        seen, plan = host_check_cases.polling_plan()
        seen = replace(seen, processes=(host_check_cases.vswitchd(('3',)),))
        found, = fact_samples.find(seen, plan)
        self.assertEqual(('H306', 'no thread polls on CPU 7'),
                         (found.code, found.message))

    def test_others_on_poll_cpus(self):
        seen, plan = host_check_cases.polling_plan(
            processes=(fact_samples.process(9, 'cron', '3', 'cron.service'),
                       host_check_cases.vswitchd(('3', '7'))))
        self.assertEqual(['H302'], fact_samples.codes(seen, plan))

    def test_poll_pages(self):
        seen, plan = host_check_cases.polling_plan(
            processes=(host_check_cases.vswitchd(('3', '7')),))
        seen = replace(seen, free_pages={
            (0, fact_samples.GIB_PAGES): 2, (1, fact_samples.GIB_PAGES): 3})
        self.assertEqual(['H503'], fact_samples.codes(seen, plan))
        plan = replace(plan, plan=replace(plan.plan, poll_pages={1: 1}))
        self.assertEqual([], fact_samples.codes(seen, plan))


@ddt.ddt
class OnlineTestCase(unit_base.TestCase):
    """CPUs that come and go."""

    def _without(self, *gone, offline=''):
        return host_check_cases.with_host(
            nodes=tuple(
                replace(node, huge_pages={fact_samples.GIB_PAGES: 4},
                        cores=tuple(
                            tuple(cpu for cpu in core if cpu not in gone)
                            for core in node.cores), l3_domains=())
                for node in host_samples.host().nodes),
            offline_cpus=cpus(offline))

    def test_offline(self):
        seen = replace(self._without(7, offline='7'),
                       guests=(fact_samples.guest(1000, 'a', ('1', '5')),))
        found, = fact_samples.find(host_check_cases.counted(seen))
        self.assertEqual('H201', found.code)
        self.assertEqual(('echo 1 > /sys/devices/system/cpu/cpu7/online',),
                         found.remediation)
        self.assertEqual('CPU 7 of the plan is offline', found.message)

    def test_gone(self):
        seen = replace(self._without(3, 7), guests=())
        found, = fact_samples.find(host_check_cases.counted(seen))
        self.assertEqual('CPUs 3,7 of the plan are not there', found.message)
        self.assertEqual((), found.remediation)

    def test_unplanned(self):
        plan = fact_samples.planned()
        plan = replace(
            plan,
            nova=host_samples.settings('1,5', '2,6', reserved_memory_mib=2048),
            nodes=tuple(replace(node, cores=tuple(
                core for core in node.cores if core != (3, 7)), l3_domains=())
                for node in plan.nodes))
        seen = replace(
            fact_samples.right_facts(guests=(host_check_cases.a(),)),
            nova_conf=replace(fact_samples.right_facts().nova_conf,
                              settings=plan.nova))
        self.assertEqual(
            ['H202'], fact_samples.codes(host_check_cases.counted(seen), plan))

    def test_pin_to_offline_cpu(self):
        """The kernel lets a vCPU run anywhere when its CPU is gone."""
        seen = replace(
            self._without(5, offline='5'),
            guests=(host_check_cases.moved(host_check_cases.a(('1', '5')),
                                           ('1', '0-7')),))
        self.assertEqual(['H201', 'H602'],
                         fact_samples.codes(host_check_cases.counted(seen)))


class AggregationTestCase(unit_base.TestCase):
    """One finding for one problem."""

    def _only(self, seen, code):
        found, = (one
                  for one in fact_samples.find(host_check_cases.counted(seen))
                  if one.code == code)
        return found

    def test_unconfined(self):
        found = self._only(host_check_cases.with_process(*(
            fact_samples.process(number, 'x', '0-7', f'{number % 60}.service')
            for number in range(5000, 5600))), 'H301')
        self.assertEqual('60 services and processes', found.subject)
        self.assertEqual(600, len(found.evidence))
        self.assertIn('600 threads of service 20, service 21, service 22, '
                      'service 23, service 24 and 55 more may', found.message)
        self.assertEqual('taskset -pc 0,4 5000', found.remediation[0])

    def test_first_threads_of_all_processes_come_first(self):
        found = self._only(host_check_cases.with_process(*(
            fact_samples.process(pid, 'x', '0-7', threads=tuple(
                fact_samples.thread(pid + number, 'x', '0-7')
                for number in range(3))) for pid in (600, 700))), 'H301')
        self.assertEqual([600, 700, 601, 602, 701, 702],
                         [one.tid for one in found.evidence])

    def test_title_that_is_cut_off(self):
        found = self._only(host_check_cases.with_process(fact_samples.process(
            700, 'nova-conductor:', '3')), 'H302')
        self.assertEqual('process nova-conductor', found.subject)

    def test_memory_is_compared_in_one_unit(self):
        found = self._only(host_check_cases.with_nodes(lambda node: replace(
            node, memory_mib=0 if node.id else node.memory_mib)), 'H210')
        planned = fact_samples.planned().nodes[1].memory_mib
        self.assertEqual(f'it has 0 GiB of memory, planned are '
                         f'{planned // 1024} GiB', found.message)

    def test_reserved_memory_has_the_unit_of_its_option(self):
        found = self._only(
            host_check_cases.with_settings(reserved_memory_mib=512), 'H105')
        planned = fact_samples.planned().nova.reserved_memory_mib
        self.assertEqual('[DEFAULT] reserved_host_memory_mb is 512 MiB, '
                         f'planned is {planned} MiB', found.message)

    def test_one_process(self):
        threads = tuple(fact_samples.thread(700 + number, 'worker', '3')
                        for number in range(3))
        found = self._only(host_check_cases.with_process(fact_samples.process(
            700, 'mysqld', '3', threads=threads)), 'H302')
        self.assertEqual('process mysqld', found.subject)
        self.assertEqual(('taskset -apc 0,4 700',), found.remediation)
        self.assertEqual(
            facts.HostEvidence(pid=700, tid=701, name='worker', cpus=cpus('3'),
                               expected_cpus=cpus('0,4')), found.evidence[1])

    def test_one_thread_of_several(self):
        threads = (fact_samples.thread(700, 'mysqld', '0'),
                   fact_samples.thread(701, 'worker', '3'))
        found = self._only(host_check_cases.with_process(fact_samples.process(
            700, 'mysqld', '3', 'mysql.service', threads=threads)), 'H302')
        self.assertEqual('service mysql', found.subject)
        self.assertEqual(('taskset -pc 0,4 701',), found.remediation)

    def test_kernel_threads(self):
        found = self._only(host_check_cases.with_process(
            fact_samples.kernel_thread(600, 'kswapd0', '0-7'),
            fact_samples.kernel_thread(601, 'ksmd', '0-2')), 'H303')
        self.assertEqual(check_rule.Severity.NOTE, found.severity)
        self.assertEqual(('taskset -pc 0,4 600', 'taskset -pc 0,4 601'),
                         found.remediation)
        found = self._only(host_check_cases.with_process(
            fact_samples.kernel_thread(600, 'kswapd0', '0-7'),
            fact_samples.kernel_thread(601, 'rcuop/1', '1,3')), 'H303')
        self.assertEqual(check_rule.Severity.WARNING, found.severity)

    def test_vcpus(self):
        found = self._only(host_check_cases.with_guests(
            host_check_cases.moved(host_check_cases.a(), ('3', '7'))), 'H601')
        self.assertEqual('guest a', found.subject)
        self.assertEqual(
            ('virsh vcpupin a 0 1 --live', 'virsh vcpupin a 1 5 --live'),
            found.remediation)
        self.assertEqual([(1010, cpus('3'), cpus('1')),
                          (1011, cpus('7'), cpus('5'))],
                         [(one.tid, one.cpus, one.expected_cpus)
                          for one in found.evidence])

    def test_floating(self):
        found = self._only(host_check_cases.with_guests(
            fact_samples.shared_guest(3000, 'c', '2-3,6-7')), 'H602')
        self.assertEqual('vCPUs 0-1 floating over CPUs 3,7, which are for '
                         'pinned vCPUs', found.message)
        self.assertEqual([cpus('2,6')] * 2,
                         [one.expected_cpus for one in found.evidence])
        self.assertEqual(('virsh vcpupin c 0 2,6 --live',
                          'virsh vcpupin c 1 2,6 --live'), found.remediation)

    def test_floating_without_shared_cpus(self):
        plan = fact_samples.planned()
        plan = replace(plan, nova=replace(plan.nova, shared_cpus=None))
        seen = replace(
            host_check_cases.with_guests(
                fact_samples.shared_guest(3000, 'c', '2-3')),
            nova_conf=None)
        found, = (one for one in fact_samples.find(
            host_check_cases.counted(seen), plan)
                  if one.code == 'H602')
        self.assertEqual((), found.remediation)
        self.assertIsNone(found.evidence[0].expected_cpus)

    def test_pinned_elsewhere(self):
        found = self._only(host_check_cases.with_guests(
            host_check_cases.a(('1', '4'))), 'H603')
        self.assertEqual('vCPU 1 pinned to CPU 4, not among the dedicated '
                         'CPUs 1,3,5,7', found.message)

    def test_emulator(self):
        found = self._only(host_check_cases.with_guests(
            host_check_cases.emulator(host_check_cases.a(), '3')), 'H606')
        self.assertEqual(('virsh emulatorpin a 2,6 --live',),
                         found.remediation)
        self.assertEqual(check_rule.Severity.ERROR, found.severity)
        self.assertIn('CPU 3 not for this guest', found.message)

    def test_thread_that_sets_memory_up(self):
        """It is near its node, where only some of the guest's CPUs are."""
        for where, is_good in (('2', True), ('2,6', True), ('3', False)):
            guest = host_check_cases.a()
            guest = host_check_cases.with_qemu(guest, emulator=(
                *guest.qemu.emulator,
                fact_samples.thread(1009, 'TC tc-ram-node0', where)))
            found = {one.code for one in fact_samples.find(
                host_check_cases.with_guests(guest))}
            self.assertEqual(is_good, 'H606' not in found, where)

    def test_emulator_elsewhere(self):
        found = self._only(host_check_cases.with_guests(
            host_check_cases.emulator(host_check_cases.a(), '2')), 'H606')
        self.assertEqual(check_rule.Severity.WARNING, found.severity)

    def test_untold_threads(self):
        guest = host_check_cases.domain(
            host_check_cases.emulator(host_check_cases.a(), '0-7', iothreads={
                1: fact_samples.thread(1002, 'IO iothread1', '0-7')}),
            emulator_pin=None, iothread_pins={})
        found = self._only(host_check_cases.with_guests(guest), 'H609')
        self.assertEqual(('virsh iothreadpin a 1 2,6 --live',
                          'virsh emulatorpin a 2,6 --live'), found.remediation)
        self.assertIn('I/O and emulator threads', found.message)

    def test_stranger(self):
        guest = host_check_cases.stranger(
            host_check_cases.emulator(host_check_cases.a(), '0-7'))
        found = self._only(host_check_cases.with_guests(guest), 'H609')
        self.assertEqual(
            ('taskset -pc 2,6 1000', 'taskset -pc 2,6 1003',
             'taskset -pc 2,6 1004'), found.remediation)

    def test_names_are_quoted(self):
        guest = host_check_cases.a()
        guest = replace(host_check_cases.moved(guest, ('3', '5')),
                        name="it's; reboot")
        found = self._only(host_check_cases.with_guests(guest), 'H601')
        self.assertEqual(
            ("virsh vcpupin 'it'\"'\"'s; reboot' 0 1 --live",),
            found.remediation)

    def test_memory(self):
        guest = host_check_cases.with_qemu(host_check_cases.a(), regions=(
            fact_samples.qemu_process.MemoryRegion(
                cpus('0'), {0: 3, 1: 1}, fact_samples.GIB_PAGES),))
        found = self._only(host_check_cases.with_guests(guest), 'H610')
        self.assertEqual('25 % of its memory (1 GiB) on NUMA node 1, not '
                         'on 0', found.message)
        self.assertEqual(('migratepages 1000 1 0',), found.remediation)

    def test_little_memory(self):
        found = self._only(host_check_cases.WRONG['bound_small_pages'][1](),
                           'H610')
        self.assertEqual('less than 1 % of its memory (1 MiB) on NUMA node '
                         '1, not on 0', found.message)

    def test_unknown_qemu(self):
        found = self._only(host_check_cases.with_guests(
            host_check_cases.stranger(host_check_cases.a(emulator='0,4'))),
                           'H611')
        self.assertEqual('libvirt does not know QEMU process 1000',
                         found.message)
        self.assertEqual('uuid-a', found.evidence[0].name)

    def test_guest_alone_on_a_cpu(self):
        found = self._only(host_check_cases.with_guests(
            host_check_cases.a(('1', '1'))), 'H604')
        self.assertEqual('guest a', found.subject)

    def test_interrupts(self):
        found = self._only(host_check_cases.with_interrupts(
            *(fact_samples.interrupt(60 + number, f'eth0-rx-{number}', '1')
              for number in range(3))), 'H401')
        self.assertEqual('interrupts of eth0', found.subject)
        self.assertEqual(('echo 0 > /proc/irq/60/smp_affinity_list',
                          'echo 4 > /proc/irq/61/smp_affinity_list',
                          'echo 0 > /proc/irq/62/smp_affinity_list'),
                         found.remediation)

    def test_posted_interrupts_go_to_no_cpu_of_the_host(self):
        seen = dataclasses.replace(
            host_check_cases.with_system(posted_interrupts=True),
            interrupts=(fact_samples.interrupt(
                60, 'vfio-msix[0](0000:af:00.0)', '1',
                device=fact_samples.GPU),))
        self.assertEqual((), fact_samples.find(seen))

    def test_interrupts_of_a_guest_go_near_it(self):
        """Of the host's CPUs and the shared ones those of its node."""
        known = fact_samples.domain_xml.parse(fact_samples.sample_domain_xml(
            'c', 'uuid-c', ('3', '7'), emulator='2,6', node=1, hostdev=True))
        guest = fact_samples.guest(3000, 'c', ('3', '7'), node=1)
        seen = dataclasses.replace(
            host_check_cases.with_guests(dataclasses.replace(
                guest, domain=known)),
            interrupts=(fact_samples.interrupt(
                60, 'vfio-msix[0]', '1', device=fact_samples.GPU),))
        found, = (one for one in fact_samples.find(seen)
                  if one.code == 'H401')
        self.assertEqual('2,6', str(found.evidence[0].expected_cpus))

    def test_devices_with_one_remedy_are_one_finding(self):
        gpu = 'interrupts of 0000:af:00.0'
        found = self._only(host_check_cases.with_interrupts(
            fact_samples.interrupt(60, 'eth0-rx-2', '1'),
            fact_samples.interrupt(61, 'some', '3',
                                   device=fact_samples.GPU)), 'H401')
        self.assertEqual('interrupts of eth0 and 0000:af:00.0', found.subject)
        self.assertNotEqual(gpu, found.subject)
        self.assertEqual(
            'eth0: 1 interrupt may arrive on CPU 1, not for the host; '
            '0000:af:00.0: 1 interrupt may arrive on CPU 3, not for the host',
            found.message)
        self.assertEqual([60, 61], [one.interrupt for one in found.evidence])
        self.assertEqual(2, len(found.remediation))

    def test_two_guests_on_several_cpus(self):
        found = self._only(host_check_cases.with_guests(
            host_check_cases.a(), fact_samples.guest(2000, 'b', ('1', '5'))),
                           'H604')
        self.assertEqual('guests a and b', found.subject)
        self.assertEqual('several vCPUs on CPUs 1,5', found.message)

    def test_asked_for(self):
        """A guest that is not asked for still stands in the way."""
        other = replace(fact_samples.guest(2000, 'b', ('1', '7'), node=0),
                        is_asked_for=False)
        seen = host_check_cases.counted(
            host_check_cases.with_guests(host_check_cases.a(), other))
        self.assertEqual(['H604'], fact_samples.codes(seen))


class TopologyTestCase(unit_base.TestCase):

    def test_evidence(self):
        """What is the same on both is left out."""
        found, = fact_samples.find(
            host_check_cases.with_nodes(lambda node: replace(
                node,
                cores=((0,), (4,), (1, 5)) if node.id == 0 else node.cores)))
        self.assertEqual(
            [('planned cores', None, cpus('0,4')),
             ('these cores', cpus('0'), None),
             ('these cores', cpus('4'), None)],
            [(one.name, one.cpus, one.expected_cpus)
             for one in found.evidence])


class KernelSetTestCase(unit_base.TestCase):

    def test_isolated_host_cpus(self):
        found, = fact_samples.find(
            host_check_cases.with_system(isolated_cpus=cpus('0')))
        self.assertEqual('isolcpus= has CPU 0, neither dedicated nor poll '
                         'CPUs', found.message)
        self.assertEqual(check_rule.Severity.ERROR, found.severity)

    def test_half_isolated(self):
        found, = fact_samples.find(
            host_check_cases.with_system(isolated_cpus=cpus('1,5')))
        self.assertEqual('isolcpus= leaves out CPUs 3,7 of the dedicated and '
                         'poll CPUs', found.message)
        self.assertEqual(check_rule.Severity.WARNING, found.severity)


class SmtTestCase(unit_base.TestCase):

    def test_not_known(self):
        plan = fact_samples.planned()
        plan = replace(plan, system=hardware.System())
        self.assertEqual([], fact_samples.codes(
            host_check_cases.with_system(smt='off'), plan))

    def test_mend(self):
        found, = fact_samples.find(host_check_cases.with_system(smt='off'))
        self.assertEqual(('echo on > /sys/devices/system/cpu/smt/control',),
                         found.remediation)
