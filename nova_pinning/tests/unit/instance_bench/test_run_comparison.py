# SPDX-License-Identifier: Apache-2.0
"""Runs, case by case."""

import dataclasses
import math
import random
from unittest import mock

import ddt

from nova_pinning import cpuset
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


def _summary(level=100.0, *, better='higher', spread=0.01, rounds=12,
             names=('a',), conditions=None, seed=1, **tenant):
    run = report_scenes.Run('levels', [report_scenes.workload(
        'sysbench-cpu', ('events', '1/s', better))], seed=seed,
        rounds=rounds)
    for name in names:
        run.alone(report_scenes.tenant(**tenant), level, {'scenario': name},
                  spread=spread)
    return run.summary(**conditions or {})


@ddt.ddt
class CompareTest(unit_base.TestCase):

    @ddt.data(
        (90.0, 'regression', {}), (110.0, 'improvement', {}),
        (110.0, 'regression', {'better': 'lower'}),
        (90.0, 'improvement', {'better': 'lower'}),
        (97.0, 'within the noise', {'spread': 0.2}),
        (50.0, 'too few runs', {'rounds': 1}),
        # Be the change of any size.
        (50.0, 'too few runs', {'rounds': 2, 'spread': 0.3}))
    @ddt.unpack
    def test_verdict(self, level, verdict, options):
        found = run_comparison.compare(_summary(level, seed=2, **options),
                                       [_summary(**options)])
        self.assertEqual([verdict],
                         [change.verdict for change in found.changes])
        self.assertEqual(verdict in ('regression', 'improvement'),
                         found.changes[0].is_notable)

    def test_widened_by_a_self_test(self):
        new = dataclasses.replace(_summary(90.0, seed=2), stretch=20.0)
        found = run_comparison.compare(new, [_summary()])
        self.assertEqual('within the noise', found.changes[0].verdict)

    def test_within_tolerance(self):
        old = _summary(spread=0.001)
        for level, verdict in ((98.5, 'within the tolerance'),
                               (97.5, 'regression')):
            found = run_comparison.compare(_summary(level, spread=0.001),
                                           [old])
            self.assertEqual(verdict, found.changes[0].verdict)

    def test_cases_of_one_only(self):
        found = run_comparison.compare(_summary(names=('a', 'new')),
                                       [_summary(names=('old', 'a'))])
        self.assertEqual(1, len(found.changes))
        self.assertEqual(('new: measured, events',), found.only_new)
        self.assertEqual(('old: measured, events',), found.only_old)

    @ddt.data({'parameters': {'events': 5}}, {'count': 2}, {'weight': 50},
              {'vcpus': 3})
    def test_what_was_not_measured_alike(self, change):
        found = run_comparison.compare(_summary(50.0, **change), [_summary()])
        self.assertEqual((), found.changes)
        self.assertEqual(('a: measured, events',), found.unlike)
        self.assertEqual(((), ()), (found.only_old, found.only_new))

    def test_another_command(self):
        new = _summary(50.0)
        workload = dataclasses.replace(
            new.results.workloads['sysbench-cpu'], command='other')
        new = dataclasses.replace(new, results=dataclasses.replace(
            new.results, workloads={'sysbench-cpu': workload}))
        self.assertEqual(1, len(
            run_comparison.compare(new, [_summary()]).unlike))

    def test_many_comparisons_without_a_change(self):
        """Nearly all of 10 pairs of runs have no false verdict."""
        names = [f'case {number}' for number in range(40)]
        wrong = usual = 0
        for seed in range(10):
            found = run_comparison.compare(
                _summary(spread=0.05, names=names, rounds=8,
                         seed=2 * seed + 1),
                [_summary(spread=0.05, names=names, rounds=8,
                          seed=2 * seed + 2)])
            wrong += any(change.verdict != 'within the noise'
                         for change in found.changes)
            # What is shown is what decides.
            self.assertEqual(
                [change.ratio.excludes(1) for change in found.changes],
                [change.verdict != 'within the noise'
                 for change in found.changes])
            usual += any(statistics.ratio(
                change.new.estimate.sample, change.old.estimate.sample,
                better=change.new.figure.better).excludes(1)
                for change in found.changes)
        self.assertLessEqual(wrong, 1)
        self.assertGreater(usual, 5)

    def test_a_change_among_many_is_found(self):
        names = [f'case {number}' for number in range(40)]
        found = run_comparison.compare(_summary(95.0, names=names, seed=2),
                                       [_summary(names=names)])
        self.assertEqual(['regression'] * 40,
                         [change.verdict for change in found.changes])

    def test_same_run_has_no_changes(self):
        summary = report_scenes.levels().summary()
        found = run_comparison.compare(summary, [summary])
        self.assertEqual({'within the noise'},
                         {str(change.verdict) for change in found.changes})

    @ddt.data(
        ({'load': 0.5}, ()),
        ({'load': 12.0}, ('load before: 0.10, now 12.00',)),
        ({'kernel': '6.13.0', 'emulated': True,
          'mitigations': {'meltdown': 'Not affected'},
          'layout': {**report_scenes.CONDITIONS.layout,
                     'host': cpuset.CpuSet.parse('0-2')},
          'versions': {**report_scenes.CONDITIONS.versions, 'qemu': '9.2.0'}},
         ('kernel: 6.12.1, now 6.13.0', 'emulated: no, now yes',
          'host CPUs: 0-3, now 0-2',
          'mitigation of mds: Mitigation: buffers, now none',
          'qemu: 9.1.0, now 9.2.0')))
    @ddt.unpack
    def test_hosts_that_differ(self, changes, expected):
        self.assertEqual(expected, run_comparison.compare(
            _summary(conditions=changes), [_summary()]).differing)


