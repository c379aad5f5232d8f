# SPDX-License-Identifier: Apache-2.0
"""Figures of a run."""

import dataclasses
import statistics as oracle

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base

_POSITIVE = strategies.floats(1e-3, 1e6)


def _repetition(number, *values):
    """One in a round, with what each instance brought."""
    return bench_model.Measurement(
        factors={}, round=number, repetition=0, started=0.0, load=0.0,
        readings=tuple(bench_model.Reading(
            tenant='one', instance=f'one-{place}', command='run',
            figures={'events': value}, started=1.0, ended=2.0)
            for place, value in enumerate(values)))


def _estimate(values):
    return intervals.estimate(report_scenes.sample(values))


class EstimateTest(unit_base.TestCase):

    @unit_base.settings(max_examples=40)
    @hypothesis.given(strategies.lists(_POSITIVE, min_size=2, max_size=9))
    def test_as_the_standard_library_has_it(self, values):
        found = _estimate(values)
        mean = oracle.fmean(values)
        self.assertAlmostEqual(1, found.mean / mean, 9)
        deviation = oracle.stdev(values)
        self.assertAlmostEqual(0, (found.deviation - deviation) / mean, 7)
        self.assertEqual((min(values), max(values), len(values)),
                         (found.minimum, found.maximum, found.count))

    def test_single_value(self):
        found = _estimate([3.0])
        self.assertEqual(3.0, found.mean)
        self.assertFalse(found.interval.is_known)
        self.assertNotEqual(found.deviation, found.deviation)

    @unit_base.settings(max_examples=40)
    @hypothesis.given(strategies.lists(
        strategies.floats(0, 1e6), min_size=2, max_size=12))
    def test_not_below_zero(self, values):
        found = _estimate(values)
        if found.interval.is_known:
            self.assertGreaterEqual(found.interval.low, 0)

    def test_differences_may_be_below_zero(self):
        self.assertLess(_estimate([-1.0, 1.0, 2.0]).interval.low, 0)

    def test_outliers_are_kept(self):
        values = [10.0, 10.1, 9.9, 10.2, 9.8, 17.0]
        found = _estimate(values)
        self.assertEqual((17.0,), found.outliers)
        self.assertEqual(tuple(values), found.values)
        self.assertAlmostEqual(oracle.fmean(values), found.mean)

    def test_few_values_have_no_outliers(self):
        self.assertEqual((), intervals.outliers([1, 1, 100]))


class RatioTest(unit_base.TestCase):

    def test_more_than_one_is_worse(self):
        slow, fast = map(report_scenes.sample, (
            [20.0, 20.2, 19.8], [10.0, 10.1, 9.9]))
        self.assertAlmostEqual(2, statistics.ratio(slow, fast).value, 6)
        self.assertAlmostEqual(2, statistics.ratio(
            fast, slow, better=bench_model.Better.HIGHER).value, 6)


@ddt.ddt
class SampleTest(unit_base.TestCase):

    def test_clusters_are_rounds(self):
        """Neither repetitions nor instances: these share what disturbs them.
        """
        found = statistics.sample_of(
            [_repetition(1, 1, 3), _repetition(2, 5), _repetition(1, 2, 4)],
            'one', 'events')
        self.assertEqual(((1, 3, 2, 4), (5,)), found.clusters)
        self.assertEqual((1, 2), found.numbers)

    @ddt.data(('other', 'events'), ('one', 'other'))
    @ddt.unpack
    def test_nothing(self, tenant, figure):
        self.assertIsNone(statistics.sample_of(
            [_repetition(1, 1)], tenant, figure))


