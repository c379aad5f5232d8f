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
import itertools

import hypothesis

from nova_pinning.bridge import wanted as bridge_wanted
from nova_pinning.fleet.explain import explanation
from nova_pinning.fleet.explain import moves
from nova_pinning.fleet.explain import report
from nova_pinning.fleet.explain import ways
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import standing
from nova_pinning import model
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet.explain import cases


def _cell(number=0, count=8, threads=2, **values):
    first = number * 100
    return builders.host_cell(number, range(first, first + count), threads,
                              **{'memory_mib': 65536} | values)


def _explain(fleet, flavor, image=None, hosts=(), **values):
    with bridge_wanted.many():
        return explanation.explain(
            fleet, explanation.judge_of(fleet),
            ways.Order(flavor, image or {}),
            lambda one, image: cases.read(one, image, fleet.pci_aliases),
            hosts, **values)


def _fleet(*hosts, guests=(), **values):
    """A fleet of hosts with so many CPUs pinned in each cell."""
    return fleet_model.Fleet(hosts=hosts, guests=tuple(guests), **values)


def _taken(host, *counts, start=0, **values):
    """Guests that have so many CPUs of each of the host's cells."""
    where = standing.of_host(host)
    for number, (cell, count) in enumerate(zip(host.cells, counts)):
        if count:
            topology = cases.pinned((count, 64))
            cpus = [cpu for core in cell.cores for cpu in core]
            found = model.Fit((model.CellFit(
                cell.id, tuple(enumerate(cpus[start:start + count]))),))
            where = where.adding(cases.lodger(
                where, topology, f'{host.name}-{number}-{start}',
                **{'fit': found} | values))
    return where.guests


