# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning import errors
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.rebalance import evacuation
from nova_pinning.rebalance import evacuation_proof
from nova_pinning.rebalance import failover
from nova_pinning.rebalance import failover_model
from nova_pinning.rebalance import move_rules
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit.rebalance import small_fleets as asking
from nova_pinning.tests.unit import unit_base

YES = failover_model.SurvivalVerdict.YES
NO = failover_model.SurvivalVerdict.NO
UNKNOWN = failover_model.SurvivalVerdict.UNKNOWN
NIC = devices.device_keys('8086', '154c')
GROUP = offered_host.ServerGroup(
    id='g', name='db', policy=offered_host.GroupPolicy.ANTI_AFFINITY)


def host(name, *counts, **values):
    """A host with cells of so many CPUs without threads."""
    return explain_cases.host(*(
        builders.host_cell(number, range(number * 16, number * 16 + count))
        for number, count in enumerate(counts)), name=name, **values)


def filled(hosts, sizes, **values):
    """Each host with guests of these sizes, as nova would place them.

    :param sizes: of each host, the numbers of CPUs of the guests' cells;
        what does not fit is left out
    """
    guests = []
    for one, own in zip(hosts, sizes):
        where = host_occupancy.of_host(one)
        for number, cells in enumerate(own):
            topology = explain_cases.pinned(*((count, 64) for count in cells))
            guest = explain_cases.placed_guest(
                where, topology, f'{one.name}-{number}')
            if isinstance(guest.fit, model.Fit):
                where = where.adding(guest)
                guests.append(guest)
    return snapshot.Fleet(hosts=tuple(hosts), guests=tuple(guests), **values)


def with_guests(fleet, change):
    """With each guest changed: a function that gives what is to be."""
    return dataclasses.replace(fleet, guests=tuple(
        dataclasses.replace(guest, **change(guest)) for guest in fleet.guests))


def least_down(fleet, lost, shunned=()):
    """Try every order and every target, one guest at a time.

    :param shunned: names of hosts that take nobody
    """
    rules = move_rules.MoveRules(fleet)
    everywhere = occupied.of_fleet(fleet)
    best = [len(fleet.guests)]
    seen = set()

    def go(waiting, occupancies, where):
        best[0] = min(best[0], len(waiting))
        key = (frozenset(guest.uuid for guest in waiting),
               tuple(occupancy.engine for occupancy in occupancies.values()),
               tuple(sorted(where.items())))
        if not waiting or key in seen:
            return
        seen.add(key)
        for guest in waiting:
            if rules.evacuation_refusal(guest):
                continue
            request = rules.request(guest)
            for name, occupancy in occupancies.items():
                if rules.evacuation_host_refusal(guest, occupancy.host) or (
                        rules.group_refusal(
                            guest, (other for other in fleet.guests
                                    if where.get(other.uuid) == name))):
                    continue
                found = placing.verdict(occupancy, request, fleet.packs_cells)
                if isinstance(found, model.Fit):
                    go([one for one in waiting if one is not guest],
                       {**occupancies, name: placing.with_guest(
                           occupancy, request, found, guest.uuid)},
                       {**where, guest.uuid: name})

    go([guest for guest in fleet.guests if guest.host in lost],
       {name: occupancy for name, occupancy in everywhere.items()
        if name not in lost and name not in shunned},
       {guest.uuid: guest.host for guest in fleet.guests
        if guest.host not in lost})
    return best[0]


_SIZES = strategies.lists(
    strategies.sampled_from([(1,), (2,), (3,), (5,), (2, 2), (3, 1)]),
    max_size=4)
_HOSTS = strategies.lists(strategies.sampled_from(
    [(6,), (4, 4), (6, 3), (8,)]), min_size=2, max_size=3)


