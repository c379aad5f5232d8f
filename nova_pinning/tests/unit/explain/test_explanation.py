# SPDX-License-Identifier: Apache-2.0

import dataclasses
import itertools

import hypothesis

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import pci_alias
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.explain import explanation
from nova_pinning.explain import flavor_alternatives
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.presentation import explanation_report
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit import unit_base


def _cell(number=0, count=8, threads=2, **values):
    first = number * 100
    return builders.host_cell(number, range(first, first + count), threads,
                              **{'memory_mib': 65536} | values)


def _explain(fleet, flavor, image=None, hosts=(), **values):
    with flavor_request.batch():
        return explanation.explain_guest(
            fleet, explanation.judge_of(fleet),
            flavor_alternatives.OrderedFlavor(
                flavor, image or {}), lambda one, image: explain_cases.read(
                    one, image, fleet.pci_aliases), hosts, **values)


def _fleet(*hosts, guests=(), **values):
    """A fleet of hosts with so many CPUs pinned in each cell."""
    return snapshot.Fleet(hosts=hosts, guests=tuple(guests), **values)


def _taken(host, *counts, start=0, **values):
    """Guests that have so many CPUs of each of the host's cells."""
    where = host_occupancy.of_host(host)
    for number, (cell, count) in enumerate(zip(host.cells, counts)):
        if count:
            topology = explain_cases.pinned((count, 64))
            cpus = [cpu for core in cell.cores for cpu in core]
            found = model.Fit((model.CellFit(
                cell.id, tuple(enumerate(cpus[start:start + count]))),))
            where = where.adding(explain_cases.placed_guest(
                where, topology, f'{host.name}-{number}-{start}',
                **{'fit': found} | values))
    return where.guests


