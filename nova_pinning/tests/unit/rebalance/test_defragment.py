# SPDX-License-Identifier: Apache-2.0


import dataclasses
import itertools
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies

from benchmarks import bytedance
from nova_pinning.admission import devices
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.fleet import generate
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.model import hostclass
from nova_pinning.rebalance import defragment
from nova_pinning.rebalance import integer_program
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import slot_goal
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings
from nova_pinning.rebalance import whole_program
from nova_pinning.tests import forms
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet import bytedance_data
from nova_pinning.tests.unit.rebalance import small_fleets
from nova_pinning.tests.unit import unit_base

_SLOT = slot_size.dedicated_slot(4, 4)
# However slow the machine.
_PATIENT = solver_settings.SolverSettings(seconds=1000)
#: By the integer programs, as for fleets that are not small.
PROGRAMS = dataclasses.replace(_PATIENT, tries_all=False)


def plan_of(fleet, *sizes, moves=None, until=None, settings=_PATIENT,
            **limits):
    return defragment.plan_defragmentation(
        fleet, sizes or (_SLOT,),
        move_rules.MoveLimits(moves=moves, **limits), until=until,
        settings=settings)


def slots(fleet, *sizes):
    """Slots of each size, by the engine."""
    counter = slot_goal.SlotGoal(
        sizes or (_SLOT,), occupied.rules_of(fleet))
    rows = [counter.on_host(occupancy)
            for occupancy in occupied.of_fleet(fleet).values()]
    return tuple(map(sum, zip(*rows)))


def _guests_by_host(occupancies):
    return {name: sorted(occupancy.guests, key=lambda guest: guest.uuid)
            for name, occupancy in occupancies.items()}


class _Case(unit_base.TestCase):

    def assert_carried_out(self, fleet, plan):
        """Each move goes to where the engine puts the guest by then."""
        done = replay.MoveReplay(fleet, move_rules.MoveRules(fleet),
                                 occupied.of_fleet(fleet))
        for move in plan.moves:
            guest = done.guest(move.guest)
            self.assertEqual((move.source, move.source_fit),
                             (guest.host, guest.fit))
            self.assertNotEqual(move.source, move.target)
            self.assertEqual(move.target_fit,
                             done.try_move(move.guest, move.target))
        after = replay.fleet_after(fleet, plan.moves)
        self.assertEqual(
            _guests_by_host(done.occupancies),
            _guests_by_host(occupied.of_fleet(after)))
        return after

    def assert_any_order(self, fleet, plan):
        """Moves may be made in any order that ``after`` allows."""
        latest = sorted(range(len(plan.moves)), reverse=True)
        done, order = set(), []
        while latest:
            number = next(number for number in latest
                          if done.issuperset(plan.moves[number].after))
            latest.remove(number)
            done.add(number)
            order.append(plan.moves[number])
        self.assert_carried_out(fleet, dataclasses.replace(
            plan, moves=tuple(order)))


