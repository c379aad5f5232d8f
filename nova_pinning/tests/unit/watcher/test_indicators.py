# SPDX-License-Identifier: Apache-2.0

import dataclasses

from oslotest import base as oslotest

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.rebalance import plan_model
from nova_pinning.watcher import indicators


def move(guest, source, target, **values):
    return plan_model.PlannedMove(**{
        'guest': guest, 'source': source, 'target': target,
        'kind': plan_model.MigrationKind.LIVE, 'vcpus': 1, 'memory_mib': 64,
        **values})


def plan(*moves, **values):
    return plan_model.RebalancePlan(
        goal=plan_model.PlanGoal.DEFRAGMENT, moves=moves, **values)


def fleet(places, **hosts):
    """A fleet.

    :param places: host by guest
    :param hosts: values by name
    """
    return snapshot.Fleet(
        hosts=tuple(offered_host.OfferedHost(name=name, cells=(), **values)
                    for name, values in hosts.items()),
        guests=tuple(resident_guest.ResidentGuest(
            uuid=guest, host=host, vcpus=1, memory_mib=64,
            guest_class=hostclass.HostClass.DEDICATED)
            for guest, host in places.items()))


class TestIndicators(oslotest.BaseTestCase):

    def figures(self, found):
        return {figure.name: figure.value for figure in found}

    def test_plan(self):
        made = plan(
            move('x', 'a', 'b', is_parking=True),
            move('y', 'c', 'a', kind=plan_model.MigrationKind.COLD,
                 memory_mib=1000),
            move('x', 'b', 'c'),
            gains=(plan_model.SlotGain(size='16', before=2, after=13,
                                       bound=13),
                   plan_model.SlotGain(size='m.large', before=5, after=4)),
            is_optimal=True)
        self.assertEqual(
            {'slots_before:16': 2, 'slots_after:16': 13,
             'slots_bound:16': 13, 'slots_before:m.large': 5,
             'slots_after:m.large': 4, 'moves': 3, 'parking_moves': 1,
             'cold_moves': 1, 'memory_to_copy': 1128, 'proved': 1},
            self.figures(indicators.plan_figures(made)))
        self.assertEqual(
            {'slots_gained:16': 11, 'slots_gained:m.large': -1},
            self.figures(indicators.gains(made)))

    def test_drained(self):
        made = dataclasses.replace(plan(), drained=('a', 'b'))
        self.assertEqual({'hosts_drained': 2},
                         self.figures(indicators.gains(made)))

    def test_what_watcher_has_room_for(self):
        made = plan(gains=(plan_model.SlotGain(
            size='x' * 255, before=1, after=2, bound=3),))
        found = [*indicators.plan_figures(made), *indicators.gains(made)]
        for figure in found:
            self.assertLessEqual(len(figure.name), 63)
            self.assertLessEqual(len(figure.description), 255)

    def test_released_hosts(self):
        places = {'x': 'a', 'y': 'b', 'z': 'off'}
        hosts = {'a': {}, 'b': {}, 'c': {}, 'off': {'is_enabled': False}}
        for moves, released in (
                ((), 0),
                ((move('x', 'a', 'b'),), 1),
                # One is empty and another is not any more.
                ((move('x', 'a', 'c'),), 1),
                ((move('x', 'a', 'b'), move('y', 'b', 'a')), 0),
                ((move('x', 'a', 'b'), move('x', 'b', 'a')), 0),
                ((move('z', 'off', 'b'),), 0)):
            self.assertEqual(released, indicators.released_hosts(
                fleet(places, **hosts), plan(*moves)))