@strategies.composite
def small_fleets(draw):
    hosts = [host(f'h{number}', *counts)
             for number, counts in enumerate(draw(_HOSTS))]
    fleet = filled(hosts, [draw(_SIZES) for _host in hosts],
                   server_groups=(GROUP,), packs_cells=draw(
                       strategies.just(False)))
    grouped = draw(strategies.sets(strategies.sampled_from(
        [guest.uuid for guest in fleet.guests]), max_size=2)
        if fleet.guests else strategies.just(set()))
    states = draw(strategies.lists(
        strategies.sampled_from(['active', 'active', 'paused']),
        min_size=len(fleet.guests), max_size=len(fleet.guests)))
    states = dict(zip([guest.uuid for guest in fleet.guests], states))
    return with_guests(fleet, lambda guest: {
        'server_group': 'g' if guest.uuid in grouped else '',
        'vm_state': states[guest.uuid]})


@ddt.ddt
class FailoverTestCase(base.BaseTestCase):

    @unit_base.settings(60)
    @hypothesis.given(small_fleets() | strategies.builds(
        asking.asking_fleet, strategies.integers(0, 10 ** 6)))
    def test_against_all_evacuations(self, fleet):
        report = failover.check_failover(fleet)
        for loss in report.losses:
            wanted = least_down(fleet, {loss.name})
            self.assertEqual(wanted, len(loss.down))
            self.assertEqual(wanted, loss.least_down)
            self.assertIs(YES if not wanted else NO, loss.verdict)
            self.check_evacuations(fleet, loss)

    @unit_base.settings(60)
    @hypothesis.given(small_fleets())
    def test_never_wrong(self, fleet):
        """Whoever may not look at everything knows less, not otherwise."""
        report = failover.check_failover(
            fleet, settings=failover.FailoverSettings(most_tries=0))
        for loss in report.losses:
            wanted = least_down(fleet, {loss.name})
            self.assertLessEqual(loss.least_down, wanted)
            self.assertLessEqual(wanted, len(loss.down))
            self.assertIs(YES if not loss.down else NO if loss.least_down
                          else UNKNOWN, loss.verdict)
            self.check_evacuations(fleet, loss)

    @unit_base.settings(60)
    @hypothesis.given(strategies.data())
    def test_doubts(self, data):
        """What is not known shows nothing, and proves nothing."""
        fleet = data.draw(small_fleets() | strategies.builds(
            asking.asking_fleet, strategies.integers(0, 10 ** 6)))
        names = data.draw(strategies.sets(strategies.sampled_from(
            [one.name for one in fleet.hosts])))
        report = failover.check_failover(asking.doubted(fleet, *names))
        for loss in report.losses:
            at_best = least_down(fleet, {loss.name})
            at_worst = least_down(fleet, {loss.name}, names)
            self.assertLessEqual(loss.least_down, at_best)
            self.assertEqual(at_worst, len(loss.down))
            self.assertIs(YES if not at_worst else NO if loss.least_down
                          else UNKNOWN, loss.verdict)
            self.check_evacuations(fleet, loss)

    def test_proof_ends_with_all_guests(self):
        """Where one host takes them all, other orders are not looked at."""
        sizes = [(size,) for size in (1, 2, 3, 4)] * 3
        fleet = filled([host('h0', 30), host('h1', 30)], [sizes, []])
        evacuated = evacuation.EvacuationFleet(
            fleet, move_rules.MoveRules(fleet))
        found = evacuation_proof.best(
            evacuated, collections.Counter(
                evacuated.kind(guest).number for guest in fleet.guests),
            {'h1': evacuated.states['h1']}, limit=4 * len(sizes) + 1)
        self.assertEqual((0, len(sizes)),
                         (found.down, len(found.sequences['h1'])))

    def test_doubt_of_another(self):
        """Whom a host may take may leave its room to whom it does not."""
        nic = (devices.PciPool(NIC, 0, 1),)
        fleet = filled(
            [host('h0', 8, pci_pools=nic), host('h1', 4, pci_pools=nic),
             host('h2', 4)], [[(4,), (2,)], [], []])
        fleet = with_guests(fleet, lambda guest: {
            'devices': (devices.PciUse(NIC, 0, 1),)
            if guest.uuid == 'h0-1' else ()})
        loss, = failover.check_failover(
            asking.doubted(fleet, 'h2'), only=['h0']).losses
        self.assertEqual((UNKNOWN, 0), (loss.verdict, loss.least_down))
        self.assertEqual(
            'whether h0-0 can be evacuated to h2: not all is known that the '
            'answer depends on: more may be held', loss.doubt)

    @ddt.data((('p', 'p'), 60, YES), (('p', 'p'), 59, NO),
              (('p', 'q'), 40, YES), (('p', 'q'), 39, UNKNOWN))
    @ddt.unpack
    def test_shared(self, uuids, total, verdict):
        """Who was on the same storage takes no more of it than before."""
        fleet = asking.on_shared_disks(
            filled([host('h0', 8), host('h1', 4), host('h2', 4)],
                   [[(3,), (3,)], [], []]),
            ((uuids[0], total), (uuids[1], total), (uuids[1], total)))
        loss, = failover.check_failover(fleet, only=['h0']).losses
        self.assertIs(verdict, loss.verdict)

    def test_doubt_of_zone(self):
        """In which zone a guest was asked for may not be known."""
        fleet = filled(
            [host(f'h{name}', 4, aggregates=(name,)) for name in 'ab'],
            [[(2,)], []], aggregates=tuple(
                offered_host.Aggregate(name, f'zone-{name}')
                for name in 'ab'))
        for zone, verdict in ((None, UNKNOWN), ('zone-a', NO), ('', YES)):
            loss, = failover.check_failover(with_guests(
                fleet, lambda guest: {'availability_zone': zone}),
                only=['ha']).losses
            self.assertIs(verdict, loss.verdict)

    def test_reserve_by_another(self):
        """Somebody else may move in, and leave its room to who is down."""
        nic = (devices.PciPool(NIC, 0, 1),)
        fleet = filled(
            [host('h0', 4, pci_pools=nic), host('h1', 8),
             host('h2', 4, pci_pools=nic)], [[(1,), (3,)], [(6,)], [(1,)]])
        fleet = with_guests(fleet, lambda guest: {
            'devices': (devices.PciUse(NIC, 0, 1),)
            if guest.uuid == 'h0-0' else ()})
        report = failover.check_failover(fleet, only=['h0', 'h1'])
        self.assertEqual([NO, NO], [loss.verdict for loss in report.losses])
        # h0-1 on one more like h1, which h1-0 needs, leaves h2 to h0-0.
        self.assertEqual(1, report.reserve.least)

    @unit_base.settings(40)
    @hypothesis.given(small_fleets())
    def test_reserve(self, fleet):
        """With the hosts of the reserve each loss is survived."""
        report = failover.check_failover(fleet)
        reserve = report.reserve
        self.assertLessEqual(reserve.least, reserve.count)
        unmended = {name for name, _reason in reserve.unmended}
        by_name = {one.name: one for one in fleet.hosts}
        added = [dataclasses.replace(by_name[one.like],
                                     name=f'like-{one.like}-{copy}')
                 for one in reserve.hosts for copy in range(one.count)]
        larger = dataclasses.replace(fleet, hosts=(*fleet.hosts, *added))
        for loss in failover.check_failover(larger).losses:
            if loss.name in by_name and loss.name not in unmended:
                self.assertIs(YES, loss.verdict)

    def check_evacuations(self, fleet, loss):
        """Carry them out as they are told."""
        occupancies = occupied.of_fleet(fleet)
        guests = {guest.uuid: guest for guest in fleet.guests}
        requests = moved_guest.RequestReader(fleet)
        for one in loss.evacuations:
            self.assertNotIn(one.target, loss.hosts)
            request = requests.request(guests[one.guest])
            found = placing.verdict(occupancies[one.target], request,
                                    fleet.packs_cells)
            self.assertEqual(one.fit, found)
            occupancies[one.target] = placing.with_guest(
                occupancies[one.target], request, found)
        self.assertEqual(
            sorted(guest.uuid for guest in fleet.guests
                   if guest.host in loss.hosts),
            sorted([*(one.guest for one in loss.evacuations),
                    *(one.guest for one in loss.down)]))

    def test_order_matters(self):
        # The large one has to come first; by UUID it would not.
        fleet = filled([host('h0', 8), host('h1', 4), host('h2', 6)],
                       [[(2,), (2,), (4,)], [], [(2,)]])
        loss = failover.check_failover(fleet, only=['h0']).losses[0]
        self.assertIs(YES, loss.verdict)
        self.assertEqual('h0-2', loss.evacuations[0].guest)
        self.assertFalse(loss.is_unguided)

    def test_reasons(self):
        fleet = filled([host('h0', 8), host('h1', 4), host('h2', 3)],
                       [[(5,), (3,)], [], []])
        fleet = with_guests(fleet, lambda guest: {
            'vm_state': 'paused' if guest.uuid == 'h0-1' else 'active'})
        loss = failover.check_failover(fleet, only=['h0']).losses[0]
        self.assertIs(NO, loss.verdict)
        self.assertEqual([
            'none of the 2 hosts that it may go to has room (2 have no cell '
            'with that many dedicated CPUs); it needs 5 CPUs, and h1 has most '
            'left, 4 CPUs', 'is paused, and nova evacuates no such guest'],
            [one.reason for one in loss.down])
        self.assertEqual([True, True], [one.is_certain for one in loss.down])

    def test_devices(self):
        """They are claimed anew, where there are any left."""
        pools = (devices.PciPool(NIC, 0, 1),)
        hosts = [host(name, 8, pci_pools=pools) for name in ('h0', 'h1')]
        fleet = filled(hosts, [[(2,)], [(2,)]])
        fleet = with_guests(fleet, lambda guest: {
            'devices': (devices.PciUse(NIC, 0, 1),)})
        loss = failover.check_failover(fleet, only=['h0']).losses[0]
        self.assertIs(NO, loss.verdict)
        self.assertIn('1 has too few devices of ports left',
                      loss.down[0].reason)
        fleet = dataclasses.replace(fleet, guests=fleet.guests[:1])
        self.assertIs(YES, failover.check_failover(
            fleet, only=['h0']).losses[0].verdict)

    def test_affinity(self):
        """Nova evacuates no member of a group that was on one host."""
        fleet = filled([host('h0', 8), host('h1', 8)], [[(2,)], []],
                       server_groups=(dataclasses.replace(
                           GROUP, policy=offered_host.GroupPolicy.AFFINITY),))
        fleet = with_guests(fleet, lambda guest: {'server_group': 'g'})
        report = failover.check_failover(fleet, only=['h0'])
        self.assertIs(NO, report.losses[0].verdict)
        self.assertEqual(['h0'], [
            name for name, _reason in report.reserve.unmended])
        self.assertEqual(0, report.reserve.count)

    def test_racks(self):
        racks = [offered_host.Aggregate(name, None, {'rack': name[0]})
                 for name in ('a1', 'a2', 'b')]
        hosts = [host('h0', 4, aggregates=('a1',)),
                 host('h1', 4, aggregates=('a2',)),
                 host('h2', 4, aggregates=('b',)), host('h3', 2)]
        fleet = filled(hosts, [[(4,)], [(3,)], [], [(2,)]],
                       aggregates=tuple(racks))
        report = failover.check_failover(fleet, 'rack')
        self.assertEqual([('a', ('h0', 'h1'), NO), ('b', ('h2',), YES)], [
            (loss.name, loss.hosts, loss.verdict) for loss in report.losses])
        self.assertEqual(('h3',), report.ungrouped)
        self.assertEqual((1, 1), (report.reserve.count, report.reserve.least))
        self.assertIs(NO, report.verdict)
        self.assertEqual(
            [YES], [loss.verdict for loss in failover.check_failover(
                fleet, 'b').losses])

    @ddt.data(('shelf', ()), ('host', ('h9',)))
    @ddt.unpack
    def test_no_such_group(self, by, only):
        fleet = filled([host('h0', 4)], [[]])
        error = self.assertRaises(
            errors.InputError, failover.check_failover, fleet, by, only=only)
        self.assertIn(only[0] if only else by, str(error))

    def test_last_host(self):
        fleet = filled([host('h0', 4)], [[(2,)]])
        loss, = failover.check_failover(fleet).losses
        self.assertEqual((NO, 'no host is left'), (
            loss.verdict, loss.down[0].reason))

    def test_progress(self):
        fleet = filled([host('h0', 4), host('h1', 4)], [[], []])
        told = []
        failover.check_failover(fleet, tell=lambda *done: told.append(done))
        self.assertEqual([(0, 2), (1, 2), (2, 2)], told)
