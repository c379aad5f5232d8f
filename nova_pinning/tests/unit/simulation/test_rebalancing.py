# SPDX-License-Identifier: Apache-2.0

import dataclasses
import random

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning import errors
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests
from nova_pinning.simulation import occupancy_ledger
from nova_pinning.simulation import rebalance_policy
from nova_pinning.simulation import rebalancing
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run
from nova_pinning.tests.oracle import nova_replay
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit.simulation import simulation_scenes
from nova_pinning.tests.unit import unit_base

HOURLY = rebalance_policy.RebalancePolicy(every_hours=1.0, moves=8)


def _moved(name, policy=HOURLY):
    return dataclasses.replace(
        scheduler_configuration.NAMED[name], rebalance=policy)


def _move(guest, target):
    return plan_model.PlannedMove(
        guest=guest.uuid, source=guest.host, target=target,
        kind=plan_model.MigrationKind.LIVE, vcpus=guest.vcpus,
        memory_mib=guest.memory_mib)


def _plan(*moves):
    return plan_model.RebalancePlan(
        goal=plan_model.PlanGoal.DEFRAGMENT, moves=moves)


def at_random(fleet, sizes, limits):
    """Moves of any guests to any hosts, most of which do not fit."""
    draws = random.Random(f'{len(fleet.guests)}-{len(sizes)}')
    others = [guest for guest in fleet.guests
              if guest.uuid not in limits.fixed]
    return _plan(*(
        _move(draws.choice(others), draws.choice(fleet.hosts).name)
        for _number in range(limits.moves if others else 0)))


def _with_own_guests(fleet, seed):
    """A fleet on which guests of all kinds stand already."""
    by_name = occupied.of_fleet(fleet)
    draws = random.Random(f'own-{seed}')
    for number in range(12):
        name = draws.choice(sorted(by_name))
        request = simulation_scenes.KINDS[
            draws.choice(sorted(simulation_scenes.KINDS))]
        fit = placing.verdict(by_name[name], request)
        if fit:
            by_name[name] = placing.with_guest(
                by_name[name], request, fit, f'own-{number}')
    return dataclasses.replace(fleet, guests=tuple(
        guest for host in by_name.values() for guest in host.guests))


class TestRuns(testtools.TestCase):

    def _run(self, seed, name, **values):
        return simulation_run.run(
            _with_own_guests(simulation_scenes.fleet(seed), seed),
            simulation_scenes.load(seed).arrivals(1), _moved(name), seed=seed,
            planner=at_random, plan=simulation_run.RunPlan(stay_hours=3.0),
            **values)

    @hypothesis.given(
        strategies.integers(0, 10 ** 6),
        strategies.sampled_from(sorted(scheduler_configuration.NAMED)))
    @unit_base.settings(24)
    def test_both_decide_alike(self, seed, name):
        """Nova's own classes move what the engine moves, and to where."""
        self.assertEqual(
            self._run(seed, name),
            self._run(seed, name, factory=nova_replay.NovaReplay))

    def test_that_moves_are_tried(self):
        """Of those above, some are made and some are refused."""
        made = refused = 0
        for seed in range(12):
            counts = self._run(seed, 'pinning').moves
            made += counts.made
            refused += counts.refused
        self.assertGreater(made, 20)
        self.assertGreater(refused, 20)


