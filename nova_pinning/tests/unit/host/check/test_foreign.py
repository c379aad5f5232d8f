# SPDX-License-Identifier: Apache-2.0
"""What ran where it does not belong, judged after it was watched."""

import ddt

from nova_pinning.checks import check_rule
from nova_pinning.host.check import cpu_watch
from nova_pinning.host.check import facts
from nova_pinning.host.check import foreign
from nova_pinning.host.check import host_check_run
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit import unit_base

cpus, replace = fact_samples.cpus, fact_samples.replace
ERROR, WARNING, NOTE = check_rule.Severity


def ran(process, tid=None, **seconds):
    """A thread of a process, with its seconds by CPU: cpu3=0.5."""
    thread = next(thread for thread in process.threads
                  if tid in (None, thread.tid))
    return cpu_watch.Run(process, thread, {
        int(name.removeprefix('cpu')): value
        for name, value in seconds.items()})


def of_guest(guest, tid):
    """A thread of a guest, as it is seen while it is watched."""
    return fact_samples.process(
        guest.qemu.pid, 'qemu-kvm', '0-7', threads=tuple(
            thread for thread in guest.qemu.threads if thread.tid == tid))


def vhost(pid, where):
    return fact_samples.kernel_thread(pid, 'vhost-1000', where)


def judge(*runs, arrivals=(), seconds=10.0, seen=None, plan=None, before=()):
    view = fact_samples.view(seen, plan)
    watched = cpu_watch.Watched(view.taken_cpus, seconds, 100, runs, arrivals)
    return foreign.ForeignWorkJudge(watched, view, before)


def found(*runs, **options):
    return list(judge(*runs, **options).findings())


