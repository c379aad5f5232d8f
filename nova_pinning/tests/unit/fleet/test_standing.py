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
import functools

import hypothesis

from nova_pinning.bridge import foresight
from nova_pinning.bridge import nova_objects
from nova_pinning import cpuset
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import occupancy
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.scheduler import filters
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet.explain import cases


def _cell(number=0, count=8, **values):
    first = number * 100
    return builders.host_cell(number, range(first, first + count), **values)


class TestStanding(base.TestCase):

    def test_counts(self):
        found = cases.fill(
            standing.of_host(cases.host(_cell(), _cell(1))),
            cases.pinned((2, 100), (2, 100), emulator_isolated=True),
            disk_gib=5)
        self.assertEqual({'VCPU': 0, 'PCPU': 5, 'MEMORY_MB': 4, 'DISK_GB': 5},
                         found.resources_used)

    def test_counts_without_dedicated_cpus(self):
        cell = _cell(shared_cpus=range(8))
        found = cases.fill(standing.of_host(cases.host(cell)),
                           cases.pinned((2, 100)))
        self.assertEqual((2, 0), (found.resources_used['VCPU'],
                                  found.resources_used['PCPU']))

    def test_add_and_remove(self):
        empty = standing.of_host(cases.host(_cell()))
        guest = cases.lodger(empty, cases.pinned((2, 100)))
        found = empty.adding(guest)
        self.assertEqual(cpuset.CpuSet((0, 1)),
                         found.engine.cells[0].pinned_cpus)
        self.assertEqual(empty, found.without(guest))

    def test_two_on_one_cpu(self):
        empty = standing.of_host(cases.host(_cell()))
        guests = [cases.lodger(empty, cases.pinned((2, 100)), uuid)
                  for uuid in ('a', 'b')]
        found = standing.of_host(empty.host, guests)
        self.assertTrue(found.overlaps)
        left = found.without(guests[0])
        self.assertEqual(cpuset.CpuSet((0, 1)),
                         left.engine.cells[0].pinned_cpus)
        self.assertFalse(standing.of_host(empty.host, guests[:1]).overlaps)

    def test_floating(self):
        where = standing.of_host(cases.host(_cell()))
        one = cases.wanted()
        found = standing.fit_on(where, one)
        self.assertEqual(standing.FLOATING, found)
        self.assertIsNone(where.with_guest(one, found, 'a').guests[0].fit)

    @hypothesis.given(cases.FLEETS)
    @hypothesis.settings(max_examples=25, deadline=None)
    def test_of_fleet(self, fleet):
        found = standing.of_fleet(fleet)
        engines = occupancy.engine_hosts(fleet)
        for host in fleet.hosts:
            one = found[host.name]
            self.assertEqual(engines[host.name], one.engine)
            self.assertFalse(one.overlaps)
            grown = standing.of_host(host)
            for guest in one.guests:
                grown = grown.adding(guest)
            self.assertEqual(one, grown)
            for guest in one.guests:
                grown = grown.without(guest)
            self.assertEqual(standing.of_host(host), grown)
            for name, inventory in one.inventories.items():
                self.assertLessEqual(one.resources_used[name],
                                     inventory.capacity)
            self.assertEqual(
                sum(len(cell.pinned_cpus) for cell in one.engine.cells),
                one.resources_used['PCPU'])