@ddt.ddt
class TestSmall(_Case):

    def test_nothing_to_gain(self):
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(0, 4), small_fleets.fleet_host(1, 4)],
            [(0, [0], 4), (1, [0], 4)])
        plan = plan_of(fleet)
        self.assertEqual((), plan.moves)
        self.assertTrue(plan.is_optimal)
        self.assertEqual('no further move gains anything', plan.stopped)

    def test_two_halves(self):
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(number, 4) for number in range(2)],
            [(0, [0], 2), (1, [0], 2)])
        plan = plan_of(fleet)
        self.assertEqual(1, len(plan.moves))
        (gain,) = plan.gains
        self.assertEqual((0, 1, 1), (gain.before, gain.after, gain.bound))
        self.assertTrue(plan.is_optimal)
        self.assert_carried_out(fleet, plan)

    def test_fewest_bytes(self):
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(number, 4) for number in range(2)],
            [(0, [0], 2, 8), (1, [0], 2, 3)])
        self.assertEqual(['guest1'],
                         [move.guest for move in plan_of(fleet).moves])

    def test_change_of_places(self):
        """A guest is parked, since two others are in each other's way."""
        hosts = [small_fleets.fleet_host(0, 8), small_fleets.fleet_host(1, 7),
                 small_fleets.fleet_host(2, 3)]
        fleet = small_fleets.fleet_of(
            hosts, [(0, [0], 3), (0, [0], 3), (1, [0], 4), (1, [0], 3)])
        plan = plan_of(fleet)
        expected = small_fleets.BruteForce(fleet, self._value).best(3)
        self.assertEqual(expected, (plan.gains[0].after, len(plan.moves)))

    @ddt.data(((8,), 4, 2), ((8, 8), 2, 2))
    @ddt.unpack
    def test_devices(self, cells, hosts, expected):
        """Half of each node's are taken, and a slot is all of a node's."""
        keys = devices.device_keys('10de', '2330')
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(number, *cells, pci_pools=tuple(
                devices.PciPool(keys, cell, 2) for cell in range(len(cells))))
             for number in range(hosts)],
            [(number, [cell], 1) for number in range(hosts)
             for cell in range(len(cells))])
        fleet = dataclasses.replace(fleet, guests=tuple(
            dataclasses.replace(guest, devices=(devices.PciUse(
                keys, guest.fit.cells[0].host_cell, 1),))
            for guest in fleet.guests))
        asked = slot_size.dedicated_slot(2, 2)
        asked = dataclasses.replace(asked, request=dataclasses.replace(
            asked.request, devices=(devices.PciRequest('gpu', (keys,), 2),)))
        plan = plan_of(fleet, asked, settings=PROGRAMS)
        self.assertEqual(
            (0, expected, expected),
            (plan.gains[0].before, plan.gains[0].after, len(plan.moves)))
        self.assertTrue(plan.is_optimal)
        self.assert_carried_out(fleet, plan)

    @staticmethod
    def _value(occupancies):
        counter = slot_goal.SlotGoal([_SLOT])
        return sum(counter.on_host(occupancy)[0]
                   for occupancy in occupancies)

    @unit_base.settings(12)
    @hypothesis.given(strategies.integers(0, 10**6),
                      strategies.sampled_from(['host0', 'host1']))
    def test_doubts(self, seed, name):
        """Where not all is known of a host nothing is proved of it."""
        fleet = small_fleets.random_fleet(seed)
        at_best = small_fleets.BruteForce(fleet, self._value).best(2)
        hypothesis.assume(at_best is not None)
        plan = plan_of(small_fleets.doubted(fleet, name), moves=2,
                       settings=PROGRAMS)
        gain, = plan.gains
        self.assertNotIn(name, [move.target for move in plan.moves])
        if plan.is_optimal:
            self.assertLessEqual(at_best[0], gain.after)
        self.assertLessEqual(at_best[0], gain.bound)

    def test_cells_are_novas_choice(self):
        """The emptier cell is not where the guest should go."""
        hosts = [small_fleets.fleet_host(0, 4, 4),
                 small_fleets.fleet_host(1, 4)]
        fleet = small_fleets.fleet_of(hosts, [(0, [0], 2), (1, [0], 2)])
        # To cell 1 of host 0, whose slot would be lost.
        self.assertEqual((1,), slots(fleet))
        plan = plan_of(fleet)
        self.assertEqual([('guest0', 'host1')], [
            (move.guest, move.target) for move in plan.moves])
        packed = dataclasses.replace(fleet, packs_cells=True)
        self.assertEqual(2, plan_of(packed).gains[0].after)

    def test_not_movable(self):
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(number, 4) for number in range(2)],
            [(0, [0], 2), (1, [0], 2)])
        plan = plan_of(fleet, fixed=frozenset(['guest0']))
        self.assertEqual(['guest1'], [move.guest for move in plan.moves])
        plan = plan_of(fleet, fixed=frozenset(['guest0', 'guest1']))
        self.assertEqual((), plan.moves)
        self.assertTrue(plan.is_optimal)

    def test_memory_limit(self):
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(number, 4) for number in range(2)],
            [(0, [0], 2, 8), (1, [0], 2, 9)])
        self.assertEqual((), plan_of(fleet, memory_mib=15).moves)
        self.assertEqual(1, len(plan_of(fleet, memory_mib=16).moves))

    def _three(self):
        return small_fleets.fleet_of(
            [small_fleets.fleet_host(number, 4) for number in range(6)],
            [(number, [0], 2) for number in range(6)])

    def test_until(self):
        fleet = self._three()
        for until in (1, 2, 3):
            plan = plan_of(fleet, until=until)
            self.assertEqual((until, True), (len(plan.moves),
                                             plan.is_optimal))
        plan = plan_of(fleet, until=4)
        self.assertEqual((3, True), (len(plan.moves), plan.is_optimal))
        self.assertEqual('it is proved that room for 4 cannot be made, '
                         'however many guests are moved', plan.stopped)

    @ddt.data(
        ({'moves': 1}, 'the limit of 1 move'),
        ({'memory_mib': 2}, 'the limit of 2 MiB to copy'),
        ({'moves': 2, 'memory_mib': 1},
         'the limits of 2 moves and 1 MiB to copy'))
    @ddt.unpack
    def test_until_out_of_reach(self, limits, words):
        """The plan that comes closest, and why it comes no further."""
        for settings, said in (
                (_PATIENT, 'it is proved that room for 3 cannot be made'),
                (dataclasses.replace(PROGRAMS, proves=False),
                 'no way was found to make room for 3')):
            plan = plan_of(self._three(), until=3, settings=settings,
                           **limits)
            self.assertEqual(
                (len(plan_of(self._three(), **limits).moves),
                 f'{said} within {words}', settings.proves),
                (len(plan.moves), plan.stopped, plan.is_optimal))
            self.assertEqual(len(plan.moves), plan.gains[0].after)

    def test_until_is_there(self):
        fleet = small_fleets.fleet_of([small_fleets.fleet_host(0, 8)], [])
        plan = plan_of(fleet, until=2)
        self.assertEqual((), plan.moves)
        self.assertTrue(plan.is_optimal)

    def test_until_and_others(self):
        plan = plan_of(self._three(), _SLOT, slot_size.dedicated_slot(3, 3),
                       until=1)
        self.assertEqual([('4', 0, 1), ('3', 0, 1)], [
            (gain.size, gain.before, gain.after) for gain in plan.gains])

    def test_weights(self):
        """Room for the size that counts more."""
        hosts = [small_fleets.fleet_host(0, 6), small_fleets.fleet_host(1, 6),
                 small_fleets.fleet_host(2, 1)]
        fleet = small_fleets.fleet_of(
            hosts, [(0, [0], 1), (0, [0], 2), (1, [0], 1), (1, [0], 3)])
        for weights in ((1, 10), (10, 1)):
            sizes = [slot_size.dedicated_slot(4, 4, weights[0]),
                     slot_size.dedicated_slot(3, 3, weights[1])]
            plan = plan_of(fleet, *sizes, moves=1)
            counters = slot_goal.SlotGoal(sizes)
            best = small_fleets.BruteForce(
                fleet, lambda occupancies: sum(
                    counters.value(counters.on_host(occupancy))
                    for occupancy in occupancies)).best(1)
            self.assertEqual(best[0], sum(
                gain.after * weight
                for gain, weight in zip(plan.gains, weights)))

    def test_no_sizes(self):
        self.assertRaises(errors.InputError,
                          defragment.plan_defragmentation, self._three(), (),
                          move_rules.MoveLimits())

    def test_progress(self):
        told = []
        defragment.plan_defragmentation(
            self._three(), [_SLOT], move_rules.MoveLimits(), tell=told.append)
        self.assertEqual((0.0, 1.0), (told[0], told[-1]))
        self.assertEqual(sorted(told), told)

    def test_proof_that_is_none(self):
        """A solver that is mistaken about what can be had."""
        for bound in (float('-inf'), 1.0):
            solution = integer_program.Solution(False, (), bound)
            with mock.patch.multiple(
                    whole_program.WholeProgram,
                    relaxed_bound=lambda *_values: float('inf'),
                    most_value=lambda program, seconds, one=solution: one):
                plan = plan_of(self._three())
            self.assertEqual((3, False, None), (
                len(plan.moves), plan.is_optimal, plan.gains[0].bound))

    def test_without_proof(self):
        plan = plan_of(self._three(), settings=dataclasses.replace(
            _PATIENT, proves=False))
        self.assertEqual(3, len(plan.moves))
        self.assertIsNone(plan.gains[0].bound)


