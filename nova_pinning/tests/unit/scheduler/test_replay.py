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

import contextlib
import dataclasses
import itertools
import logging

import ddt
import fixtures
from nova.virt import hardware
from oslo_config import cfg
import testtools

from nova_pinning import errors
from nova_pinning.fleet.simulate import configuration
from nova_pinning.fleet.simulate import ledger as ledgers
from nova_pinning.fleet.simulate import run
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import replay
from nova_pinning.tests.unit.fleet.simulate import scenes

#: With guests of all kinds among them, those included that nova's own fit
#: gets wrong.
SEEDS = (6, 8, 19, 26, 29, 32, 57)

OTHERS = (
    configuration.Configuration(
        name='all', packs_cells=True,
        multipliers={
            'CPUWeigher': -0.7, 'RAMWeigher': 0.3, 'DiskWeigher': -1.1,
            'PCIWeigher': 3.0, 'NumInstancesWeigher': -0.9,
            'FragmentationWeigher': 1.3, 'CacheLocalityWeigher': 2.9},
        pinning={
            'exclusive_l3': True, 'fragmentation_mix': [
                {'vcpus': '4', 'memory_mib': '4096', 'weight': '3'},
                {'vcpus': '3', 'memory_mib': '1024',
                 'thread_policy': 'require'}]}),
    configuration.Configuration(
        name='careless', multipliers={'FragmentationWeigher': 5.0},
        pinning={'fragmentation_recent_requests': 5,
                 'unknown_host_class': 'refuse',
                 'nova_claim_max_permutations': 3}),
)
CONFIGURATIONS = (*configuration.NAMED.values(), *OTHERS)


@ddt.ddt
class TestBothDecideAlike(testtools.TestCase):
    """Nova's own classes and the engine alone, over whole traces."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger(level=logging.WARNING))

    def _both(self, fleet, load, one, seed, **plan):
        fast, real = [], []
        found = [
            run.run(fleet, load.arrivals(1), one, seed=seed,
                    plan=run.Plan(**plan), decided=decisions.extend,
                    factory=factory)
            for decisions, factory in ((fast, None), (real, replay.Replay))]
        self.assertEqual(fast, real)
        self.assertEqual(*found)
        return found[0]

    # Every fifth pair, which comes to each seed and each configuration.
    @ddt.data(*[
        (one.name, seed) for number, (seed, one) in enumerate(
            itertools.product(SEEDS, CONFIGURATIONS)) if number % 5 == 0])
    @ddt.unpack
    def test_trace(self, name, seed):
        one = next(one for one in CONFIGURATIONS if one.name == name)
        found = self._both(scenes.fleet(seed), scenes.load(seed), one, seed)
        self.assertGreater(found.refused, 0)
        self.assertGreater(found.arrivals, found.refused)

    def test_broken_off(self):
        one, decisions = configuration.NAMED['pinning'], []

        def go(**values):
            return run.run(
                scenes.fleet(3), scenes.load(3).arrivals(1), one, seed=3,
                factory=replay.Replay, **values)

        whole = go(decided=decisions.extend)
        self.assertEqual(whole, go(known=decisions[:31]))

    def test_own_guests(self):
        """Those that are on the hosts at first count, and leave."""
        seed, one = 0, configuration.NAMED['nova-packing']
        fleet = _filled(scenes.fleet(seed), scenes.load(seed))
        self.assertGreater(len(fleet.guests), 10)
        found = self._both(fleet, scenes.load(seed), one, seed, stay_hours=1.0)
        self.assertGreater(found.departures, 10)

    def test_kinds_are_told_apart(self):
        """Though one takes the place in memory of another that is gone."""
        def made():
            for number in range(200):
                yield scenes.arrivals.Arrival(
                    float(number), str(number),
                    scenes.guests.plain(1 + number % 7, 64), 0.5)

        fleet = scenes.fleet_model.Fleet(
            hosts=(scenes.host('host', cells=1, cores=4, threads=1),))
        found = [run.run(fleet, made(), configuration.NAMED['nova-default'],
                         factory=factory) for factory in (None, replay.Replay)]
        self.assertEqual(*found)
        # Of 7 sizes, those of 5, 6 and 7 vCPUs do not fit.
        self.assertEqual(200 // 7 * 3, found[1].refused)

    def test_mix_is_of_requests_that_filters_see(self):
        """Nova gives up before the filters if Placement finds no host."""
        fleet = scenes.fleet_model.Fleet(hosts=(scenes.host('host'),))
        ledger = ledgers.of_fleet(fleet, [0])
        with contextlib.closing(replay.Replay(
                ledger, configuration.NAMED['pinning'], fleet)) as replayed:
            for name, vcpus in (('a', 64), ('b', 2), ('c', 64)):
                replayed.place(name, scenes.guests.plain(vcpus, 1024))
            self.assertEqual(
                [2], [size.vcpus for size, _share in mix.recent().mix()])

    def test_claim_that_nova_fails(self):
        """It says which guest and host, and what may help."""
        fleet = scenes.fleet_model.Fleet(hosts=(scenes.host('host-7'),))
        self.useFixture(fixtures.MockPatchObject(
            hardware, 'numa_fit_instance_to_host', return_value=None))
        error = self.assertRaises(
            errors.InputError, run.run, fleet,
            [scenes.arrivals.Arrival(0.0, 'a', scenes.KINDS['lopsided'])],
            configuration.NAMED['nova-default'], factory=replay.Replay)
        for words in ('nova-compute', 'lopsided', 'host-7',
                      'check_nova_claim'):
            self.assertIn(words, str(error))

    def test_options_are_given_back(self):
        def packing():
            return cfg.CONF.compute.packing_host_numa_cells_allocation_strategy

        before = packing()
        fleet = scenes.fleet(0)
        ledger = ledgers.of_fleet(fleet, range(len(fleet.hosts)))
        replayed = replay.Replay(
            ledger, dataclasses.replace(
                configuration.NAMED['nova-packing'],
                packs_cells=not before), fleet)
        self.assertEqual(not before, packing())
        replayed.close()
        self.assertEqual(before, packing())


def _filled(fleet, load):
    """A fleet with the guests that a run leaves on it."""
    kept = {}

    class Keeper(replay.Replay):
        def __init__(self, ledger, *others):
            super().__init__(ledger, *others)
            kept['ledger'] = ledger

    run.run(fleet, load.arrivals(5), configuration.NAMED['pinning'],
            factory=Keeper)
    ledger = kept['ledger']
    return dataclasses.replace(fleet, guests=tuple(
        scenes.fleet_model.FleetGuest(
            uuid=uuid, host=ledger.hosts[one.host].name, vcpus=one.vcpus,
            memory_mib=one.memory_mib, disk_gib=one.disk_gib,
            guest_class=one.guest_class, topology=one.topology, fit=one.fit,
            devices=one.devices)
        for uuid, one in ledger.lodgers.items()))
