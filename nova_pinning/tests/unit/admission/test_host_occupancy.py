# SPDX-License-Identifier: Apache-2.0

import dataclasses

import hypothesis

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge.offline import fleet_claim
from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fleet import occupied
from nova_pinning import model
from nova_pinning.scheduler import filters
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit import unit_base


def _cell(number=0, count=8, **values):
    first = number * 100
    return builders.host_cell(number, range(first, first + count), **values)


class TestStanding(unit_base.TestCase):

    def test_counts(self):
        found = explain_cases.fill(
            host_occupancy.of_host(explain_cases.host(_cell(), _cell(1))),
            explain_cases.pinned((2, 100), (2, 100), emulator_isolated=True),
            disk_gib=5)
        self.assertEqual({'VCPU': 0, 'PCPU': 5, 'MEMORY_MB': 4, 'DISK_GB': 5},
                         found.resources_used)

    def test_counts_without_dedicated_cpus(self):
        cell = _cell(shared_cpus=range(8))
        found = explain_cases.fill(
            host_occupancy.of_host(explain_cases.host(cell)),
            explain_cases.pinned((2, 100)))
        self.assertEqual((2, 0), (found.resources_used['VCPU'],
                                  found.resources_used['PCPU']))

    def test_add_and_remove(self):
        empty = host_occupancy.of_host(explain_cases.host(_cell()))
        guest = explain_cases.placed_guest(empty, explain_cases.pinned(
            (2, 100)))
        found = empty.adding(guest)
        self.assertEqual(cpuset.CpuSet((0, 1)),
                         found.engine.cells[0].pinned_cpus)
        self.assertEqual(empty, found.without(guest))

    def test_two_on_one_cpu(self):
        empty = host_occupancy.of_host(explain_cases.host(_cell()))
        guests = [
            explain_cases.placed_guest(empty, explain_cases.pinned((2, 100)),
                                       uuid) for uuid in ('a', 'b')]
        found = host_occupancy.of_host(empty.host, guests)
        self.assertTrue(found.overlaps)
        left = found.without(guests[0])
        self.assertEqual(cpuset.CpuSet((0, 1)),
                         left.engine.cells[0].pinned_cpus)
        self.assertFalse(
            host_occupancy.of_host(empty.host, guests[:1]).overlaps)

    def test_floating(self):
        where = host_occupancy.of_host(explain_cases.host(_cell()))
        one = explain_cases.wanted()
        found = placing.fit_on(where, one)
        self.assertEqual(judge.FLOATING, found)
        grown = placing.with_guest(where, one, found, 'a')
        self.assertIsNone(grown.guests[0].fit)

    @hypothesis.given(explain_cases.FLEETS)
    @unit_base.settings(25)
    def test_of_fleet(self, fleet):
        found = occupied.of_fleet(fleet)
        engines = fleet_samples.engine_hosts(fleet)
        for host in fleet.hosts:
            one = found[host.name]
            self.assertEqual(engines[host.name], one.engine)
            self.assertFalse(one.overlaps)
            grown = host_occupancy.of_host(host)
            for guest in one.guests:
                grown = grown.adding(guest)
            self.assertEqual(one, grown)
            for guest in one.guests:
                grown = grown.without(guest)
            self.assertEqual(host_occupancy.of_host(host), grown)
            for name, inventory in one.inventories.items():
                self.assertLessEqual(one.resources_used[name],
                                     inventory.capacity)
            self.assertEqual(
                sum(len(cell.pinned_cpus) for cell in one.engine.cells),
                one.resources_used['PCPU'])


