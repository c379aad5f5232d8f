# SPDX-License-Identifier: Apache-2.0
"""What runs can be held to."""

import dataclasses
import math

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import disturbances
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base

HOLDS = run_claims.ClaimVerdict.HOLDS
DOES_NOT_HOLD = run_claims.ClaimVerdict.DOES_NOT_HOLD
INCONCLUSIVE = run_claims.ClaimVerdict.INCONCLUSIVE


def _claims(run, name, **changes):
    results = dataclasses.replace(run.results(), **changes)
    return [claim for claim in run_claims.claims(statistics.summarise(results))
            if claim.name == name]


def _verdicts(run, name, **changes):
    return [claim.verdict for claim in _claims(run, name, **changes)]


def _simple(tenant=None, **options):
    return report_scenes.Run(rounds=3).alone(tenant, **options)


@ddt.ddt
class DisturbedTest(unit_base.TestCase):
    """Runs of known truth on a machine that has other work to do."""

    @staticmethod
    def _level(slow, steal, seed, is_disturbed=lambda number: True):
        """The verdict where a run's instances are alike but for other work.

        :param slow: what that leaves of a floating one
        :param steal: part of the CPUs' time, in the rounds that are disturbed
        """
        run = report_scenes.isolation(slow, spread=0.01, seed=seed,
                                      rounds=24)
        run.measurements[:] = [
            dataclasses.replace(one, counters={
                'steal_seconds': steal * 12 * 10.1 * is_disturbed(number)})
            for number, one in enumerate(run.measurements)]
        verdict, = _verdicts(run, 'level')
        return verdict

    def test_no_claim_out_of_foreign_load(self):
        self.assertEqual({INCONCLUSIVE}, {
            self._level(0.8, 0.03, seed) for seed in range(20)})

    def test_a_quiet_machine_shows_what_there_is(self):
        found = [self._level(0.8, 0.003, seed) for seed in range(20)]
        self.assertGreaterEqual(found.count(HOLDS), 19)

    def test_no_claim_beyond_what_the_data_carry(self):
        """Ends that are a hundred million times apart tell nothing."""
        self.assertIs(INCONCLUSIVE, run_claims.above(
            report_scenes.interval(113531.51, 10.12, 1.274e9), 1))
        self.assertIs(HOLDS, run_claims.above(
            report_scenes.interval(28.3, 10.12, 79.1), 1))

    def test_few_are_borne(self):
        self.assertIs(HOLDS, self._level(
            0.8, 0.03, 1, lambda number: number == 1))
        self.assertIs(INCONCLUSIVE, self._level(
            0.8, 0.03, 1, lambda number: number < 2))

    @ddt.data(('share', 0.5, True), ('share', 0.1, False),
              ('vcpus', 0.5, False), (None, 0.5, False))
    @ddt.unpack
    def test_run_delay(self, policy, waited, is_doubted):
        run = report_scenes.Run().alone(report_scenes.tenant(
            platform=bench_model.PlatformName.GUEST,
            provisioning=bench_model.Provisioning.PINNED,
            emulator_threads=policy and bench_model.EmulatorThreads(policy)))
        run.measurements[:] = [
            dataclasses.replace(one, readings=[dataclasses.replace(
                reading, counters={'run_delay_seconds': waited})
                for reading in one.readings]) for one in run.measurements]
        self.assertEqual(is_doubted, bool(disturbances.doubt(run.summary())))

    @ddt.data((0.019, False), (0.021, True))
    @ddt.unpack
    def test_cpus_of_processes_that_others_took(self, part, is_doubted):
        run = report_scenes.Run().alone(report_scenes.tenant(
            platform=bench_model.PlatformName.CONTAINER))
        run.measurements[:] = [
            dataclasses.replace(one, readings=[dataclasses.replace(
                reading, counters={'foreign_seconds': part * (
                    reading.ended - reading.started)})
                for reading in one.readings]) for one in run.measurements]
        self.assertEqual(is_doubted, bool(disturbances.doubt(run.summary())))

    @ddt.data((0.9, '', True), (0.4, '', False), (0.9, 'iperf3 -s', False))
    @ddt.unpack
    def test_cpus_of_no_instance(self, busy, peer, is_doubted):
        run = report_scenes.Run('network', [dataclasses.replace(
            report_scenes.workload(), peer=peer)]).alone()
        run.measurements[:] = [dataclasses.replace(one, utilisation=(
            bench_model.UtilisationSample(
                seconds=1.0, busy={'4': 1.0, '9': busy, '10': busy}),))
            for one in run.measurements]
        self.assertEqual(is_doubted, bool(disturbances.doubt(run.summary())))

    def test_the_self_test_is_of_the_machine_as_it_is(self):
        run = report_scenes.copies()
        before = _verdicts(run, 'self-test')
        run.measurements[:] = [dataclasses.replace(
            one, counters={'steal_seconds': 30.0})
            for one in run.measurements]
        self.assertEqual(before, _verdicts(run, 'self-test'))


