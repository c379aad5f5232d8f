# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
import hypothesis
from hypothesis import strategies as st

from nova_pinning.host import host_loader
from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench.advise import hosts
from nova_pinning.instance_bench.advise import model
from nova_pinning.instance_bench.advise import own_results
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import statistics
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.instance_bench import test_advise
from nova_pinning.tests.unit import unit_base

PINNED = bench_model.Provisioning.PINNED
VANILLA = bench_model.Provisioning.VANILLA
GUEST = bench_model.PlatformName.GUEST
BARE_METAL = bench_model.PlatformName.BARE_METAL
CONDITIONS = bench_model.Conditions(
    cpu_model='a CPU', topology='', cpus=80, memory_mib=1, kernel='',
    governor='', smt='', load=0.0, mitigations={}, layout={}, versions={})


def make_workload(name='primes', higher=True,
                  workload_class=bench_model.WorkloadClass.CPU):
    return bench_model.Workload(
        name=name, workload_class=workload_class, about='', command='',
        figures=(bench_model.WorkloadFigure(
            name='figure', unit='1/s', pattern=None,
            better=bench_model.Better.HIGHER if higher
            else bench_model.Better.LOWER),))


def make_case(scenario, *tenants):
    return bench_model.Case(factors={'scenario': scenario}, tenants=tenants)


def make_tenant(provisioning=PINNED, workload='primes', vcpus=8, name='own',
                role=bench_model.Role.MEASURED, platform=GUEST, **changes):
    return bench_model.Tenant(
        name=name, role=role, workload=workload, platform=platform,
        provisioning=provisioning,
        guest_class=hostclass.HostClass.DEDICATED if provisioning is PINNED
        else hostclass.HostClass.SHARED,
        size=bench_model.InstanceSize(vcpus=vcpus, memory_mib=1024), **changes)


def neighbours(count):
    return make_tenant(VANILLA, name='neighbours', count=count,
                       role=bench_model.Role.NEIGHBOUR)


def around(mean, count=20, spread=0.001):
    """Values that vary a little."""
    return [mean * (1 + spread * (number % 5 - 2)) for number in range(count)]


def summarise(measured, *workloads, conditions=CONDITIONS, baseline='',
              flags=()):
    """A run.

    :param measured: pairs of a case and the values of its first tenant
    """
    workloads = workloads or (make_workload(),)
    return statistics.summarise(bench_model.Results(
        experiment=bench_model.Experiment(
            name='run', about='', table='levels',
            cases=tuple(case for case, _values in measured),
            baseline={'scenario': baseline} if baseline else {}),
        workloads={workload.name: workload for workload in workloads},
        conditions=(conditions,),
        measurements=tuple(
            bench_model.Measurement(
                factors=case.factors, round=0, repetition=number, started=0.0,
                load=0.0, flags=flags, readings=(bench_model.Reading(
                    tenant=case.tenants[0].name, instance='own-0', command='',
                    figures={'figure': value}, outside_seconds=1.0,
                    inside_seconds=None, tolerance_seconds=0.0),))
            for case, values in measured
            for number, value in enumerate(values))))


def ask(workload='primes', load='cpu', platform='vm', is_steady=False,
        workload_class=bench_model.WorkloadClass.CPU):
    return dataclasses.replace(
        test_advise.ask(load, platform, is_steady), workload=workload,
        workload_class=workload_class)


def pair(pinned, floating, higher=True, **changes):
    """A run of pinned and floating instances beside neighbours."""
    return summarise(
        [(make_case('pinned', make_tenant(PINNED), neighbours(4)), pinned),
         (make_case('floating', make_tenant(VANILLA), neighbours(4)),
          floating)], make_workload(higher=higher), **changes)


def advise(summary, question=None, room=None):
    return advisor.advise(question or ask(), summaries=[summary], room=room)


