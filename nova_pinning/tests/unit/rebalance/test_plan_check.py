# SPDX-License-Identifier: Apache-2.0


import dataclasses

from nova_pinning.bridge.offline import fleet_claim
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_check
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.unit.rebalance import plan_samples
from nova_pinning.tests.unit import unit_base

_OUTCOME = plan_check.MoveOutcome


class TestCheckPlan(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet, self.plan = plan_samples.example(8)

    def _check(self, fleet=None, plan=None, **values):
        fleet = fleet or self.fleet
        return plan_check.check_plan(
            plan or self.plan, fleet, move_rules.MoveRules(fleet), **values)

    def _with(self, uuid, **changes):
        """The fleet with one guest that is other."""
        return dataclasses.replace(self.fleet, guests=tuple(
            dataclasses.replace(guest, **changes)
            if guest.uuid == uuid else guest for guest in self.fleet.guests))

    def _without(self, uuid):
        return dataclasses.replace(self.fleet, guests=tuple(
            guest for guest in self.fleet.guests if guest.uuid != uuid))

    def _hosts(self, name, **changes):
        return dataclasses.replace(self.fleet, hosts=tuple(
            dataclasses.replace(host, **changes)
            if host.name == name else host for host in self.fleet.hosts))

    def test_unchanged(self):
        for seed in range(3):
            fleet, plan = plan_samples.example(8, seed)
            found = self._check(fleet, plan,
                                ask_nova=fleet_claim.predict_claim,
                                claim=fleet_claim.claimed_fit)
            self.assertTrue(found.holds, found)
            self.assertTrue(found.is_same_state)

    def test_guest_gone(self):
        move = self.plan.moves[0]
        found = self._check(self._without(move.guest))
        self.assertFalse(found.holds)
        self.assertFalse(found.is_same_state)
        self.assertIs(_OUTCOME.GONE, found.moves[0].outcome)

    def test_other_guest_gone(self):
        # Of no consequence for the moves, where it shares no host with them.
        hosts = {name for move in self.plan.moves
                 for name in (move.source, move.target)}
        others = [guest for guest in self.fleet.guests
                  if guest.host not in hosts]
        if not others:
            self.plan = plan_samples.moving(
                self.fleet, (self.plan.moves[0].guest,
                             self.plan.moves[0].target))
            hosts = {self.plan.moves[0].source, self.plan.moves[0].target}
            others = [guest for guest in self.fleet.guests
                      if guest.host not in hosts]
        found = self._check(self._without(others[0].uuid))
        self.assertTrue(found.holds)
        self.assertFalse(found.is_same_state)

    def test_begun(self):
        # The first move is made already: it is done, and the rest holds.
        move = self.plan.moves[0]
        found = self._check(self._with(
            move.guest, host=move.target, fit=move.target_fit))
        self.assertIs(_OUTCOME.DONE, found.moves[0].outcome)
        self.assertTrue(found.holds, found)

    def test_moved_elsewhere(self):
        move = self.plan.moves[0]
        other = next(host.name for host in self.fleet.hosts
                     if host.name not in (move.source, move.target))
        found = self._check(self._with(move.guest, host=other))
        self.assertIs(_OUTCOME.FAILS, found.moves[0].outcome)
        self.assertEqual(f'the guest is on {other}', found.moves[0].reason)

    def test_hosts(self):
        move = self.plan.moves[0]
        found = self._check(self._hosts(move.target, is_enabled=False))
        self.assertEqual(f'{move.target} is disabled', found.moves[0].reason)
        found = self._check(dataclasses.replace(self.fleet, hosts=tuple(
            host for host in self.fleet.hosts if host.name != move.target)))
        self.assertIn('no host', found.moves[0].reason)

    def test_full(self):
        # Where one more guest took what was free the move cannot be made.
        move = next(move for move in self.plan.moves
                    if move.target_fit is not None)
        fleet = self._hosts(move.target, reserved_memory_mib=10 ** 9)
        found = self._check(fleet)
        check = found.moves[self.plan.moves.index(move)]
        self.assertIs(_OUTCOME.FAILS, check.outcome)
        self.assertIn(move.target, check.reason)

    def test_other_cpus(self):
        # Another guest lies where the plan has the first one go.
        uuid, target, cell = next(
            (move.guest, move.target, move.target_fit.cells[0])
            for move in self.plan.moves if move.target_fit is not None
            and move.target_fit.cells[0].pins)
        plan = plan_samples.moving(self.fleet, (uuid, target))
        move, = plan.moves
        guest = next(guest for guest in self.fleet.guests
                     if guest.uuid == uuid)
        newcomer = dataclasses.replace(
            guest, uuid='new', host=target, fit=move.target_fit)
        found = self._check(dataclasses.replace(
            self.fleet, guests=(*self.fleet.guests, newcomer)), plan)
        check, = found.moves
        self.assertIn(check.outcome, (_OUTCOME.DIFFERS, _OUTCOME.FAILS))
        self.assertFalse(found.holds)
        self.assertTrue(check.reason)

    def test_claim_disagrees(self):
        found = self._check(claim=lambda *arguments: None)
        self.assertIn("nova's claim", found.moves[0].reason)
        self.assertFalse(found.holds)

    def test_drain(self):
        move = self.plan.moves[0]
        plan = dataclasses.replace(
            self.plan, goal=plan_model.PlanGoal.DRAIN,
            drained=(move.source,), moves=(move,))
        found = self._check(plan=plan)
        self.assertEqual(
            {guest.uuid for guest in self.fleet.guests
             if guest.host == move.source} - {move.guest},
            {guest.uuid for guest in found.staying})
        self.assertFalse(found.holds)
