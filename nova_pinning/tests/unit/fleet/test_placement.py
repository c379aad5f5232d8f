# SPDX-License-Identifier: Apache-2.0

import ddt

from nova_pinning.admission import guest_request
from nova_pinning.fleet import host_occupancy
from nova_pinning.fleet import placement
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit import unit_base

_CELL = builders.host_cell(0, range(8), memory_mib=1000)


def _texts(host, scope=placement.PlacementScope(), guests=(), **query):
    """What keeps a host from being offered, as text."""
    return [str(exclusion) for exclusion in placement.exclusions(
        host_occupancy.of_host(host, guests),
        guest_request.query(**{'resources': {}} | query), scope)]


class TestInventories(unit_base.TestCase):

    def test_dedicated(self):
        host = explain_cases.host(
            _CELL, reserved_memory_mib=100, ram_allocation_ratio=1.5,
            disk_gib=50, disk_allocation_ratio=2.0)
        self.assertEqual({
            'PCPU': inventory.Inventory(8),
            'MEMORY_MB': inventory.Inventory(1000, 100, 1.5),
            'DISK_GB': inventory.Inventory(50, 0, 2.0),
        }, host.root_inventories)

    def test_both(self):
        host = explain_cases.host(
            builders.host_cell(0, range(8), shared_cpus=(8, 9)),
            cpu_allocation_ratio=4.0)
        found = host.root_inventories
        self.assertEqual(inventory.Inventory(2, 0, 4.0), found['VCPU'])
        self.assertEqual(inventory.Inventory(8), found['PCPU'])

    def test_the_same_cpus_for_all(self):
        host = explain_cases.host(
            builders.host_cell(0, range(8), shared_cpus=range(8)))
        found = host.root_inventories
        self.assertEqual(8, found['VCPU'].total)
        self.assertNotIn('PCPU', found)
        self.assertNotIn('DISK_GB', found)


@ddt.ddt
class TestResources(unit_base.TestCase):

    def test_enough(self):
        self.assertEqual([], _texts(
            explain_cases.host(_CELL),
            resources={'PCPU': 8, 'MEMORY_MB': 1000}))

    def test_too_little(self):
        host = explain_cases.host(_CELL, reserved_memory_mib=100)
        self.assertEqual(
            ['900 MEMORY_MB left of 1,000, 901 needed'],
            _texts(host, resources={'PCPU': 8, 'MEMORY_MB': 901}))

    def test_guests_count(self):
        where = explain_cases.fill(
            host_occupancy.of_host(explain_cases.host(_CELL)),
            explain_cases.pinned((3, 100)))
        self.assertEqual(
            ['5 PCPU left of 8, 6 needed'],
            _texts(where.host, guests=where.guests, resources={'PCPU': 6}))

    def test_ratio_is_not_for_one(self):
        # 8 * 4 in all, but none gets more than there is (max_unit).
        host = explain_cases.host(builders.host_cell(0, (),
                                                     shared_cpus=range(8)),
                                  cpu_allocation_ratio=4.0)
        self.assertEqual([], _texts(host, resources={'VCPU': 8}))
        self.assertEqual(['8 VCPU left of 8, 9 needed'],
                         _texts(host, resources={'VCPU': 9}))

    def test_none_there(self):
        self.assertEqual(['0 VCPU left of 0, 1 needed'],
                         _texts(explain_cases.host(_CELL),
                                resources={'VCPU': 1}))

    @ddt.data('DISK_GB', 'VGPU', 'CUSTOM_PMEM')
    def test_not_told(self, name):
        self.assertEqual(
            [], _texts(explain_cases.host(_CELL), resources={name: 10 ** 6}))

    @ddt.data('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB')
    def test_no_cells(self, name):
        self.assertEqual([], _texts(explain_cases.host(), resources={name: 1}))
        self.assertEqual({}, explain_cases.host().root_inventories)

    def test_disk(self):
        self.assertEqual(['50 DISK_GB left of 50, 51 needed'],
                         _texts(explain_cases.host(_CELL, disk_gib=50),
                                resources={'DISK_GB': 51}))


class TestTraits(unit_base.TestCase):

    def test_known(self):
        host = explain_cases.host(_CELL, traits=frozenset({'HAS', 'BAD'}))
        self.assertEqual(
            ['has no trait WANTED, which is required',
             'has trait BAD, which is forbidden'],
            _texts(host, required=frozenset({'HAS', 'WANTED'}),
                   forbidden=frozenset({'BAD', 'NOT'})))

    def test_not_known(self):
        host = explain_cases.host(_CELL)
        query = guest_request.query(
            resources={}, required=frozenset({'A'}),
            forbidden=frozenset({'B'}))
        self.assertEqual([], _texts(host, required=query.required,
                                    forbidden=query.forbidden))
        self.assertEqual({'A', 'B'}, placement.unknown_traits(host, query))
        known = explain_cases.host(_CELL, traits=frozenset())
        self.assertEqual(frozenset(), placement.unknown_traits(known, query))

    def test_threads_show(self):
        name = 'HW_CPU_HYPERTHREADING'
        with_threads = explain_cases.host(
            builders.host_cell(0, range(8), threads=2))
        query = {'required': frozenset({name})}
        self.assertEqual([], _texts(with_threads, **query))
        self.assertEqual([f'has no trait {name}, which is required'],
                         _texts(explain_cases.host(_CELL), **query))
        self.assertEqual(
            [f'has trait {name}, which is forbidden'],
            _texts(with_threads, forbidden=frozenset({name})))


@ddt.ddt
class TestAggregates(unit_base.TestCase):

    AGGREGATES = {one.name: one for one in (
        snapshot.FleetAggregate('zone', 'az1'),
        snapshot.FleetAggregate('fast', None, {'trait:FAST': 'required'}),
        snapshot.FleetAggregate('acme', None, {'filter_tenant_id': 'acme, x'}),
        snapshot.FleetAggregate('zeta', None, {'filter_tenant_id2': 'zeta'}))}

    def _texts(self, *names, required=(), **scope):
        return _texts(
            explain_cases.host(_CELL, traits=None, aggregates=names),
            placement.PlacementScope(self.AGGREGATES, **scope),
            required=frozenset(required))

    def test_no_say(self):
        self.assertEqual([], self._texts('zone', 'fast', 'acme'))

    @ddt.data((('zone',), 'az1', True), (('zone',), 'nova', False),
              ((), 'nova', True), ((), 'az1', False),
              (('fast', 'gone'), 'nova', True))
    @ddt.unpack
    def test_zone(self, names, zone, fine):
        self.assertEqual(
            [] if fine else [f'is not in availability zone {zone}'],
            self._texts(*names, availability_zone=zone))

    @ddt.data(((), False), (('FAST',), True), (('FAST', 'OTHER'), True))
    @ddt.unpack
    def test_isolated(self, required, fine):
        self.assertEqual(fine, not self._texts(
            'fast', 'zone', required=required, isolates=True))

    @ddt.data(('acme', ('acme',), True), ('x', ('acme',), True),
              ('zeta', ('acme',), False), ('zeta', ('acme', 'zeta'), True),
              ('anyone', ('zone',), True), ('anyone', (), True))
    @ddt.unpack
    def test_project(self, project, names, fine):
        self.assertEqual(fine, not self._texts(*names, project=project))
