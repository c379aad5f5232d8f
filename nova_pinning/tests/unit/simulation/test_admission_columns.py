# SPDX-License-Identifier: Apache-2.0

import dataclasses
import logging
import random

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import fast
from nova_pinning.simulation import guests
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run
from nova_pinning.tests.oracle import nova_replay
from nova_pinning.tests.unit.simulation import simulation_scenes
from nova_pinning.tests.unit import unit_base

DEFAULT = scheduler_configuration.NAMED['nova-default']
_FILTERS = (
    'ComputeFilter', 'AggregateInstanceExtraSpecsFilter',
    'AggregateImagePropertiesIsolation', 'AggregateTypeAffinityFilter',
    'NumInstancesFilter', 'AggregateNumInstancesFilter', 'HostClassFilter',
    'PciPassthroughFilter', 'PinnedTopologyFilter')
_CARD = devices.device_keys('15b3', '1018')


def _group(suffix, amounts, required=(), forbidden=()):
    return guest_request.RequestGroup(
        suffix, tuple(sorted(amounts.items())), frozenset(required),
        frozenset(forbidden))


def _asking(request, name, *groups, changes=None, **query):
    """A request that asks for more, by these changes and groups."""
    return dataclasses.replace(request, name=name, queries=tuple(
        guest_request.CandidatesQuery(
            groups=(_group('', {**one.resources, **(changes or {})}),
                    *groups), **query)
        for one in request.queries))


SMALL = guests.plain(2, 1024)
KINDS = (
    SMALL, guests.plain(4, 2048, simulation_scenes.SHARED),
    _asking(SMALL, 'vgpu', changes={'VGPU': 1}),
    _asking(SMALL, 'gold', changes={'CUSTOM_GOLD': 2}),
    _asking(SMALL, 'shared-disk', changes={'DISK_GB': 20}),
    _asking(SMALL, 'no-vcpu', changes={'PCPU': 0, 'VCPU': 1}),
    _asking(SMALL, 'fast', _group('1', {'VGPU': 1}, ('CUSTOM_FAST',))),
    _asking(SMALL, 'two', _group('1', {'VGPU': 1}),
            _group('2', {'VGPU': 1}), group_policy='isolate'),
    _asking(SMALL, 'trait', root_required=frozenset(('CUSTOM_FAST',))),
    _asking(SMALL, 'no-trait', root_forbidden=frozenset(('CUSTOM_FAST',))),
    dataclasses.replace(
        _asking(guests.plain(4, 1024), 'card', _group(
            'card', {'CUSTOM_CARD': 1})),
        devices=(devices.PciRequest(
            'card', (_CARD,), 1, 'required', ('card',)),)),
    dataclasses.replace(SMALL, name='windows',
                        image=(('os_distro', 'windows'),)),
    dataclasses.replace(
        SMALL, name='pinned', extra_specs=(
            *SMALL.extra_specs,
            ('aggregate_instance_extra_specs:pinned', 'true'))),
    simulation_scenes.KINDS['nvme-required'],
    simulation_scenes.KINDS['two-big'],
)


def fleet(seed, is_known=True):
    """Hosts with more than CPUs, which not every guest may use.

    :param is_known: whether all is known of them, and of the filters
    """
    draws = random.Random(f'more-{seed}')
    plain = simulation_scenes.fleet(seed)
    made = []
    for host in plain.hosts:
        children = [
            offered_host.OfferedProvider(
                0, (('VGPU', inventory.Inventory(
                    draws.randint(1, 3), draws.choice((0, 1)),
                    max_unit=draws.choice((None, 1)))),),
                frozenset(draws.sample(('CUSTOM_FAST', 'CUSTOM_X'), 1)))
            for _ in range(draws.choice((0, 1, 2)))]
        pools = list(host.pci_pools)
        for cell in host.cells if draws.random() < 0.5 else ():
            count = draws.randint(1, 2)
            children.append(offered_host.OfferedProvider(0, ((
                'CUSTOM_CARD', inventory.Inventory(count)),)))
            pools.append(devices.PciPool(
                _CARD, cell.id, count, len(children)))
        if draws.random() < 0.5:
            children.append(offered_host.OfferedProvider(
                None, (('DISK_GB', inventory.Inventory(70)),),
                is_shared=True, uuid='the-shared-one'))
        inventories = None
        if draws.random() < 0.8 or is_known:
            inventories = {**host.root_inventories}
            if draws.random() < 0.5:
                inventories['CUSTOM_GOLD'] = inventory.Inventory(
                    draws.randint(2, 9), step_size=draws.choice((1, 2)))
        made.append(dataclasses.replace(
            host, children=tuple(children), pci_pools=tuple(pools),
            inventories=inventories, is_enabled=draws.random() < 0.9,
            host_class=draws.choice((host.host_class, None)),
            cells=tuple(
                dataclasses.replace(cell, shared_cpus=cell.dedicated_cpus)
                for cell in host.cells) if (
                    draws.random() < 0.2) else host.cells,
            traits=None if not is_known and draws.random() < 0.3 else (
                frozenset(draws.sample(
                    ('CUSTOM_FAST', 'CUSTOM_X'), draws.choice((0, 1))))),
            aggregates=tuple(sorted({*host.aggregates, *draws.sample(
                ('few', 'pinned', 'small', 'windows'),
                draws.choice((0, 0, 1)))})),
            held={'MEMORY_MB': draws.choice((-512, 0, 512))}))
    return dataclasses.replace(
        plain, hosts=tuple(made),
        enabled_filters=_FILTERS if is_known else draws.choice(
            ((), _FILTERS, (*_FILTERS, 'MyOwnFilter'))),
        aggregates=(
            *plain.aggregates,
            offered_host.Aggregate('few', metadata={
                'max_instances_per_host': '3'}),
            offered_host.Aggregate('pinned', metadata={'pinned': 'true'}),
            offered_host.Aggregate('small', metadata={
                'instance_type': SMALL.name}),
            offered_host.Aggregate('windows', metadata={
                'os_distro': 'windows'})))


