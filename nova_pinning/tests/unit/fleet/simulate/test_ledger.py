#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import dataclasses
import random

import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.fleet import devices
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet.simulate import configuration
from nova_pinning.fleet.simulate import fast
from nova_pinning.fleet.simulate import ledger as ledgers
from nova_pinning.fleet import standing
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.fleet.simulate import scenes


def _guests(ledger):
    """The guests of a ledger as those of a snapshot."""
    return tuple(
        fleet_model.FleetGuest(
            uuid=uuid, host=ledger.hosts[one.host].name, vcpus=one.vcpus,
            memory_mib=one.memory_mib, disk_gib=one.disk_gib,
            guest_class=one.guest_class, topology=one.topology, fit=one.fit,
            devices=one.devices)
        for uuid, one in ledger.lodgers.items())


class TestLedger(testtools.TestCase):

    def test_a_guest_is_the_same_as_elsewhere(self):
        """Its swap space is on the host's disk too."""
        host = scenes.host('host', disk_gib=60)
        wanted = scenes.guest('swap', [2], disk_gib=20)
        wanted = dataclasses.replace(wanted, flavor=dataclasses.replace(
            wanted.flavor, ephemeral_gib=3, swap_mib=1536))
        ledger = ledgers.of_fleet(fleet_model.Fleet(hosts=(host,)), [0])
        fast.Engine(ledger, configuration.NAMED['pinning']).place('a', wanted)
        lodger = ledger.lodgers['a']
        expected = standing.guest_of(
            wanted, standing.of_host(host), lodger.fit)
        self.assertEqual(25, expected.disk_gib)
        for field in ('vcpus', 'memory_mib', 'disk_gib', 'guest_class',
                      'topology', 'fit', 'devices'):
            self.assertEqual(getattr(expected, field),
                             getattr(lodger, field), field)

    @hypothesis.given(strategies.integers(0, 10 ** 6))
    @hypothesis.settings(deadline=None, max_examples=10)
    def test_figures(self, seed):
        """After many guests have come and gone, each figure is right."""
        fleet = scenes.fleet(seed)
        ledger = ledgers.of_fleet(fleet, range(len(fleet.hosts)))
        engine = fast.Engine(ledger, configuration.NAMED['pinning'])
        draws = random.Random(seed)
        for arrival in scenes.load(seed, 80).arrivals(seed):
            engine.place(arrival.id, arrival.wanted)
            if ledger.lodgers and draws.random() < 0.4:
                engine.remove(draws.choice(sorted(ledger.lodgers)))
        guests = _guests(ledger)
        for place, host in enumerate(ledger.hosts):
            self._check(ledger, place, standing.of_host(
                host, [one for one in guests if one.host == host.name]))
        for found, guest_class in (
                (ledger.dedicated_vcpus, hostclass.HostClass.DEDICATED),
                (ledger.shared_vcpus, hostclass.HostClass.SHARED)):
            self.assertEqual(sum(
                one.vcpus for one in guests
                if one.guest_class is guest_class), found)

    def _check(self, ledger, place, expected):
        host, guests = expected.host, expected.guests
        self.assertEqual(
            (len(guests), sum(one.vcpus for one in guests),
             host.memory_mib - host.reserved_memory_mib
             - sum(one.memory_mib for one in guests),
             (host.disk_gib or 0) - sum(one.disk_gib for one in guests)),
            (ledger.guests[place], ledger.used_vcpus[place],
             ledger.free_memory_mib[place], ledger.free_disk_gib[place]))
        self.assertEqual(
            sum(pool.total for pool in devices.free(
                host.pci_pools, expected.device_uses)),
            ledger.free_devices[place])
        for name, used in expected.resources_used.items():
            self.assertEqual(used, ledger.used[name][place], name)
        for cell, view in zip(expected.engine.cells, ledger.cells[place]):
            self.assertEqual(
                (cell.pinned_cpus, cell.memory_used_mib, cell.shared_used,
                 cell.pages),
                (view.pinned_cpus, view.memory_used_mib, view.shared_used,
                 view.pages))
            # The same threads are free, if in another order.
            self.assertEqual(
                [sorted(core) for core in cell.free_cores],
                [sorted(core) for core in view.free_cores])