class TestMoves(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet = snapshot.Fleet(hosts=tuple(
            simulation_scenes.host(name, cells=1, cores=4, threads=1)
            for name in ('one', 'two')))
        self.plans = 0

    def _run(self, *arrivals, plan, policy=HOURLY):
        def planner(fleet, sizes, limits):
            self.plans += 1
            return plan(fleet)

        return simulation_run.run(
            self.fleet, [
                arrival_process.Arrival(hours * 3600.0, str(number),
                                        guests.plain(vcpus, 16), lifetime)
                for number, (hours, vcpus, lifetime) in enumerate(arrivals)],
            _moved('nova-default', policy), planner=planner)

    def test_makes_room(self):
        """Two halves on two hosts: a whole fits when one has moved."""
        def join(fleet):
            first, second, *_others = fleet.guests
            return _plan(_move(first, second.host))

        wanted = (0, 2, None), (0, 2, None), (1, 4, None)
        found = self._run(*wanted, plan=join)
        self.assertEqual((0, 8), (found.refused, found.final_vcpus))
        self.assertEqual((1, 1, 0, 16), found.moves)
        found = self._run(*wanted, plan=lambda fleet: _plan())
        self.assertEqual((1, 4), (found.refused, found.final_vcpus))
        self.assertEqual((1, 0, 0, 0), found.moves)

    def test_leaves_from_where_it_is(self):
        def swap(fleet):
            return _plan(_move(fleet.guests[0], next(
                host.name for host in fleet.hosts
                if host.name != fleet.guests[0].host)))

        found = self._run((0, 2, 5000.0), (2, 4, None), (2, 4, None),
                          plan=swap)
        self.assertEqual((1, 0, 1), (
            found.departures, found.refused, found.moves.made))

    def test_refused(self):
        """To its own host, to a full one: everybody stays."""
        def wrong(fleet):
            first, second = fleet.guests
            return _plan(_move(first, first.host), _move(first, second.host),
                         _move(second, first.host))

        found = self._run((0, 3, None), (0, 3, None), (1, 1, None),
                          (1, 1, None), (1, 1, None), plan=wrong)
        self.assertEqual((1, 0, 3, 0), found.moves)
        self.assertEqual((1, 8), (found.refused, found.final_vcpus))

    def test_when(self):
        """An interval after the first arrival, then every interval."""
        self._run((5, 1, None), (5.5, 1, None), plan=lambda fleet: _plan())
        self.assertEqual(0, self.plans)
        self._run((5, 1, None), (5.5, 1, None), (6, 1, None), (7.5, 1, None),
                  plan=lambda fleet: _plan())
        self.assertEqual(2, self.plans)

    def test_from(self):
        arrivals = [(hours, 1, None) for hours in range(8)]
        self._run(*arrivals, plan=lambda fleet: _plan(),
                  policy=dataclasses.replace(HOURLY, from_hours=4.5))
        # After 5.5 and 6.5 hours.
        self.assertEqual(2, self.plans)

    def test_nothing_new(self):
        """No plan is made again that came to nothing, however long."""
        found = self._run((0, 1, 7200.0), (10 ** 6, 1, None),
                          (10 ** 6 + 1, 1, None), plan=lambda fleet: _plan())
        # The first, when the guest has left, and after the second.
        self.assertEqual(3, found.moves.plans)
        self.assertEqual(1, found.departures)


class TestWhatIsPlanned(testtools.TestCase):

    def _asked(self, policy, wanted, placed=()):
        """What plans are asked for."""
        asked = []

        def plan(*values):
            asked.append(values)
            return _plan()

        host = simulation_scenes.host('one', pools=(
            devices.PciPool(simulation_scenes.DISK, 0, 4),))
        by_name = host_occupancy.of_host(host)
        for number, request in enumerate(placed):
            by_name = placing.with_guest(
                by_name, request, placing.verdict(by_name, request),
                str(number))
        fleet = snapshot.Fleet(hosts=(host,), guests=by_name.guests)
        ledger = occupancy_ledger.OccupancyLedger(fleet, [0])
        moving = rebalancing.Rebalancing(
            fleet, ledger, policy, True, plan, lambda *move: True)
        for request in wanted:
            moving.arrived('', request, is_placed=False)
        self.assertEqual([], moving.rebalance()[0])
        return asked

    def test_size_by_what_is_asked_for(self):
        """By the vCPUs of a slot, and of all that ask for it."""
        small, large = guests.plain(2, 64), guests.plain(8, 64)
        shared = guests.plain(4, 64, simulation_scenes.SHARED)
        (fleet, sizes, _limits), = self._asked(
            HOURLY, [small] * 4 + [large] + [shared], [small])
        self.assertTrue(fleet.packs_cells)
        self.assertEqual([large], [size.request for size in sizes])
        (_fleet, sizes, _limits), = self._asked(
            HOURLY, [small] * 17 + [large], [small])
        self.assertEqual([small], [size.request for size in sizes])

    def test_limits(self):
        small = guests.plain(1, 64)
        disk = simulation_scenes.KINDS['nvme-legacy']
        placed = [small] * 9 + [disk]
        for changes, most in (({'moves': 3}, 3),
                              ({'moves': None, 'moves_share': 0.5}, 5),
                              ({'moves': None, 'moves_share': 0.01}, 1)):
            (_fleet, _sizes, limits), = self._asked(
                dataclasses.replace(HOURLY, **changes), [small], placed)
            self.assertEqual(most, limits.moves)
            # A device cannot move live.
            self.assertEqual({'9'}, limits.fixed)

    def test_nothing_to_plan_for(self):
        small = guests.plain(1, 64)
        self.assertEqual([], self._asked(HOURLY, [], [small]))
        self.assertEqual([], self._asked(HOURLY, [small]))


@ddt.ddt
class TestPolicy(testtools.TestCase):

    def test_parse(self):
        self.assertEqual(
            rebalance_policy.RebalancePolicy(every_hours=6.0,
                                             moves_share=0.01),
            rebalance_policy.parse('every=6h moves=1%'))
        self.assertEqual(
            rebalance_policy.RebalancePolicy(
                every_hours=0.5, moves=25, from_hours=720.0),
            rebalance_policy.parse('moves=25 every=30m from=30d'))

    @ddt.data(
        ('', 'every is missing'),
        ('every=6h', 'moves is missing'),
        ('moves=3', 'every is missing'),
        ('every=6 moves=3', "every '6' is not a duration"),
        ('every=0h moves=3', "every '0h' is not a duration"),
        ('every=6h moves=3 from=never', "from 'never' is not a duration"),
        ('every=6h moves=0', "moves '0' is neither"),
        ('every=6h moves=0%', "moves '0%' is neither"),
        ('every=6h moves=101%', "moves '101%' is neither"),
        ('every=6h moves=-1', "moves '-1' is neither"),
        ('every=6h moves=1.5', "moves '1.5' is neither"),
        ('every=6h moves=3 moves=4', 'moves is given twice'),
        ('every=6h moves=3 until=4', "'until=4' is not one of"),
    )
    @ddt.unpack
    def test_bad(self, text, message):
        error = self.assertRaises(
            errors.InputError, rebalance_policy.parse, text)
        self.assertIn('--rebalance: ', str(error))
        self.assertIn(message, str(error))


class TestPlannedMoves(testtools.TestCase):
    """With the planner of the command."""

    @hypothesis.given(strategies.integers(0, 10 ** 6))
    @unit_base.settings(8)
    def test_claims_come_out_as_planned(self, seed):
        """Nova refuses no move, and claims what the plan predicts."""
        fits = []

        class Replay(nova_replay.NovaReplay):

            def move(self, uuid, request, target):
                done = super().move(uuid, request, target)
                fits.append((uuid, done and self.ledger.placed_guests[
                    uuid].guest.fit))
                return done

        predicted = []

        def planner(*values):
            made = rebalancing.plan(*values)
            predicted.extend(
                (move.guest, move.target_fit) for move in made.moves)
            return made

        hosts = tuple(
            simulation_scenes.host(f'host{number}', cells=2, cores=4,
                                   kept=number % 2) for number in range(5))
        arrivals = arrival_process.PoissonArrivals(
            mix=((guests.plain(2, 512), 3.0), (guests.plain(6, 512), 2.0),
                 (guests.plain(4, 512, cells=2), 1.0)),
            count=60, rate_per_hour=15.0, lifetime_hours=2.0)
        found = [simulation_run.run(
            snapshot.Fleet(hosts=hosts), arrivals.arrivals(seed),
            _moved('nova-default'), seed=seed, factory=factory,
            planner=planner) for factory in (None, Replay)]
        self.assertEqual(*found)
        self.assertEqual(0, found[0].moves.refused)
        self.assertEqual(predicted[len(fits):], fits)
