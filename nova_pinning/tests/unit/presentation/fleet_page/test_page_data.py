# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import functools

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.capacity import capacity
from nova_pinning.capacity import outlook
from nova_pinning.explain import explanation
from nova_pinning.explain import size_limits
from nova_pinning.explain import verdict_summary
from nova_pinning.fleet import occupied
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory
from nova_pinning.presentation import capacity_report
from nova_pinning.presentation.fleet_page import page_data
from nova_pinning.presentation.fleet_page import sold_history
from nova_pinning.presentation import sales_headline
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.capacity import test_stranded_devices
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit.presentation.fleet_page import page_cases
from nova_pinning.tests.unit import unit_base


def _cpus(text):
    """The CPUs of a list in their order."""
    for item in filter(None, text.split(',')):
        first, _dash, last = item.partition('-')
        yield from range(int(first), int(last or first) + 1)


def _fleets():
    for shape in shapes.SHAPES:
        yield page_cases.fleet(3, shape)
    fleet = page_cases.fleet(8, filled=0.5)
    first, second, *others = fleet.hosts
    yield dataclasses.replace(fleet, hosts=(
        dataclasses.replace(first, is_enabled=False),
        dataclasses.replace(others[0], name='held', gaps=(
            outcome.Doubt(outcome.DoubtKind.HELD, 'more is held'),)),
        dataclasses.replace(second, host_class=None, traits=None),
        *others))


@functools.cache
def _documents():
    """Fleets with their documents, which take longer than what is asked."""
    return tuple((fleet, page_cases.document(fleet)) for fleet in _fleets())


@functools.cache
def _eight_hosts():
    fleet = page_cases.fleet(8)
    return fleet, page_cases.document(fleet)