@ddt.ddt
class GeneralTest(unit_base.TestCase):
    """Claims on any run."""

    @ddt.data('affinities', 'clocks', 'complete')
    def test_holds(self, name):
        self.assertEqual([HOLDS], _verdicts(_simple(), name))

    def test_affinities_elsewhere(self):
        found = _claims(_simple(affinity='4,9'), 'affinities')[0]
        self.assertIs(DOES_NOT_HOLD, found.verdict)
        self.assertIn('vCPU 0: CPUs 4,9 in place of 4-7', found.evidence)

    def test_instance_that_nobody_saw(self):
        run = _simple(report_scenes.tenant(count=2))
        self.assertEqual([HOLDS], _verdicts(run, 'affinities'))
        for number, seen in enumerate((0, 1)):
            run.measurements[number] = dataclasses.replace(
                run.measurements[number],
                affinities=run.measurements[number].affinities[:seen])
        found = _claims(run, 'affinities')[0]
        self.assertIs(INCONCLUSIVE, found.verdict)
        self.assertIn('2 of 3 measurements', found.evidence)

    def test_thread_that_had_ended(self):
        run = _simple()
        first = run.measurements[0]
        run.measurements[0] = dataclasses.replace(first, affinities=(
            *first.affinities, dataclasses.replace(
                first.affinities[0], seen=bench_fakes.cpus(''))))
        found = _claims(run, 'affinities')[0]
        self.assertIs(HOLDS, found.verdict)
        self.assertIn('1 thread had ended before', found.evidence)

    @ddt.data(('affinities', 'measurements'), ('clocks', 'clocks'))
    @ddt.unpack
    def test_nothing_to_go_by(self, name, what):
        self.assertEqual([INCONCLUSIVE], _verdicts(
            _simple(), name, **{what: ()}))

    @ddt.data((1.0005, HOLDS), (1.0012, DOES_NOT_HOLD),
              (0.9, DOES_NOT_HOLD))
    @ddt.unpack
    def test_rate_of_clocks(self, rate, verdict):
        found = _claims(_simple(rate=rate), 'clocks')[0]
        self.assertIs(verdict, found.verdict)
        self.assertIn(f'{rate:.5f} s inside for 1 s outside', found.evidence)

    @ddt.data((101.0, INCONCLUSIVE, '1 of 1 cannot be told; guest-0'),
              # Beyond what the handshakes leave open.
              (111.0, DOES_NOT_HOLD, '1 of 1 do not; guest-0'))
    @ddt.unpack
    def test_handshakes_that_take_too_long(self, inside, verdict, evidence):
        check = instance_clock.ClockCheck(
            factors={}, round=0, instance='guest-0',
            first=instance_clock.ClockReading(
                before=0.0, inside=1.0, after=2.0),
            last=instance_clock.ClockReading(
                before=100.0, inside=inside, after=102.0))
        found = _claims(_simple(), 'clocks', clocks=(check,))[0]
        self.assertIs(verdict, found.verdict)
        self.assertIn(evidence, found.evidence)

    def test_one_repetition_short(self):
        run = _simple()
        del run.measurements[0]
        found = _claims(run, 'complete')[0]
        self.assertIs(INCONCLUSIVE, found.verdict)
        self.assertIn('1 of 1 were not, among them a', found.evidence)

    def test_skipped_cases_do_not_count(self):
        self.assertEqual([HOLDS], _verdicts(report_scenes.levels(),
                                            'complete'))