class TestWays(base.TestCase):

    def _texts(self, found):
        return [(one.text, one.hosts)
                for one in (*found.helps.properties, *found.helps.smaller)]

    def test_cells(self):
        host = cases.host(_cell(), _cell(1))
        found = _explain(
            _fleet(host, guests=_taken(host, 4, 4)), cases.flavor(8))
        self.assertEqual(
            '1 host: 1 has too few free CPUs in any one cell (1 of them has '
            'enough across two cells: hw:numa_nodes=2 would fit 1)',
            found.sentence)
        self.assertIn(('hw:numa_nodes=2', ('host1',)), self._texts(found))

    def test_fewer_cells(self):
        found = _explain(_fleet(cases.host(_cell())), cases.flavor(
            4, **{'hw:numa_nodes': '2'}))
        self.assertEqual(('hw:numa_nodes=1', ('host1',)),
                         self._texts(found)[0])

    def test_smaller_in_pages(self):
        host = cases.host(_cell(pages=(
            model.PagePool(4, 0), model.PagePool(1024 * 1024, 8))))
        found = _explain(_fleet(host, guests=_taken(host, 1)), cases.flavor(
            8, 1, **{'hw:mem_page_size': '1GB'}))
        self.assertEqual(('7 vCPUs, 7 GiB, the largest of this shape',
                          ('host1',)), self._texts(found)[0])

    def test_smaller_without_devices(self):
        kind = fleet_model.DeviceKind('10de', '20b5')
        host = cases.host(_cell(), pci_pools=(
            fleet_model.PciPool(kind, 0, 1),))
        flavors = (cases.flavor(4, **{'pci_passthrough:alias': 'gpu:1'}),)
        found = _explain(_fleet(
            host, flavors=flavors, guests=_taken(host, 2),
            pci_aliases={'gpu': fleet_model.PciAlias((kind,))}),
            cases.flavor(8))
        self.assertEqual(['6 vCPUs, 12 GiB, the largest of this shape'],
                         [one.text for one in found.helps.smaller])

    def test_no_equal_shares(self):
        host = cases.host(_cell(), _cell(1))
        found = _explain(
            _fleet(host, guests=_taken(host, 2, 6)), cases.flavor(8))
        self.assertIn('but not in equal shares', found.sentence)
        self.assertEqual((), found.helps.properties)

    def test_threads(self):
        host = cases.host(_cell())
        guests = [guest for start in (0, 2, 4, 6)
                  for guest in _taken(host, 1, start=start)]
        found = _explain(_fleet(host, guests=guests), cases.flavor(
            4, **{'hw:cpu_thread_policy': 'require'}))
        self.assertEqual('1 host: 1 has CPUs but too few whole cores',
                         found.sentence)
        self.assertEqual(
            ('hw:cpu_thread_policy=prefer', ('host1',)),
            self._texts(found)[0])

    def test_threads_of_the_image(self):
        host = cases.host(_cell(threads=1))
        found = _explain(_fleet(host), cases.flavor(4), {
            'hw_cpu_thread_policy': 'require'})
        self.assertEqual(
            [{'hw_cpu_thread_policy': 'prefer'}],
            [one.changes for one in found.helps.properties])

    def test_isolate(self):
        host = cases.host(_cell())
        found = _explain(_fleet(host), cases.flavor(
            4, **{'hw:cpu_thread_policy': 'isolate'}))
        self.assertEqual(
            [('hw:cpu_thread_policy=require', ('host1',))],
            self._texts(found)[:1])

    def test_emulator(self):
        host = cases.host(_cell())
        found = _explain(_fleet(host), cases.flavor(
            8, **{'hw:emulator_threads_policy': 'isolate'}))
        self.assertEqual(('hw:emulator_threads_policy=share', ('host1',)),
                         self._texts(found)[0])

    def test_pages(self):
        host = cases.host(_cell(pages=(
            model.PagePool(4, 0), model.PagePool(2048, 65536 // 2),
            model.PagePool(1024 * 1024, 1))))
        found = _explain(_fleet(host), cases.flavor(
            4, **{'hw:mem_page_size': '1GB'}))
        self.assertEqual('1 host: 1 lacks free 1 GiB pages', found.sentence)
        # 'any' opens no host more than 'large' does.
        self.assertEqual(('hw:mem_page_size=large', ('host1',)),
                         self._texts(found)[0])
        self.assertEqual(1, len(found.helps.properties))

    def test_two_properties(self):
        host = cases.host(_cell(), _cell(1))
        guests = [guest for start in (0, 2, 4, 6)
                  for guest in _taken(host, 1, 1, start=start)]
        found = _explain(_fleet(host, guests=guests), cases.flavor(
            8, **{'hw:cpu_thread_policy': 'require'}))
        self.assertEqual(
            [{'hw:cpu_thread_policy': 'prefer', 'hw:numa_nodes': '2'}],
            [one.changes for one in found.helps.properties])

    def test_explicit_cells(self):
        host = cases.host(_cell(0, 4), _cell(1, 4))
        found = _explain(_fleet(host), cases.flavor(8, **{
            'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0-5',
            'hw:numa_cpus.1': '6-7', 'hw:numa_mem.0': '8192',
            'hw:numa_mem.1': '8192'}))
        # As many cells as before is no change that is tried.
        self.assertEqual((), found.helps.properties)
        self.assertEqual((), found.helps.smaller)

    def test_device_policy(self):
        kind = fleet_model.DeviceKind('10de', '20b5')
        host = cases.host(
            _cell(0, 4), _cell(1),
            pci_pools=(fleet_model.PciPool(kind, 0, 1),))
        fleet = _fleet(host, pci_aliases={
            'gpu': fleet_model.PciAlias((kind,), 'required')})
        found = _explain(fleet, cases.flavor(
            8, **{'pci_passthrough:alias': 'gpu:1'}))
        self.assertEqual(
            ('hw:pci_numa_affinity_policy=preferred', ('host1',)),
            self._texts(found)[0])

    def test_smaller(self):
        host = cases.host(_cell())
        flavors = [dataclasses.replace(cases.flavor(vcpus), name=f'd{vcpus}')
                   for vcpus in (2, 4, 6, 16)]
        flavors += [cases.flavor(5, policy='shared'),
                    cases.flavor(5, 64)]
        found = _explain(
            _fleet(host, guests=_taken(host, 3), flavors=flavors),
            cases.flavor(8))
        self.assertEqual([
            ('flavor d4 (4 vCPUs, 8 GiB)', ('host1',)),
            ('flavor d2 (2 vCPUs, 4 GiB)', ('host1',)),
            ('5 vCPUs, 10 GiB, the largest of this shape', ('host1',)),
        ], self._texts(found))

    def test_largest_is_a_flavor(self):
        host = cases.host(_cell())
        flavors = [dataclasses.replace(cases.flavor(4), name='d4')]
        found = _explain(
            _fleet(host, guests=_taken(host, 4), flavors=flavors),
            cases.flavor(8))
        self.assertEqual([('flavor d4 (4 vCPUs, 8 GiB)', ('host1',))],
                         self._texts(found))

    def test_nothing_needed(self):
        found = _explain(_fleet(cases.host(_cell())), cases.flavor(8))
        self.assertFalse(found.helps)
        self.assertEqual(('host1',), found.fitting)

    def test_only_some_hosts(self):
        empty = cases.host(_cell(), name='empty')
        small = cases.host(_cell(0, 4), name='small')
        found = _explain(_fleet(empty, small), cases.flavor(8),
                         hosts=['small'])
        self.assertEqual(['small'], [one.host for one in found.verdicts])
        self.assertEqual((), found.fitting)
        self.assertTrue(found.helps)

    def test_disabled(self):
        host = cases.host(
            _cell(), is_enabled=False, disabled_reason='dust',
            traits=frozenset({'COMPUTE_STATUS_DISABLED'}))
        full = cases.host(_cell(0, 4), name='full', is_enabled=False)
        found = _explain(_fleet(host, full), cases.flavor(8))
        self.assertEqual('2 hosts: 2 are disabled', found.sentence)
        self.assertEqual((host,), found.helps.disabled)

    def test_shared_guest(self):
        cell = builders.host_cell(0, (), shared_cpus=range(4),
                                  memory_mib=8192)
        host = cases.host(cell, host_class=cases.SHARED)
        found = _explain(_fleet(host), cases.flavor(8, 1, 'shared'))
        self.assertEqual('1 host: 1 has too little VCPU left',
                         found.sentence)
        self.assertEqual(
            [('4 vCPUs, 4 GiB, the largest of this shape', ('host1',))],
            self._texts(found))

    def test_progress(self):
        told = []
        host = cases.host(_cell(0, 4))
        _explain(_fleet(host), cases.flavor(8), progress=told.append)
        self.assertEqual(sorted(told), told)
        self.assertTrue(0 < told[0] <= told[-1] <= 1)


class TestMoves(base.TestCase):

    def test_one(self):
        full, other = (cases.host(_cell(), name=name)
                       for name in ('full', 'other'))
        guests = (*_taken(full, 4), *_taken(full, 1, start=4),
                  *_taken(other, 4))
        found = _explain(_fleet(full, other, guests=guests),
                         cases.flavor(7)).helps
        clearing, = found.single.shown
        self.assertEqual('full', clearing.host)
        self.assertEqual([('full-0-0', 'other')], [
            (move.guest.uuid, move.target) for move in clearing.moves])
        self.assertEqual((), found.pairs.hosts)

    def test_stays(self):
        full, other = (cases.host(_cell(), name=name)
                       for name in ('full', 'other'))
        use = fleet_model.PciUse(fleet_model.DeviceKind('1', '2'), 0, 1)
        for values in ({'is_movable': False}, {'devices': (use,)}):
            guests = (*_taken(full, 4, **values), *_taken(other, 4))
            found = _explain(_fleet(full, other, guests=guests),
                             cases.flavor(7), hosts=['full']).helps
            self.assertEqual((), found.single.hosts)

    def test_two(self):
        full, other = (cases.host(_cell(), name=name)
                       for name in ('full', 'other'))
        guests = (*_taken(full, 2), *_taken(full, 2, start=2),
                  *_taken(other, 4))
        found = _explain(_fleet(full, other, guests=guests),
                         cases.flavor(8), hosts=['full']).helps
        self.assertEqual((), found.single.hosts)
        clearing, = found.pairs.shown
        self.assertEqual(['other', 'other'],
                         [move.target for move in clearing.moves])

    def test_two_have_no_room(self):
        full, other = (cases.host(_cell(), name=name)
                       for name in ('full', 'other'))
        guests = (*_taken(full, 2), *_taken(full, 2, start=2),
                  *_taken(other, 5))
        found = _explain(_fleet(full, other, guests=guests),
                         cases.flavor(8), hosts=['full']).helps
        self.assertEqual((), found.pairs.hosts)

    def test_zone(self):
        aggregates = (fleet_model.Aggregate('a', 'az1'),)
        full = cases.host(_cell(), name='full', aggregates=('a',))
        other = cases.host(_cell(), name='other')
        guests = (*_taken(full, 4), *_taken(other, 4))
        for hosts, opened in (((full, other), ()), (
                (full, dataclasses.replace(other, aggregates=('a',))),
                ('full', 'other'))):
            found = _explain(
                _fleet(*hosts, guests=guests, aggregates=aggregates),
                cases.flavor(8)).helps
            self.assertEqual(opened, found.single.hosts)

    def test_traits_of_the_flavor(self):
        flavor = dataclasses.replace(
            cases.flavor(4, **{'trait:FAST': 'required',
                               'trait:SLOW': 'forbidden'}), name='fast')
        full, other = (cases.host(_cell(), name=name, traits=frozenset(
            {'FAST'})) for name in ('full', 'other'))
        guests = (*_taken(full, 4, flavor='fast'), *_taken(other, 4))
        for traits, opened in (({'FAST'}, ('full',)), ({'SLOW', 'FAST'}, ()),
                               (set(), ())):
            hosts = full, dataclasses.replace(
                other, traits=frozenset(traits))
            found = _explain(
                _fleet(*hosts, guests=guests, flavors=(flavor,)),
                cases.flavor(7), hosts=['full']).helps
            self.assertEqual(opened, found.single.hosts)

    def test_each_in_its_zone(self):
        aggregates = tuple(fleet_model.Aggregate(name, name)
                           for name in ('az1', 'az2'))
        hosts = [cases.host(_cell(), name=f'{kind}{zone}', aggregates=(zone,))
                 for zone in ('az1', 'az2') for kind in ('full', 'other')]
        guests = [guest for host in hosts for guest in _taken(host, 4)]
        found = _explain(
            _fleet(*hosts, guests=guests, aggregates=aggregates),
            cases.flavor(8), hosts=['fullaz1', 'fullaz2']).helps
        self.assertEqual(['otheraz1', 'otheraz2'], [
            one.moves[0].target for one in found.single.shown])

    def test_as_wanted(self):
        where = cases.fill(
            standing.of_host(cases.host(_cell())),
            cases.pinned((4, 64), emulator_isolated=True), disk_gib=7)
        found = moves.as_wanted(where.guests[0], {})
        self.assertEqual(
            [{'PCPU': 5, 'VCPU': 0, 'MEMORY_MB': 4, 'DISK_GB': 7},
             {'VCPU': 4, 'MEMORY_MB': 4, 'DISK_GB': 7}],
            [one.resources for one in found.queries])


class TestProperties(base.TestCase):
    """What is said of any fleet and flavor is so."""

    @hypothesis.given(cases.FLEETS, cases.FLAVORS)
    @hypothesis.settings(max_examples=40, deadline=None)
    def test_sums_and_helps(self, fleet, flavor):
        found = _explain(fleet, flavor)
        report.as_dict(found)
        self._check_sum(fleet, found)
        fleet_standings = standing.of_fleet(fleet)
        if found.fitting:
            self.assertFalse(found.helps)
            return
        for way in (*found.helps.properties, *found.helps.smaller):
            self._check_way(fleet, fleet_standings, way)
        self._check_moves(fleet_standings, found)

    def _check_sum(self, fleet, found):
        self.assertEqual([host.name for host in fleet.hosts],
                         [one.host for one in found.verdicts])
        self.assertEqual(
            len(fleet.hosts),
            len(found.fitting) + sum(one.count for one in found.groups))
        standings = standing.of_fleet(fleet)
        fits = tuple(
            name for name, where in standings.items()
            if isinstance(standing.verdict(where, found.wanted), model.Fit))
        self.assertEqual(fits, found.fitting)

    def _check_way(self, fleet, standings, way):
        again = cases.read(way.wanted.flavor, {}, fleet.pci_aliases)
        self.assertEqual(way.wanted, again)
        fits = [name for name, where in standings.items()
                if isinstance(standing.verdict(where, again), model.Fit)]
        self.assertEqual(list(way.hosts), fits)

    def _check_moves(self, standings, found):
        opened = set()
        for name, where in standings.items():
            for guest in where.guests:
                if guest.is_movable and not guest.devices and self._opens(
                        standings, name, guest, found.wanted):
                    opened.add(name)
        self.assertEqual(opened, set(found.helps.single.hosts))
        for clearing in (*found.helps.single.shown,
                         *found.helps.pairs.shown):
            left = dict(standings)
            for move in clearing.moves:
                here = left[clearing.host]
                left[clearing.host] = here.without(move.guest)
                one = moves.as_wanted(move.guest, {})
                there = left[move.target]
                outcome = standing.verdict(there, one)
                self.assertIsInstance(outcome, model.Fit)
                left[move.target] = there.with_guest(one, outcome)
            self.assertIsInstance(standing.verdict(
                left[clearing.host], found.wanted), model.Fit)

    def _opens(self, standings, name, guest, wanted):
        if not isinstance(standing.verdict(
                standings[name].without(guest), wanted), model.Fit):
            return False
        one = moves.as_wanted(guest, {})
        return any(isinstance(standing.verdict(where, one), model.Fit)
                   for other, where in standings.items() if other != name)

    @hypothesis.given(cases.FLEETS, cases.FLAVORS)
    @hypothesis.settings(max_examples=15, deadline=None)
    def test_largest_is_largest(self, fleet, flavor):
        fleet = dataclasses.replace(fleet, flavors=())
        found = _explain(fleet, flavor)
        hypothesis.assume(not found.fitting)
        cells = len(found.wanted.topology.cells)
        largest = [one.wanted.flavor.vcpus for one in found.helps.smaller]
        finder = ways.Ways(
            explanation.judge_of(fleet), None, ways.Order(flavor),
            found.wanted, ())
        judge = explanation.judge_of(fleet)
        with bridge_wanted.many():
            for vcpus in itertools.count(
                    largest[0] + cells if largest else cells, cells):
                if vcpus >= flavor.vcpus:
                    break
                one = cases.read(finder._sized(vcpus, cells).flavor)
                self.assertFalse(any(
                    judge.fits(where, one)
                    for where in judge.standings.values()))