class TestWays(unit_base.TestCase):

    def _texts(self, found):
        return [(one.text, one.hosts)
                for one in (*found.remediation.properties,
                            *found.remediation.smaller)]

    def test_cells(self):
        host = explain_cases.host(_cell(), _cell(1))
        found = _explain(
            _fleet(host, guests=_taken(host, 4, 4)), explain_cases.flavor(8))
        self.assertEqual(
            '1 host: 1 has too few free CPUs in any one cell', found.sentence)
        self.assertIn(('hw:numa_nodes=2', ('host1',)), self._texts(found))

    def test_fewer_cells(self):
        found = _explain(_fleet(explain_cases.host(_cell())),
                         explain_cases.flavor(4, **{'hw:numa_nodes': '2'}))
        self.assertEqual(('hw:numa_nodes=1', ('host1',)),
                         self._texts(found)[0])

    def test_smaller_in_pages(self):
        host = explain_cases.host(_cell(pages=(
            model.PagePool(4, 0), model.PagePool(1024 * 1024, 8))))
        found = _explain(
            _fleet(host, guests=_taken(host, 1)),
            explain_cases.flavor(8, 1, **{'hw:mem_page_size': '1GB'}))
        self.assertEqual(('7 vCPUs, 7 GiB, the largest of this shape',
                          ('host1',)), self._texts(found)[0])

    def test_smaller_without_devices(self):
        kind = devices.device_keys('10de', '20b5')
        host = explain_cases.host(_cell(), pci_pools=(
            devices.PciPool(kind, 0, 1),))
        flavors = (explain_cases.flavor(
            4, **{'pci_passthrough:alias': 'gpu:1'}),)
        found = _explain(_fleet(
            host, flavors=flavors, guests=_taken(host, 2),
            pci_aliases={'gpu': pci_alias.PciAlias((kind,))}),
            explain_cases.flavor(8))
        self.assertEqual(['6 vCPUs, 12 GiB, the largest of this shape'],
                         [one.text for one in found.remediation.smaller])

    def test_no_equal_shares(self):
        host = explain_cases.host(_cell(), _cell(1))
        found = _explain(
            _fleet(host, guests=_taken(host, 2, 6)), explain_cases.flavor(8))
        self.assertEqual((), found.remediation.properties)

    def test_threads(self):
        host = explain_cases.host(_cell())
        guests = [guest for start in (0, 2, 4, 6)
                  for guest in _taken(host, 1, start=start)]
        found = _explain(_fleet(host, guests=guests), explain_cases.flavor(
            4, **{'hw:cpu_thread_policy': 'require'}))
        self.assertEqual('1 host: 1 has CPUs but too few whole cores',
                         found.sentence)
        self.assertEqual(
            ('hw:cpu_thread_policy=prefer', ('host1',)),
            self._texts(found)[0])

    def test_threads_of_the_image(self):
        host = explain_cases.host(_cell(threads=1))
        found = _explain(_fleet(host), explain_cases.flavor(4), {
            'hw_cpu_thread_policy': 'require'})
        self.assertEqual(
            [{'hw_cpu_thread_policy': 'prefer'}],
            [one.changes for one in found.remediation.properties])

    def test_isolate(self):
        host = explain_cases.host(_cell())
        found = _explain(_fleet(host), explain_cases.flavor(
            4, **{'hw:cpu_thread_policy': 'isolate'}))
        self.assertEqual(
            [('hw:cpu_thread_policy=require', ('host1',))],
            self._texts(found)[:1])

    def test_emulator(self):
        host = explain_cases.host(_cell())
        found = _explain(_fleet(host), explain_cases.flavor(
            8, **{'hw:emulator_threads_policy': 'isolate'}))
        self.assertEqual(('hw:emulator_threads_policy=share', ('host1',)),
                         self._texts(found)[0])

    def test_pages(self):
        host = explain_cases.host(_cell(pages=(
            model.PagePool(4, 0), model.PagePool(2048, 65536 // 2),
            model.PagePool(1024 * 1024, 1))))
        found = _explain(_fleet(host), explain_cases.flavor(
            4, **{'hw:mem_page_size': '1GB'}))
        self.assertEqual('1 host: 1 lacks free 1 GiB pages', found.sentence)
        # 'any' opens no host more than 'large' does.
        self.assertEqual(('hw:mem_page_size=large', ('host1',)),
                         self._texts(found)[0])
        self.assertEqual(1, len(found.remediation.properties))

    def test_two_properties(self):
        host = explain_cases.host(_cell(), _cell(1))
        guests = [guest for start in (0, 2, 4, 6)
                  for guest in _taken(host, 1, 1, start=start)]
        found = _explain(_fleet(host, guests=guests), explain_cases.flavor(
            8, **{'hw:cpu_thread_policy': 'require'}))
        self.assertEqual(
            [{'hw:cpu_thread_policy': 'prefer', 'hw:numa_nodes': '2'}],
            [one.changes for one in found.remediation.properties])

    def test_explicit_cells(self):
        host = explain_cases.host(_cell(0, 4), _cell(1, 4))
        found = _explain(_fleet(host), explain_cases.flavor(8, **{
            'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0-5',
            'hw:numa_cpus.1': '6-7', 'hw:numa_mem.0': '8192',
            'hw:numa_mem.1': '8192'}))
        # As many cells as before is not a change that is tried.
        self.assertEqual((), found.remediation.properties)
        self.assertEqual((), found.remediation.smaller)

    def test_device_policy(self):
        kind = devices.device_keys('10de', '20b5')
        host = explain_cases.host(
            _cell(0, 4), _cell(1),
            pci_pools=(devices.PciPool(kind, 0, 1),))
        fleet = _fleet(host, pci_aliases={
            'gpu': pci_alias.PciAlias((kind,), 'required')})
        found = _explain(fleet, explain_cases.flavor(
            8, **{'pci_passthrough:alias': 'gpu:1'}))
        self.assertEqual(
            ('hw:pci_numa_affinity_policy=preferred', ('host1',)),
            self._texts(found)[0])

    def test_smaller(self):
        host = explain_cases.host(_cell())
        flavors = [
            dataclasses.replace(explain_cases.flavor(vcpus), name=f'd{vcpus}')
            for vcpus in (2, 4, 6, 16)]
        flavors += [explain_cases.flavor(5, policy='shared'),
                    explain_cases.flavor(5, 64)]
        found = _explain(
            _fleet(host, guests=_taken(host, 3), flavors=flavors),
            explain_cases.flavor(8))
        self.assertEqual([
            ('flavor d4 (4 vCPUs, 8 GiB)', ('host1',)),
            ('flavor d2 (2 vCPUs, 4 GiB)', ('host1',)),
            ('5 vCPUs, 10 GiB, the largest of this shape', ('host1',)),
        ], self._texts(found))

    def test_largest_is_a_flavor(self):
        host = explain_cases.host(_cell())
        flavors = [dataclasses.replace(explain_cases.flavor(4), name='d4')]
        found = _explain(
            _fleet(host, guests=_taken(host, 4), flavors=flavors),
            explain_cases.flavor(8))
        self.assertEqual([('flavor d4 (4 vCPUs, 8 GiB)', ('host1',))],
                         self._texts(found))

    def test_nothing_needed(self):
        found = _explain(_fleet(explain_cases.host(_cell())),
                         explain_cases.flavor(8))
        self.assertFalse(found.remediation)
        self.assertEqual(('host1',), found.fitting)

    def test_only_some_hosts(self):
        empty = explain_cases.host(_cell(), name='empty')
        small = explain_cases.host(_cell(0, 4), name='small')
        found = _explain(_fleet(empty, small), explain_cases.flavor(8),
                         hosts=['small'])
        self.assertEqual(['small'],
                         [verdict.host for verdict in found.verdicts])
        self.assertEqual((), found.fitting)
        self.assertTrue(found.remediation)

    def test_disabled(self):
        host = explain_cases.host(
            _cell(), is_enabled=False, disabled_reason='dust',
            traits=frozenset({'COMPUTE_STATUS_DISABLED'}))
        full = explain_cases.host(_cell(0, 4), name='full', is_enabled=False)
        found = _explain(_fleet(host, full), explain_cases.flavor(8))
        self.assertEqual('2 hosts: 2 are disabled', found.sentence)
        self.assertEqual((host,), found.remediation.disabled)

    def test_shared_guest(self):
        cell = builders.host_cell(0, (), shared_cpus=range(4),
                                  memory_mib=8192)
        host = explain_cases.host(cell, host_class=explain_cases.SHARED)
        found = _explain(_fleet(host), explain_cases.flavor(8, 1, 'shared'))
        self.assertEqual('1 host: 1 has too little VCPU left',
                         found.sentence)
        self.assertEqual(
            [('4 vCPUs, 4 GiB, the largest of this shape', ('host1',))],
            self._texts(found))

    def test_progress(self):
        told = []
        host = explain_cases.host(_cell(0, 4))
        _explain(_fleet(host), explain_cases.flavor(8), progress=told.append)
        self.assertEqual(sorted(told), told)
        self.assertTrue(0 < told[0] <= told[-1] <= 1)


class TestMoves(unit_base.TestCase):

    def test_lacks_room(self):
        """Of which the planner of moves can be asked."""
        full, other = (explain_cases.host(_cell(), name=name, **values)
                       for name, values in (('full', {}), ('other', {
                           'is_enabled': False})))
        found = _explain(
            _fleet(full, other, guests=_taken(full, 4)),
            explain_cases.flavor(7))
        self.assertEqual(('full',), found.remediation.lacks_room)
        text = ' '.join(explanation_report._remediation(found.remediation))
        self.assertIn('1 host lacks nothing but room', text)

    def test_lacks_more_than_room(self):
        """Moves make no devices."""
        keys = devices.device_keys('10de', '2330')
        full, other = (explain_cases.host(_cell(), name=name, **values)
                       for name, values in (('full', {'pci_pools': (
                           devices.PciPool(keys, 0, 1),)}), ('other', {})))
        holder, = _taken(full, 4, devices=(devices.PciUse(keys, 0, 1),))
        found = _explain(
            _fleet(full, other, guests=[holder], pci_aliases={
                'gpu': pci_alias.PciAlias((keys,))}),
            explain_cases.flavor(4, **{'pci_passthrough:alias': 'gpu:1'}))
        self.assertEqual(('full',), found.remediation.lacks_room)

    def test_as_wanted(self):
        where = explain_cases.fill(
            host_occupancy.of_host(explain_cases.host(_cell())),
            explain_cases.pinned((4, 64), emulator_isolated=True), disk_gib=7)
        found = moved_guest.of_guest(where.guests[0])
        self.assertEqual(
            [{'PCPU': 5, 'MEMORY_MB': 4, 'DISK_GB': 7},
             {'VCPU': 4, 'MEMORY_MB': 4, 'DISK_GB': 7}],
            [query.resources for query in found.queries])


class TestProperties(unit_base.TestCase):
    """What is said of any fleet and flavor is so."""

    @hypothesis.given(explain_cases.FLEETS, explain_cases.FLAVORS)
    @unit_base.settings(40)
    def test_sums_and_helps(self, fleet, flavor):
        found = _explain(fleet, flavor)
        explanation_report.as_dict(found)
        self._check_sum(fleet, found)
        fleet_standings = occupied.of_fleet(fleet)
        if found.fitting:
            self.assertFalse(found.remediation)
            return
        for alternative in (*found.remediation.properties,
                            *found.remediation.smaller):
            self._check_way(fleet, fleet_standings, alternative)

    def _check_sum(self, fleet, found):
        self.assertEqual([host.name for host in fleet.hosts],
                         [verdict.host for verdict in found.verdicts])
        self.assertEqual(
            len(fleet.hosts),
            len(found.fitting) + sum(group.count for group in found.groups))
        occupancies = occupied.of_fleet(fleet)
        fits = tuple(name for name, where in occupancies.items() if isinstance(
            placing.verdict(where, found.request), model.Fit))
        self.assertEqual(fits, found.fitting)

    def _check_way(self, fleet, occupancies, alternative):
        again = explain_cases.read(alternative.flavor, {},
                                   fleet.pci_aliases)
        self.assertEqual(alternative.request, again)
        fits = [name for name, where in occupancies.items()
                if isinstance(placing.verdict(where, again), model.Fit)]
        self.assertEqual(list(alternative.hosts), fits)

    @hypothesis.given(explain_cases.FLEETS, explain_cases.FLAVORS)
    @unit_base.settings(24)
    def test_largest_is_largest(self, fleet, flavor):
        fleet = dataclasses.replace(fleet, flavors=())
        found = _explain(fleet, flavor)
        hypothesis.assume(not found.fitting)
        cells = len(found.request.topology.cells)
        largest = [
            one.request.vcpus for one in found.remediation.smaller]
        finder = flavor_alternatives.AlternativeFinder(
            explanation.judge_of(fleet), None,
            flavor_alternatives.OrderedFlavor(flavor), found.request, ())
        judge = explanation.judge_of(fleet)
        with flavor_request.batch():
            for vcpus in itertools.count(
                    largest[0] + cells if largest else cells, cells):
                if vcpus >= flavor.vcpus:
                    break
                one = explain_cases.read(finder._sized(vcpus, cells).flavor)
                self.assertFalse(any(
                    judge.fits(where, one)
                    for where in judge.occupancies.values()))