@ddt.ddt
class TestThreads(unit_base.TestCase):

    def test_nothing(self):
        self.assertEqual([], found())
        self.assertEqual(dict.fromkeys((1, 3, 5, 7), 0.0),
                         judge().foreign_seconds)

    def test_service(self):
        service = fact_samples.process(100, 'x', '1', 'libvirtd.service')
        [one] = found(ran(service, cpu1=0.0125))
        self.assertEqual(
            ('H701', WARNING, 'service libvirtd',
             '1 thread ran on dedicated CPU 1 for 12.5 ms in 10 s',
             ('taskset -pc 0,4 100',)),
            (one.code, one.severity, one.subject, one.message,
             one.remediation))
        self.assertEqual((facts.HostEvidence(
            pid=100, tid=100, name='x', cpus=cpus('1'),
            expected_cpus=cpus('0,4'), run_seconds=0.0125),), one.evidence)

    def test_container(self):
        """One command for all that ran of it."""
        container = facts.Container('0' * 64, 'podman', 'fluentd')
        runs = [ran(fact_samples.process(pid, 'ruby', '0-7',
                                         container=container), cpu1=0.01)
                for pid in (100, 200)]
        [one] = found(*runs)
        self.assertEqual(
            ('container fluentd (podman)',
             ('podman update --cpuset-cpus 0,4 fluentd',)),
            (one.subject, one.remediation))

    @ddt.data((0.099, WARNING), (0.1, ERROR))
    @ddt.unpack
    def test_much_is_an_error(self, seconds, severity):
        [one] = found(ran(fact_samples.process(9, 'x', '1'), cpu1=seconds))
        self.assertEqual(severity, one.severity)

    def test_much_is_of_one_cpu(self):
        """Threads of a service add up; CPUs do not."""
        process = fact_samples.process(9, 'x', '1-3', threads=(
            fact_samples.thread(9, 'x', '1,3'),
            fact_samples.thread(10, 'y', '1,3')))
        [one] = found(ran(process, 9, cpu1=0.09, cpu3=0.09))
        self.assertEqual(WARNING, one.severity)
        [one] = found(ran(process, 9, cpu1=0.09), ran(process, 10, cpu1=0.09))
        self.assertEqual(ERROR, one.severity)
        self.assertEqual(2, len(one.evidence))

    @ddt.data(('1,3', False), ('1', False), ('1,2', True), ('0-7', True),
              ('', True))
    @ddt.unpack
    def test_estimate(self, allowed, is_estimate):
        [one] = found(ran(fact_samples.process(9, 'x', allowed), cpu1=0.5))
        self.assertEqual(is_estimate, one.evidence[0].is_estimate)
        self.assertEqual(is_estimate, ' about ' in one.message)

    def test_estimate_between_classes(self):
        """Dedicated CPUs and poll CPUs are not told apart exactly."""
        plan = fact_samples.planned()
        plan = replace(
            plan, nova=replace(plan.nova, dedicated_cpus=cpus('3,7')),
            plan=replace(plan.plan, poll_cpus=cpus('1,5')))
        [one] = found(
            ran(fact_samples.process(9, 'x', '1,3'), cpu1=.5, cpu3=.5),
            plan=plan)
        self.assertIn('dedicated CPU 3 and poll CPU 1 for about 1 s',
                      one.message)

    def test_worst_first(self):
        runs = [ran(fact_samples.process(pid, name, '1'), cpu1=seconds)
                for pid, name, seconds in (
                    (7, 'a', 0.1), (8, 'b', 0.3), (9, 'b', 0.4))]
        first, second = found(*runs)
        self.assertEqual(['process b', 'process a'],
                         [first.subject, second.subject])
        self.assertEqual([9, 8], [one.pid for one in first.evidence])
        self.assertEqual(('taskset -pc 0,4 8', 'taskset -pc 0,4 9'),
                         first.remediation)
        self.assertEqual({1: 0.8, 3: 0.0, 5: 0.0, 7: 0.0}, {
            cpu: round(seconds, 9) for cpu, seconds
            in judge(*runs).foreign_seconds.items()})

    def test_kernel(self):
        moved = fact_samples.kernel_thread(40, 'kswapd0', '0-7')
        work = fact_samples.kernel_thread(41, 'kworker/u16:2', '0-7', False)
        bound = fact_samples.kernel_thread(42, 'ksoftirqd/1', '1', False)
        runs = [ran(one, cpu1=0.001) for one in (moved, work, bound)]
        one, = found(*runs)
        self.assertEqual(
            ('H701', 'kernel', ('taskset -pc 0,4 40', 'echo 11 > '
             '/sys/devices/virtual/workqueue/cpumask')),
            (one.code, one.subject, one.remediation))
        self.assertEqual(0.002, judge(*runs).foreign_seconds[1])

    def test_thread_of_io_uring(self):
        """It is the process's own doing, but nobody can move it."""
        process = fact_samples.process(9, 'x', '0-7', threads=(
            fact_samples.thread(10, 'iou-wrk-9', '0-7', may_move=False),))
        [one] = found(ran(process, cpu1=0.5))
        self.assertEqual(('H701', 'process x', ()),
                         (one.code, one.subject, one.remediation))

    def test_polling(self):
        plan = fact_samples.planned()
        plan = replace(
            plan, nova=replace(plan.nova, dedicated_cpus=cpus('3,7')),
            plan=replace(plan.plan, poll_cpus=cpus('1,5')))
        process = fact_samples.process(9, 'ovs-vswitchd', '0-7', threads=(
            fact_samples.thread(10, 'pmd-c01/id:8', '1'),))
        self.assertEqual([], found(ran(process, cpu1=9.0), plan=plan))
        [one] = found(ran(process, cpu1=9.0, cpu3=1.0), plan=plan)
        self.assertEqual((cpus('3'), cpus('1,5')), (
            one.evidence[0].cpus, one.evidence[0].expected_cpus))
        other = fact_samples.process(9, 'ovs-vswitchd', '1')
        [one] = found(ran(other, cpu1=9.0), plan=plan)
        self.assertIn('poll CPU 1 ', one.message)


