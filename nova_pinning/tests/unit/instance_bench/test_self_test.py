# SPDX-License-Identifier: Apache-2.0

import dataclasses
import math
import random

from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import self_test
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


def _results(level, copies=20, rounds=5, table='self-test'):
    """:param level: of a copy in a round, given both"""
    cases = tuple(bench_model.Case(
        factors={'workload': 'spin', 'copy': str(number)},
        tenants=(bench_fakes.tenant(),))
        for number in range(1, copies + 1))
    return bench_model.Results(
        experiment=bench_model.Experiment(
            name='self-test', about='A/A.', table=table, cases=cases,
            baseline={}, rounds=rounds, repetitions=1),
        workloads={'spin': bench_fakes.WORKLOAD}, conditions=(),
        measurements=tuple(bench_model.Measurement(
            factors=case.factors, round=number, repetition=1, started=0.0,
            load=0.0, readings=(bench_model.Reading(
                tenant='enterprise', instance='enterprise-0', command='spin',
                figures={'turns': level(case.factors['copy'], number),
                         'seconds': 1.0}, started=1.0, ended=2.0),))
            for number in range(1, rounds + 1) for case in cases))


class TestCalibrate(unit_base.TestCase):

    def test_an_honest_machine(self):
        """Rounds differ, and so do runs, but not the copies."""
        drawn = random.Random(3)
        rounds = {number: drawn.gauss(100, 20) for number in range(1, 6)}
        found = self_test.calibrate(_results(
            lambda _copy, number: drawn.gauss(rounds[number], 2), copies=400))
        self.assertEqual(200, len(found.comparisons))
        # Chance lets fewer than 180 of 200 through once in 500 times.
        self.assertGreaterEqual(found.including_one, 180)
        self.assertLess(found.stretch, 1.4)

    def test_a_machine_with_moods(self):
        """What lasts over the rounds of a copy is not in its spread."""
        drawn = random.Random(4)
        moods = {}

        def level(copy, _number):
            mood = moods.setdefault(copy, drawn.gauss(100, 10))
            return drawn.gauss(mood, 1)

        results = _results(level, copies=200)
        found = self_test.calibrate(results)
        self.assertLess(found.including_one, 50)
        self.assertGreater(found.stretch, 3)
        # So stretched, 95 of the 100 do include 1.
        self.assertGreaterEqual(sum(
            not comparison.ratio.stretched(
                found.stretch * (1 + 1e-9)).excludes(1)
            for comparison in found.comparisons), 95)

    def test_each_copy_is_compared_once(self):
        found = self_test.calibrate(_results(
            lambda copy, number: float(copy) + number / 10, copies=4))
        self.assertEqual(['spin', 'spin'], [
            comparison.name for comparison in found.comparisons])
        self.assertEqual({'turns'}, {
            comparison.figure for comparison in found.comparisons})
        # 2.3 to 1.3, and 4.3 to 3.3.
        self.assertAlmostEqual(2.3 / 1.3, found.largest)

    def test_equal_to_the_last_digit(self):
        found = self_test.calibrate(_results(lambda *_unused: 5.0))
        self.assertEqual((10, 1.0, 1.0), (
            found.including_one, found.stretch, found.largest))

    def test_equal_but_for_a_step(self):
        """No spread, and yet they differ: no stretch mends that."""
        found = self_test.calibrate(_results(
            lambda copy, _number: 5.0 + (copy == '1')))
        self.assertEqual(9, found.including_one)
        self.assertEqual(math.inf, found.stretch)

    def test_what_is_none(self):
        error = self.assertRaises(
            errors.InputError, self_test.calibrate,
            _results(lambda *_unused: 5.0, table='levels'))
        self.assertIn('which is not a self-test', str(error))

    def test_cut_off_in_the_first_round(self):
        found = self_test.calibrate(_results(lambda *_unused: 5.0, rounds=1))
        self.assertEqual(((), 1.0, 1.0), (
            found.comparisons, found.stretch, found.largest))

    def test_chance(self):
        # The standard library has binomial coefficients, and no more.
        for including, comparisons in ((94, 100), (17, 20)):
            self.assertAlmostEqual(sum(
                math.comb(comparisons, count) * 0.95 ** count
                * 0.05 ** (comparisons - count)
                for count in range(including + 1)),
                report_scenes.calibration(comparisons, including).chance)

    def test_other_machine(self):
        here = report_scenes.CONDITIONS
        found = dataclasses.replace(report_scenes.calibration(),
                                    conditions=here)
        self.assertEqual('', found.other_machine(here))
        self.assertEqual('', found.other_machine(None))
        self.assertEqual('', report_scenes.calibration().other_machine(here))
        self.assertEqual(
            'CPU model: Another CPU there, A CPU here; kernel: 6.12.1 there, '
            '6.18 here', dataclasses.replace(
                found, conditions=dataclasses.replace(
                    here, cpu_model='Another CPU')).other_machine(
                        dataclasses.replace(here, cpu_model='A CPU',
                                            kernel='6.18', load=9.0)))


class TestStretched(unit_base.TestCase):

    def test_stretched(self):
        interval = report_scenes.interval(2.0, 1.0, 4.0)
        found = interval.stretched(2)
        self.assertEqual(2.0, found.value)
        self.assertAlmostEqual(0.5, found.low)
        self.assertAlmostEqual(8.0, found.high)
        self.assertEqual(interval, interval.stretched(1))
        # What a self-test asks for whose copies differ without spread.
        for factor in (1e9, math.inf):
            found = dataclasses.replace(interval, low=2.0).stretched(factor)
            self.assertEqual(2.0, found.low)
            self.assertGreater(found.high, 1e300)
