# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt

from nova_pinning.admission import offered_host
from nova_pinning.admission import scheduler_rules
from nova_pinning import cpuset
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.rebalance import every_plan
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_search
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.rebalance import small_fleets
from nova_pinning.tests.unit.rebalance import test_defragment
from nova_pinning.tests.unit.rebalance import test_drain


def fleet_of(cells, guests, hosts=3, staying=(), grouped=(), **values):
    """A fleet of alike hosts.

    :param staying: numbers of guests that do not move
    :param grouped: numbers of those in a server group, of which no two may be
        on one host
    """
    fleet = small_fleets.fleet_of(
        [small_fleets.fleet_host(number, *cells, **values)
         for number in range(hosts)], guests)
    return dataclasses.replace(
        fleet, guests=tuple(
            dataclasses.replace(
                guest, is_movable=number not in staying,
                server_group='group' if number in grouped else '')
            for number, guest in enumerate(fleet.guests)),
        server_groups=(offered_host.ServerGroup(
            id='group', policy=offered_host.GroupPolicy.ANTI_AFFINITY),))


@ddt.ddt
class TestEveryPlan(test_defragment._Case):

    @ddt.data(False, True)
    def test_there_and_back(self, is_swapped):
        """A guest that comes back to its host, in whichever order hosts are.
        """
        fleet = fleet_of(
            (8, 8), [(0, [0, 1], 3), (0, [1], 2), (0, [0], 3), (0, [0], 1),
                     (1, [0, 1], 2), (1, [0], 4)], hosts=2,
            staying=(0, 1, 4, 5), grouped=(0, 4))
        if is_swapped:
            fleet = dataclasses.replace(fleet, hosts=fleet.hosts[::-1])
        plan = test_defragment.plan_of(
            fleet, slot_size.dedicated_slot(2, 2), moves=2)
        self.assertEqual((5, 6, 6, True), (
            plan.gains[0].before, plan.gains[0].after, plan.gains[0].bound,
            plan.is_optimal))
        self.assert_carried_out(fleet, plan)

    def test_guest_alone_in_its_group(self):
        fleet = fleet_of((6, 6), [(0, [0], 1), (0, [0], 4), (0, [1], 2),
                                  (1, [0], 4), (1, [1], 3)],
                         staying=(4,), grouped=(3,))
        plan = test_defragment.plan_of(
            fleet, slot_size.dedicated_slot(3, 3), moves=3)
        self.assertEqual((6, 7, ['guest3'], True), (
            plan.gains[0].before, plan.gains[0].after,
            [move.guest for move in plan.moves], plan.is_optimal))

    def test_no_move_more_than_needed(self):
        """One guest of a server group does for two of none."""
        fleet = fleet_of((8, 8), [
            (0, [0, 1], 2, 2), (1, [1], 4, 4), (1, [0], 4, 2),
            (2, [0, 1], 2, 8), (2, [0, 1], 4, 2)], grouped=(0,),
            memory_mib=32)
        plan = test_defragment.plan_of(
            fleet, slot_size.dedicated_slot(3, 16), moves=2)
        self.assertEqual((4, 6, ['guest0'], True), (
            plan.gains[0].before, plan.gains[0].after,
            [move.guest for move in plan.moves], plan.is_optimal))

    def test_alike_guests_of_a_group(self):
        """One of them on a host keeps the other off it, whichever it is."""
        fleet = fleet_of((6, 6), [
            (0, [0], 1, 2), (1, [1], 1, 2), (1, [1], 2), (0, [0], 2),
            (0, [1], 3)], hosts=2, staying=(3,), grouped=(0, 1, 4))
        host = small_fleets.fleet_host(2, 3, 3)
        place = small_fleets.fleet_of(
            (*fleet.hosts, host), [(2, [0], 3)]).guests[0]
        fleet = dataclasses.replace(
            fleet, hosts=(*fleet.hosts, host), guests=(
                *fleet.guests, dataclasses.replace(place, uuid='other')))
        plan = test_defragment.plan_of(
            fleet, slot_size.dedicated_slot(4, 4),
            slot_size.dedicated_slot(2, 2), moves=4)
        self.assertEqual(([3, 8], 2, True), (
            [gain.after for gain in plan.gains], len(plan.moves),
            plan.is_optimal))
        self.assert_carried_out(fleet, plan)

    def test_filter_that_counts_guests(self):
        """No guest, moved or new, goes to a host that has as many as may be.
        """
        fleet = fleet_of((4,), [(0, [0], 1), (1, [0], 1), (2, [0], 2)])
        for most, moved, slots in ((3, 1, 4), (2, 0, 3), (1, 0, 0)):
            counting = dataclasses.replace(
                fleet, enabled_filters=('NumInstancesFilter',),
                rules=scheduler_rules.SchedulerRules(
                    max_instances_per_host=most))
            plan = test_defragment.plan_of(
                counting, slot_size.dedicated_slot(2, 2))
            self.assertEqual((moved, slots, True), (
                len(plan.moves), plan.gains[0].after, plan.is_optimal))
            self.assert_carried_out(counting, plan)
            # The integer programs count them, too.
            proved, = test_defragment.plan_of(
                counting, slot_size.dedicated_slot(2, 2),
                settings=test_defragment.PROGRAMS).gains
            self.assertEqual((slots, slots), (proved.after, proved.bound))
            verdict = replay.MoveReplay(
                counting, move_rules.MoveRules(counting),
                occupied.of_fleet(counting)).verdict(
                    counting.guests[0], 'host1')
            self.assertEqual(most == 1, 'has 1 guests' in str(verdict))

    def test_drain_by_way_of_others(self):
        fleet = fleet_of((6, 6), [
            (0, [0, 1], 4), (1, [0], 1), (1, [0], 2), (1, [1], 2),
            (2, [1], 3)], grouped=(1, 4))
        plan = test_drain.plan_of(fleet, 'host0')
        self.assertEqual((2, True), (len(plan.moves), plan.is_optimal))
        self.assert_carried_out(fleet, plan)

    def test_memory_limit(self):
        """More moves, if they copy less."""
        fleet = fleet_of((8,), [(0, [0], 2, 9), (1, [0], 2, 1),
                                (1, [0], 2, 1)])
        for memory_mib, moved in ((None, ['guest0']), (18, ['guest0']),
                                  (17, ['guest1', 'guest2'])):
            plan = test_defragment.plan_of(
                dataclasses.replace(fleet, hosts=fleet.hosts[:2]),
                slot_size.dedicated_slot(8, 8), memory_mib=memory_mib)
            self.assertEqual((moved, True), (
                sorted(move.guest for move in plan.moves), plan.is_optimal))

    def test_doubts(self):
        """What may be possible is no plan, and nothing is proved then."""
        fleet = fleet_of((4,), [(0, [0], 2), (1, [0], 2)])
        plan = test_defragment.plan_of(small_fleets.doubted(fleet, 'host2'))
        self.assertEqual(1, len(plan.moves))
        self.assertNotEqual('host2', plan.moves[0].target)
        self.assertFalse(plan.is_optimal)
        plan = test_defragment.plan_of(small_fleets.doubted(
            fleet, 'host0', 'host1'))
        self.assertEqual(((), False), (plan.moves, plan.is_optimal))

    def test_large(self):
        """Where there are too many plans nobody looks at them."""
        for hosts, moves, is_small, most_moves in (
                (4, None, True, 4), (9, None, False, 2), (9, 2, True, 2),
                (30, 3, False, 1), (150, 3, False, 0)):
            fleet = fleet_of((4,), [(number, [0], 2)
                                    for number in range(hosts)], hosts=hosts)
            search = plan_search.PlanSearch(
                fleet, [slot_size.dedicated_slot(4, 4)],
                move_rules.MoveLimits(moves=moves), None,
                test_defragment.PROGRAMS)
            plans = every_plan.EveryPlan(
                search.counted, search.start, search.goal,
                search.limits)
            self.assertEqual((is_small, most_moves),
                             (plans.is_small, plans.most_moves))

    def test_few_moves_of_many(self):
        """Of larger fleets plans of a few moves are looked at.

        A guest alone in its server group is the one to move.
        """
        fleet = fleet_of((6, 6), [
            *[(number, [cell], 6) for number in range(2, 9)
              for cell in range(2)],
            (0, [0], 1), (0, [0], 4), (0, [1], 2), (1, [0], 4), (1, [1], 3)],
            hosts=9, staying=(18,), grouped=(17,))
        plan = test_defragment.plan_of(
            fleet, slot_size.dedicated_slot(3, 3), moves=3)
        self.assertEqual((2, 3, ['guest17']), (
            plan.gains[0].before, plan.gains[0].after,
            [move.guest for move in plan.moves]))


