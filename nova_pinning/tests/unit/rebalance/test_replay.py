# SPDX-License-Identifier: Apache-2.0


import dataclasses

import ddt
from nova import objects
from nova.virt import hardware
from oslo_config import cfg

from benchmarks import bytedance
from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge.offline import fleet_claim
from nova_pinning.fit import threads
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import generate
from nova_pinning.fleet import guest_kinds
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import defragment
from nova_pinning.rebalance import drain
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings
from nova_pinning.tests import forms
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet import bytedance_data
from nova_pinning.tests.unit.rebalance import small_fleets
from nova_pinning.tests.unit import unit_base

_PACKING = 'packing_host_numa_cells_allocation_strategy'
_SETTINGS = solver_settings.SolverSettings(
    seconds=1000, ask_nova=fleet_claim.predict_claim)


def _move(guest, source, target):
    return plan_model.PlannedMove(
        guest=guest, source=source, target=target,
        kind=plan_model.MigrationKind.LIVE, vcpus=1, memory_mib=1)


class TestLinked(unit_base.TestCase):

    def _after(self, *moves, grouped=()):
        return [move.after for move in replay.linked(
            [_move(*move) for move in moves], grouped)]

    def test_independent(self):
        self.assertEqual([(), ()], self._after('axy', 'bvw'))

    def test_from_one_host(self):
        self.assertEqual([(), ()], self._after('axy', 'bxw'))

    def test_to_one_host(self):
        self.assertEqual([(), (0,), (1,)], self._after('axy', 'bvy', 'cwy'))

    def test_makes_room(self):
        self.assertEqual([(), (0,)], self._after('axy', 'bvx'))

    def test_leaves_where_one_came(self):
        self.assertEqual([(), (0,)], self._after('axy', 'byw'))

    def test_grouped(self):
        self.assertEqual([(), (0,)], self._after('axy', 'bvw', grouped='ab'))
        self.assertEqual([(), ()], self._after('axy', 'bvw', grouped='a'))

    def test_parking(self):
        moves = replay.linked([
            _move(*move) for move in ('axy', 'bvw', 'ayz')])
        self.assertEqual([True, False, False],
                         [move.is_parking for move in moves])
        self.assertEqual((0,), moves[2].after)


def _as_imported(fleet):
    """The fleet with the threads of cores in an order that nova can have."""
    return dataclasses.replace(fleet, hosts=tuple(
        dataclasses.replace(host, cells=tuple(
            dataclasses.replace(cell, cores=tuple(
                map(threads.walk, cell.cores))) for cell in host.cells))
        for host in fleet.hosts))


@ddt.ddt
class TestClaims(unit_base.TestCase):
    """Nova's own claim gives each guest of a plan what the plan says."""

    def assert_claimed(self, fleet, plan):
        self.assertNotEqual((), plan.moves)
        guests = {guest.uuid: guest for guest in fleet.guests}
        occupancies = occupied.of_fleet(fleet)
        cfg.CONF.set_override(_PACKING, fleet.packs_cells, 'compute')
        self.addCleanup(cfg.CONF.clear_override, _PACKING, 'compute')
        for move in plan.moves:
            guest = guests[move.guest]
            host = occupancies[move.target].engine
            answer = hardware.numa_fit_instance_to_host(
                nova_objects.host_topology(host),
                nova_objects.instance_topology(guest.topology), None,
                limits=objects.NUMATopologyLimits(
                    cpu_allocation_ratio=host.cpu_allocation_ratio,
                    ram_allocation_ratio=host.ram_allocation_ratio))
            self.assertEqual(claim.fit_from_nova(answer), move.target_fit)
            guests[move.guest] = dataclasses.replace(
                guest, host=move.target, fit=move.target_fit)
            occupancies[move.source] = occupancies[move.source].without(guest)
            occupancies[move.target] = occupancies[move.target].adding(
                guests[move.guest])

    # Hosts of eight cells take longer than all others here together.
    @ddt.data(('two-socket-80', False, 12), ('two-socket-88', True, 12),
              *[('epyc-nps4', False, 6)][forms.SHORT:])
    @ddt.unpack
    def test_generated(self, shape, packs_cells, hosts):
        fleet = dataclasses.replace(
            _as_imported(generate.generate_fleet(
                hosts, shape, seed=5, filled=0.8)), packs_cells=packs_cells)
        self.assert_claimed(fleet, defragment.plan_defragmentation(
            fleet, [slot_size.dedicated_slot(16, guests=fleet.guests)],
            move_rules.MoveLimits(moves=6), settings=_SETTINGS))
        self.assert_claimed(fleet, drain.plan_drain(
            fleet, [fleet.hosts[0].name], move_rules.MoveLimits(),
            settings=_SETTINGS))

    def test_real_snapshot(self):
        fleet = bytedance.read(bytedance_data.path(self))
        self.assert_claimed(fleet, defragment.plan_defragmentation(
            fleet, [slot_size.dedicated_slot(16, guests=fleet.guests)],
            move_rules.MoveLimits(moves=10), settings=_SETTINGS))


