# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them."""

import math

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.instance_bench.report import words
from nova_pinning.tests.unit.instance_bench.report import report_scenes
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

    @ddt.data(
        (words.ratio, 1.234, 1.1, 1.4, '1.23 (1.10 to 1.40)'),
        (words.ratio, 1.234, 0.1234, 11.9, '1.23 (0.12 to 11.90)'),
        (words.ratio, 1.234, 0.12, 12.4, 'too few runs'),
        (words.ratio, 1.234, 0.0, 123000.0, 'too few runs'),
        # What decides is shown.
        (words.ratio, 1.234, 1.01, 123000.0, 'too few runs'),
        (words.ratio, 1.234, math.nan, math.nan, '1.23'),
        (words.percents, 0.0123, 0.01, 0.015, '1.2% (1.0% to 1.5%)'),
        (words.percents, 0.266, 0.0, 4034.935, '26.6% (too few runs)'),
        # What can be negative may be anywhere.
        (words.percents, 0.01, -3.0, 3.02, '1.0% (-300.0% to 302.0%)'),
        (words.interval, 2.0, 1.0, 3.0, '1.000 to 3.000'),
        (words.interval, 2.0, 0.01, 300.0, 'too few runs'),
        (words.interval, 2.0, 0.0, 3.0, '0 to 3.000'),
        (words.interval, 2.0, math.nan, math.nan, '–'),
        (words.change, 1.04, 1.01, 1.07, 'gains 4.0% (1.0% to 7.0%)'),
        (words.change, 0.96, 0.93, 0.99, 'loses 4.0% (1.0% to 7.0%)'),
        (words.change, 1.01, 0.99, 1.03,
         'makes no difference that shows (-1.0% to +3.0%)'))
    @ddt.unpack
    def test_interval(self, form, value, low, high, text):
        self.assertEqual(text, form(report_scenes.interval(value, low, high)))

    def test_no_ratio(self):
        self.assertEqual('–', words.ratio(None))

    def test_huge_percentage(self):
        self.assertEqual('1e+82%', words.percent(1e80))

    def test_count(self):
        self.assertEqual(['0 cases', '1 case', '2,000 cases'], [
            words.count(number, 'case') for number in (0, 1, 2000)])
