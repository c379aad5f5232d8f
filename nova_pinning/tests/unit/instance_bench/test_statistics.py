# SPDX-License-Identifier: Apache-2.0
"""Figures of a run."""

import dataclasses
import statistics as oracle

import ddt
import hypothesis
from hypothesis import strategies
import numpy

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base

_POSITIVE = strategies.floats(1e-3, 1e6)


def _measurements(*values, round_of=None):
    """values: instance and figure each, one measurement each."""
    found = []
    for place, (instance, value) in enumerate(values):
        reading = bench_model.Reading(
            tenant='one', instance=instance, command='run',
            figures={'events': value}, started=1.0, ended=2.0)
        found.append(bench_model.Measurement(
            factors={}, round=round_of(place) if round_of else 0,
            repetition=place, started=0.0, load=0.0, readings=(reading,)))
    return found


class EstimateTest(unit_base.TestCase):

    @unit_base.settings(max_examples=40)
    @hypothesis.given(strategies.lists(_POSITIVE, min_size=2, max_size=9))
    def test_as_the_standard_library_has_it(self, values):
        found = statistics.estimate(values)
        mean = oracle.fmean(values)
        self.assertAlmostEqual(1, found.mean / mean, 9)
        deviation = oracle.stdev(values)
        self.assertAlmostEqual(0, (found.deviation - deviation) / mean, 7)
        self.assertEqual((min(values), max(values), len(values)),
                         (found.minimum, found.maximum, found.count))

    def test_single_value(self):
        found = statistics.estimate([3.0])
        self.assertEqual(3.0, found.mean)
        self.assertFalse(found.interval.is_known)
        self.assertNotEqual(found.deviation, found.deviation)

    @unit_base.settings(max_examples=40)
    @hypothesis.given(strategies.lists(
        strategies.floats(0, 1e6), min_size=2, max_size=12))
    def test_not_below_zero(self, values):
        found = statistics.estimate(values)
        if found.interval.is_known:
            self.assertGreaterEqual(found.low, 0)

    def test_differences_may_be_below_zero(self):
        self.assertLess(statistics.estimate([-1.0, 1.0, 2.0]).low, 0)

    def test_outliers_are_kept(self):
        values = [10.0, 10.1, 9.9, 10.2, 9.8, 17.0]
        found = statistics.estimate(values)
        self.assertEqual((17.0,), found.outliers)
        self.assertEqual(tuple(values), found.values)
        self.assertAlmostEqual(oracle.fmean(values), found.mean)

    def test_few_values_have_no_outliers(self):
        self.assertEqual((), statistics.outliers([1, 1, 100]))


class RatioTest(unit_base.TestCase):

    def test_more_than_one_is_worse(self):
        slow, fast = [20.0, 20.2, 19.8], [10.0, 10.1, 9.9]
        self.assertAlmostEqual(2, statistics.ratio(slow, fast).value, 6)
        self.assertAlmostEqual(2, statistics.ratio(
            fast, slow, better=bench_model.Better.HIGHER).value, 6)

    def test_variation_ratio(self):
        found = statistics.variation_ratio([90, 110, 100], [99, 101, 100])
        self.assertAlmostEqual(10, found.value)


