# SPDX-License-Identifier: Apache-2.0

import collections
import contextlib
import dataclasses
import io
import pathlib
import tempfile
from unittest import mock

from nova_pinning.rebalance import defragment
from nova_pinning.rebalance import plan_search
from nova_pinning.tests.oracle import moves
from nova_pinning.tests.oracle import moves_cases
from nova_pinning.tests.unit.oracle import oracle_cases

_SEED = 38


class TestMoves(oracle_cases.TestCase):

    def _run(self, *args):
        """Run the command; return its exit status and what it printed."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = moves.main(['--jobs', '1', '--seed', str(_SEED), *args])
        return status, output.getvalue()

    def test_agreement(self):
        # test_short_series has 120 of them.
        status, output = self._run('--cases', '5')
        self.assertEqual(0, status, output)
        self.assertIn('5 cases of seed 38', output)
        self.assertIn('0 disagreements', output)

    def test_rules(self):
        """Each is switched on in a twentieth of the cases or more."""
        counts = collections.Counter()
        for number in range(300):
            counts.update(moves_cases.draw(_SEED, number).rules)
        self.assertEqual(set(), {
            name for name in moves_cases.SHARES if counts[name] < 15})

    def test_case_is_cut_down(self):
        """To what shows the fault, and is read again as it is printed."""
        what, case = 'it gains less than it could', moves_cases.draw(_SEED, 4)
        with self._planning(moves=lambda plan: ()):
            self.assertIn(what, moves.judge(case, by_programs=False))
            small = moves.shrunk(case, what)
            self.assertIn(what, moves.judge(moves_cases.parse(str(small)),
                                            by_programs=False))
        self.assertLess(len(small.fleet.guests), len(case.fleet.guests))
        self.assertEqual(((), (), 1), (
            small.fleet.aggregates, small.fleet.server_groups,
            small.request.moves))
        self.assertNotIn(what, moves.judge(small, by_programs=False))

    def _planning(self, **values):
        """A planner that gives plans like these."""
        plan = defragment.plan_defragmentation

        def changed(*args, **named):
            made = plan(*args, **named)
            return dataclasses.replace(made, **{
                name: value(made) for name, value in values.items()})

        return mock.patch.object(defragment, 'plan_defragmentation', changed)

    def _wrong(self, *wanted, **values):
        """What is found of a planner that gives plans like these.

        :param wanted: with what to stop, if all of it was found
        """
        found = set()
        with self._planning(**values):
            for number in range(40):
                found |= moves.judge(moves_cases.draw(_SEED, number),
                                     by_programs=False)
                if found.issuperset(wanted):
                    break
        return found

    def test_plans_that_are_not_the_best(self):
        wanted = {'it gains less than it could', 'nothing is proved'}
        self.assertEqual(wanted, self._wrong(
            *wanted, moves=lambda plan: (), is_optimal=lambda plan: False))
        better, bound = (
            'proved, though there is better', 'the bound is too low')
        self.assertIn(better, self._wrong(
            better, moves=lambda plan: (), is_optimal=lambda plan: True))
        self.assertIn(bound, self._wrong(
            bound, moves=lambda plan: (), gains=lambda plan: tuple(
                dataclasses.replace(gain, bound=gain.before)
                for gain in plan.gains)))

    def test_program_that_leaves_plans_out(self):
        solved = plan_search.PlanSearch.solved

        def pessimistic(*args):
            program, solution = solved(*args)
            return program, solution._replace(bound=solution.bound - 1)

        wanted = {'the bound of the program is too low',
                  'the program wants more moves than needed'}
        with mock.patch.object(plan_search.PlanSearch, 'solved',
                               pessimistic):
            found = set()
            for number in range(40):
                found |= moves.judge(moves_cases.draw(_SEED, number),
                                     by_programs=False)
                if found == wanted:
                    break
        self.assertEqual(wanted, found)

    def test_replay(self):
        case = moves_cases.draw(_SEED, 1)
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch, 'case.json')
            path.write_text(str(case))
            status, output = self._run('--replay', str(path))
            self.assertEqual(0, status, output)
            self.assertIn('the best: ', output)
            path.write_text('{}')
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertRaises(SystemExit, self._run, '--replay',
                                  str(path))

    def test_case_as_printed(self):
        for number in range(20):
            case = moves_cases.draw(_SEED, number)
            self.assertEqual(str(case), str(moves_cases.parse(str(case))))