class TestVerdict(base.TestCase):

    def test_order(self):
        query = fleet_wanted.Query(resources={'PCPU': 9})
        one = cases.wanted(cases.pinned((9, 100)), (query,),
                           guest_class=cases.SHARED)
        host = cases.host(_cell(), is_enabled=False, disabled_reason='dust')
        reasons = []
        for change in ({}, {'is_enabled': True}):
            host = dataclasses.replace(host, **change)
            found = standing.verdict(standing.of_host(host), one)
            reasons.append((found.reason, found.detail))
        where = standing.of_host(host)
        for change in ({'queries': ()}, {'guest_class': cases.DEDICATED}):
            one = dataclasses.replace(one, **change)
            found = standing.verdict(where, one)
            reasons.append((found.reason, found.detail))
        self.assertEqual([
            (model.Reason.DISABLED, 'dust'),
            (model.Reason.ALLOCATION, '8 PCPU left of 8, 9 needed'),
            (model.Reason.HOST_CLASS, 'a dedicated host, a shared guest'),
            (model.Reason.CELL_TOO_SMALL, '')], reasons)
        one = dataclasses.replace(one, topology=cases.pinned((8, 100)))
        self.assertIsInstance(standing.verdict(where, one), model.Fit)

    def test_any_query_will_do(self):
        one = cases.wanted(cases.pinned((2, 100)), (
            fleet_wanted.Query(resources={'PCPU': 2}),
            fleet_wanted.Query(resources={'VCPU': 2})))
        host = cases.host(_cell(shared_cpus=range(8)))
        self.assertIsInstance(
            standing.verdict(standing.of_host(host), one), model.Fit)

    def test_unknown_class(self):
        where = standing.of_host(cases.host(_cell(), host_class=None))
        self.assertIsNone(standing.class_refusal(
            where.host, cases.wanted(guest_class=cases.SHARED)))

    def _first_cell(self, *cells, packs_cells=False, **values):
        where = standing.of_host(cases.host(*cells, **values))
        found = standing.verdict(
            where, cases.wanted(cases.pinned((2, 100))), packs_cells)
        return found.cells[0].host_cell

    def test_packs_cells(self):
        cells = _cell(0, 4), _cell(1, 8)
        self.assertEqual(1, self._first_cell(*cells))
        self.assertEqual(0, self._first_cell(*cells, packs_cells=True))

    def test_cells_with_devices_come_last(self):
        cells = _cell(0, 4), _cell(1, 8)
        pool = fleet_model.PciPool(fleet_model.DeviceKind('1', '2'), 1, 1)
        self.assertEqual(0, self._first_cell(*cells, pci_pools=(pool,)))

    def test_claim_is_foreseen(self):
        # The first cell has no room, so that the choice is not the first.
        cells = (_cell(memory_mib=10), _cell(1, 4))
        where = standing.of_host(cases.host(*cells))
        one = cases.wanted(cases.pinned((2, 100)))
        refusal = model.Refusal(model.Reason.NOVA_WRONG)
        self.assertIs(refusal, standing.fit_on(
            where, one, foresee=lambda *args: refusal))
        self.assertEqual(1, standing.fit_on(
            where, one, foresee=lambda *args: None).cells[0].host_cell)

    @hypothesis.given(cases.FLEETS, cases.FLAVORS)
    @hypothesis.settings(max_examples=25, deadline=None)
    def test_as_the_filter(self, fleet, flavor):
        one = cases.read(flavor)
        hypothesis.assume(not one.devices)
        spec = builders.spec(
            nova_objects.instance_topology(one.topology), {
                key: value for key, value in flavor.extra_specs.items()
                if key.startswith('hw:cpu')})
        by_filter = filters.PinnedTopologyFilter()
        for where in standing.of_fleet(fleet).values():
            if where.host.pci_pools:
                # Where devices are, decides; see test_devices.
                continue
            state = builders.host_state(
                where.host.name, nova_objects.host_topology(where.engine),
                cpu_allocation_ratio=where.host.cpu_allocation_ratio,
                ram_allocation_ratio=where.host.ram_allocation_ratio)
            found = standing.fit_on(where, one, foresee=functools.partial(
                foresight.foresee, max_permutations=20000,
                packs_cells=False))
            self.assertEqual(isinstance(found, model.Fit),
                             by_filter.host_passes(state, spec))


class TestPlacementRefusal(base.TestCase):

    def test_figures_of_first_query(self):
        one = cases.wanted(queries=(
            fleet_wanted.Query(resources={'PCPU': 9}),
            fleet_wanted.Query(resources={'VCPU': 7})))
        found = standing.placement_refusal(
            standing.of_host(cases.host(_cell())), one, placement.Scope())
        self.assertEqual('8 PCPU left of 8, 9 needed', found.detail)

    def test_nothing_asked(self):
        self.assertIsNone(standing.placement_refusal(
            standing.of_host(cases.host(_cell())), cases.wanted()))