@ddt.ddt
class PinningTest(unit_base.TestCase):

    @ddt.data((100, 80, True, 'dedicated'), (80, 100, False, 'dedicated'),
              (100, 100, True, 'shared'), (80, 100, True, 'shared'),
              (100, 80, False, 'shared'))
    @ddt.unpack
    def test_class(self, pinned, floating, higher, expected):
        advice = advise(pair(around(pinned), around(floating), higher))
        line = advice.line(model.Topic.CLASS)
        self.assertEqual(expected, line.value.choice)
        self.assertIs(model.AdviceEvidence.OWN, line.evidence)
        self.assertEqual((), line.sources)
        self.assertEqual((), line.thin)

    def test_wins_over_rules(self):
        room = hosts.bare_host(host_loader.load(
            cli_case.HOST))
        question = ask(load='io')
        self.assertEqual('dedicated', advisor.advise(
            question, room=room).line(model.Topic.CLASS).value.choice)
        advice = advise(pair(around(100), around(100)), question, room)
        self.assertEqual('shared',
                         advice.line(model.Topic.CLASS).value.choice)
        # What follows from the class, follows from this one.
        self.assertEqual('on-vcpus',
                         advice.line(model.Topic.EMULATOR).value.choice)

    @ddt.data((100, 80, True), (80, 100, False))
    @ddt.unpack
    def test_gain(self, pinned, floating, higher):
        advice = advise(pair(around(pinned), around(floating), higher))
        gain = advice.line(model.Topic.GAIN)
        self.assertIs(model.AdviceEvidence.OWN, gain.evidence)
        self.assertEqual('%', gain.value.unit)
        self.assertTrue(24 < gain.value.low < 25 < gain.value.high < 26,
                        gain.value)
        self.assertIn('primes in own of pinned, against own of floating: 20 '
                      'and 20 values', gain.why)

    def test_wide_interval_does_not_decide(self):
        advice = advise(pair(around(100, spread=0.2),
                             around(95, spread=0.2)))
        line = advice.line(model.Topic.CLASS)
        self.assertEqual('class-cpu-guest', line.rule)
        self.assertIn('own results do not decide: pinning gains',
                      line.thin[0])
        self.assertIn('wide interval', line.thin[1])
        # What is published stays, with what was measured beside it.
        gain = advice.line(model.Topic.GAIN)
        self.assertEqual('gain-cpu-guest', gain.rule)
        self.assertIn('own results do not decide: pinning gains',
                      gain.thin[0])

    def test_a_gain_that_may_be_small_is_one(self):
        """Too wide for the class, and yet more than nothing."""
        advice = advise(pair(around(103, spread=0.02),
                             around(100, spread=0.02)))
        self.assertIs(model.AdviceEvidence.PUBLISHED,
                      advice.line(model.Topic.CLASS).evidence)
        gain = advice.line(model.Topic.GAIN)
        self.assertIs(model.AdviceEvidence.OWN, gain.evidence)
        self.assertTrue(0 < gain.value.low < 2 < gain.value.high, gain.value)

    def test_single_values_do_not_decide(self):
        advice = advise(pair([100], [50]))
        self.assertEqual('class-cpu-guest',
                         advice.line(model.Topic.CLASS).rule)
        self.assertEqual('gain-cpu-guest',
                         advice.line(model.Topic.GAIN).rule)
        self.assertIn('too few values for an interval',
                      advice.line(model.Topic.CLASS).thin)

    @ddt.data(
        ({'emulated': True}, 'guests were emulated'),
        ({'virtualised': 'kvm'},
         'measured on a machine that is a guest itself'),
        ({'cpus': 4}, 'measured on another machine, with 4 CPUs, not 80'))
    @ddt.unpack
    def test_thin(self, changes, expected):
        room = test_advise.make_room()
        summary = pair(around(100), around(80), conditions=dataclasses.replace(
            CONDITIONS, **changes))
        line = advise(summary, room=room).line(model.Topic.CLASS)
        self.assertEqual((expected,), line.thin)
        self.assertEqual('dedicated', line.value.choice)

    def test_few_and_flagged(self):
        summary = pair(around(100, 5), around(80, 9), flags=('clocks',))
        line = advise(summary).line(model.Topic.CLASS)
        self.assertEqual(('few repetitions: 5', '14 doubtful measurements'),
                         line.thin)

    def test_steadiness(self):
        summary = pair(around(100, spread=0.001), around(100, spread=0.05))
        question = ask(is_steady=True)
        line = advise(summary, question).line(model.Topic.CLASS)
        self.assertEqual('dedicated', line.value.choice)
        self.assertIn('floating ones vary 50 times as much', line.why)
        summary = pair(around(100), around(100))
        line = advise(summary, question).line(model.Topic.CLASS)
        self.assertEqual('class-steady', line.rule)

    def test_fullest_host_counts(self):
        def at(scenario, provisioning, count, level):
            return (make_case(scenario, make_tenant(provisioning),
                              neighbours(count)), around(level))

        summary = summarise([
            at('pinned, few', PINNED, 1, 100),
            at('floating, few', VANILLA, 1, 100),
            at('pinned, many', PINNED, 9, 100),
            at('floating, many', VANILLA, 9, 50)])
        line = advise(summary).line(model.Topic.CLASS)
        self.assertEqual('dedicated', line.value.choice)
        self.assertIn('own of pinned, many, against own of floating, many',
                      line.why)

    def test_neighbours_before_size(self):
        measured = [
            (make_case(f'{scenario}, {provisioning}',
                       make_tenant(provisioning, vcpus=vcpus), *others),
             around(100))
            for scenario, vcpus, others in (
                ('idle', 1, ()), ('beside others', 8, (neighbours(1),)))
            for provisioning in (PINNED, VANILLA)]
        line = advise(summarise(measured)).line(model.Topic.CLASS)
        self.assertIn('in own of beside others, pinned', line.why)

    def test_neighbours_are_not_measured(self):
        summary = summarise([
            (make_case('pinned', make_tenant(PINNED)), around(100)),
            (make_case('floating', make_tenant(
                VANILLA, role=bench_model.Role.NEIGHBOUR)), around(50))])
        self.assertEqual({}, own_results.find([summary], ask(), None))

    def test_first_figure_counts(self):
        workload = make_workload()
        summary = pair(around(100), around(50))
        found = own_results.find([summary], ask(), None)
        first = workload.figures[0]
        other = dataclasses.replace(first, name='other')
        two = dataclasses.replace(workload, figures=(first, other))
        rows = [dataclasses.replace(row, figure=other, estimate=(
            statistics.estimate([1.0, 1.0]))) for row in summary.rows]
        both = dataclasses.replace(
            summary, rows=(*rows, *summary.rows),
            results=dataclasses.replace(
                summary.results, workloads={'primes': two}))
        self.assertEqual(found, own_results.find([both], ask(), None))

    @ddt.data((None, '2 vCPUs'), (40, '2 vCPUs'), (80, '8 vCPUs'),
              (400, '16 vCPUs'))
    @ddt.unpack
    def test_nearest_size_counts(self, cpus, expected):
        summary = summarise([
            (make_case(f'{vcpus} vCPUs, {provisioning}',
                       make_tenant(provisioning, vcpus=vcpus)), around(100))
            for vcpus in (16, 8, 2) for provisioning in (PINNED, VANILLA)])
        room = None if cpus is None else test_advise.make_room(
            nodes=1, cpus=cpus, dedicated=cpus, shared=0)
        line = advise(summary, room=room).line(model.Topic.CLASS)
        self.assertIn(f'in own of {expected}, pinned', line.why)

    @ddt.data(
        {'workload': 'other'}, {'platform': 'cn'},
        {'workload': '',
         'workload_class': bench_model.WorkloadClass.MEMORY})
    def test_about_something_else(self, changes):
        advice = advise(pair(around(100), around(50)), ask(**changes))
        self.assertNotIn(model.AdviceEvidence.OWN,
                         {line.evidence for line in advice.lines})

    @ddt.data({'platform': 'nova'}, {'workload': ''})
    def test_about_the_same(self, changes):
        advice = advise(pair(around(100), around(50)), ask(**changes))
        self.assertIs(model.AdviceEvidence.OWN,
                      advice.line(model.Topic.CLASS).evidence)

    def test_other_sizes_are_not_compared(self):
        summary = summarise([
            (make_case('pinned', make_tenant(PINNED, vcpus=2)), around(100)),
            (make_case('floating', make_tenant(VANILLA)), around(50))])
        self.assertEqual({}, own_results.find([summary], ask(), None))

    @unit_base.settings(30)
    @hypothesis.given(
        pinned=st.lists(st.floats(1, 1000), min_size=1, max_size=12),
        floating=st.lists(st.floats(1, 1000), min_size=1, max_size=12),
        higher=st.booleans())
    def test_any(self, pinned, floating, higher):
        summary = pair(pinned, floating, higher)
        advice = advise(summary)
        self.assertEqual(advice, advise(summary))
        line = advice.line(model.Topic.CLASS)
        if line.evidence is model.AdviceEvidence.OWN:
            gain = advice.line(model.Topic.GAIN).value
            self.assertLessEqual(gain.low, gain.high)
            if line.value.choice == 'dedicated':
                self.assertGreater(gain.low, 100 * own_results.WORTH)
            else:
                self.assertLess(gain.high, 100 * own_results.WORTH)