@ddt.ddt
class TestDevices(unit_base.TestCase):

    def test_taken_on_the_target(self):
        kind = devices.device_keys('144d', 'a808')
        hosts = [small_fleets.fleet_host(
            number, 4, pci_pools=(devices.PciPool(kind, 0, 1),))
            for number in range(3)]
        fleet = small_fleets.fleet_of(
            hosts, [(0, [0], 2), (1, [0], 2), (2, [0], 4)],
            pci_aliases={'nvme': pci_alias.PciAlias((kind,), 'required')})
        use = devices.PciUse(kind, 0, 1)
        fleet = dataclasses.replace(fleet, guests=(
            dataclasses.replace(fleet.guests[0], devices=(use,)),
            *fleet.guests[1:]))
        request = moved_guest.RequestReader(fleet).request(fleet.guests[0])
        self.assertEqual((devices.PciRequest('nvme', (kind,), 1, 'required'),),
                         request.devices)
        done = replay.MoveReplay(fleet, move_rules.MoveRules(fleet),
                                 occupied.of_fleet(fleet))
        self.assertIn('PCPU left', done.try_move('guest1', 'host2'))
        done.try_move('guest0', 'host1')
        self.assertEqual((use,), done.occupancies['host1'].device_uses)
        self.assertEqual((), done.occupancies['host0'].device_uses)
        after = replay.fleet_after(fleet, done.moves)
        self.assertEqual(done.occupancies['host1'].guests[-1], next(
            guest for guest in after.guests if guest.uuid == 'guest0'))

    @ddt.data(('', ''), ('stopped', 'than Placement allocates'))
    @ddt.unpack
    def test_that_placement_chose(self, vm_state, refusal):
        """Those it gets that moves live; a cold move claims the first."""
        kind = devices.device_keys('144d', 'a808', live_migratable='true')
        hosts = [small_fleets.fleet_host(
            number, 4, pci_pools=tuple(
                devices.PciPool(kind, 0, 1, provider) for provider in (1, 2)),
            children=tuple(
                offered_host.OfferedProvider(0, ((
                    'CUSTOM_PCI_144D_A808',
                    inventory.Inventory(1, reserved=reserved)),))
                for reserved in (1, 0))) for number in range(2)]
        fleet = small_fleets.fleet_of(
            hosts, [(0, [0], 2)], flavors=(flavor_model.Flavor(
                name='f', vcpus=2, memory_mib=2, extra_specs={
                    'hw:cpu_policy': 'dedicated',
                    'pci_passthrough:alias': 'nvme:1'}),),
            pci_aliases={'nvme': pci_alias.PciAlias((kind,))},
            rules=scheduler_rules.SchedulerRules(pci_in_placement=True))
        guest = dataclasses.replace(
            fleet.guests[0], flavor='f', asks_live_devices=True,
            devices=(devices.PciUse(kind, 0, 1),), vm_state=vm_state)
        fleet = dataclasses.replace(fleet, guests=(guest,))
        rules = move_rules.MoveRules(fleet)
        done = replay.MoveReplay(fleet, rules, occupied.of_fleet(fleet))
        self.assertIn(refusal or 'Fit(', str(done.verdict(guest, 'host1')))
        counted = counted_fleet.CountedFleet(fleet, rules)
        kind = counted.kind(guest)
        self.assertIs(not refusal, counted.allows(kind, fleet.hosts[1]))
        state = guest_kinds.HostState(
            counted.occupancies['host1'], rules.admission(), moves=rules)
        self.assertIs(not refusal, state.takes(kind))
        if not refusal:
            self.assertEqual(2, state.with_guest(
                kind).occupancy.guests[0].allocations[0][0])

    def test_refused_by_what_its_flavor_asks_for(self):
        traits = [None, frozenset(), frozenset({'HW_X', 'CUSTOM_BAD'}),
                  frozenset({'HW_X'})]
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(number, 4, traits=has)
             for number, has in enumerate(traits)], [(0, [0], 2)],
            flavors=(flavor_model.Flavor(
                name='f', vcpus=2, memory_mib=2, extra_specs={
                    'hw:cpu_policy': 'dedicated', 'trait:HW_X': 'required',
                    'trait:CUSTOM_BAD': 'forbidden'}),))
        fleet = dataclasses.replace(fleet, guests=(
            dataclasses.replace(fleet.guests[0], flavor='f'),))
        done = replay.MoveReplay(fleet, move_rules.MoveRules(fleet),
                                 occupied.of_fleet(fleet))
        self.assertIn('has no trait HW_X', done.try_move('guest0', 'host1'))
        self.assertIn('has trait CUSTOM_BAD',
                      done.try_move('guest0', 'host2'))
        self.assertIsInstance(done.try_move('guest0', 'host3'), model.Fit)
        self.assertIn('not known whether it has trait HW_X',
                      done.try_move('guest0', 'host0'))
        assuming = replay.MoveReplay(fleet, move_rules.MoveRules(
            fleet, plan_request.RuleSettings(assumes=frozenset(
                {outcome.DoubtKind.TRAITS}))), done.occupancies)
        self.assertIsInstance(done.guest('guest0').fit, model.Fit)
        self.assertNotIn('not known', str(
            assuming.verdict(done.guest('guest0'), 'host0')))

    def test_shared_providers(self):
        """While a guest moves it is counted there twice, and then once."""
        def go(total, *targets):
            fleet = small_fleets.on_shared_disks(small_fleets.fleet_of(
                [small_fleets.fleet_host(number, 4) for number in range(3)],
                [(0, [0], 2)]), (('p', total), ('p', total), ('q', 20)))
            done = replay.MoveReplay(fleet, move_rules.MoveRules(fleet),
                                     occupied.of_fleet(fleet))
            said = [done.try_move('guest0', target) for target in targets]
            after = replay.fleet_after(fleet, done.moves)
            for occupancies in (done.occupancies, occupied.of_fleet(after)):
                yield said, [
                    occupancies[f'host{number}'].used[1].get('DISK_GB', 0)
                    for number in range(3)]

        for said, used in go(39, 'host1'):
            self.assertIn('19 DISK_GB left of 39, 20 needed', str(said))
            self.assertEqual([20, 20, 0], used)
        for targets, expected in ((('host1',), [20, 20, 0]),
                                  (('host1', 'host0'), [20, 20, 0]),
                                  (('host2',), [0, 0, 20])):
            for said, used in go(40, *targets):
                self.assertNotIn('needed', str(said))
                self.assertEqual(expected, used)

    def test_refused_by_devices(self):
        kind = devices.device_keys('144d', 'a808')
        hosts = [small_fleets.fleet_host(
            number, 4, pci_pools=(devices.PciPool(kind, 0, 1),) * (
                number == 0)) for number in range(2)]
        fleet = small_fleets.fleet_of(hosts, [(0, [0], 2)])
        fleet = dataclasses.replace(fleet, guests=(dataclasses.replace(
            fleet.guests[0], devices=(devices.PciUse(kind, 0, 1),)),))
        done = replay.MoveReplay(fleet, move_rules.MoveRules(fleet),
                                 occupied.of_fleet(fleet))
        self.assertIn('PCI devices', done.try_move('guest0', 'host1'))
        self.assertEqual([], done.moves)


class TestPages(unit_base.TestCase):
    """Where it leaves the size to the host, a guest that moves asks anew."""

    def _room(self, asked, **values):
        """What a guest with small pages gets of a host with large ones."""
        small, large = model.PagePool(4, 262144), model.PagePool(2048, 512)
        occupancy = host_occupancy.of_host(small_fleets.fleet_host(
            0, 4, pages=(small,)))
        guest = small_fleets.put(
            occupancy, 'g', builders.guest((1, 512, asked)), **values)
        fleet = snapshot.Fleet(hosts=(
            occupancy.host, small_fleets.fleet_host(
                1, 4, pages=(small, large))), guests=(guest,))
        moves = replay.MoveReplay(fleet, move_rules.MoveRules(fleet),
                                  occupied.of_fleet(fleet))
        return moves.verdict(guest, 'host1')

    def test_live(self):
        """MoveClaim lets a guest keep its page size only."""
        self.assertIn('another size than the guest has',
                      self._room(model.PAGES_ANY))
        for asked in (4, model.PAGES_SMALL):
            self.assertEqual(4, self._room(asked).page_size_kib)

    def test_cold(self):
        place = self._room(model.PAGES_ANY, vm_state='stopped')
        self.assertEqual(2048, place.page_size_kib)