class SampleTest(unit_base.TestCase):

    def _sample(self, *values, **options):
        return statistics.sample_of(
            _measurements(*values, **options), 'one', 'events')

    def test_repetitions_are_no_clusters(self):
        found = self._sample(('a', 1), ('a', 2))
        self.assertEqual(((1.0, 2.0),), found.clusters)
        self.assertFalse(statistics.estimate(found).interval.is_known)

    def _together(self, rounds):
        """rounds: what each instance brought, each."""
        return statistics.sample_of([
            dataclasses.replace(
                _measurements(('', 0.0))[0], round=number_of_round,
                readings=tuple(
                    dataclasses.replace(
                        _measurements((str(number), value))[0].readings[0])
                    for number, value in enumerate(values)))
            for number_of_round, values in enumerate(rounds)],
            'one', 'events')

    def test_instances_of_a_round_are_together(self):
        found = self._together([(1, 3), (2, 4), (5,)])
        self.assertEqual(((1, 3), (2, 4), (5,)), found.clusters)

    def test_instances_that_compete(self):
        """What they share is noise, however alike their means are."""
        drawn = numpy.random.default_rng(5)
        hits = 0
        for _run in range(200):
            rounds = []
            for level in drawn.normal(50, 4, 6):
                parts = drawn.normal(0, 1, 3)
                rounds.append(level + parts - parts.mean())
            found = statistics.estimate(self._together(rounds))
            hits += found.low <= 50 <= found.high
        # Chance lets fewer through once in a thousand times.
        self.assertGreaterEqual(hits, 180)
        self.assertLess(hits, 200)

    def test_rounds(self):
        found = self._sample(('a', 1), ('b', 3), ('a', 2), ('b', 4),
                             round_of=lambda place: place // 2)
        self.assertEqual(((1, 3), (2, 4)), found.clusters)

    def test_nothing(self):
        self.assertIsNone(statistics.sample_of(
            _measurements(('a', 1)), 'other', 'events'))
        self.assertIsNone(statistics.sample_of(
            _measurements(('a', 1)), 'one', 'other'))


@ddt.ddt
class SummaryTest(unit_base.TestCase):

    def _row(self, summary, workload='sysbench-cpu', **factors):
        return next(row for row in summary.rows
                    if row.tenant.workload == workload
                    and factors.items() <= row.case.factors.items())

    def test_levels(self):
        summary = statistics.summarise(report_scenes.levels().results())
        shared = next(
            row for row in summary.rows if row.tenant.name == 'shared'
            and row.case.factors['scenario'].startswith('shared at 3x'))
        self.assertEqual('bare metal / sysbench-cpu', shared.baseline)
        self.assertAlmostEqual(3 / 0.8 / 0.96, shared.overhead.value, 0)
        self.assertEqual('shared, idle host / sysbench-cpu', shared.quiet)
        self.assertAlmostEqual(3 / 0.8, shared.slowdown.value, 0)
        self.assertGreater(shared.instability.value, 5)
        self.assertTrue(shared.has_neighbours)

    def test_baseline_has_none(self):
        summary = statistics.summarise(report_scenes.levels().results())
        bare = self._row(summary, scenario='bare metal')
        self.assertIsNone(bare.overhead)
        self.assertIsNone(bare.slowdown)

    def test_baseline_of_the_same_size(self):
        summary = statistics.summarise(report_scenes.overhead().results())
        row = self._row(summary, 'ffmpeg', platform='vm', size='8',
                        provisioning='pinned')
        self.assertEqual('ffmpeg / bm / vanilla / 8', row.baseline)

    def test_baseline_with_the_same_factors(self):
        run = report_scenes.Run(baseline={'place': 'near'})
        for place in ('near', 'far'):
            for link in ('a', 'b'):
                run.alone(factors={'place': place, 'link': link})
        summary = statistics.summarise(run.results())
        self.assertEqual(['', '', 'near / a', 'near / b'],
                         [row.baseline for row in summary.rows])

    def test_baseline_that_was_not_measured_has_no_stand_in(self):
        run = report_scenes.overhead()
        run.measurements[:] = [
            measurement for measurement in run.measurements
            if (measurement.factors['platform'],
                measurement.factors['provisioning'],
                measurement.factors['size']) != ('bm', 'vanilla', '8')]
        summary = statistics.summarise(run.results())
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
        run.measurements[:] = [measurement for measurement in run.measurements
                               if measurement.factors['scenario'] != '1']
        for row in statistics.summarise(run.results()).rows:
            self.assertIsNone(row.slowdown)

    @ddt.data('mutex', 'multitask')
    def test_baseline_of_another_workload(self, table):
        jobs = [report_scenes.workload(name, ('seconds', 's', 'lower'))
                for name in ('one', 'other')]
        run = report_scenes.Run(table, jobs, baseline={'scenario': 'one'})
        for job in jobs:
            run.alone(report_scenes.tenant(workload=job.name),
                      factors={'scenario': job.name})
        summary = statistics.summarise(run.results())
        self.assertEqual('one', summary.rows[1].baseline)

    def test_full_host_against_one_instance(self):
        run = report_scenes.Run()
        for count, level in ((1, 100.0), (3, 50.0)):
            run.alone(report_scenes.tenant(count=count), level,
                      {'scenario': str(count)})
        one, three = statistics.summarise(run.results()).rows
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
        self.assertIsNone(
            statistics.summarise(run.results()).rows[1].slowdown)

    def test_flags(self):
        run = report_scenes.Run(repetitions=2).alone(
            flags=('clocks disagree',))
        self.assertEqual(
            2, statistics.summarise(run.results()).rows[0].flagged)

    def test_skipped_and_unmeasured_cases_have_no_rows(self):
        run = report_scenes.levels()
        run.measurements.clear()
        self.assertEqual((), statistics.summarise(run.results()).rows)

    def test_name(self):
        summary = statistics.summarise(report_scenes.overhead().results())
        self.assertEqual('bm / vanilla / 2',
                         summary.name(summary.experiment.cases[0]))

    def test_varying_leaves_out_what_follows(self):
        cases = [
            report_scenes.case(scenario=name, platform=platform, size=size)
            for name, platform in (('host', 'bm'), ('guest', 'vm'))
            for size in ('1', '2')]
        self.assertEqual(('scenario', 'size'), statistics.varying(cases))
        self.assertEqual(('scenario',), statistics.varying(cases[:1]))


class SplitTest(unit_base.TestCase):

    def test_parts(self):
        summary = statistics.summarise(
            report_scenes.overhead(platform=0.05, by_size=0.6).results())
        found = {one.name: one for one in statistics.split(summary, 16)}
        split = found['ffmpeg', 'vm', 'pinned']
        self.assertTrue(split.platform.low < 0.05 < split.platform.high)
        self.assertTrue(split.by_size.low < 0.6 < split.by_size.high)
        self.assertAlmostEqual(1.2, split.at(4), 1)
        self.assertEqual([(2, 0.125), (4, 0.25), (8, 0.5), (16, 1.0)],
                         [point[:2] for point in split.points])
        self.assertLess(split.residual, 0.02)

    def test_two_sizes_are_too_few(self):
        results = report_scenes.overhead().results()
        few = dataclasses.replace(results, measurements=tuple(
            measurement for measurement in results.measurements
            if measurement.factors['size'] in ('2', '4')))
        self.assertEqual((), statistics.split(
            statistics.summarise(few), 16))


class FinishTest(unit_base.TestCase):

    def test_ratio(self):
        summary = statistics.summarise(report_scenes.priority().results())
        found = statistics.finishes(summary)
        self.assertEqual(['1', '4', '6'],
                         [one.case.factors['threads'] for one in found])
        self.assertAlmostEqual(0.75, found[1].ratio.mean, 2)
        self.assertEqual(100, found[1].heavy.tenant.weight)

    def test_repetitions_are_pairs(self):
        # Both vary together, as on a host whose clock changes.
        results = report_scenes.priority(spread=0.0).results()
        measurements = tuple(
            dataclasses.replace(measurement, readings=tuple(
                dataclasses.replace(reading, figures={
                    'seconds': reading.figures['seconds'] * (
                        1 + measurement.repetition)})
                for reading in measurement.readings))
            for measurement in results.measurements)
        found = statistics.finishes(statistics.summarise(
            dataclasses.replace(results, measurements=measurements)))
        self.assertIs(intervals.Method.EQUAL, found[1].ratio.method)
        self.assertAlmostEqual(0.75, found[1].ratio.mean)

    def test_equal_weights_have_none(self):
        fixed = report_scenes.workload('fixed', ('seconds', 's', 'lower'))
        run = report_scenes.Run('priority', [fixed])
        run.add(report_scenes.case(report_scenes.tenant('a', workload='fixed'),
                                   report_scenes.tenant('b', workload='fixed'),
                                   x='1'),
                {'a': 1.0, 'b': 1.0})
        self.assertEqual(
            (), statistics.finishes(statistics.summarise(run.results())))