class TestAnswers(unit_base.TestCase):
    """The document's answers are those of explain and capacity."""

    def test_flavors(self):
        for fleet, document in _documents():
            with self.subTest(fleet.source):
                judge = explanation.judge_of(fleet)
                for number, flavor in enumerate(document['flavors']):
                    request = explain_cases.read(next(
                        one for one in fleet.flavors
                        if one.name == flavor['name']), aliases=(
                            fleet.pci_aliases))
                    self._check_flavor(document, judge, number, request)

    def _check_flavor(self, document, judge, number, request):
        refused = collections.Counter()
        for host in document['hosts']:
            state = document['states'][host['state']]
            verdict = judge.verdict(judge.occupancies[host['name']], request)
            self.assertEqual(verdict.fits, state['why'][number] < 0)
            self.assertEqual(verdict.fits, state['fits'][number] > 0)
            self.assertEqual(bool(verdict.doubts), number in state['bounds'])
            if not verdict.fits:
                refused[tuple(document['reasons'][state['why'][number]])] += 1
        groups = verdict_summary.groups(
            [judge.verdict(occupancy, request)
             for occupancy in judge.occupancies.values()], request)
        self.assertEqual(
            {group.text: group.count for group in groups},
            {texts[count != 1]: count for texts, count in refused.items()})

    def test_sizes(self):
        """For each host, policy and some of all sizes."""
        for fleet, document in _documents():
            with self.subTest(fleet.source), flavor_request.batch():
                judge = explanation.judge_of(fleet)
                finder = size_limits.SizeFinder(judge, explain_cases.read)
                for number, policy in enumerate(
                        size_limits.policies(fleet.hosts)):
                    self._check_sizes(document, judge, finder, number, policy)

    def _check_sizes(self, document, judge, finder, number, policy):
        self.assertEqual(policy.text, document['policies'][number]['text'])
        for host in document['hosts']:
            sizes = document['states'][host['state']]['sizes'][number]
            for vcpus in (2, 8, 16, 48):
                for gib in (2, 32, 64, 180):
                    request = finder.request(policy, vcpus, gib)
                    self.assertEqual(
                        judge.verdict(judge.occupancies[host['name']],
                                      request).fits,
                        any(vcpus <= most and gib <= most_gib
                            for most, most_gib in sizes['fit']))

    def test_not_all_is_known(self):
        """Where cells are not known, what fits is a bound, and marked so."""
        fleet = page_cases.fleet(3, shared=0)
        gap = outcome.Doubt(outcome.DoubtKind.CELLS, 'no cells are told')
        fleet = dataclasses.replace(fleet, hosts=tuple(
            dataclasses.replace(host, gaps=(gap,)) for host in fleet.hosts))
        document = page_cases.document(fleet)
        self.assertEqual([['no cells are told']] * 3, [
            host['gaps'] for host in document['hosts']])
        judge = explanation.judge_of(fleet)
        with flavor_request.batch():
            finder = size_limits.SizeFinder(judge, explain_cases.read)
            for number, policy in enumerate(size_limits.policies(fleet.hosts)):
                self._check_sizes(document, judge, finder, number, policy)
                for state in document['states']:
                    self.assertEqual(policy is not size_limits.SHARED,
                                     'bound' in state['sizes'][number])

    def test_shared_pool(self):
        """What hosts share is there once for all of them."""
        fleet = page_cases.fleet(2, shared=0, filled=0)
        pool = offered_host.OfferedProvider(
            None, (('DISK_GB', inventory.Inventory(500)),), uuid='disks',
            is_shared=True)
        for children in (), (pool,):
            fleet = dataclasses.replace(fleet, hosts=tuple(
                dataclasses.replace(host, disk_gib=None, children=children)
                for host in fleet.hosts), flavors=tuple(
                    dataclasses.replace(flavor, disk_gib=20)
                    for flavor in fleet.flavors))
            document = page_cases.document(fleet)
            for row in document['sales']['all']['flavors']:
                fits = sum(document['states'][host['state']]['fits'][
                    row['at']] for host in document['hosts'])
                self.assertEqual(
                    min(25, fits) if children else fits, row['fits'])

    def test_capacity(self):
        """Sums over hosts are what nova-pinning capacity says."""
        for fleet, document in _documents():
            measured = page_cases.page_of(fleet).measured
            states = [document['states'][host['state']]
                      for host in document['hosts']]
            rows = {row['at']: row
                    for row in document['sales']['all']['flavors']}
            for number, size in enumerate(measured.sizes()):
                self.assertEqual(
                    (size.fits, size.totals, size.is_bound),
                    tuple(rows[number][key]
                          for key in ('fits', 'totals', 'bound')))
                self.assertEqual(bool(size.missing),
                                 bool(rows[number]['because']))
            total = capacity_report.total(measured.hosts)
            self.assertEqual(
                (total.free_cpus, total.stranded_cpus, total.stranded_cpus),
                (sum(state['free'] for state in states),
                 sum(cpus for state in states
                     for _cause, cpus in state['stranded']),
                 sum(sum(state['stranded_cells']) for state in states)))


