# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them."""

import math

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench.report import words
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class WordsTest(unit_base.TestCase):

    @ddt.data((0, '0'), (12345.6, '12,346'), (1.23456, '1.235'),
              (0.0123456, '0.01235'), (999.96, '1,000.0'),
              (-2.5, '-2.500'), (1.234e80, '1e+80'), (math.nan, '–'),
              (math.inf, '–'))
    @ddt.unpack
    def test_number(self, value, text):
        self.assertEqual(text, words.number(value))

    @unit_base.settings(max_examples=100)
    @hypothesis.given(strategies.floats(1e-4, 1e12))
    def test_number_is_close(self, value):
        text = words.number(value)
        self.assertAlmostEqual(
            1, float(text.replace(',', '')) / value, delta=0.001)

    def test_ratio(self):
        def ratio(low, high):
            return words.ratio(intervals.Interval(
                value=1.234, low=low, high=high,
                method=intervals.Method.BCA))

        self.assertEqual('1.23 (1.10 to 1.40)', ratio(1.1, 1.4))
        self.assertEqual('1.23 (0.12 to 11.90)', ratio(0.1234, 11.9))
        self.assertEqual('1.23 (too few runs)', ratio(0.12, 12.4))
        self.assertEqual('1.23 (too few runs)', ratio(0.0, 123000.0))
        # What decides is shown.
        self.assertEqual('1.23 (1.01 to 123,000)', ratio(1.01, 123000.0))
        self.assertEqual('1.23', ratio(math.nan, math.nan))
        self.assertEqual('–', words.ratio(None))

    def test_percents(self):
        self.assertEqual('1.2% (1.0% to 1.5%)', words.percents(
            intervals.Interval(value=0.0123, low=0.01, high=0.015,
                               method=intervals.Method.BCA)))

        self.assertEqual('26.6% (too few runs)', words.percents(
            intervals.Interval(value=0.266, low=0.0, high=4034.935,
                               method=intervals.Method.STUDENT)))
        # What can be negative may be anywhere.
        self.assertEqual('1.0% (-300.0% to 302.0%)', words.percents(
            intervals.Interval(value=0.01, low=-3.0, high=3.02,
                               method=intervals.Method.STUDENT)))
        self.assertEqual('1e+82%', words.percent(1e80))

    def test_interval(self):
        for low, high, text in (
                (1.0, 3.0, '1.000 to 3.000'), (0.01, 300.0, 'too few runs'),
                (0.0, 3.0, '0 to 3.000'), (math.nan, math.nan, '–')):
            self.assertEqual(text, words.interval(intervals.Interval(
                value=2.0, low=low, high=high,
                method=intervals.Method.STUDENT)))

    def test_count(self):
        self.assertEqual(['0 cases', '1 case', '2,000 cases'], [
            words.count(number, 'case') for number in (0, 1, 2000)])