class TestAgainstBruteForce(_Case):

    # 'tox -e tests' has 2,000 smaller fleets besides, by way of fuzz-moves.
    @unit_base.settings(60, in_ci=5)
    @hypothesis.given(strategies.integers(0, 10**6))
    def test_any(self, seed):
        self._hold(small_fleets.random_fleet(seed), _SLOT)

    @unit_base.settings(60)
    @hypothesis.given(strategies.integers(0, 10**6), strategies.sampled_from(
        [flavor.name for flavor in small_fleets.FLAVORS]))
    def test_asking(self, seed, flavor):
        """With GPUs, NICs and licences, which slots may need as well."""
        fleet = small_fleets.asking_fleet(seed)
        guest = resident_guest.ResidentGuest(
            uuid='', host='', vcpus=3, memory_mib=3, flavor=flavor,
            guest_class=hostclass.HostClass.DEDICATED,
            topology=builders.guest((3, 3)))
        self._hold(fleet, slot_size.SlotSize(
            request=moved_guest.RequestReader(fleet).request(guest),
            name=flavor))

    def _hold(self, fleet, size):
        """Hold a plan against all there are."""
        moves = 3 if len(fleet.guests) < 9 else 2
        counter = slot_goal.SlotGoal([size], occupied.rules_of(fleet))
        best = small_fleets.BruteForce(fleet, lambda occupancies: sum(
            counter.on_host(occupancy)[0] for occupancy in occupancies)
        ).best(moves)
        hypothesis.assume(best is not None)
        plan = plan_of(fleet, size, moves=moves, settings=PROGRAMS)
        (gain,) = plan.gains
        self.assertGreaterEqual(gain.bound, best[0])
        self.assertLessEqual(gain.after, best[0])
        self.assertLessEqual(len(plan.moves), moves)
        if plan.is_optimal:
            self.assertEqual(best[0], gain.after)
        if gain.after == best[0]:
            self.assertGreaterEqual(len(plan.moves), best[1])
        after = self.assert_carried_out(fleet, plan)
        self.assertEqual((gain.after,), slots(after, size))
        self.assert_any_order(fleet, plan)

    def test_mostly_the_best(self):
        """A plan that falls short of what can be had is rare."""
        counts = [0, 0]
        seeds = range(12 if forms.SHORT else 40)
        for seed in seeds:
            fleet = small_fleets.random_fleet(seed)
            counter = slot_goal.SlotGoal(
                [_SLOT], occupied.rules_of(fleet))
            best = small_fleets.BruteForce(fleet, lambda occupancies: sum(
                counter.on_host(occupancy)[0] for occupancy in occupancies),
                most_states=4000).best(2)
            if best is not None:
                plan = plan_of(fleet, moves=2, settings=PROGRAMS)
                counts[best == (plan.gains[0].after, len(plan.moves))] += 1
        self.assertLessEqual(counts[0], 1)
        self.assertGreater(counts[1], 0.75 * len(seeds))


