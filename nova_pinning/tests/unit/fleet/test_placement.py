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

import ddt

from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet.explain import cases

_CELL = builders.host_cell(0, range(8), memory_mib=1000)


def _texts(host, scope=placement.Scope(), guests=(), **query):
    """What keeps a host from being offered, as text."""
    return [str(one) for one in placement.exclusions(
        standing.of_host(host, guests),
        fleet_wanted.Query(**{'resources': {}} | query), scope)]


class TestInventories(base.TestCase):

    def test_dedicated(self):
        host = cases.host(
            _CELL, reserved_memory_mib=100, ram_allocation_ratio=1.5,
            disk_gib=50, disk_allocation_ratio=2.0)
        self.assertEqual({
            'PCPU': placement.Inventory(8),
            'MEMORY_MB': placement.Inventory(1000, 100, 1.5),
            'DISK_GB': placement.Inventory(50, 0, 2.0),
        }, placement.inventories(host))

    def test_both(self):
        host = cases.host(
            builders.host_cell(0, range(8), shared_cpus=(8, 9)),
            cpu_allocation_ratio=4.0)
        found = placement.inventories(host)
        self.assertEqual(placement.Inventory(2, 0, 4.0), found['VCPU'])
        self.assertEqual(placement.Inventory(8), found['PCPU'])

    def test_the_same_cpus_for_all(self):
        host = cases.host(
            builders.host_cell(0, range(8), shared_cpus=range(8)))
        found = placement.inventories(host)
        self.assertEqual(8, found['VCPU'].total)
        self.assertNotIn('PCPU', found)
        self.assertNotIn('DISK_GB', found)


@ddt.ddt
class TestResources(base.TestCase):

    def test_enough(self):
        self.assertEqual([], _texts(
            cases.host(_CELL), resources={'PCPU': 8, 'MEMORY_MB': 1000}))

    def test_too_little(self):
        host = cases.host(_CELL, reserved_memory_mib=100)
        self.assertEqual(
            ['900 MEMORY_MB left of 1,000, 901 needed'],
            _texts(host, resources={'PCPU': 8, 'MEMORY_MB': 901}))

    def test_guests_count(self):
        where = cases.fill(standing.of_host(cases.host(_CELL)),
                           cases.pinned((3, 100)))
        self.assertEqual(
            ['5 PCPU left of 8, 6 needed'],
            _texts(where.host, guests=where.guests, resources={'PCPU': 6}))

    def test_ratio_is_not_for_one(self):
        # 8 * 4 in all, but none gets more than there is (max_unit).
        host = cases.host(builders.host_cell(0, (), shared_cpus=range(8)),
                          cpu_allocation_ratio=4.0)
        self.assertEqual([], _texts(host, resources={'VCPU': 8}))
        self.assertEqual(['8 VCPU left of 8, 9 needed'],
                         _texts(host, resources={'VCPU': 9}))

    def test_none_there(self):
        self.assertEqual(['0 VCPU left of 0, 1 needed'],
                         _texts(cases.host(_CELL), resources={'VCPU': 1}))

    @ddt.data('DISK_GB', 'VGPU', 'CUSTOM_PMEM')
    def test_not_told(self, name):
        self.assertEqual(
            [], _texts(cases.host(_CELL), resources={name: 10 ** 6}))

    @ddt.data('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB')
    def test_no_cells(self, name):
        self.assertEqual([], _texts(cases.host(), resources={name: 1}))
        self.assertEqual({}, placement.inventories(cases.host()))

    def test_disk(self):
        self.assertEqual(
            ['50 DISK_GB left of 50, 51 needed'],
            _texts(cases.host(_CELL, disk_gib=50), resources={'DISK_GB': 51}))


class TestTraits(base.TestCase):

    def test_known(self):
        host = cases.host(_CELL, traits=frozenset({'HAS', 'BAD'}))
        self.assertEqual(
            ['has no trait WANTED, which is required',
             'has trait BAD, which is forbidden'],
            _texts(host, required=frozenset({'HAS', 'WANTED'}),
                   forbidden=frozenset({'BAD', 'NOT'})))

    def test_not_known(self):
        host = cases.host(_CELL)
        query = fleet_wanted.Query(
            resources={}, required=frozenset({'A'}),
            forbidden=frozenset({'B'}))
        self.assertEqual([], _texts(host, required=query.required,
                                    forbidden=query.forbidden))
        self.assertEqual({'A', 'B'}, placement.unknown_traits(host, query))
        known = cases.host(_CELL, traits=frozenset())
        self.assertEqual(frozenset(), placement.unknown_traits(known, query))

    def test_threads_show(self):
        name = 'HW_CPU_HYPERTHREADING'
        with_threads = cases.host(builders.host_cell(0, range(8), threads=2))
        query = {'required': frozenset({name})}
        self.assertEqual([], _texts(with_threads, **query))
        self.assertEqual([f'has no trait {name}, which is required'],
                         _texts(cases.host(_CELL), **query))
        self.assertEqual(
            [f'has trait {name}, which is forbidden'],
            _texts(with_threads, forbidden=frozenset({name})))


@ddt.ddt
class TestAggregates(base.TestCase):

    AGGREGATES = {one.name: one for one in (
        fleet_model.Aggregate('zone', 'az1'),
        fleet_model.Aggregate('fast', None, {'trait:FAST': 'required'}),
        fleet_model.Aggregate('acme', None, {'filter_tenant_id': 'acme, x'}),
        fleet_model.Aggregate('zeta', None, {'filter_tenant_id2': 'zeta'}))}

    def _texts(self, *names, required=(), **scope):
        return _texts(
            cases.host(_CELL, traits=None, aggregates=names),
            placement.Scope(self.AGGREGATES, **scope),
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