@ddt.ddt
class IsolationTest(unit_base.TestCase):

    @ddt.data(
        ({}, [HOLDS] * 2),
        # Floating instances that nothing disturbs, faster than alone.
        ({'slow': 1.3, 'floating_spread': 0.0005}, [DOES_NOT_HOLD] * 2))
    @ddt.unpack
    def test_verdict(self, options, verdicts):
        run = report_scenes.levels(**options)
        self.assertEqual(verdicts, _verdicts(run, 'level'))
        self.assertEqual(verdicts, _verdicts(run, 'spread'))

    def test_density_is_no_gain(self):
        """A third of a CPU is what density costs, and not for want of pins."""
        run = report_scenes.levels(slow=1.0, floating_spread=0.007)
        self.assertNotIn(HOLDS, _verdicts(run, 'level'))
        self.assertNotIn(HOLDS, _verdicts(run, 'spread'))

    def test_two_rounds_are_inconclusive(self):
        run = report_scenes.levels(rounds=2)
        self.assertEqual([INCONCLUSIVE] * 2, _verdicts(run, 'spread'))

    def test_nothing_of_the_same_density(self):
        found = _claims(report_scenes.levels().keep(
            lambda factors: '1x' not in factors['scenario']
            and not factors['scenario'].startswith('shared, idle')), 'level')
        self.assertEqual([INCONCLUSIVE] * 2, [one.verdict for one in found])
        self.assertIn('as many vCPUs for each CPU', found[0].evidence)

    def test_one_cpu_to_float_on(self):
        """Such an instance is pinned, whatever it is called."""
        run = report_scenes.one_cpu()
        for name in ('level', 'spread'):
            found, = _claims(run, name)
            self.assertIs(INCONCLUSIVE, found.verdict)
            self.assertIn('pinned in all but name', found.evidence)
        self.assertIn('too small to tell', answer.answer(
            run.summary()).sentence)

    @ddt.data('level', 'spread')
    def test_what_disturbs_both_does_not_hide_the_difference(self, name):
        """Tenants of one case are compared round by round."""
        run = report_scenes.Run('levels', rounds=24)
        pinned = report_scenes.tenant('pinned', count=2)
        shared = report_scenes.tenant(
            'shared', provisioning=report_scenes.VANILLA,
            guest_class=report_scenes.SHARED, count=2)
        run.add(report_scenes.case(pinned, shared, scenario='both'),
                {'pinned': 990.0, 'shared': 900.0}, spread=0.003,
                cpus={'pinned': '4-7', 'shared': '12-15'})
        # All is slow at times, and what is shared a little more so.
        for number, one in enumerate(run.measurements):
            run.measurements[number] = dataclasses.replace(
                one, readings=tuple(dataclasses.replace(
                    reading, figures={
                        figure: value * (1.5 - number % 7 / 7) ** power
                        for figure, value in reading.figures.items()})
                    for reading, power in zip(one.readings, (1, 1, 1.1, 1.1))))

        found, = _claims(run, name)

        self.assertIs(HOLDS, found.verdict, found.evidence)

    def test_spread_of_single_values(self):
        """One of them may be the median itself."""
        run = report_scenes.levels().keep(
            lambda factors: '3x' not in factors['scenario'])
        run.measurements[:] = [dataclasses.replace(one, readings=tuple(
            {reading.tenant: reading for reading in one.readings}.values()))
            for one in run.measurements]
        found, *_others = _claims(run, 'spread')
        self.assertIs(INCONCLUSIVE, found.verdict)
        self.assertIn('several values of each', found.evidence)

    def test_matrix(self):
        found = _claims(report_scenes.matrix(), 'slowdown')
        self.assertEqual(['stream', 'sysbench-cpu'],
                         [one.subject for one in found])
        self.assertEqual([HOLDS] * 2, [one.verdict for one in found])
        self.assertIn('2 of 2 ratios', found[0].evidence)
        self.assertEqual([DOES_NOT_HOLD] * 2, _verdicts(
            report_scenes.matrix(worst=0.9), 'slowdown'))
        self.assertEqual([], _claims(report_scenes.matrix(), 'level'))

    def test_matrix_by_slowdowns(self):
        """What floats and gets half of it alone as well is not slowed."""
        self.assertEqual([DOES_NOT_HOLD] * 2, _verdicts(
            report_scenes.matrix(worst=1.0, floating=0.5), 'slowdown'))

    def test_matrix_of_unequal_density(self):
        """Among more vCPUs for each CPU a loss is not for want of pinning."""
        # Of its neighbours' 4 vCPUs, on 8 CPUs, one is there.
        found = _claims(report_scenes.matrix(
            cpus={'victim': '4-5'}), 'slowdown')
        self.assertEqual([INCONCLUSIVE] * 2, [one.verdict for one in found])
        self.assertIn('had as many vCPUs for each CPU', found[0].evidence)


