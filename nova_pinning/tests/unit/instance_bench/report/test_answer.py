# SPDX-License-Identifier: Apache-2.0
"""What runs answer, and what of it is density."""

import dataclasses
import functools

import ddt

from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


def _summary(run, **changes):
    return statistics.summarise(dataclasses.replace(run.results(), **changes))


@ddt.ddt
class AnswerTest(unit_base.TestCase):

    @ddt.data(*report_scenes.ALL)
    def test_every_kind_has_one(self, kind):
        self.useFixture(report_scenes.SelfTest())
        found = answer.answer(_summary(report_scenes.ALL[kind]()))
        self.assertNotIn('does not answer', found.sentence)
        self.assertTrue(found.sentence.endswith('.'))
        self.assertTrue(found.ratios)

    def test_nothing_measured(self):
        for kind, make in report_scenes.ALL.items():
            self.assertIn('does not answer', answer.answer(
                _summary(make(rounds=1), measurements=())).sentence, kind)

    def test_pinning_and_density_apart(self):
        found = answer.answer(_summary(report_scenes.levels(
            slow=0.8, floating_spread=0.01)))
        self.assertRegex(found.sentence, 'pinning gains 2[456].* for sysb')
        self.assertRegex(found.more, r'sysbench-cpu is (3\.0|2\.9)')
        self.assertNotIn('vCPUs for each CPU than', found.sentence)

    def test_no_gain(self):
        found = answer.answer(_summary(report_scenes.levels(
            slow=1.0, floating_spread=0.01)))
        self.assertIn('makes no difference that shows', found.sentence)

    def test_not_measured_at_equal_density(self):
        found = answer.answer(report_scenes.levels().keep(
            lambda factors: 'shared at 3x' in factors['scenario']).summary())
        self.assertIn('was not measured', found.sentence)

    def test_too_few_runs(self):
        found = answer.answer(_summary(report_scenes.levels(rounds=1)))
        self.assertIn('cannot be told', found.sentence)

    def test_mutex(self):
        found = answer.answer(_summary(report_scenes.mutex()))
        for (_label, found_ratio), ratio in zip(
                found.ratios, (3.1 / 1.2, 7.4 / 1.4, 0.6), strict=True):
            self.assertAlmostEqual(ratio, found_ratio.value, delta=0.2)

    def test_worst_of_many(self):
        """Of neighbours that do nothing the worst is found out rarely."""
        seen = sum('none is known to slow floating' not in answer.answer(
            _summary(report_scenes.matrix(1.0, rounds=5, seed=seed))).sentence
            for seed in range(60))
        self.assertLessEqual(seen, 6)
        sentence = answer.answer(_summary(report_scenes.matrix())).sentence
        self.assertRegex(
            sentence, '^Of 4 cases the worst neighbour of pinned .*; of 4 '
            'cases the worst neighbour of floating ')

    def test_least_and_most_of_many(self):
        """Their intervals are for the ends of so many."""
        summary = _summary(report_scenes.mutex())
        row, asked = summary.rows[0], []

        def ratio(confidence, value):
            asked.append(confidence)
            return report_scenes.interval(value, 1.0, 2.0)

        found = answer._of_pairs(summary, 'It is', 'x', [
            (row, functools.partial(ratio, value=value))
            for value in (1.2, 1.1, 1.3, 1.15, 1.25)])
        self.assertRegex(
            found.sentence, r'at the least of 5 1\.10 .*, at the most 1\.30 ')
        self.assertEqual([0.99] * 5 + [0.95] * 5,
                         [round(one, 9) for one in asked])

    def test_table(self):
        ratios = [(f'case {number}', report_scenes.interval(
            1.5 ** number, 1.0, 2.0)) for number in range(25)]
        found = answer.ExperimentAnswer(sentence='It.', axis='by one',
                                        ratios=ratios).table
        self.assertEqual('By one', found.title)
        self.assertEqual(('case 1', '1.50 (1.00 to 2.00)'), found.rows[1])
        self.assertEqual(ratios[1][1], found.drawn[1].interval)
        self.assertTrue(found.is_detail)
        self.assertIsNone(answer.ExperimentAnswer(sentence='It.').table)


class DensityTest(unit_base.TestCase):

    def test_by_affinities(self):
        summary = _summary(report_scenes.levels())
        found = {(row.case.factors['scenario'], row.tenant.name):
                 row_pairs.density(summary, row)
                 for row in row_pairs.first_figures(summary)}
        self.assertEqual(1, found['shared at 3x beside enterprise',
                                  'enterprise'])
        self.assertEqual(1, found['shared at 1x beside enterprise', 'shared'])
        self.assertEqual(3, found['shared at 3x beside enterprise', 'shared'])

    def test_by_the_layout(self):
        run = report_scenes.levels()
        run.measurements[:] = [dataclasses.replace(one, affinities=())
                               for one in run.measurements]
        summary = _summary(run)
        row = next(row for row in summary.rows if row.tenant.count == 6)
        self.assertEqual(3, row_pairs.density(summary, row))
        summary = _summary(run, conditions=())
        self.assertEqual(0, row_pairs.density(summary, row))

    def test_stretched(self):
        rows = {}
        for stretch in (1.0, 2.0):
            summary = report_scenes.levels().summary(stretch)
            rows[stretch] = next(row_pairs.isolations(summary)).level
        self.assertEqual(rows[1.0].value, rows[2.0].value)
        self.assertAlmostEqual((rows[1.0].high / rows[1.0].value) ** 2,
                               rows[2.0].high / rows[2.0].value)