class SizeTest(unit_base.TestCase):

    def measured(self, overheads):
        """A run with a level of 100 on bare metal."""
        cases = [(make_case('bare metal', make_tenant(
            VANILLA, platform=BARE_METAL)), around(100))]
        for vcpus, overhead in overheads.items():
            cases.append((make_case(f'{vcpus} vCPUs', make_tenant(
                PINNED, vcpus=vcpus)), around(100 / overhead)))
        return summarise(cases, baseline='bare metal')

    def test_smallest_without_more_overhead(self):
        summary = self.measured({2: 1.5, 4: 1.2, 8: 1.05, 16: 1.05, 32: 1.06})
        line = advise(summary).line(model.Topic.SIZE)
        self.assertEqual('8 vCPU', str(line.value))
        self.assertIs(model.AdviceEvidence.OWN, line.evidence)
        self.assertIn('takes 1.05 times what it takes on bare metal',
                      line.why)
        self.assertIn('8 of 80 CPUs', line.why)

    def test_another_machine_does_not_decide(self):
        summary = self.measured({2: 1.5, 8: 1.05, 16: 1.05})
        room = test_advise.make_room(nodes=1, cpus=40, dedicated=40, shared=0)
        line = advise(summary, ask(load='io'), room).line(model.Topic.SIZE)
        self.assertEqual('size-io', line.rule)
        self.assertIn('own results do not decide: primes in own of 8 vCPUs',
                      line.thin[0])
        self.assertIn('measured on another machine, with 80 CPUs, not 40',
                      line.thin)

    def test_hardly_more_is_not_minded(self):
        for overhead, expected in ((1.04, '4 vCPU'), (1.06, '8 vCPU')):
            summary = self.measured({2: 1.5, 4: overhead, 8: 1})
            self.assertEqual(expected, str(
                advise(summary).line(model.Topic.SIZE).value))

    def test_never_more_than_the_host_has(self):
        summary = self.measured({2: 1.5, 16: 1.05})
        room = test_advise.make_room(nodes=1, cpus=80, dedicated=12, shared=0)
        advice = advise(summary, ask(load='io'), room)
        self.assertEqual(12, advice.vcpus)

    def test_one_size_says_nothing(self):
        line = advise(self.measured({2: 1.5})).line(model.Topic.SIZE)
        self.assertEqual('size-cpu', line.rule)