class SelfTestTest(unit_base.TestCase):

    def test_claim(self):
        for including, comparisons, verdict in (
                (96, 100, HOLDS), (95, 100, HOLDS),
                # A perfect machine has that in a self-test now and then.
                (94, 100, INCONCLUSIVE), (91, 100, INCONCLUSIVE),
                (90, 100, DOES_NOT_HOLD), (17, 20, INCONCLUSIVE),
                (16, 20, DOES_NOT_HOLD), (10, 10, INCONCLUSIVE),
                (0, 10, INCONCLUSIVE), (0, 0, INCONCLUSIVE)):
            self.useFixture(report_scenes.SelfTest(report_scenes.calibration(
                comparisons=comparisons, including_one=including)))
            self.assertEqual([verdict], _verdicts(report_scenes.copies(),
                                                  'self-test'))

    def test_sensitivity(self):
        """Intervals that include 1.0 since they include anything are none."""
        for spread, stretch, verdict in (
                (0.01, 1.0, HOLDS), (0.01, 9.0, DOES_NOT_HOLD),
                (0.5, 1.0, DOES_NOT_HOLD), (0.01, math.inf, DOES_NOT_HOLD)):
            run = report_scenes.copies(rounds=5, spread=spread)
            with report_scenes.SelfTest(dataclasses.replace(
                    self_test.calibrate(run.results()), stretch=stretch)):
                self.assertEqual([verdict], _verdicts(run, 'sensitivity'))
        self.assertEqual([INCONCLUSIVE], _verdicts(
            report_scenes.copies(rounds=1), 'sensitivity'))


class AgentTest(unit_base.TestCase):

    def claims(self, topology='2 sockets, 16 L3 domains', **options):
        return _claims(report_scenes.with_agent(**options), 'agent',
                       conditions=(dataclasses.replace(
                           report_scenes.CONDITIONS, topology=topology),))

    def test_faster_or_not(self):
        for level, verdict in ((37.0, HOLDS), (31.0, INCONCLUSIVE),
                               (24.0, DOES_NOT_HOLD)):
            self.assertEqual([verdict], [
                one.verdict for one in self.claims(level=level)], level)

    def test_one_cache(self):
        """Nothing can be said of caches there."""
        found, = self.claims(topology='1 socket, 2 CPUs, 1 L3 domain')
        self.assertEqual(INCONCLUSIVE, found.verdict)
        self.assertIn('has one L3 domain', found.evidence)