class TestPrograms(test_defragment._Case):
    """What the integer programs prove, where plans are too many to look at.
    """

    def test_pinned_guests_counted_as_floating(self):
        """Placement may count a pinned guest with VCPUs, if it has both."""
        cells = [dataclasses.replace(
            builders.host_cell(cell, range(8 * cell, 8 * cell + 8)),
            memory_mib=16384, shared_cpus=cpuset.CpuSet(
                (100 + cell, 200 + cell))) for cell in range(2)]
        flavors = [flavor_model.Flavor(
            name='plain', vcpus=4, memory_mib=1,
            extra_specs={'hw:cpu_policy': 'dedicated'})]
        host = small_fleets.fleet_host(0, cells=tuple(cells))
        guests = [(0, [0], 1), (0, [0], 1), (0, [0], 3), (1, [0], 4)]
        fleet = small_fleets.fleet_of(
            [host, dataclasses.replace(host, name='host1')], guests,
            flavors=tuple(flavors))
        # Six of the CPUs for pinned guests are counted twice, so that three
        # guests of four are left by those, and a fourth by VCPUs.
        held = {'PCPU': 6}
        fleet = dataclasses.replace(fleet, hosts=tuple(
            dataclasses.replace(one, held=held) for one in fleet.hosts))
        request = moved_guest.RequestReader(fleet).request(
            dataclasses.replace(fleet.guests[3], flavor='plain'))
        size = slot_size.SlotSize(request=request, name='plain')
        best = test_defragment.plan_of(fleet, size, moves=2)
        plan = test_defragment.plan_of(fleet, size, moves=2,
                                       settings=test_defragment.PROGRAMS)
        self.assertLessEqual(best.gains[0].after, plan.gains[0].bound)

    def test_by_way_of_another(self):
        """From one of nova's cells to another, if one host is of any."""
        fleet = fleet_of((4,), [(0, [0], 2), (2, [0], 2)], staying=(1,))
        fleet = dataclasses.replace(fleet, hosts=tuple(
            dataclasses.replace(host, nova_cell=cell)
            for host, cell in zip(fleet.hosts, ('one', '', 'two'))))
        for settings in (solver_settings.SolverSettings(),
                         test_defragment.PROGRAMS):
            plan = test_defragment.plan_of(fleet, moves=2, settings=settings)
            self.assertEqual([('host0', 'host1'), ('host1', 'host2')], [
                (move.source, move.target) for move in plan.moves])
            self.assertEqual((1, 2, 2), (
                plan.gains[0].before, plan.gains[0].after,
                plan.gains[0].bound))