class TestRelease(unit_base.TestCase):

    def test_claims_follow_it(self):
        """Nova before 2026.2 takes the emptier cell, devices or not."""
        kind = devices.device_keys('8086', '1520')
        one = explain_cases.wanted(explain_cases.pinned((2, 100)))
        for release, cell in ((None, 1), ('2026.2', 1), ('2026.1', 0),
                              ('2025.1', 0)):
            host = explain_cases.host(
                builders.host_cell(0, range(8)),
                builders.host_cell(1, range(8, 12)), nova_release=release,
                pci_pools=(devices.PciPool(kind, 0, 1),))
            where = host_occupancy.of_host(host)
            found = placing.fit_on(where, one)
            self.assertEqual([cell], [part.host_cell for part in found.cells],
                             release)
            # Guests that come and go leave that as it is.
            grown = placing.with_guest(where, one, found)
            self.assertEqual(where.engine.claim_order,
                             grown.engine.claim_order)
            self.assertEqual(where, grown.without(grown.guests[0]))


_BY_GUESTS = 'is a {} host by its guests, and the guest is {}'
_MIXED = ('is of no class: neither a mark nor its CPUs show what the host is '
          'for, and 1 vCPUs float over its CPUs, of which 2 are pinned; mark '
          'it')


class TestVerdict(unit_base.TestCase):

    def test_order(self):
        query = guest_request.query(resources={'PCPU': 9})
        one = explain_cases.wanted(explain_cases.pinned((9, 100)), (query,),
                                   guest_class=explain_cases.SHARED)
        host = explain_cases.host(_cell(), is_enabled=False,
                                  disabled_reason='dust')
        reasons = []
        for change in ({}, {'is_enabled': True}):
            host = dataclasses.replace(host, **change)
            reasons += placing.refusals(host_occupancy.of_host(host), one)
        where = host_occupancy.of_host(host)
        for change in ({'guest_class': explain_cases.DEDICATED},
                       {'queries': ()}):
            one = dataclasses.replace(one, **change)
            reasons += placing.refusals(where, one)
        self.assertEqual([
            'is disabled: dust',
            'is a dedicated host, and the guest is shared',
            'is a dedicated host, and the guest is shared',
            '8 PCPU left of 8, 9 needed',
            'cell 0 has 8 dedicated CPUs in all, 9 needed'], reasons)
        one = dataclasses.replace(one, topology=explain_cases.pinned((8, 100)))
        self.assertIsInstance(placing.verdict(where, one), model.Fit)

    def test_any_query_will_do(self):
        one = explain_cases.wanted(explain_cases.pinned((2, 100)), (
            guest_request.query(resources={'PCPU': 2}),
            guest_request.query(resources={'VCPU': 2})))
        host = explain_cases.host(_cell(shared_cpus=range(8)))
        self.assertIsInstance(
            placing.verdict(host_occupancy.of_host(host), one),
            model.Fit)

    def test_unknown_class(self):
        """As the filter, which goes by the host's CPUs then."""
        shared = explain_cases.wanted(guest_class=explain_cases.SHARED)
        dedicated = explain_cases.host(_cell(), host_class=None)
        self.assertEqual(
            ['is a dedicated host, and the guest is shared'],
            placing.refusals(host_occupancy.of_host(dedicated), shared))

    def test_unmarked(self):
        """As the filter by default, which goes by the host's guests then."""
        either = explain_cases.host(_cell(shared_cpus=range(8)),
                                    host_class=None)
        pinned = explain_cases.wanted(explain_cases.pinned((2, 100)))
        shared = explain_cases.wanted(guest_class=explain_cases.SHARED)
        empty = host_occupancy.of_host(either)
        with_pins = placing.with_guest(
            empty, pinned, placing.fit_on(empty, pinned))
        for occupancy, expected in (
                (empty, ([], [_BY_GUESTS.format('shared', 'dedicated')])),
                (placing.with_guest(empty, shared, judge.FLOATING),
                 ([], [_BY_GUESTS.format('shared', 'dedicated')])),
                (with_pins, ([_BY_GUESTS.format('dedicated', 'shared')], [])),
                (placing.with_guest(with_pins, shared, judge.FLOATING),
                 ([_MIXED], [_MIXED]))):
            self.assertEqual(expected, tuple(
                placing.refusals(occupancy, one) for one in (shared, pinned)))

    def test_unmarked_as_placement_alone_tells(self):
        opaque = host_occupancy.of_host(dataclasses.replace(
            explain_cases.host(host_class=None), cells=(), inventories={}))
        self.assertEqual([], placing.refusals(
            opaque, explain_cases.wanted(explain_cases.pinned((2, 100)))))

    def _first_cell(self, *cells, packs_cells=False, **values):
        where = host_occupancy.of_host(explain_cases.host(*cells, **values))
        found = placing.verdict(
            where, explain_cases.wanted(explain_cases.pinned((2, 100))),
            packs_cells)
        return found.cells[0].host_cell

    def test_packs_cells(self):
        cells = _cell(0, 4), _cell(1, 8)
        self.assertEqual(1, self._first_cell(*cells))
        self.assertEqual(0, self._first_cell(*cells, packs_cells=True))

    def test_cells_with_devices_come_last(self):
        cells = _cell(0, 4), _cell(1, 8)
        pool = devices.PciPool(devices.device_keys('1', '2'), 1, 1)
        self.assertEqual(0, self._first_cell(*cells, pci_pools=(pool,)))

    def test_claim_is_predicted(self):
        # The first cell has no room, so that the choice is not the first.
        cells = (_cell(memory_mib=10), _cell(1, 4))
        where = host_occupancy.of_host(explain_cases.host(*cells))
        # Only nova itself can tell of such guests.
        one = explain_cases.wanted(explain_cases.pinned(
            (2, 100), thread_policy=model.ThreadPolicy.ISOLATE,
            emulator_isolated=True))
        refusal = model.Refusal(model.Reason.NOVA_WRONG)
        self.assertIs(refusal, placing.fit_on(
            where, one,
            bounds=fit.ClaimBounds(ask_nova=lambda *args: refusal)))
        self.assertEqual(1, placing.fit_on(
            where, one, bounds=fit.ClaimBounds(
                ask_nova=lambda *args: fit.Claim())).cells[0].host_cell)

    @hypothesis.given(explain_cases.FLEETS, explain_cases.FLAVORS)
    @unit_base.settings(25)
    def test_as_the_filter(self, fleet, flavor):
        one = explain_cases.read(flavor)
        hypothesis.assume(not one.devices)
        spec = builders.spec(
            nova_objects.instance_topology(one.topology), {
                key: value for key, value in flavor.extra_specs.items()
                if key.startswith('hw:cpu')})
        by_filter = filters.PinnedTopologyFilter()
        for where in occupied.of_fleet(fleet).values():
            if where.host.pci_pools:
                # Where devices are, decides; see test_devices.
                continue
            state = builders.host_state(
                where.host.name, nova_objects.host_topology(where.engine),
                cpu_allocation_ratio=where.host.cpu_allocation_ratio,
                ram_allocation_ratio=where.host.ram_allocation_ratio)
            found = placing.fit_on(where, one, bounds=fit.ClaimBounds(
                1.0, is_retried=False, ask_nova=fleet_claim.predict_claim))
            self.assertEqual(isinstance(found, model.Fit),
                             by_filter.host_passes(state, spec))


class TestPlacementRefusal(unit_base.TestCase):

    def test_figures_of_first_query(self):
        one = explain_cases.wanted(queries=(
            guest_request.query(resources={'PCPU': 9}),
            guest_request.query(resources={'VCPU': 7})))
        found = placing.shortage_texts(
            host_occupancy.of_host(explain_cases.host(_cell())), one)
        self.assertEqual(['8 PCPU left of 8, 9 needed'], found)

    def test_nothing_asked(self):
        self.assertEqual([], placing.shortage_texts(
            host_occupancy.of_host(explain_cases.host(_cell())),
            explain_cases.wanted()))