def load(seed, count=80):
    """Guests of all those kinds."""
    return arrival_process.PoissonArrivals(
        mix=tuple((request, 1.0) for request in KINDS), count=count,
        rate_per_hour=count / 4, lifetime_hours=2.5).arrivals(seed)


class TestColumns(testtools.TestCase):

    @hypothesis.given(strategies.integers(0, 10 ** 6), strategies.booleans(),
                      strategies.sampled_from(('by-guests', 'refuse',
                                               'allow', 'shared')))
    @unit_base.settings(24)
    def test_as_the_judge(self, seed, is_known, unknown):
        """At any time the hosts for a guest are those that admit it."""
        one = dataclasses.replace(
            DEFAULT, pinning={'unknown_host_class': unknown})
        cloud = fleet(seed, is_known)
        one = dataclasses.replace(
            one, enabled_filters=cloud.enabled_filters or None)
        engine = simulation_scenes.fast_scheduler(cloud, one)
        draws = random.Random(seed)
        for number, arrival in enumerate(load(seed, 40)):
            engine.place(arrival.id, arrival.request)
            there = sorted(engine.ledger.placed_guests)
            if there and draws.random() < 0.4:
                engine.remove(draws.choice(there))
            request = KINDS[number % len(KINDS)]
            columns = engine.columns.of(request)
            may = columns.offered() & columns.passing()
            kind = engine.ask('', columns)
            for index, occupancy in enumerate(engine.ledger.occupancies):
                answer = engine.columns.judge.answer(request, occupancy)
                self.assertEqual(
                    isinstance(answer, outcome.Admitted),
                    bool(may[index]) and not isinstance(
                        engine._decide(kind, index), model.Refusal),
                    (request.name, occupancy.host.name, answer))

    def test_use(self):
        """A guest takes what it asks for, wherever that is."""
        pool = inventory.Inventory(2)
        shared = offered_host.OfferedProvider(
            None, (('DISK_GB', inventory.Inventory(50)),), is_shared=True,
            uuid='the-shared-one')
        hosts = tuple(
            dataclasses.replace(
                simulation_scenes.host(name), aggregates=(),
                inventories={
                    'PCPU': inventory.Inventory(24),
                    'MEMORY_MB': inventory.Inventory(40960),
                    'CUSTOM_GOLD': inventory.Inventory(5)},
                children=(offered_host.OfferedProvider(
                    0, (('VGPU', pool),)), shared))
            for name in ('one', 'two'))
        for kind, each in (('vgpu', 2), ('gold', 2), ('shared-disk', 1)):
            request = next(one for one in KINDS if one.name == kind)
            engine = simulation_scenes.fast_scheduler(
                snapshot.Fleet(hosts=hosts), DEFAULT)
            found = [engine.place(str(number), request).host
                     for number in range(6)]
            self.assertEqual(2 * each, 6 - found.count(None), kind)
            engine.remove(str(found.index(0)))
            self.assertIsNotNone(engine.place('again', request).host, kind)
            self.assertIsNone(engine.place('more', request).host, kind)

    def test_what_is_shared_is_counted_once(self):
        """Guests of a snapshot hold it for the hosts that they are not on."""
        request = next(one for one in KINDS if one.name == 'shared-disk')
        plain = simulation_scenes.host('one')
        hosts = tuple(
            dataclasses.replace(
                plain, name=name, is_enabled=name == 'two', aggregates=(),
                inventories={
                    'PCPU': inventory.Inventory(24),
                    'MEMORY_MB': inventory.Inventory(40960)},
                children=(offered_host.OfferedProvider(
                    None, (('DISK_GB', inventory.Inventory(70)),),
                    is_shared=True, held=held, uuid='the-shared-one'),))
            for name, held in (('one', ()), ('two', (('DISK_GB', 20),))))
        guest = resident_guest.ResidentGuest(
            uuid='there', host='one', vcpus=1, memory_mib=512,
            guest_class=simulation_scenes.DEDICATED,
            allocations=((1, (('DISK_GB', 20),)),))
        fleet = snapshot.Fleet(hosts=hosts, guests=(guest,))
        for is_empty, room in ((False, 2), (True, 3)):
            engine = fast.FastScheduler(admission_columns.of_fleet(
                fleet, DEFAULT, range(2), is_empty), DEFAULT)
            found = [engine.place(str(number), request).host
                     for number in range(4)]
            self.assertEqual(room, 4 - found.count(None), is_empty)

    def test_other_amounts(self):
        """Of a flavor that asks for other amounts than nova would."""
        request = next(one for one in KINDS if one.name == 'no-vcpu')
        host = simulation_scenes.host('host', is_shared=True)
        engine = simulation_scenes.fast_scheduler(
            snapshot.Fleet(hosts=(dataclasses.replace(
                host, inventories={**host.root_inventories,
                                   'PCPU': inventory.Inventory(9)}),)),
            DEFAULT)
        engine.place('a', dataclasses.replace(
            request, guest_class=simulation_scenes.SHARED, topology=None))
        used = engine.ledger.occupancies[0].resources_used
        self.assertEqual((1, 0), (used['VCPU'], used['PCPU']))