class TestFirstScreen(unit_base.TestCase):
    """What is said before all else, of all hosts and of some."""

    def test_scopes(self):
        """Each class, zone and aggregate has its own, and no more are told."""
        fleet, document = _eight_hosts()
        sales = document['sales']
        self.assertEqual(
            {'all', 'class:dedicated', 'class:shared',
             *[f'aggregate:{name}' for host in fleet.hosts
               for name in host.aggregates]},
            {key for key in sales if not key.startswith('zone:')})
        status = {scope: {row['at']: row['status']
                          for row in sales[scope]['flavors']}
                  for scope in sales}
        for number, name in enumerate(
                flavor['name'] for flavor in document['flavors']):
            self.assertNotEqual('not-offered', status['all'][number])
            self.assertEqual(
                name.startswith('dedicated'),
                status['class:shared'][number] == 'not-offered', name)

    def test_lines(self):
        """They are those of the terminal, and of this scope."""
        fleet, document = _eight_hosts()
        finder = outlook.OutlookFinder(page_cases.page_of(fleet).measured)
        self.assertEqual(
            [list(line) for line
             in sales_headline.lines(finder.outlooks())],
            document['sales']['all']['lines'])

    def test_days(self):
        """From earlier snapshots, none without."""
        fleet = page_cases.fleet(8, shared=0)
        now = dataclasses.replace(fleet, taken_at='2026-11-20T00:00:00Z')
        then = dataclasses.replace(
            fleet, taken_at='2026-11-01T00:00:00Z', guests=fleet.guests[::2])
        for earlier in (), (then,):
            rows = page_cases.document(now, earlier=[
                page_cases.page_of(one).measured for one in earlier],
            )['sales']['class:dedicated']['flavors']
            self.assertEqual(bool(earlier), any(row['days'] for row in rows))

    def test_guests_without_another_host(self):
        """The one guest of a size that fits on no other host."""
        fleet = page_cases.fleet(3, shared=0)
        guest = next(guest for guest in fleet.guests
                     if guest.host == fleet.hosts[0].name)
        others = tuple(dataclasses.replace(host, is_enabled=False)
                       for host in fleet.hosts[1:])
        document = page_cases.document(dataclasses.replace(
            fleet, hosts=(fleet.hosts[0], *others), guests=(guest,)))
        first, *rest = document['hosts']
        self.assertEqual([0], first['down'])
        self.assertTrue(all('down' not in host for host in rest))
        self.assertTrue(all('down' not in host for host in (
            page_cases.document(dataclasses.replace(
                fleet, guests=(guest,)))['hosts'])))