@ddt.ddt
class MutexTest(unit_base.TestCase):

    def measured(self, on_one, on_two, spread=0.001):
        names = 'mutex-up', 'mutex-smp'
        return summarise(
            [(make_case(name, make_tenant(VANILLA, name)),
              around(level, spread=spread))
             for name, level in zip(names, (on_one, on_two))],
            *(make_workload(
                name, False, bench_model.WorkloadClass.SYNCHRONISATION)
              for name in names))

    def ask(self, workload='mutex-smp'):
        return ask(workload, 'lock-bound', workload_class=bench_model.
                   WorkloadClass.SYNCHRONISATION)

    @ddt.data((2, 6, '1 vCPU', '3 times'), (6, 2, '2 vCPU', '0.333 times'))
    @ddt.unpack
    def test_size(self, on_one, on_two, expected, times):
        for workload in ('mutex-smp', 'mutex-up', ''):
            line = advise(self.measured(on_one, on_two),
                          self.ask(workload)).line(model.Topic.SIZE)
            self.assertEqual(expected, str(line.value))
            self.assertIs(model.AdviceEvidence.OWN, line.evidence)
            self.assertIn(times, line.why)

    def test_not_decided(self):
        line = advise(self.measured(2, 2, 0.1),
                      self.ask()).line(model.Topic.SIZE)
        self.assertEqual('size-lock-bound', line.rule)
        self.assertIn('own results do not decide', line.thin[0])


class EmulatorTest(unit_base.TestCase):

    def measured(self, levels, higher=True):
        return summarise([
            (make_case(str(policy), make_tenant(
                PINNED, 'packets', emulator_threads=policy)), around(level))
            for policy, level in levels.items()],
            make_workload('packets', higher,
                          bench_model.WorkloadClass.NETWORK))

    def ask(self):
        return ask('packets', 'network',
                   workload_class=bench_model.WorkloadClass.NETWORK)

    def test_best(self):
        threads = bench_model.EmulatorThreads
        levels = {threads.SHARE: 90, threads.ISOLATE: 100, threads.VCPUS: 60}
        for higher, expected, gain in ((True, 'isolate', '11.1%'),
                                       (False, 'on-vcpus', '50%')):
            line = advise(self.measured(levels, higher),
                          self.ask()).line(model.Topic.EMULATOR)
            self.assertEqual(expected, line.value.choice)
            self.assertIs(model.AdviceEvidence.OWN, line.evidence)
            self.assertIn(f'{expected} gains {gain}', line.why)

    def test_equal_ones_do_not_decide(self):
        threads = bench_model.EmulatorThreads
        levels = {threads.SHARE: 100, threads.ISOLATE: 100}
        line = advise(self.measured(levels),
                      self.ask()).line(model.Topic.EMULATOR)
        self.assertEqual('emulator-busy-share', line.rule)

    def test_shared_guests_have_no_policy(self):
        threads = bench_model.EmulatorThreads
        cases = [(make_case(str(policy), make_tenant(
            PINNED, 'packets', emulator_threads=policy)), around(level))
            for policy, level in ((threads.SHARE, 90), (threads.VCPUS, 80))]
        cases.append((make_case('floating', make_tenant(VANILLA, 'packets')),
                      around(100)))
        advice = advise(summarise(cases, make_workload(
            'packets', True, bench_model.WorkloadClass.NETWORK)), self.ask())
        self.assertEqual('shared',
                         advice.line(model.Topic.CLASS).value.choice)
        self.assertEqual('emulator-shared',
                         advice.line(model.Topic.EMULATOR).rule)
