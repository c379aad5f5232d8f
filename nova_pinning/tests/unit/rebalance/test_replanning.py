# SPDX-License-Identifier: Apache-2.0
"""Plans made anew for the goal of another."""

import dataclasses

from oslotest import base as oslotest

from nova_pinning import errors
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
            plan, moves_left, self.fleet,
            [slot_size.dedicated_slot(4, guests=self.fleet.guests)], SETTINGS)

    def test_room(self):
        """Two moves make room for two; of those agreed to, one is left."""
        plan = self.plan(plan_model.PlanGoal.DEFRAGMENT)
        for left in (1, 2):
            made = self.again(plan, left)
            self.assertEqual(left, len(made.moves))
            self.assertEqual([(0, left)], [
                (gain.before, gain.after) for gain in made.gains])

    def test_drain(self):
        """However many moves are left."""
        plan = self.plan(plan_model.PlanGoal.DRAIN, drained=('host0',))
        made = self.again(plan, 0)
        self.assertEqual(['host0'], [move.source for move in made.moves])
        plan = dataclasses.replace(plan, drained=('gone',))
        self.assertRaises(errors.InputError, self.again, plan, 1)