@ddt.ddt
class TestFleets(_Case):

    # Of the third, six moves take ten times as long to be proved the best.
    @ddt.data(('two-socket-80', 16, 6), ('two-socket-88', 16, 6),
              ('epyc-nps4', 6, 4), ('two-socket-96-pci', 8, 6))
    @ddt.unpack
    def test_generated(self, shape, hosts, moves):
        fleet = generate.generate_fleet(hosts, shape, seed=3, filled=0.85)
        size = slot_size.dedicated_slot(16, guests=fleet.guests)
        plan = plan_of(fleet, size, moves=moves)
        self.assertGreater(plan.gains[0].after, plan.gains[0].before)
        after = self.assert_carried_out(fleet, plan)
        self.assertEqual((plan.gains[0].after,), slots(after, size))
        self.assert_any_order(fleet, plan)

    def test_the_same_again(self):
        fleet = generate.generate_fleet(16, 'two-socket-80', seed=3,
                                        filled=0.85)
        size = slot_size.dedicated_slot(16, guests=fleet.guests)
        self.assertEqual(plan_of(fleet, size, moves=6),
                         plan_of(fleet, size, moves=6))

    def test_part_by_part(self):
        fleet = generate.generate_fleet(24, 'two-socket-88', seed=3,
                                        filled=0.85)
        size = slot_size.dedicated_slot(16, guests=fleet.guests)
        whole = plan_of(fleet, size, moves=8)
        parts = plan_of(fleet, size, moves=8, settings=dataclasses.replace(
            _PATIENT, exact_hosts=6))
        self.assertTrue(whole.is_optimal)
        self.assertGreaterEqual(whole.gains[0].after, parts.gains[0].after)
        self.assertGreaterEqual(parts.gains[0].bound, whole.gains[0].after)
        self.assertGreaterEqual(parts.gains[0].after,
                                whole.gains[0].after - 1)

    def test_several_cells(self):
        """Slots of guests with two cells."""
        fleet = generate.generate_fleet(12, 'two-socket-88', seed=4,
                                        filled=0.8)
        size = dataclasses.replace(
            slot_size.dedicated_slot(16, guests=fleet.guests))
        cell = size.request.topology.cells[0]
        request = dataclasses.replace(
            size.request, topology=dataclasses.replace(
                size.request.topology, cells=(
                    dataclasses.replace(cell, dedicated_vcpus=tuple(
                        range(8)), memory_mib=cell.memory_mib // 2),
                    dataclasses.replace(cell, dedicated_vcpus=tuple(
                        range(8, 16)), memory_mib=cell.memory_mib // 2))))
        size = dataclasses.replace(size, request=request)
        plan = plan_of(fleet, size, moves=5)
        after = self.assert_carried_out(fleet, plan)
        self.assertEqual((plan.gains[0].after,), slots(after, size))
        self.assertLessEqual(plan.gains[0].after, plan.gains[0].bound)


@ddt.ddt
class TestRealSnapshot(_Case):

    # The more moves, the longer it takes.
    @ddt.data(*((10, 13), (25, 24), (50, 37), (63, 44), (100, 62))[
        :1 if forms.SHORT else None])
    @ddt.unpack
    def test_most(self, moves, most):
        fleet = bytedance.read(bytedance_data.path(self))
        plan = plan_of(
            fleet, slot_size.dedicated_slot(16, guests=fleet.guests),
            moves=moves)
        (gain,) = plan.gains
        self.assertEqual((2, most, most),
                         (gain.before, gain.after, gain.bound))
        self.assertTrue(plan.is_optimal)
        self.assertLessEqual(len(plan.moves), moves)
        self.assert_carried_out(fleet, plan)
        self.assertFalse(any(itertools.chain.from_iterable(
            (move.is_parking,) for move in plan.moves)))
