# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import functools
import random

import ddt
from prometheus_client import parser

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.bridge.offline import standalone
from nova_pinning.capacity import capacity
from nova_pinning.exporter import fleet_figures
from nova_pinning.exporter import fleet_tally
from nova_pinning.fleet import generate
from nova_pinning.fleet import occupied
from nova_pinning.fleet import problems
from nova_pinning.placement import inventory
from nova_pinning.presentation import capacity_report
from nova_pinning.tests.unit import unit_base

standalone.prepare()


def series(text):
    """The samples of an exposition, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples}


@functools.cache
def make_fleet(hosts=6, shape='two-socket-96-pci', **options):
    options.setdefault('shared', 0.25)
    return generate.generate_fleet(hosts, shape, 3, **options)


@functools.cache
def requests_of_fleet():
    return requests_of(make_fleet())


def requests_of(fleet):
    with flavor_request.batch():
        return [flavor_request.request_for(flavor, {}, fleet.pci_aliases)
                for flavor in fleet.flavors]


@ddt.ddt
class TallyTestCase(unit_base.TestCase):
    """After any changes the sums are those of a whole count."""

    def setUp(self):
        super().setUp()
        self.fleet = make_fleet()
        self.requests = requests_of_fleet()
        self.tally = fleet_tally.FleetTally(
            self.requests, occupied.rules_of(self.fleet))

    def check(self):
        """Update and compare; returns how many hosts were counted."""
        changed = self.tally.update(self.fleet)
        found = series(fleet_figures.text(self.tally, 1.0))
        expected = {
            **series(capacity_report.as_metrics(
                capacity.measure(self.fleet, self.requests))),
            **self.expected_facts()}
        for key, value in expected.items():
            # A cause that has gone stays with 0.
            self.assertEqual(value, found.get(key), key)
        for key in found.keys() - expected.keys():
            if key[0] in {name for name, _labels in expected}:
                self.assertEqual(0, found[key], key)
        return changed

    def expected_facts(self):
        """What can be told without the exporter's own sums."""
        facts = collections.Counter()
        guests = occupied.guests_by_host(self.fleet)
        for host in self.fleet.hosts:
            own = ('class', capacity_report.class_name(host.host_class))
            state = 'enabled' if host.is_enabled else 'disabled'
            facts['hosts', (own, ('state', state))] += 1
            facts['dedicated_cpus', (own,)] += host.dedicated_count
            facts['memory_bytes', (own,)] += host.memory_mib * 2 ** 20
            engine = host_occupancy.engine_host(host, guests[host.name])
            facts['pinned_cpus', (own,)] += sum(
                len(cell.pinned_cpus) for cell in engine.cells)
            for guest in guests[host.name]:
                facts['guests', (
                    own, ('guest_class', str(guest.guest_class)))] += 1
                facts['flavor_guests', (('flavor', guest.flavor),)] += 1
        named = {(f'nova_pinning_cloud_{name}', labels): number
                 for (name, labels), number in facts.items()}
        for (code, severity), number in collections.Counter(
                (finding.code, finding.severity)
                for finding in problems.find(self.fleet)).items():
            named['nova_pinning_fleet_violations', (
                ('code', code), ('severity', severity))] = number
        return named

    def change(self, **changes):
        self.fleet = dataclasses.replace(self.fleet, **changes)

    def change_host(self, number, **changes):
        hosts = list(self.fleet.hosts)
        hosts[number] = dataclasses.replace(hosts[number], **changes)
        self.change(hosts=tuple(hosts))

    def test_at_first(self):
        self.assertEqual(6, self.check())
        self.assertEqual(6, self.tally.hosts)

    def test_nothing_changed(self):
        self.check()
        self.assertEqual(0, self.check())
        # Nor if all is equal, and other objects.
        self.fleet = make_fleet.__wrapped__()
        self.assertEqual(0, self.check())

    def test_guests_come_and_go(self):
        self.check()
        rng = random.Random(1)
        gone = []
        for _step in range(10):
            guests = list(self.fleet.guests)
            number = rng.randrange(len(guests))
            gone.append(guests.pop(number))
            if len(gone) > 3:
                guests.append(gone.pop(0))
            self.change(guests=tuple(guests))
            self.assertIn(self.check(), (1, 2))

    def test_guest_moves(self):
        """To where its CPUs may be others', which is a finding."""
        self.check()
        guest, *others = self.fleet.guests
        host = next(guest.host for guest in others
                    if guest.host != self.fleet.guests[0].host)
        self.change(guests=(
            *others, dataclasses.replace(guest, host=host)))
        self.assertEqual(2, self.check())

    def test_guests_on_no_host(self):
        self.check()
        guest, *others = self.fleet.guests
        self.change(guests=(
            *others, dataclasses.replace(guest, host='elsewhere')))
        self.check()
        self.change(guests=(*others, guest))
        self.check()

    @ddt.data({'is_enabled': False}, {'host_class': None},
              {'inventories': {'PCPU': inventory.Inventory(5)}},
              {'inventories': {'PCPU': inventory.Inventory(5)}, 'cells': ()},
              {'held': {'PCPU': 30}},
              {'gaps': (outcome.Doubt(outcome.DoubtKind.HELD, 'x'),)},
              {'traits': frozenset({'CUSTOM_PINNING_SHARED'})},
              {'cells': ()}, {'pci_pools': ()}, {'disk_gib': 1},
              {'cpu_allocation_ratio': 4.0}, {'nova_release': '2025.1'},
              {'reserved_memory_mib': 100000})
    def test_host_changes(self, changes):
        self.check()
        before = self.fleet.hosts[0]
        self.change_host(0, **changes)
        self.assertEqual(1, self.check())
        self.change(hosts=(before, *self.fleet.hosts[1:]))
        self.assertEqual(1, self.check())

    def test_hosts_come_and_go(self):
        self.check()
        first, *others = self.fleet.hosts
        self.change(hosts=tuple(others))
        self.assertEqual(1, self.check())
        self.assertEqual(5, self.tally.hosts)
        self.change(hosts=(*others, first))
        self.assertEqual(1, self.check())

    def test_renamed_host(self):
        self.check()
        self.change_host(3, name='new')
        self.assertEqual(2, self.check())

    def test_forgets_states_of_old(self):
        """What is remembered has an end, and the figures stay right."""
        self.patch_states(1)
        for number in range(1, 6):
            self.change_host(0, disk_gib=number)
            self.check()
        self.assertLessEqual(len(self.tally._known), 7)

    def patch_states(self, states):
        for name in ('MOST_STATES_PER_HOST', '_FEWEST_STATES'):
            self.addCleanup(setattr, fleet_tally, name,
                            getattr(fleet_tally, name))
            setattr(fleet_tally, name, states)

    @ddt.data('no hosts', 'no guests', 'no flavors')
    def test_empty(self, what):
        changes = {what.removeprefix('no '): ()}
        self.change(**changes)
        self.tally = fleet_tally.FleetTally(
            () if what == 'no flavors' else self.requests)
        if what == 'no flavors':
            self.requests = []
            self.tally.update(self.fleet)
            text = fleet_figures.text(self.tally, None)
            self.assertNotIn('taken_timestamp', text)
        elif what == 'no guests':
            self.check()
        else:
            self.tally.update(self.fleet)
            self.assertEqual(0, self.tally.hosts)

    def test_largest_flavor(self):
        self.tally.update(self.fleet)
        found = series(fleet_figures.text(self.tally, 1.0))
        fitting = [
            request.vcpus for request in self.requests
            if found['nova_pinning_capacity_guests', (
                ('class', 'dedicated'), ('flavor', request.name))]]
        self.assertEqual(
            max(fitting), found['nova_pinning_capacity_largest_flavor_vcpus',
                                (('class', 'dedicated'),)])

    def test_every_field_of_a_host_counts(self):
        """A new one tells states apart unless somebody says otherwise."""
        self.assertLessEqual(fleet_tally._OUT_OF_STATE, {
            field.name
            for field in dataclasses.fields(offered_host.OfferedHost)})
