# SPDX-License-Identifier: Apache-2.0


import dataclasses
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.admission import offered_host
from nova_pinning import errors
from nova_pinning.placement import inventory
from nova_pinning.rebalance import drain
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import solver_settings
from nova_pinning.tests.unit.rebalance import small_fleets
from nova_pinning.tests.unit.rebalance import test_defragment
from nova_pinning.tests.unit import unit_base

_PATIENT = solver_settings.SolverSettings(seconds=1000)


def plan_of(fleet, *hosts, moves=None, settings=_PATIENT, **limits):
    return drain.plan_drain(
        fleet, hosts, move_rules.MoveLimits(moves=moves, **limits),
        settings=settings)


@ddt.ddt
class TestDrain(test_defragment._Case):

    def _fleet(self, *guests, sizes=(4, 4)):
        return small_fleets.fleet_of(
            [small_fleets.fleet_host(number, size)
             for number, size in enumerate(sizes)], guests)

    def assert_drained(self, fleet, plan, *hosts):
        after = self.assert_carried_out(fleet, plan)
        self.assert_any_order(fleet, plan)
        self.assertEqual([], [guest.uuid for guest in after.guests
                              if guest.host in hosts])
        self.assertEqual(hosts, plan.drained)
        self.assertEqual((), plan.stuck)

    def test_simple(self):
        fleet = self._fleet((0, [0], 2), (0, [0], 1), (1, [0], 1))
        plan = plan_of(fleet, 'host0')
        self.assertEqual(2, len(plan.moves))
        self.assertTrue(plan.is_optimal)
        self.assert_drained(fleet, plan, 'host0')

    def test_empty_already(self):
        plan = plan_of(self._fleet((0, [0], 2)), 'host1')
        self.assertEqual((), plan.moves)
        self.assertTrue(plan.is_optimal)

    def test_others_move(self):
        """There is room, but in pieces."""
        fleet = self._fleet((0, [0], 4), (1, [0], 2), (2, [0], 2),
                            sizes=(4, 4, 4))
        plan = plan_of(fleet, 'host0')
        self.assertEqual(2, len(plan.moves))
        self.assertTrue(plan.is_optimal)
        self.assert_drained(fleet, plan, 'host0')

    def test_impossible(self):
        fleet = self._fleet((0, [0], 3), (0, [0], 1), (1, [0], 2))
        plan = plan_of(fleet, 'host0')
        self.assertEqual((), plan.moves)
        self.assertTrue(plan.is_optimal)
        (stuck,) = plan.stuck
        self.assertEqual('guest0', stuck.guest)
        self.assertIn('host1: Placement offers no allocation on this host: '
                      '2 PCPU left of 4, 3 needed', stuck.reason)
        self.assertIn('1 of 2 guests are stuck', plan.stopped)

    def test_not_all_together(self):
        fleet = self._fleet((0, [0], 2), (0, [0], 2), (1, [0], 2))
        plan = plan_of(fleet, 'host0')
        self.assertEqual(1, len(plan.stuck))
        self.assertIn('host1 has room for it, but there is not enough for '
                      'all that have to leave, whichever guests are moved',
                      plan.stuck[0].reason)
        self.assertTrue(plan.is_optimal)

    def test_no_way_found(self):
        """What is not proved is not said to be so."""
        fleet = small_fleets.doubted(self._fleet(
            (0, [0], 2), (0, [0], 2), (1, [0], 2), sizes=(4, 4, 4)), 'host2')
        plan = plan_of(fleet, 'host0')
        self.assertEqual('host1 has room for it, but no way was found for '
                         'all that have to leave', plan.stuck[0].reason)
        self.assertFalse(plan.is_optimal)

    def test_too_large_for_all_others(self):
        plan = plan_of(self._fleet((0, [0], 4), sizes=(4, 3)), 'host0')
        self.assertIn('none of the other 1 hosts takes it, not even empty',
                      plan.stuck[0].reason)

    def test_doubts(self):
        """Where not all is known of a host nothing is proved of it."""
        doubt = ('not all is known that the answer depends on: more may be '
                 'held')
        for size, reason in ((4, 'no host has room for it'),
                             (1, 'no host takes it for certain')):
            fleet = small_fleets.doubted(self._fleet(
                (0, [0], 2), (1, [0], size), sizes=(4, size, 4)), 'host2')
            plan = plan_of(fleet, 'host0')
            self.assertEqual(((), False), (plan.moves, plan.is_optimal))
            self.assertEqual(f'{reason}; host2: {doubt}',
                             plan.stuck[0].reason)
            self.assertIn('no way was found', plan.stopped)

    @unit_base.settings(20, in_ci=2)
    @hypothesis.given(strategies.integers(0, 10**6), strategies.booleans(),
                      strategies.sampled_from(['host1', 'host2']))
    def test_doubts_against_brute_force(self, seed, asks, name):
        make = small_fleets.random_fleet
        if asks:
            make = small_fleets.asking_fleet
        fleet = make(seed)
        guests = [guest for guest in fleet.guests if guest.host == 'host0']
        hypothesis.assume(len(guests) <= 3)
        at_best = small_fleets.BruteForce(fleet, lambda occupancies: sum(
            not occupancy.guests for occupancy in occupancies
            if occupancy.host.name == 'host0')).best(3)
        hypothesis.assume(at_best is not None)
        doubted = small_fleets.doubted(fleet, name)
        plan = plan_of(doubted, 'host0', settings=test_defragment.PROGRAMS)
        self.assertNotIn(name, [move.target for move in plan.moves])
        if plan.is_optimal and plan.stuck:
            self.assertEqual(0, at_best[0])
        elif plan.is_optimal and len(plan.moves) <= 3:
            self.assertEqual(at_best[1], len(plan.moves))

    def test_may_not_leave(self):
        fleet = self._fleet((0, [0], 2))
        guest, = fleet.guests
        fleet = dataclasses.replace(fleet, guests=(
            dataclasses.replace(guest, is_movable=False),))
        plan = plan_of(fleet, 'host0')
        self.assertEqual(['guest0'], [stuck.guest for stuck in plan.stuck])
        self.assertTrue(plan.is_optimal)

    def test_devices(self):
        """Rules that let no guest with devices go: it is named."""
        fleet = self._fleet((0, [0], 2), (0, [0], 1))
        rules = move_rules.MoveRules(fleet)
        with mock.patch.object(
                rules, 'guest_refusal', side_effect=lambda guest: (
                    'has PCI devices' if guest.uuid == 'guest1' else '')):
            plan = drain.plan_drain(fleet, ['host0'],
                                    move_rules.MoveLimits(), rules=rules)
        self.assertEqual([('guest1', 'has PCI devices')], [
            (stuck.guest, stuck.reason) for stuck in plan.stuck])
        self.assertEqual((), plan.moves)

    def test_resources(self):
        """What a guest of an unknown flavor has it asks for again."""
        fleet = self._fleet((0, [0], 1), sizes=(4, 4, 4))
        gpu = offered_host.OfferedProvider(
            0, (('VGPU', inventory.Inventory(1)),))
        first, second, third = fleet.hosts
        fleet = dataclasses.replace(
            fleet, hosts=(dataclasses.replace(first, children=(gpu,)), second,
                          dataclasses.replace(third, children=(
                              offered_host.OfferedProvider(0), gpu))),
            guests=(dataclasses.replace(
                fleet.guests[0], allocations=((1, (('VGPU', 1),)),)),))
        plan = plan_of(fleet, 'host0')
        self.assertEqual(['host2'], [move.target for move in plan.moves])
        moved, = replay.fleet_after(fleet, plan.moves).guests
        self.assertEqual(((2, (('VGPU', 1),)),), moved.allocations)

    def test_server_group(self):
        """Two guests that may not be on one host."""
        fleet = self._fleet((0, [0], 1), (0, [0], 1), sizes=(4, 4, 4))
        fleet = dataclasses.replace(
            fleet, guests=tuple(
                dataclasses.replace(guest, server_group='group')
                for guest in fleet.guests),
            server_groups=(offered_host.ServerGroup(
                id='group', max_per_host=1,
                policy=offered_host.GroupPolicy.ANTI_AFFINITY),))
        plan = plan_of(fleet, 'host0')
        self.assertEqual({'host1', 'host2'},
                         {move.target for move in plan.moves})
        self.assertEqual((0,), plan.moves[1].after)

    @ddt.data(
        ((), {}, '--drain: there is no host to drain'),
        (('host7',), {}, "--drain: there is no host 'host7'"),
        (('host0',), {'moves': 1},
         '--moves: 2 guests cannot leave with a limit of 1 move'),
        (('host0',), {'memory_mib': 2},
         '--memory: 3 MiB have to be copied at least, and 2 MiB are allowed'))
    @ddt.unpack
    def test_bad_input(self, hosts, limits, message):
        fleet = self._fleet((0, [0], 2), (0, [0], 1))
        error = self.assertRaises(errors.InputError, plan_of, fleet, *hosts,
                                  **limits)
        self.assertIn(message, str(error))

    # As for defragmentation.
    @unit_base.settings(60, in_ci=5)
    @hypothesis.given(strategies.integers(0, 10**6), strategies.booleans())
    def test_against_brute_force(self, seed, asks):
        make = small_fleets.random_fleet
        if asks:
            make = small_fleets.asking_fleet
        fleet = make(seed)
        guests = [guest for guest in fleet.guests if guest.host == 'host0']
        hypothesis.assume(len(guests) <= 3)
        best = small_fleets.BruteForce(fleet, lambda occupancies: sum(
            not occupancy.guests for occupancy in occupancies
            if occupancy.host.name == 'host0')).best(3)
        hypothesis.assume(best is not None)
        plan = plan_of(fleet, 'host0', settings=test_defragment.PROGRAMS)
        if plan.stuck:
            self.assertEqual((), plan.moves)
            if plan.is_optimal:
                self.assertEqual(0, best[0])
            return
        self.assert_drained(fleet, plan, 'host0')
        if best[0]:
            self.assertGreaterEqual(len(plan.moves), best[1])
        if plan.is_optimal and len(plan.moves) <= 3:
            self.assertEqual(best[1], len(plan.moves))
