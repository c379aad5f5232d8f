# SPDX-License-Identifier: Apache-2.0
"""Intervals: how often they are right, and what does not change them."""

import itertools
import math
import statistics as oracle

import ddt
import hypothesis
from hypothesis import strategies
import numpy

from nova_pinning.instance_bench import intervals
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base

_NUMBERS = strategies.lists(
    strategies.integers(1, 10 ** 6), min_size=2, max_size=14)


def _mean(values, **options):
    return intervals.interval([report_scenes.sample(values)], intervals.mean,
                              **options)


@ddt.ddt
class CoverageTest(unit_base.TestCase):
    """In simulated runs the truth is in the interval as often as it should.

    For 200 runs and 95% the least number of hits that chance alone lets
    through once in a thousand times is 180.
    """

    @ddt.data(
        # clusters, values in each, deviation between clusters, least hits
        (3, 1, 0.0, 180), (5, 1, 0.0, 180), (12, 1, 0.0, 180),
        (3, 10, 2.0, 180), (12, 3, 2.0, 180), (20, 2, 2.0, 180))
    @ddt.unpack
    def test_mean(self, clusters, size, between, least):
        drawn = numpy.random.default_rng(7)
        hits = 0
        for _ in range(200):
            values = (50 + drawn.normal(0, between, (clusters, 1))
                      + drawn.normal(0, 2, (clusters, size)))
            found = intervals.interval(
                [intervals.Sample(clusters=tuple(map(tuple, values)))],
                intervals.mean)
            hits += found.low <= 50 <= found.high
        self.assertGreaterEqual(hits, least)
        self.assertLess(hits, 200)

    @ddt.data(3, 12)
    def test_two_samples(self, size):
        drawn = numpy.random.default_rng(8)
        hits = 0
        for _ in range(150):
            found = intervals.interval(
                [report_scenes.sample(drawn.normal(50, 2, size))
                 for _sample in range(2)], intervals.ratio, is_positive=True)
            hits += found.low <= 1 <= found.high
        self.assertGreaterEqual(hits, 130)

    @ddt.data((-0.9, 6), (0.9, 6), (-0.9, 14), (0.9, 14))
    @ddt.unpack
    def test_samples_of_the_same_repetitions(self, correlation, size):
        """What disturbs both is in the interval once, and not twice."""
        drawn = numpy.random.default_rng(9)
        hits, apart, widths = 0, 0, []
        for _ in range(150):
            pairs = drawn.multivariate_normal(
                [50, 50], [[9, 9 * correlation], [9 * correlation, 9]], size)
            samples = [intervals.Sample(
                clusters=tuple((value,) for value in values),
                numbers=tuple(range(size))) for values in pairs.T]
            together, alone = (intervals.interval(
                samples, intervals.ratio, is_positive=True,
                is_paired=is_paired) for is_paired in (True, False))
            hits += together.low <= 1 <= together.high
            apart += alone.low <= 1 <= alone.high
            widths.append((together.high - together.low)
                          / (alone.high - alone.low))
        self.assertGreaterEqual(hits, 130)
        if correlation > 0:
            self.assertLess(oracle.median(widths), 0.6)
        else:
            # Too short, when both were taken for independent.
            self.assertLess(apart, hits)
            self.assertGreater(oracle.median(widths), 1.2)


def _drawn(shape, kind, random):
    """Deviations of runs, by the kind of what disturbs them."""
    values = random.normal(0, 1, shape)
    if kind == 'lognormal':
        return numpy.exp(0.5 * values)
    if kind == 'outliers':
        return values * numpy.where(random.random(shape) < 0.1, 10, 1)
    return values


@ddt.ddt
class SpreadRatioTest(unit_base.TestCase):
    """Runs of known spread, of rounds with so many values in each."""

    def _told(self, rounds, size, kind, factor, *, runs=400):
        """In which part of the runs one spread is told from the other."""
        random = numpy.random.default_rng(5)
        told = 0
        for _ in range(runs):
            # What is slow in a round is so for both.
            common = random.normal(0, 0.05, (rounds, 1))
            samples = [intervals.Sample(clusters=tuple(map(tuple, (
                100 + common + 0.2 * times * _drawn(
                    (rounds, size), kind, random)).tolist())))
                for times in (factor, 1)]
            told += intervals.spread_ratio(*samples).excludes(1)
        return told / runs

    @ddt.data(*itertools.product(
        ((5, 2), (5, 18), (12, 3)), ('normal', 'lognormal', 'outliers')))
    @ddt.unpack
    def test_no_difference_out_of_nothing(self, shape, kind):
        """5%; chance alone lets more than 8.5% through once in 1,000."""
        self.assertLess(self._told(*shape, kind, 1), 0.085)

    @ddt.data(((5, 18), 'normal', 2, 0.95), ((5, 18), 'outliers', 4, 0.9),
              ((12, 3), 'normal', 2, 0.8), ((12, 18), 'outliers', 2, 0.9))
    @ddt.unpack
    def test_power(self, shape, kind, factor, least):
        self.assertGreater(self._told(*shape, kind, factor, runs=100), least)

    def test_figure(self):
        samples = [intervals.Sample(clusters=clusters, numbers=(1, 2, 3))
                   for clusters in (((98, 102), (96, 104), (100,)),
                                    ((99, 101), (99, 101), (99, 101)))]
        found = intervals.spread_ratio(*samples)
        # 2 and 4 times; of the third round a single value says nothing.
        self.assertAlmostEqual(math.sqrt(8), found.value)
        self.assertAlmostEqual(1 / found.value,
                               intervals.spread_ratio(*samples[::-1]).value)

    @ddt.data(((1, 2), (2, 2)), ((1,), (2,), (3,)), ((0, 0), (-1, 1)))
    def test_what_cannot_be_compared(self, clusters):
        one = intervals.Sample(clusters=clusters)
        other = intervals.Sample(clusters=((1, 2), (3, 5), (4, 3)))
        self.assertFalse(intervals.spread_ratio(one, other).is_known)