class PlacementTest(unit_base.TestCase):

    def claims(self, topology='2 sockets, 16 L3 domains', run=None):
        return _claims(run or report_scenes.network(), 'placement',
                       conditions=(dataclasses.replace(
                           report_scenes.CONDITIONS, topology=topology),))

    def test_another_cache_and_the_vcpus(self):
        found = self.claims()
        self.assertEqual([HOLDS] * 2, [one.verdict for one in found])
        self.assertIn('another L3 domain', found[0].statement)
        self.assertIn('1 of 1 ratios', found[0].evidence)
        self.assertIn("vCPUs' own", found[1].statement)
        # Of emulator threads on the vCPUs nothing is alike.
        self.assertIn('share / vcpus', found[1].evidence)

    def test_no_difference(self):
        found = self.claims(run=report_scenes.network(better='lower'))
        self.assertEqual([DOES_NOT_HOLD] * 2, [one.verdict for one in found])

    def test_one_cache(self):
        """There is no other, and all shares the one anyway."""
        run = report_scenes.network()
        run.cases[1] = dataclasses.replace(
            run.cases[1], skipped='there are no CPUs for interrupts')
        run.keep(lambda factors: factors['network_cpus'] != 'other-cache')
        found = self.claims('1 socket, 1 L3 domain', run)
        self.assertEqual([INCONCLUSIVE] * 2, [one.verdict for one in found])
        self.assertIn('there are no CPUs for interrupts', found[0].evidence)
        self.assertIn('this host has one L3 domain', found[1].evidence)


class MutexTest(unit_base.TestCase):

    def test_up_is_faster(self):
        found = _claims(report_scenes.mutex(), 'handover')
        # Nothing of what competes: it may gain by a second CPU.
        self.assertEqual([HOLDS] * 2, [one.verdict for one in found])
        self.assertEqual('host / handover / 2', found[0].subject)

    def test_up_is_slower(self):
        self.assertEqual([DOES_NOT_HOLD], _verdicts(
            report_scenes.two_processors(2.0, 1.0), 'handover'))


@ddt.ddt
class PriorityTest(unit_base.TestCase):

    @ddt.data(({}, [HOLDS] * 3),
              # Weights without an effect.
              ({'ratio': 1.0}, [HOLDS, DOES_NOT_HOLD, DOES_NOT_HOLD]),
              ({'spread': 0.3, 'rounds': 3}, [INCONCLUSIVE] * 3))
    @ddt.unpack
    def test_verdict(self, options, verdicts):
        self.assertEqual(verdicts, _verdicts(
            report_scenes.priority(**options), 'finish-ratio'))

    def test_guests_that_may_have_cpus_of_their_own(self):
        found = _claims(report_scenes.priority(
            platform=bench_model.PlatformName.GUEST), 'finish-ratio')
        self.assertEqual([INCONCLUSIVE] * 3,
                         [claim.verdict for claim in found])
        self.assertIn('may spread guests', found[0].evidence)

    def test_nobody_knows_the_cpus(self):
        run = report_scenes.priority()
        run.measurements[:] = [dataclasses.replace(measurement, affinities=())
                               for measurement in run.measurements]
        self.assertEqual([], _claims(run, 'finish-ratio', conditions=()))
        # The layout has 4 CPUs for shared instances.
        self.assertEqual(3, len(_claims(run, 'finish-ratio')))

    @ddt.data('emulator', 'vhost')
    def test_threads_elsewhere_are_no_cpus_of_the_work(self, thread):
        run = report_scenes.priority()
        affinity = bench_model.Affinity(
            thread=f'heavy-0: {thread}', asked=bench_fakes.cpus('0-1'),
            seen=bench_fakes.cpus('0-1'))
        run.measurements[:] = [
            dataclasses.replace(measurement, affinities=(
                *measurement.affinities, affinity))
            for measurement in run.measurements]
        summary = run.summary()
        self.assertEqual(4, len(row_pairs.given_cpus(
            summary, summary.experiment.cases[0])))

    def _tenant(self, weight, threads, vcpus=4):
        return report_scenes.tenant(vcpus=vcpus, weight=weight,
                                    parameters={'threads': threads})

    @ddt.data((1, 4, 1.0), (2, 4, 1.0), (4, 4, 0.75), (6, 4, 0.75),
              # The lighter has only 3 CPUs once it is alone.
              (3, 4, 9 / 13))
    @ddt.unpack
    def test_expected(self, threads, cpus, ratio):
        self.assertAlmostEqual(ratio, run_claims.expected_ratio(
            self._tenant(100, threads), self._tenant(50, threads), cpus))

    @unit_base.settings(max_examples=40)
    @hypothesis.given(*[strategies.integers(1, 12)] * 3,
                      *[strategies.sampled_from((25, 50, 100, 300))] * 2)
    def test_expected_by_small_pieces(self, one, other, cpus, weight, lower):
        tenants = [self._tenant(weight, one, one),
                   self._tenant(lower, other, other)]
        found = run_claims.expected_ratio(*tenants, cpus)
        self.assertAlmostEqual(_finished(tenants, 0, cpus)
                               / _finished(tenants, 1, cpus), found,
                               delta=0.02)

    def test_threads(self):
        self.assertEqual(4,
                         run_claims.tenant_threads(self._tenant(1, '{vcpus}')))
        self.assertEqual(6, run_claims.tenant_threads(self._tenant(1, 6)))
        self.assertEqual(2, run_claims.tenant_threads(report_scenes.tenant()))


