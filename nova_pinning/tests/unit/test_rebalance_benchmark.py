# SPDX-License-Identifier: Apache-2.0
"""The benchmark of plans of moves: what it says, and when it fails."""

import contextlib
import dataclasses
import io
import json
import os
from unittest import mock

import fixtures

from benchmarks import rebalance
from benchmarks import runner
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.unit import unit_base


class TestBenchmark(unit_base.TestCase):

    def _run(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as output, \
                contextlib.redirect_stderr(io.StringIO()) as errors:
            status = rebalance.main(['--slack', '1000', *arguments])
        return status, output.getvalue(), errors.getvalue()

    def test_quick(self):
        directory = self.useFixture(fixtures.TempDir()).path
        paths = [os.path.join(directory, name) for name in ('json', 'rst')]
        status, output, _errors = self._run(
            '--quick', '--json', paths[0], '--rst', paths[1])
        self.assertEqual(0, status, output)
        with open(paths[0]) as file:
            document = json.load(file)
        self.assertEqual([case.name for case in rebalance.QUICK],
                         [case['name'] for case in document['plans']])
        with open(paths[1]) as file:
            self.assertIn('\ngenerated-60     60 ', file.read())

    def test_no_snapshot(self):
        with mock.patch.object(rebalance, 'has_snapshot', return_value=False):
            status, _output, errors = self._run('--case', 'snapshot-10')
        self.assertEqual(2, status)
        self.assertIn('NOVA_PINNING_DATA', errors)

    def test_bad_input(self):
        for arguments in (['--case', 'other'], ['--slack', '0']):
            error = self.assertRaises(SystemExit, self._run, *arguments)
            self.assertEqual(2, error.code)

    def test_bars(self):
        gain = plan_model.SlotGain(size='16', before=2, after=12, bound=13)
        plan = plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DEFRAGMENT, moves=(), gains=(gain,))

        def problems(case, seconds):
            outcome = rebalance.summarise(
                case, 279, plan, runner.Figure(seconds, limit=5.0),
                runner.Figure(1.0))
            return [bar.verdict for bar in outcome.bars], outcome.problems

        self.assertEqual((['MISSED'], [
            '12 slots, of which at most 13 are proved; 13 have to be proved',
            '12 slots are more than 0% below the bound of 13']),
            problems(rebalance.SNAPSHOT[0], 6.0))
        large = dataclasses.replace(rebalance.LARGE[0], gap=0.1)
        self.assertEqual((['met'], []), problems(large, 4.9))
