# SPDX-License-Identifier: Apache-2.0
"""Plans made anew for the goal of another."""

import dataclasses

from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import planning
from nova_pinning.rebalance import slot_size
from nova_pinning.tests.unit.rebalance import small_fleets


class TestAgain(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        hosts = [small_fleets.fleet_host(number, 4) for number in range(4)]
        self.fleet = small_fleets.fleet_of(
            hosts, [(number, (0,), 2) for number in range(4)])

    def test_room(self):
        """Two moves make room for two; of those agreed to, one is left."""
        size = slot_size.dedicated_slot(4, guests=self.fleet.guests)
        plan = planning.make_plan(plan_request.PlanRequest(
            goal=plan_request.MakeRoom(sizes=(size,))), self.fleet)
        self.assertEqual(2, len(plan.moves))
        for done in (0, 1):
            made = planning.again(plan, self.fleet, plan.moves[:done])
            self.assertEqual(2 - done, len(made.moves))
            self.assertEqual([(0, 2 - done)], [
                (gain.before, gain.after) for gain in made.gains])
            self.assertEqual(2 - done, made.request.moves)

    def test_drain(self):
        request = plan_request.PlanRequest(
            goal=plan_request.DrainHosts(hosts=('host0',)))
        plan = planning.make_plan(request, self.fleet)
        made = planning.again(plan, self.fleet)
        self.assertEqual(plan, made)
        self.assertEqual(['host0'], [move.source for move in made.moves])
        plan = dataclasses.replace(plan, request=dataclasses.replace(
            request, goal=plan_request.DrainHosts(hosts=('gone',))))
        self.assertRaises(errors.InputError, planning.again, plan,
                          self.fleet)

    def test_excluded(self):
        """The wishes count again, those for what is gone do not matter."""
        fixed = self.fleet.guests[1]
        request = plan_request.PlanRequest(
            goal=plan_request.DrainHosts(hosts=('host0',)),
            fixed=(fixed.uuid, 'gone'), excluded=('host2', 'gone'),
            share_percent=25)
        plan = planning.make_plan(request, self.fleet)
        (move,) = plan.moves
        self.assertNotEqual('host2', move.target)
        self.assertEqual(request, plan.request)
        self.assertEqual(1, planning.limits_of(request, self.fleet).moves)
        everything = dataclasses.replace(request, excluded=tuple(
            host.name for host in self.fleet.hosts))
        self.assertRaises(errors.InputError, planning.make_plan, everything,
                          self.fleet)


class TestLimitsLeft(oslotest.BaseTestCase):

    def left(self, goal, done, **limits):
        request = plan_request.PlanRequest(goal=goal, **limits)
        moves = [plan_model.PlannedMove(
            guest=str(number), source='a', target='b',
            kind=plan_model.MigrationKind.LIVE, vcpus=1, memory_mib=10)
            for number in range(4)]
        left = planning.left(plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DEFRAGMENT, moves=tuple(moves),
            request=request), snapshot.Fleet(hosts=()), moves[:done])
        return left.moves, left.memory_mib

    def test_room(self):
        """No more than the plan had, whatever it was allowed to have."""
        goal = plan_request.MakeRoom(sizes=())
        self.assertEqual((1, None), self.left(goal, 3))
        self.assertEqual((3, 35), self.left(goal, 1, moves=9, memory_mib=45))
        self.assertRaises(errors.InputError, self.left, goal, 4)
        self.assertRaises(errors.InputError, self.left, goal, 3,
                          memory_mib=30)

    def test_drain(self):
        """As many as it takes, unless there was a limit."""
        goal = plan_request.DrainHosts(hosts=('a',))
        self.assertEqual((None, None), self.left(goal, 4))
        self.assertEqual((3, None), self.left(goal, 2, moves=5))
        self.assertRaises(errors.InputError, self.left, goal, 2, moves=2)