def _finished(tenants, which, cpus):
    """When one of two tenants with equal work is done."""
    both = _rates(tenants, cpus)
    first = max(range(2), key=both.__getitem__)
    if which == first or both[0] == both[1]:
        return 1 / both[which]
    alone, = _rates([tenants[which]], cpus)
    return 1 / both[first] + (1 - both[which] / both[first]) / alone


def _rates(tenants, cpus, piece=0.005):
    """CPUs in pieces, each to who has least by weight and can use more."""
    rates = [0.0] * len(tenants)
    for _piece in range(round(cpus / piece)):
        hungry = [place for place, tenant in enumerate(tenants)
                  if rates[place] < tenant.size.vcpus - piece / 2]
        if hungry:
            rates[min(hungry, key=lambda place: (
                rates[place] / tenants[place].weight))] += piece
    return rates


class BareMetalTest(unit_base.TestCase):

    def test_holds(self):
        self.assertEqual([HOLDS] * 2,
                         _verdicts(report_scenes.ladder(), 'bare-metal'))
        self.assertEqual([HOLDS],
                         _verdicts(report_scenes.overhead(), 'bare-metal'))

    def test_guest_that_is_too_fast(self):
        run = report_scenes.overhead(platform=-0.3, by_size=0.0)
        found = _claims(run, 'bare-metal')[0]
        self.assertIs(DOES_NOT_HOLD, found.verdict)
        self.assertIn('vm', found.evidence)

    def test_floating_that_beats_pinned_refutes_nothing(self):
        # Two threads of one core against two cores.
        run = report_scenes.Run('overhead', baseline={'platform': 'bm'})
        for platform, provisioning, level in (
                (report_scenes.BM, report_scenes.PINNED, 100.0),
                (report_scenes.CN, report_scenes.PINNED, 99.0),
                (report_scenes.CN, report_scenes.VANILLA, 160.0)):
            run.add(report_scenes.case(
                report_scenes.tenant(platform=platform,
                                     provisioning=provisioning),
                platform=str(platform), provisioning=str(provisioning)),
                {'measured': level})
        found = _claims(run, 'bare-metal')[0]
        self.assertIs(HOLDS, found.verdict)
        self.assertIn('1 of 1 ratios', found.evidence)


@ddt.ddt
class AboveTest(unit_base.TestCase):

    @ddt.data((1.1, 1.2, HOLDS), (0.8, 0.9, DOES_NOT_HOLD),
              (0.9, 1.1, INCONCLUSIVE), (1.0, 1.1, INCONCLUSIVE),
              (float('nan'), 0.9, INCONCLUSIVE))
    @ddt.unpack
    def test_above(self, low, high, verdict):
        self.assertIs(verdict, run_claims.above(
            report_scenes.interval(0.9, low, high), 1))

    def test_counted(self):
        found = [run_claims.RunClaim(name='a', statement='A', verdict=verdict,
                                     evidence='e')
                 for verdict in (HOLDS, HOLDS, DOES_NOT_HOLD, INCONCLUSIVE)]
        self.assertEqual(
            '2 hold, 1 does not hold, 1 inconclusive (not passed)',
            run_claims.counted(found))
