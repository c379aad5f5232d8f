# SPDX-License-Identifier: Apache-2.0

import random

import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.fleet import snapshot
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.tests.unit.simulation import simulation_scenes
from nova_pinning.tests.unit import unit_base


class TestLedger(testtools.TestCase):

    def test_a_guest_is_the_same_as_elsewhere(self):
        host = simulation_scenes.host('host', disk_gib=60)
        wanted = simulation_scenes.guest('disk', [2], disk_gib=25)
        engine = simulation_scenes.fast_scheduler(
            snapshot.Fleet(hosts=(host,)),
            scheduler_configuration.NAMED['pinning'])
        engine.place('a', wanted)
        index, guest = engine.ledger.placed_guests['a']
        expected = judge.placed_on(
            wanted, host_occupancy.of_host(host), guest.fit, 'a')
        self.assertEqual(25, expected.disk_gib)
        self.assertEqual((0, expected), (index, guest))

    @hypothesis.given(strategies.integers(0, 10 ** 6))
    @unit_base.settings(16)
    def test_figures(self, seed):
        """After many guests have come and gone, each figure is right."""
        fleet = simulation_scenes.fleet(seed)
        engine = simulation_scenes.fast_scheduler(
            fleet, scheduler_configuration.NAMED['pinning'])
        ledger = engine.ledger
        draws = random.Random(seed)
        for arrival in simulation_scenes.load(seed, 80).arrivals(seed):
            engine.place(arrival.id, arrival.request)
            if ledger.placed_guests and draws.random() < 0.4:
                engine.remove(draws.choice(sorted(ledger.placed_guests)))
        guests = [one.guest for one in ledger.placed_guests.values()]
        for place, host in enumerate(ledger.hosts):
            self._check(ledger, place, host_occupancy.of_host(
                host, [guest for guest in guests if guest.host == host.name]))
        for guest_class, found in ledger.sold_vcpus.items():
            self.assertEqual(sum(
                guest.vcpus for guest in guests
                if guest.guest_class is guest_class), found)

    def _check(self, ledger, place, expected):
        host, guests = expected.host, expected.guests
        self.assertEqual(
            (len(guests), sum(guest.vcpus for guest in guests),
             host.memory_mib - host.reserved_memory_mib
             - sum(guest.memory_mib for guest in guests),
             (host.disk_gib or 0) - sum(guest.disk_gib for guest in guests)),
            (ledger.guests[place], ledger.used_vcpus[place],
             ledger.free_memory_mib[place], ledger.free_disk_gib[place]))
        self.assertEqual(
            sum(pool.total for pool in devices.free(
                host.pci_pools, expected.device_uses)),
            ledger.free_devices[place])
        for name, used in expected.resources_used.items():
            self.assertEqual(used, ledger.used(name)[place], name)
        for cell, view in zip(expected.engine.cells,
                              ledger.occupancies[place].engine.cells):
            self.assertEqual(
                (cell.pinned_cpus, cell.memory_used_mib, cell.shared_used,
                 cell.pages),
                (view.pinned_cpus, view.memory_used_mib, view.shared_used,
                 view.pages))
            # The same threads are free, if in another order.
            self.assertEqual(
                [sorted(core) for core in cell.free_cores],
                [sorted(core) for core in view.free_cores])