class TestHosts(unit_base.TestCase):

    def test_drawn_as_they_are(self):
        """All CPUs that guests have, and all that the host has."""
        for fleet, document in _documents():
            occupancies = occupied.of_fleet(fleet)
            for host in document['hosts']:
                occupancy = occupancies[host['name']]
                made = document['shapes'][host['shape']]
                drawn = [cpu for socket in made['sockets']
                         for node in socket['nodes']
                         for cache in node['caches']
                         for core in cache['cores'] for cpu in core['cpus']]
                taken = [cpu for guest in host['guests'] for cell in guest[5]
                         for cpus in (cell[1], cell[3])
                         for cpu in _cpus(cpus)]
                self.assertEqual(len(drawn), len(set(drawn)))
                self.assertLessEqual(set(taken), set(drawn))
                self.assertEqual(
                    sorted(cpu for cell in occupancy.engine.cells
                           for cpu in cell.pinned_cpus), sorted(taken))

    def test_without_guests(self):
        fleet = dataclasses.replace(page_cases.fleet(3), guests=())
        document = page_cases.document(fleet)
        self.assertEqual([[], [], []],
                         [host['guests'] for host in document['hosts']])
        self.assertEqual('3 hosts, 0 guests', document['title'])

    def test_one_host_of_which_little_is_known(self):
        document = page_cases.document(snapshot.Fleet(hosts=(
            offered_host.OfferedHost(name='hôte', cells=()),)))
        host, = document['hosts']
        self.assertEqual('hôte', host['name'])
        self.assertEqual([], document['flavors'])
        self.assertEqual([], document['shapes'][0]['sockets'])

    def test_alike_is_written_once(self):
        fleet = dataclasses.replace(
            page_cases.fleet(40, shared=0), guests=())
        document = page_cases.document(fleet)
        self.assertEqual((1, 1), (len(document['shapes']),
                                  len(document['states'])))

    def test_disabled_devices_and_aggregates(self):
        fleet = page_cases.fleet(2, 'two-socket-96-pci', shared=0)
        first, second = fleet.hosts
        fleet = dataclasses.replace(fleet, hosts=(dataclasses.replace(
            first, is_enabled=False, disabled_reason='new disk'), second))
        document = page_cases.document(fleet)
        one, other = document['hosts']
        self.assertEqual('new disk', one['disabled'])
        self.assertNotIn('disabled', other)
        self.assertEqual(
            {(name, node): total for name, node, _traits, total, *_free
             in document['states'][one['state']]['devices']},
            {(next(alias for alias, what in fleet.pci_aliases.items()
                   if devices.PciRequest(alias, what.specs, 1).wants(pool)),
              pool.numa_node): pool.total for pool in first.pci_pools})

    def test_stranded_devices(self):
        """By alias, node and group; what is free, and what for nobody."""
        there = test_stranded_devices.request('h100-switch-2', 1, vcpus=8)
        measured = test_stranded_devices.measured(
            test_stranded_devices.request('h100', 1), there=[there])
        document = page_data.document(
            page_data.FleetPage(measured=measured), '1')
        state, = document['states']
        cells = document['causes'].index(capacity_report.STRANDED['cells'])
        self.assertEqual([
            ['h100', 0, 'CUSTOM_H100_SWITCH_0', 2, 2, []],
            ['h100', 0, 'CUSTOM_H100_SWITCH_1', 2, 2, []],
            ['h100', 1, 'CUSTOM_H100_SWITCH_2', 2, 1, [[cells, 1]]],
            ['h100', 1, 'CUSTOM_H100_SWITCH_3', 2, 2, [[cells, 2]]]],
            [row for row in state['devices'] if 'H100' in row[2]])
        self.assertEqual([['h100', 1]], document['flavors'][0]['devices'])

    def test_devices_that_are_not_on_sale(self):
        """They are no more of those that go by the alias of their ids."""
        keys = devices.device_keys('8086', '1572', '')
        alias = pci_alias.PciAlias((keys,))
        host = offered_host.OfferedHost(
            name='host', cells=test_stranded_devices.CELLS, pci_pools=tuple(
                devices.PciPool(
                    devices.device_keys('8086', '1572', kind), 0, 1)
                # Nova gives physical functions to who asks for such only.
                for kind in ('type-PCI', 'type-PF')))
        asked = dataclasses.replace(
            test_stranded_devices.request('h100', 1), queries=(), devices=(
                devices.PciRequest('nic', alias.specs, 1),))
        document = page_data.document(page_data.FleetPage(
            measured=capacity.measure(snapshot.Fleet(
                hosts=(host,), pci_aliases={'nic': alias}), [asked])), '1')
        self.assertEqual(
            [['nic', 0, '', 1, 1, []], ['8086:1572', 0, '', 1, 1, []]],
            document['states'][0]['devices'])

    def test_cells_that_are_not_in_order(self):
        """Nova's order of cells need not be that of their numbers."""
        cells = (builders.host_cell(1, range(8, 16), memory_mib=8192),
                 builders.host_cell(0, range(8), memory_mib=4096))
        document = page_cases.document(snapshot.Fleet(hosts=(
            offered_host.OfferedHost(name='one', cells=cells),)))
        shape, = document['shapes']
        self.assertEqual([1, 0], shape['order'])
        self.assertEqual({0: 4096, 1: 8192}, {
            node['id']: node['memory_mib'] for socket in shape['sockets']
            for node in socket['nodes']})


class TestHistory(unit_base.TestCase):

    def test_by_time(self):
        later = dataclasses.replace(
            page_cases.fleet(4), taken_at='2026-11-02T00:00:00Z')
        earlier = dataclasses.replace(
            later, guests=(), taken_at='2026-11-01T00:00:00Z')
        found = sold_history.history([
            later, earlier, page_cases.fleet(2)])
        self.assertEqual(['2026-11-01T00:00:00Z', '2026-11-02T00:00:00Z'],
                         [sold.taken_at for sold in found])
        self.assertEqual(0, found[0].pinned_cpus)
        self.assertEqual(
            sum(len(cell.pinned_cpus) for occupancy
                in occupied.of_fleet(later).values()
                for cell in occupancy.engine.cells), found[1].pinned_cpus)
        self.assertEqual(2, len(page_cases.document(
            later, history=found)['history']))
        self.assertIsInstance(found[0], page_data.SoldAt)
