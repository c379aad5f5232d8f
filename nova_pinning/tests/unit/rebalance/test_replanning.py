# SPDX-License-Identifier: Apache-2.0
"""Plans made anew for the goal of another."""

import dataclasses

from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import replanning
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings
from nova_pinning.tests.unit.rebalance import small_fleets

SETTINGS = solver_settings.SolverSettings()


class TestAgain(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        hosts = [small_fleets.fleet_host(number, 4) for number in range(4)]
        self.fleet = small_fleets.fleet_of(
            hosts, [(number, (0,), 2) for number in range(4)])

    def plan(self, goal, **fields):
        return plan_model.RebalancePlan(goal=goal, moves=(), **fields)

    def again(self, plan, moves_left):
        return replanning.again(
            plan, self.fleet,
            [slot_size.dedicated_slot(4, guests=self.fleet.guests)],
            move_rules.MoveLimits(moves=moves_left),
            move_rules.MoveRules(self.fleet), SETTINGS)

    def test_room(self):
        """Two moves make room for two; of those agreed to, one is left."""
        plan = self.plan(plan_model.PlanGoal.DEFRAGMENT)
        for left in (1, 2):
            made = self.again(plan, left)
            self.assertEqual(left, len(made.moves))
            self.assertEqual([(0, left)], [
                (gain.before, gain.after) for gain in made.gains])

    def test_drain(self):
        plan = self.plan(plan_model.PlanGoal.DRAIN, drained=('host0',))
        made = self.again(plan, None)
        self.assertEqual(['host0'], [move.source for move in made.moves])
        plan = dataclasses.replace(plan, drained=('gone',))
        self.assertRaises(errors.InputError, self.again, plan, 1)


class TestLimitsLeft(oslotest.BaseTestCase):

    def left(self, goal, done, **limits):
        moves = [plan_model.PlannedMove(
            guest=str(number), source='a', target='b',
            kind=plan_model.MigrationKind.LIVE, vcpus=1, memory_mib=10)
            for number in range(4)]
        left = replanning.limits_left(
            plan_model.RebalancePlan(goal=goal, moves=tuple(moves)),
            moves[:done], move_rules.MoveLimits(**limits))
        return left.moves, left.memory_mib

    def test_room(self):
        """No more than the plan had, whatever it was allowed to have."""
        goal = plan_model.PlanGoal.DEFRAGMENT
        self.assertEqual((1, None), self.left(goal, 3))
        self.assertEqual((3, 35), self.left(goal, 1, moves=9, memory_mib=45))
        self.assertRaises(errors.InputError, self.left, goal, 4)
        self.assertRaises(errors.InputError, self.left, goal, 3,
                          memory_mib=30)

    def test_drain(self):
        """As many as it takes, unless there was a limit."""
        goal = plan_model.PlanGoal.DRAIN
        self.assertEqual((None, None), self.left(goal, 4))
        self.assertEqual((3, None), self.left(goal, 2, moves=5))
        self.assertRaises(errors.InputError, self.left, goal, 2, moves=2)