@ddt.ddt
class BootsTest(unit_base.TestCase):
    """A machine on which levels differ by 1% between boots."""

    def _verdicts(self, earlier, change=0.0, *, times=100, boot=0.01):
        drawn = random.Random(3)

        def run(level, number):
            return _summary(
                level * drawn.gauss(1, boot), better='lower', rounds=5,
                spread=0.002, seed=drawn.random(),
                conditions={'boot_id': f'boot {number}'})

        # So that the statistics alone decide.
        with mock.patch.object(run_comparison, 'TOLERANCE', 0.0):
            return [run_comparison.compare(
                run(100 * (1 + change), 0),
                [run(100.0, number + 1) for number in range(earlier)],
            ).changes[0] for _time in range(times)]

    @ddt.data(1, 2, 3, 5)
    def test_boots_are_no_change(self, earlier):
        """5%; chance alone lets more than 12 through once in 1,000."""
        found = self._verdicts(earlier)
        self.assertLessEqual(sum(one.is_notable for one in found), 12)
        # Rounds alone tell each of most boots from others.
        self.assertGreater([one.verdict for one in found].count(
            'inconclusive: boots'), 50)

    @ddt.data((1, 0.2), (2, 0.2), (3, 0.1), (5, 0.06))
    @ddt.unpack
    def test_a_change_is_found(self, earlier, change):
        found = self._verdicts(earlier, change, times=40)
        self.assertGreaterEqual(
            [one.verdict for one in found].count('regression'), 38)

    def test_few_boots_of_many_figures(self):
        """Where chance has much to choose from, two boots tell next to none.
        """
        names = [f'case {number}' for number in range(40)]
        found = run_comparison.compare(
            _summary(80.0, names=names, conditions={'boot_id': 'now'}),
            [_summary(level, names=names, seed=seed,
                      conditions={'boot_id': f'boot {seed}'})
             for seed, level in ((2, 100.0), (3, 101.0))])
        self.assertEqual({'regression'}, {
            str(change.verdict) for change in found.changes})
        # But these do differ by more than that.
        found = run_comparison.compare(
            _summary(80.0, conditions={'boot_id': 'now'}),
            [_summary(level, seed=seed, conditions={'boot_id': f'boot {seed}'})
             for seed, level in ((2, 100.0), (3, 120.0))])
        self.assertEqual('inconclusive: boots', found.changes[0].verdict)

    def test_how_many_more(self):
        def more(earlier, change):
            found = self._verdicts(earlier, change, times=40, boot=0.02)
            return sorted(one.more_boots for one in found if
                          one.verdict == 'inconclusive: boots')

        self.assertEqual({4}, set(more(1, 0.05)))
        # A change of five deviations takes more than three boots at times.
        self.assertEqual(1, more(3, 0.1)[0])
        # One of half a deviation none need tell: the later boot has its own.
        self.assertEqual(math.inf, more(5, 0.01)[-1])

    @ddt.data(('', ''), ('', 'b'), ('a', ''))
    @ddt.unpack
    def test_boots_that_nobody_knows(self, now, then):
        """They may be the same or others, and are taken for one other."""
        found = run_comparison.compare(
            _summary(96.0, seed=9, conditions={'boot_id': now}), [
                _summary(seed=seed, conditions={'boot_id': then})
                for seed in range(4)])
        self.assertEqual('inconclusive: boots', found.changes[0].verdict)
        self.assertEqual(1, found.boots)

    def test_runs_of_one_boot_are_compared_by_rounds(self):
        found = run_comparison.compare(_summary(96.0, seed=9), [
            _summary(seed=seed) for seed in range(2)])
        self.assertEqual('regression', found.changes[0].verdict)
        self.assertEqual(24, found.changes[0].old.estimate.count)