@ddt.ddt
class IntervalTest(unit_base.TestCase):

    @ddt.data(((2, 1, 4), (0.5, 0.25, 1)),
              ((0.5, 0, 2), (2, 0.5, math.inf)),
              ((0, 0, 0), (math.inf,) * 3))
    @ddt.unpack
    def test_inverse(self, ends, expected):
        inverse = report_scenes.interval(*ends).inverse
        self.assertEqual(expected, (inverse.value, inverse.low, inverse.high))

    def test_students_t_of_a_mean(self):
        values = [10.0, 11.0, 13.0]
        found = _mean(values)
        reach = 4.302652729696142 * numpy.std(values, ddof=1) / math.sqrt(3)
        self.assertAlmostEqual(34 / 3, found.value)
        self.assertAlmostEqual(34 / 3 - reach, found.low)
        self.assertAlmostEqual(34 / 3 + reach, found.high)

    @unit_base.settings(max_examples=30)
    @hypothesis.given(_NUMBERS, strategies.randoms())
    def test_pairs_are_told_by_their_numbers(self, values, drawn):
        """Any order will do, and a gap is one on both sides."""
        pairs = [(number, (float(value),), (1.5 * value + number,))
                 for number, value in enumerate(values)]
        shuffled = drawn.sample(pairs, len(pairs))

        def found(first, second):
            return intervals.interval([
                intervals.Sample(
                    numbers=tuple(one[0] for one in first),
                    clusters=tuple(one[1] for one in first)),
                intervals.Sample(
                    numbers=tuple(one[0] for one in second),
                    clusters=tuple(one[2] for one in second))],
                intervals.ratio, is_positive=True, is_paired=True)

        self.assertEqual(repr(found(pairs, pairs)),
                         repr(found(pairs, shuffled)))
        self.assertEqual(repr(found(pairs, pairs[1:])),
                         repr(found(shuffled, pairs[1:][::-1])))

    @ddt.data(5, 12)
    def test_more_confidence(self, size):
        values = [math.sqrt(number) for number in range(size)]
        usual, found = _mean(values), _mean(values, confidence=0.999)
        self.assertLess(found.low, usual.low)
        self.assertGreater(found.high, usual.high)

    @ddt.data(3, 12)
    def test_all_equal(self, size):
        found = _mean([0.1] * size)
        self.assertEqual((0.1, 0.1), (found.low, found.high))
        self.assertTrue(found.excludes(0.2))

    @ddt.data(((5.0,),), ((1.0, 2.0, 3.0),))
    def test_one_cluster_has_no_interval(self, clusters):
        found = intervals.interval([intervals.Sample(clusters=clusters)],
                                   intervals.mean)
        self.assertEqual(oracle.mean(clusters[0]), found.value)
        self.assertFalse(found.is_known)
        self.assertFalse(found.excludes(100))

    def test_division_by_nothing(self):
        found = intervals.interval(
            list(map(report_scenes.sample, ([1.0, 2.0], [0.0, 0.0]))),
            intervals.ratio, is_positive=True)
        self.assertTrue(math.isnan(found.value))
        self.assertFalse(found.is_known)

    def test_excludes(self):
        found = report_scenes.interval(2, 1, 3)
        self.assertEqual([True, False, False, True], [
            found.excludes(value) for value in (0.9, 1, 3, 3.1)])


class InvarianceTest(unit_base.TestCase):

    @unit_base.settings(max_examples=40)
    @hypothesis.given(
        strategies.lists(strategies.lists(
            strategies.integers(1, 10 ** 6), min_size=1, max_size=3),
            min_size=2, max_size=14),
        strategies.randoms(use_true_random=False))
    def test_order(self, clusters, shuffler):
        shuffled = [
            shuffler.sample(cluster, len(cluster)) for cluster in clusters]
        shuffler.shuffle(shuffled)
        one, other = (intervals.interval(
            [intervals.Sample(clusters=tuple(map(tuple, found)))],
            intervals.mean) for found in (clusters, shuffled))
        self.assertEqual(repr(one), repr(other))

    @unit_base.settings(max_examples=40)
    @hypothesis.given(_NUMBERS, strategies.integers(-20, 20))
    def test_scale(self, values, exponent):
        # By powers of two, which do not round.
        scale = 2.0 ** exponent
        before = _mean(values)
        after = _mean([value * scale for value in values])
        self.assertAlmostEqual(1, after.low / (before.low * scale), 6)
        self.assertAlmostEqual(1, after.high / (before.high * scale), 6)

    @unit_base.settings(max_examples=40)
    @hypothesis.given(_NUMBERS)
    def test_value_is_inside(self, values):
        found = _mean(values)
        self.assertLessEqual(found.low, found.value * (1 + 1e-9))
        self.assertGreaterEqual(found.high, found.value * (1 - 1e-9))