@ddt.ddt
class TestBothDecideAlike(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger(level=logging.WARNING))

    @ddt.data(*range(6))
    def test_all_that_is_asked(self, seed):
        """Nova's own classes are given what the engine is."""
        cloud = fleet(seed, seed % 3 > 0)
        one = dataclasses.replace(
            DEFAULT, enabled_filters=cloud.enabled_filters or None)
        found, other = [
            simulation_run.run(cloud, load(seed), one, seed=seed,
                               factory=factory)
            for factory in (None, nova_replay.NovaReplay)]
        self.assertEqual(found, other)
        self.assertGreater(found.arrivals, found.refused)
        self.assertGreater(found.refused, 0)


class TestDoubts(testtools.TestCase):

    def _run(self, request, *hosts, assumes=(), **changes):
        return simulation_run.run(
            snapshot.Fleet(hosts=hosts, **changes), [
                arrival_process.Arrival(0.0, 'a', request)],
            dataclasses.replace(DEFAULT, enabled_filters=changes.get(
                'enabled_filters')), plan=simulation_run.RunPlan(
                    assumes=frozenset(assumes)))

    def test_a_filter_that_nobody_knows(self):
        host = simulation_scenes.host('host')
        filters = ('MyOwnFilter', 'PinnedTopologyFilter')
        found = self._run(SMALL, host, enabled_filters=filters)
        (kind, number, text), = found.doubts
        self.assertEqual((outcome.DoubtKind.FILTER, 1, 1),
                         (kind, number, found.refused))
        self.assertIn('MyOwnFilter', text)
        found = self._run(SMALL, host, enabled_filters=filters,
                          assumes=[outcome.DoubtKind.FILTER])
        self.assertEqual((0, ()), (found.refused, found.doubts))

    def test_what_placement_has(self):
        """A guest that may have no host is in no figure, but is named."""
        request = next(one for one in KINDS if one.name == 'vgpu')
        host = simulation_scenes.host('host')
        found = self._run(request, host)
        self.assertEqual(
            (0, 1), (found.arrivals, found.impossible[0].arrivals))
        (kind, number, text), = found.doubts
        self.assertEqual((outcome.DoubtKind.PROVIDERS, 1), (kind, number))
        self.assertIn('VGPU', text)

    def test_of_no_concern(self):
        """What is not known of hosts that could not hold the guest."""
        small = simulation_scenes.host('small', cells=1, cores=1, threads=1)
        large = dataclasses.replace(
            simulation_scenes.host('large'), inventories={
                **simulation_scenes.host('large').root_inventories,
                'VGPU': inventory.Inventory(1)})
        request = next(one for one in KINDS if one.name == 'vgpu')
        found = self._run(request, small, large)
        self.assertEqual((0, ()), (found.refused, found.doubts))