@ddt.ddt
class SummaryTest(unit_base.TestCase):

    def _row(self, summary, workload='sysbench-cpu', **factors):
        return next(row for row in summary.rows
                    if row.tenant.workload == workload
                    and factors.items() <= row.case.factors.items())

    def test_levels(self):
        summary = report_scenes.levels().summary()
        shared = next(
            row for row in summary.rows if row.tenant.name == 'shared'
            and row.case.factors['scenario'].startswith('shared at 3x'))
        self.assertEqual('bare metal / sysbench-cpu', shared.baseline)
        self.assertAlmostEqual(3 / 0.8 / 0.96, shared.overhead.value, 0)
        self.assertEqual('shared, idle host / sysbench-cpu', shared.quiet)
        self.assertAlmostEqual(3 / 0.8, shared.slowdown.value, 0)
        self.assertTrue(shared.has_neighbours)

    def test_baseline_has_none(self):
        summary = report_scenes.levels().summary()
        bare = self._row(summary, scenario='bare metal')
        self.assertIsNone(bare.overhead)
        self.assertIsNone(bare.slowdown)

    def test_baseline_of_the_same_size(self):
        summary = report_scenes.overhead().summary()
        row = self._row(summary, 'ffmpeg', platform='vm', size='8',
                        provisioning='pinned')
        self.assertEqual('ffmpeg / bm / vanilla / 8', row.baseline)

    def test_baseline_with_the_same_factors(self):
        run = report_scenes.Run(baseline={'place': 'near'})
        for place in ('near', 'far'):
            for link in ('a', 'b'):
                run.alone(factors={'place': place, 'link': link})
        summary = run.summary()
        self.assertEqual(['', '', 'near / a', 'near / b'],
                         [row.baseline for row in summary.rows])

    def test_baseline_that_was_not_measured_has_no_stand_in(self):
        summary = report_scenes.overhead().keep(lambda factors: (
            factors['platform'], factors['provisioning'], factors['size']
            ) != ('bm', 'vanilla', '8')).summary()
        for row in summary.rows:
            size = row.case.factors['size']
            if row.overhead is not None:
                self.assertEqual(f'ffmpeg / bm / vanilla / {size}',
                                 row.baseline)
        self.assertIsNone(self._row(summary, 'ffmpeg', platform='vm',
                                    size='8').overhead)

    def test_alone_on_the_host_has_no_stand_in(self):
        run = report_scenes.Run()
        for count in (1, 2, 3):
            run.alone(report_scenes.tenant(count=count),
                      factors={'scenario': str(count)})
        run.keep(lambda factors: factors['scenario'] != '1')
        for row in run.summary().rows:
            self.assertIsNone(row.slowdown)

    def test_baseline_of_another_workload(self):
        run = report_scenes.Run('multitask', [
            report_scenes.workload(name, ('seconds', 's', 'lower'))
            for name in ('one', 'many')], baseline={'job': 'one'})
        for name in ('one', 'many'):
            run.alone(report_scenes.tenant(workload=name),
                      factors={'job': name})
        self.assertEqual('one', run.summary().rows[1].baseline)

    def test_full_host_against_one_instance(self):
        run = report_scenes.Run()
        for count, level in ((1, 100.0), (3, 50.0)):
            run.alone(report_scenes.tenant(count=count), level,
                      {'scenario': str(count)})
        one, three = run.summary().rows
        self.assertIsNone(one.slowdown)
        self.assertEqual('1', three.quiet)
        self.assertAlmostEqual(2, three.slowdown.value, 1)
        # Twelve repetitions of three instances each.
        self.assertEqual({3}, set(map(
            len, three.estimate.sample.clusters)))

    def test_neighbours_that_differ_in_weight_are_no_baseline(self):
        run = report_scenes.Run().alone(report_scenes.tenant(weight=50))
        run.add(report_scenes.case(report_scenes.tenant(),
                                   report_scenes.neighbours(),
                                   scenario='beside'), {'measured': 1.0})
        self.assertIsNone(run.summary().rows[1].slowdown)

    def test_flags(self):
        run = report_scenes.Run(rounds=2).alone(flags=('clocks disagree',))
        self.assertEqual(2, run.summary().rows[0].flagged)

    @ddt.data((10 ** 6, {'p99', 'p99_999', 'max', 'samples'}),
              # The largest of all would be called the percentile.
              (30000, {'p99', 'max', 'samples'}), (99, {'max', 'samples'}))
    @ddt.unpack
    def test_percentiles_with_values_above(self, samples, names):
        run = report_scenes.Run('latency', [report_scenes.workload(
            'sysbench-cpu', ('p99', 'us', 'lower'), ('p99_999', 'us', 'lower'),
            ('max', 'us', 'lower'), ('samples', 'samples', 'higher'))],
            rounds=2).alone(level=100.0)
        run.measurements[:] = [dataclasses.replace(one, readings=tuple(
            dataclasses.replace(reading, figures={
                **reading.figures, 'samples': samples})
            for reading in one.readings)) for one in run.measurements]
        self.assertEqual(names, {
            row.figure.name for row in run.summary().rows})

    def test_name(self):
        summary = report_scenes.overhead().summary()
        self.assertEqual('bm / vanilla / 2',
                         summary.name(summary.experiment.cases[0]))

    def test_varying_leaves_out_what_follows(self):
        cases = [
            report_scenes.case(scenario=name, platform=platform, size=size)
            for name, platform in (('host', 'bm'), ('guest', 'vm'))
            for size in ('1', '2')]
        self.assertEqual(('scenario', 'size'), statistics.varying(cases))
        self.assertEqual(('scenario',), statistics.varying(cases[:1]))


class FinishTest(unit_base.TestCase):

    def test_ratio(self):
        summary = report_scenes.priority().summary()
        found = statistics.finishes(summary)
        self.assertEqual(['1', '4', '6'],
                         [one.case.factors['threads'] for one in found])
        self.assertAlmostEqual(0.75, found[1].ratio.mean, 2)
        self.assertEqual(100, found[1].heavy.tenant.weight)
        widened = statistics.finishes(
            dataclasses.replace(summary, stretch=2.0))
        self.assertEqual(found[1].ratio.interval.stretched(2.0),
                         widened[1].ratio.interval)

    def test_repetitions_are_pairs(self):
        # Both vary together, as on a host whose clock changes.
        run = report_scenes.priority(spread=0.0)
        run.measurements[:] = [
            dataclasses.replace(measurement, readings=tuple(
                dataclasses.replace(reading, figures={
                    'seconds': reading.figures['seconds'] * (
                        1 + measurement.round)})
                for reading in measurement.readings))
            for measurement in run.measurements]
        found = statistics.finishes(run.summary())
        self.assertEqual(found[1].ratio.interval.low,
                         found[1].ratio.interval.high)
        self.assertAlmostEqual(0.75, found[1].ratio.mean)

    def test_equal_weights_have_none(self):
        fixed = report_scenes.workload('fixed', ('seconds', 's', 'lower'))
        run = report_scenes.Run('priority', [fixed])
        run.add(report_scenes.case(report_scenes.tenant('a', workload='fixed'),
                                   report_scenes.tenant('b', workload='fixed'),
                                   x='1'),
                {'a': 1.0, 'b': 1.0})
        self.assertEqual((), statistics.finishes(run.summary()))