@ddt.ddt
class TestGuests(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.guest = fact_samples.guest(1000, 'a', ('1', '5'))

    def _found(self, tid, guest=None, **options):
        guest = guest or self.guest
        seconds = {name: options.pop(name) for name in list(options)
                   if name.startswith('cpu')}
        return found(ran(of_guest(guest, tid), **seconds),
                     seen=fact_samples.right_facts(guests=(guest,)), **options)

    @ddt.data((1010, 'cpu1'), (1011, 'cpu5'), (1000, 'cpu1'),
              (1003, 'cpu5'), (1002, 'cpu1'), (1004, 'cpu5'))
    @ddt.unpack
    def test_own_cpus(self, tid, cpu):
        """Of a vCPU its own, of all else all that are the guest's."""
        self.assertEqual([], self._found(tid, **{cpu: 9.0}))

    @ddt.data((1010, 'cpu5', '1', 'virsh vcpupin a 0 1 --live'),
              (1011, 'cpu3', '5', 'virsh vcpupin a 1 5 --live'),
              (1000, 'cpu3', '2,6', 'virsh emulatorpin a 2,6 --live'),
              (1002, 'cpu7', '2,6', 'virsh iothreadpin a 1 2,6 --live'),
              (1004, 'cpu7', '2,6', 'virsh emulatorpin a 2,6 --live'))
    @ddt.unpack
    def test_astray(self, tid, cpu, expected, mend):
        [one] = self._found(tid, **{cpu: 1.0})
        self.assertEqual(('H701', ERROR, 'guest a', (mend,)),
                         (one.code, one.severity, one.subject,
                          one.remediation))
        self.assertEqual(cpus(expected), one.evidence[0].expected_cpus)

    @ddt.data('2,6', '')
    def test_floats(self, over):
        """No dedicated CPU is its own, even if nobody has confined it."""
        floats = fact_samples.shared_guest(3000, 'c', over)
        [one] = self._found(3010, floats, cpu1=1.0)
        self.assertEqual(('virsh vcpupin c 0 2,6 --live',), one.remediation)

    def test_iothread_with_a_pin_of_its_own(self):
        guest = replace(self.guest, domain=replace(
            self.guest.domain, iothread_pins={1: cpus('6')}))
        [one] = self._found(1002, guest, cpu7=1.0)
        self.assertEqual(('virsh iothreadpin a 1 6 --live',), one.remediation)

    @ddt.data(('3', False), ('3,7', False), ('3,5', True))
    @ddt.unpack
    def test_estimate(self, allowed, is_estimate):
        """It may have been on the guest's own CPUs meanwhile."""
        process = fact_samples.process(1000, 'qemu-kvm', allowed)
        seen = fact_samples.right_facts(guests=(self.guest,))
        [one] = found(ran(process, cpu3=1.0), seen=seen)
        self.assertEqual(is_estimate, one.evidence[0].is_estimate)

    def test_thread_that_came_later(self):
        """Of the same process, so it is as the emulator's are."""
        process = fact_samples.process(1000, 'qemu-kvm', '2,6', threads=(
            fact_samples.thread(1099, 'worker', '2,6'),))
        seen = fact_samples.right_facts(guests=(self.guest,))
        self.assertEqual([], found(ran(process, cpu1=1.0), seen=seen))
        [one] = found(ran(process, cpu3=1.0), seen=seen)
        self.assertEqual('guest a', one.subject)

    @ddt.data('vhost-1000', 'kvm-pit/1000')
    def test_thread_of_kernel(self, name):
        process = fact_samples.kernel_thread(77, name, '1')
        seen = fact_samples.right_facts(guests=(self.guest,))
        self.assertEqual([], found(ran(process, cpu1=1.0), seen=seen))
        [one] = found(ran(process, cpu3=1.0), seen=seen)
        self.assertEqual('guest a', one.subject)

    def test_helper(self):
        """What libvirt starts for a guest runs beside its emulator."""
        guest = replace(
            fact_samples.guest(1000, 'a', ('1', '5'), emulator='1,5'),
            unit='machine-a.scope')
        seen = fact_samples.right_facts(guests=(guest,))
        helper = fact_samples.process(9, 'swtpm', '1,5', 'machine-a.scope')
        self.assertEqual([], found(ran(helper, cpu1=5, cpu5=5), seen=seen))
        [one] = found(ran(helper, cpu1=5, cpu3=5), seen=seen)
        self.assertEqual(cpus('3'), one.evidence[0].cpus)

    def test_gone_meanwhile(self):
        runs = ran(of_guest(self.guest, 1010), cpu1=9.0)
        seen = fact_samples.right_facts(guests=())
        self.assertEqual([], found(runs, seen=seen, before=[self.guest]))
        self.assertEqual(1, len(found(runs, seen=seen)))

    def test_not_asked_for(self):
        guest = replace(self.guest, is_asked_for=False)
        self.assertEqual([], self._found(1010, guest, cpu3=1.0))


class TestInterrupts(unit_base.TestCase):

    def _found(self, *arrivals, **facts):
        seen = fact_samples.right_facts(**facts)
        return found(arrivals=arrivals, seen=seen)

    def test_by_device(self):
        one, other = self._found(
            cpu_watch.Arrivals(30, ('eth0-rx-0',), {1: 1000, 3: 234}),
            cpu_watch.Arrivals(31, ('eth0-rx-1',), {3: 1}),
            cpu_watch.Arrivals(99, (), {3: 1}))
        self.assertEqual(
            ('H702', WARNING, 'interrupts of eth0',
             '1,235 interrupts arrived on dedicated CPUs 1,3 in 10 s',
             ('echo 0,4 > /proc/irq/30/smp_affinity_list',
              'echo 0,4 > /proc/irq/31/smp_affinity_list')),
            (one.code, one.severity, one.subject, one.message,
             one.remediation))
        self.assertEqual([1234, 1], [each.count for each in one.evidence])
        self.assertEqual('interrupts of no PCI device', other.subject)
        self.assertIn('1 interrupt arrived', other.message)

    def test_managed(self):
        arrival = cpu_watch.Arrivals(30, ('nvme0q1',), {1: 1})
        [one] = self._found(arrival, interrupts=(
            fact_samples.interrupt(30, 'nvme0q1', '1', managed=True),))
        self.assertEqual((NOTE, ()), (one.severity, one.remediation))
        self.assertNotEqual(foreign.INTERRUPT.advice, one.advice)

    def test_goes_where_it_is_planned(self):
        plan = fact_samples.planned()
        plan = replace(plan, plan=replace(plan.plan, interrupts=(
            replace(plan.plan.interrupts[0], cpus=cpus('4')),)))
        [one] = found(plan=plan, arrivals=(
            cpu_watch.Arrivals(30, ('eth0-rx-0',), {1: 1}),))
        self.assertEqual(('echo 4 > /proc/irq/30/smp_affinity_list',),
                         one.remediation)
        self.assertEqual(cpus('4'), one.evidence[0].expected_cpus)

    def test_managed_last(self):
        found = self._found(
            cpu_watch.Arrivals(30, ('nvme0q1',), {1: 1}),
            cpu_watch.Arrivals(99, ('x',), {1: 1}), interrupts=(
                fact_samples.interrupt(30, 'nvme0q1', '1', managed=True),))
        self.assertEqual([WARNING, NOTE], [one.severity for one in found])

    def test_device_of_a_guest(self):
        guest = fact_samples.guest(1000, 'a', ('1', '5'))
        guest = replace(guest, domain=replace(
            guest.domain, hostdevs=frozenset([fact_samples.GPU])))
        arrivals = cpu_watch.Arrivals(50, ('vfio-msi[0]',), {1: 5, 3: 2})
        interrupts = (fact_samples.interrupt(50, 'vfio-msi[0]', '1',
                                             device=fact_samples.GPU),)
        [one] = self._found(arrivals, guests=(guest,), interrupts=interrupts)
        self.assertEqual([(cpus('3'), 2)], [
            (each.cpus, each.count) for each in one.evidence])


class TestRules(unit_base.TestCase):

    def test_known(self):
        """They are told of with all others, but only watching finds them."""
        for one in (foreign.THREAD, foreign.INTERRUPT):
            self.assertIs(one, host_check_run.RULES[one.code])
            self.assertIsNone(one.find)
