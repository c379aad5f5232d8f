# SPDX-License-Identifier: Apache-2.0

import datetime
import threading

import ddt

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.fleet import occupied
from nova_pinning.host import host_model
from nova_pinning.importers import compute_api
from nova_pinning.importers import compute_run
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.placement import placement_traits
from nova_pinning.tests.unit.segregation import test_segregation_cloud

PLACEMENT = test_segregation_cloud.PLACEMENT
URL = test_segregation_cloud.URL
NOW = datetime.datetime(2026, 11, 21, 12)
DESCRIPTION = host_model.HostDescription(
    'h', (host_model.NumaNode(
        0, 0, ((0, 4), (1, 5), (2, 6), (3, 7)), 1024,
        l3_domains=(cpuset.CpuSet.parse('0-1,4-5'),
                    cpuset.CpuSet.parse('2-3,6-7'))),),
    nova=host_model.NovaSettings(dedicated_cpus=cpuset.CpuSet.parse('2-7')))
KNOWN = {'PCPU': (6, 0, 1.0), 'MEMORY_MB': (1024, 0, 1.0)}
DEDICATED = {'hw:cpu_policy': 'dedicated'}


NO_DEVICES = outcome.Doubt(
    outcome.DoubtKind.DEVICES, 'the API does not tell its PCI devices')


def hypervisor(name='h', **changes):
    return {'id': f'rp-{name}', 'hypervisor_hostname': f'{name}.example',
            'hypervisor_type': 'QEMU', 'hypervisor_version': 7002000,
            'status': 'enabled', 'state': 'up',
            'service': {'host': name, 'id': 's', 'disabled_reason': None},
            **changes}


def node(cell=0, pins=None, **changes):
    pins = pins or {}
    return {'host_node': cell, 'memory_mb': 512, 'siblings': [],
            'vcpu_set': list(map(int, pins)), 'cpu_pinning': pins, **changes}


def straight(results, total, what):
    return results


@ddt.ddt
class ComputeApiTestCase(test_segregation_cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.providers = {}
        self.sharing = ()
        self.in_aggregates = {}
        self.http.get(f'{PLACEMENT}/resource_providers', json=self.listed)
        self.hypervisors(hypervisor())
        self.servers()
        self.server_groups()
        self.http.get(f'{URL}/os-aggregates', json={'aggregates': []})
        self.http.get(f'{URL}/flavors/detail', json={'flavors': []})
        self.http.get(f'{URL}/os-availability-zone/detail',
                      json={'availabilityZoneInfo': []})
        self.provider('h', **KNOWN)

    def hypervisors(self, *shown, cpu_info=None):
        """As nova shows them; only who asks as of old is told of CPUs."""
        def answer(request, _context):
            version = request.headers['OpenStack-API-Version']
            more = {'cpu_info': cpu_info or {}} if version.endswith(
                '2.87') else {}
            return {'hypervisors': [{**one, **more} for one in shown]}

        self.http.get(f'{URL}/os-hypervisors/detail', json=answer)

    def server_groups(self, *shown, page=2):
        """Some at a time, as nova does it."""
        def answer(request, _context):
            self.assertEqual(['true'], request.qs['all_projects'])
            offset = int(request.qs['offset'][0])
            return {'server_groups': shown[offset:offset + page]}

        self.http.get(f'{URL}/os-server-groups', json=answer)

    def servers(self, *shown):
        self.http.get(f'{URL}/servers/detail', json={'servers': list(shown)})

    def provider(self, name, *names, used=None, parent=None, **inventories):
        """A provider of Placement.

        :param used: by consumer, or what somebody has who is no guest
        """
        self.providers[f'rp-{name}'] = {
            'uuid': f'rp-{name}', 'name': name, 'generation': 1,
            'parent_provider_uuid': parent and f'rp-{parent}'}
        path = f'{PLACEMENT}/resource_providers/rp-{name}'
        used = used or {}
        if not all(isinstance(amounts, dict) for amounts in used.values()):
            used = {'somebody': used}
        self.http.get(f'{path}/allocations', json={
            'resource_provider_generation': 1, 'allocations': {
                consumer: {'resources': amounts}
                for consumer, amounts in used.items()}})
        self.http.get(f'{path}/traits', json={
            'traits': list(names), 'resource_provider_generation': 1})
        self.http.get(f'{path}/aggregates', json={
            'aggregates': self.in_aggregates.get(name, []),
            'resource_provider_generation': 1})
        self.http.get(f'{path}/inventories', json={
            'resource_provider_generation': 1,
            'inventories': {
                key: {'total': total, 'reserved': reserved,
                      'allocation_ratio': ratio}
                for key, (total, reserved, ratio) in inventories.items()}})

    def listed(self, request, _context):
        """The providers that are asked for."""
        def is_asked(name):
            aggregate = request.qs.get('member_of', [''])[0]
            return (('required' not in request.qs or name in self.sharing)
                    and (not aggregate or aggregate
                         in self.in_aggregates.get(name, ())))

        return {'resource_providers': [
            shown for shown in self.providers.values()
            if is_asked(shown['name'])]}

    @staticmethod
    def pinned():
        """One with two pinned vCPUs, booted from a volume."""
        return test_segregation_cloud.server(image='', flavor={
            **test_segregation_cloud.server()['flavor'], 'vcpus': 2,
            'extra_specs': DEDICATED})

    def topology(self, server, *nodes, pagesize=None):
        self.http.get(f'{URL}/servers/id-{server}/topology', json={
            'nodes': list(nodes), 'pagesize_kb': pagesize})

    def cloud(self, **settings):
        made = super().cloud(**settings)
        return compute_api.ComputeCloud(made._connection, 'here')

    def read(self, descriptions=None, jobs=2):
        return compute_run.read(
            self.cloud(), {'h': DESCRIPTION} if descriptions is None
            else descriptions, straight, jobs, NOW)

    def fleet(self):
        """The fleet, of which nothing is odd."""
        fleet, notes = self.read()
        self.assertEqual((), notes)
        return fleet

    def guest(self, *nodes, pagesize=None, **changes):
        self.servers(test_segregation_cloud.server(**changes))
        self.topology('s', *nodes, pagesize=pagesize)
        found, = self.fleet().guests
        return found

    def test_host(self):
        self.provider(
            'h', placement_traits.DEDICATED, 'HW_CPU_X86_AVX2',
            PCPU=(6, 0, 1.0), VCPU=(8, 0, 4.0),
            MEMORY_MB=(1024, 64, 1.5), DISK_GB=(100, 0, 2.0),
            used={'PCPU': 3})
        fleet = self.fleet()
        host, = fleet.hosts
        self.assertEqual(offered_host.OfferedHost(
            name='h', cells=(model.HostCell(
                0, cpuset.CpuSet(), cpuset.CpuSet.parse('2-7'),
                cpuset.CpuSet(), ((3, 7), (4,), (2, 6), (5,)), 1024,
                pages=(model.PagePool(4, 262144),), socket=0),),
            l3_domains=DESCRIPTION.nodes[0].l3_domains,
            host_class=hostclass.HostClass.DEDICATED,
            traits=frozenset({placement_traits.DEDICATED, 'HW_CPU_X86_AVX2'}),
            cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5,
            disk_allocation_ratio=2.0, reserved_memory_mib=64, disk_gib=100,
            hypervisor_version=7002000, inventories={
                'PCPU': inventory.Inventory(6),
                'VCPU': inventory.Inventory(8, 0, 4.0),
                'MEMORY_MB': inventory.Inventory(1024, 64, 1.5),
                'DISK_GB': inventory.Inventory(100, 0, 2.0)},
            held={'PCPU': 3}, gaps=(
                outcome.Doubt(
                    outcome.DoubtKind.CONTRADICTION,
                    'its host file has no shared CPUs where Placement has 8 '
                    'VCPU'),
                NO_DEVICES,
                outcome.Doubt(
                    outcome.DoubtKind.HELD,
                    'Placement has 3 PCPU allocated of it beside its servers, '
                    'for a migration or a server that is being built'))),
            host)
        self.assertEqual('2026-11-21T12:00:00Z', fleet.taken_at)
        self.assertEqual('cloud here', fleet.source)

    @ddt.data(
        ({'status': 'disabled'}, 'disabled'),
        ({'status': 'disabled', 'service': {
            'host': 'h', 'disabled_reason': 'fan'}}, 'fan'),
        ({'state': 'down'}, 'nova-compute is down'))
    @ddt.unpack
    def test_disabled(self, changes, reason):
        self.hypervisors(hypervisor(**changes))
        host, = self.fleet().hosts
        self.assertFalse(host.is_enabled)
        self.assertEqual(reason, host.disabled_reason)

    def test_bare_metal_left_out(self):
        self.hypervisors(hypervisor(),
                         hypervisor('m', hypervisor_type='ironic'))
        self.assertEqual(1, len(self.fleet().hosts))

    def test_without_host_file(self):
        fleet, notes = self.read({})
        self.assertEqual((), fleet.hosts[0].cells)
        self.assertTrue(fleet.hosts[0].is_opaque)
        self.assertEqual((outcome.Doubt(
            outcome.DoubtKind.CELLS, 'it has no host file'), NO_DEVICES),
            fleet.hosts[0].gaps)
        self.assertEqual(('1 host without a host file, of which is known only '
                          'how many pinned guests fit at most: h',), notes)

    @ddt.data((('VCPU',), hostclass.HostClass.SHARED), (('PCPU',), None),
              (('PCPU', 'VCPU'), None), ((), None))
    @ddt.unpack
    def test_class_by_placement(self, names, wanted):
        """What HostClassFilter makes of such a host, if nova has it."""
        self.provider('h', MEMORY_MB=(1024, 0, 1.0),
                      **dict.fromkeys(names, (6, 0, 1.0)))
        self.servers(test_segregation_cloud.server())
        host, = self.read({})[0].hosts
        self.assertIs(wanted, host.host_class)

    def test_class_that_is_open(self):
        """Of hosts without CPU sets the guests tell."""
        for used, servers in (
                ({'id-s': {'VCPU': 2}}, [self.pinned()]),
                ({'VCPU': 2}, [])):
            self.provider('h', VCPU=(6, 0, 1.0), used=used)
            self.servers(*servers)
            self.topology('s', node(0, {'0': 2, '1': 3}))
            host, = self.read({})[0].hosts
            self.assertIsNone(host.host_class)

    def test_file_of_another_class(self):
        """What Placement has not is not counted on."""
        self.provider('h', VCPU=(6, 0, 1.0), MEMORY_MB=(1020, 0, 1.0))
        host, = self.read()[0].hosts
        self.assertEqual([cpuset.CpuSet()],
                         [cell.dedicated_cpus for cell in host.cells])
        self.assertEqual(
            'its host file has 6 dedicated CPUs where Placement has no PCPU '
            'and no shared CPUs where Placement has 6 VCPU',
            host.gaps[0].text)

    def test_file_of_other_memory(self):
        self.provider('h', PCPU=(6, 0, 1.0), MEMORY_MB=(2048, 0, 1.0))
        host, = self.read()[0].hosts
        self.assertEqual(
            'its host file has 1,024 MiB of memory where Placement has 2,048',
            host.gaps[0].text)

    def test_devices_in_placement(self):
        """Each is a provider below the host, with what it is used for."""
        for name, used in (('gpu-1', {'id-s': {'CUSTOM_PCI_10DE_20B5': 1}}),
                           ('gpu-2', {'CUSTOM_PCI_10DE_20B5': 1}),
                           ('gpu-3', {})):
            self.provider(name, 'CUSTOM_FAST', parent='h', used=used,
                          CUSTOM_PCI_10DE_20B5=(1, 0, 1.0))
        self.provider('h', **KNOWN)
        self.servers(test_segregation_cloud.server())
        fleet, _notes = self.read()
        host, = fleet.hosts
        self.assertNotIn('CUSTOM_PCI_10DE_20B5', host.inventories)
        one = ('CUSTOM_PCI_10DE_20B5', inventory.Inventory(1))
        self.assertEqual(
            [offered_host.OfferedProvider(
                0, (one,), frozenset({'CUSTOM_FAST'}), held=held)
             for held in ((), (('CUSTOM_PCI_10DE_20B5', 1),), ())],
            list(host.children))
        self.assertEqual(['rp-gpu-1', 'rp-gpu-2', 'rp-gpu-3'],
                         [child.uuid for child in host.children])
        guest, = fleet.guests
        self.assertEqual(((1, (('CUSTOM_PCI_10DE_20B5', 1),)),),
                         guest.allocations)
        self.assertIn('near which cells', host.gaps[0].text)

    def test_shared_disks(self):
        """Of what shares with a host, what others have of it is held."""
        self.in_aggregates = {'pool': ['agg'], 'numa': ['agg']}
        self.sharing = ('pool',)
        self.provider('h', **KNOWN, used={'id-s': {'MEMORY_MB': 2}})
        self.provider('numa', parent='h')
        self.provider('other')
        self.provider('pool', 'MISC_SHARES_VIA_AGGREGATE', used={
            'id-s': {'DISK_GB': 3}, 'elsewhere': {'DISK_GB': 4}},
            DISK_GB=(100, 0, 1.0))
        self.servers(test_segregation_cloud.server())
        fleet, _notes = self.read()
        host, = fleet.hosts
        self.assertEqual(['rp-numa', 'rp-pool'],
                         [child.uuid for child in host.children])
        self.assertEqual(offered_host.OfferedProvider(
            None, (('DISK_GB', inventory.Inventory(100)),),
            frozenset({'MISC_SHARES_VIA_AGGREGATE'}), is_shared=True,
            held=(('DISK_GB', 4),)), host.children[1])
        occupancy = occupied.of_fleet(fleet)['h']
        self.assertEqual(
            ({'VCPU': 0, 'PCPU': 0, 'MEMORY_MB': 2, 'DISK_GB': 0}, {},
             {'DISK_GB': 7}), occupancy.used)

    def test_allocated_otherwise(self):
        """Placement is right about what its allocations are."""
        self.provider('h', **KNOWN, used={
            'id-s': {'PCPU': 1, 'MEMORY_MB': 1, 'CUSTOM_GOLD': 2}})
        self.servers(self.pinned())
        self.topology('s', node(0, {'0': 2, '1': 3}))
        fleet, _notes = self.read()
        host, = fleet.hosts
        self.assertEqual({}, host.held)
        self.assertEqual((NO_DEVICES,), host.gaps)
        guest, = fleet.guests
        self.assertEqual({'PCPU': 1, 'CUSTOM_GOLD': 2}, guest.resources)

    def test_counted_with_less(self):
        """What a guest has on its other host is not here."""
        self.provider('h', **KNOWN, used={'MEMORY_MB': 1})
        self.servers(self.pinned())
        self.topology('s', node(0, {'0': 2, '1': 3}))
        host, = self.read()[0].hosts
        self.assertEqual({'PCPU': -2}, host.held)

    def test_without_provider(self):
        del self.providers['rp-h']
        fleet, notes = self.read()
        self.assertIsNone(fleet.hosts[0].traits)
        self.assertEqual(('host h: Placement has no such provider',), notes)

    def test_aggregates(self):
        shown = test_segregation_cloud.aggregate('h')
        shown['metadata'] = {'availability_zone': 'east',
                             'pinning:class': 'shared'}
        self.http.get(f'{URL}/os-aggregates', json={'aggregates': [shown]})
        fleet = self.fleet()
        self.assertEqual((offered_host.Aggregate(
            'a', 'east', {'pinning:class': 'shared'}),), fleet.aggregates)
        self.assertEqual(('a',), fleet.hosts[0].aggregates)
        self.assertIs(hostclass.HostClass.SHARED, fleet.hosts[0].host_class)

    def test_default_zone(self):
        """That of hosts which no aggregate puts in one."""
        shown = test_segregation_cloud.aggregate('h')
        shown['metadata'] = {'availability_zone': 'east'}
        self.http.get(f'{URL}/os-aggregates', json={'aggregates': [shown]})
        self.http.get(f'{URL}/os-availability-zone/detail', json={
            'availabilityZoneInfo': [
                {'zoneName': name, 'zoneState': {'available': True},
                 'hosts': hosts}
                for name, hosts in (('east', {'h': {}}), ('none', None),
                                    ('south', {'other': {}}))]})
        self.assertEqual('south', self.fleet().rules.default_zone)

    def test_class_in_dispute(self):
        shown = test_segregation_cloud.aggregate('h')
        shown['metadata'] = {'pinning:class': 'shared'}
        self.http.get(f'{URL}/os-aggregates', json={'aggregates': [shown]})
        self.provider('h', placement_traits.DEDICATED, **KNOWN)
        for descriptions in (None, {}):
            fleet, notes = self.read(descriptions)
            self.assertIsNone(fleet.hosts[0].host_class)
            self.assertIn('host h is of no class', notes[0])

    def test_pinned(self):
        found = self.guest(
            node(1, {'0': 2, '1': 6}), node(0, {'2': 3}),
            pagesize=1048576, extra_specs={
                **DEDICATED, 'hw:cpu_thread_policy': 'require'})
        self.assertEqual(model.Guest(
            (model.GuestCell((0, 1), (), 512, 1048576),
             model.GuestCell((2,), (), 512, 1048576)),
            model.CpuPolicy.DEDICATED, model.ThreadPolicy.REQUIRE),
            found.topology)
        self.assertEqual(model.Fit((
            model.CellFit(1, ((0, 2), (1, 6)), (), 1048576),
            model.CellFit(0, ((2, 3),), (), 1048576))), found.fit)
        self.assertIs(hostclass.HostClass.DEDICATED, found.guest_class)
        self.assertTrue(found.is_movable)

    @ddt.data(({}, model.PAGES_ANY), ({'hw_mem_page_size': '4'}, 4))
    @ddt.unpack
    def test_pages(self, properties, wanted):
        """A move asks for what the guest asked for, not for what it got."""
        found = self.guest(
            node(0, {'0': 2}), pagesize=4,
            image={'id': 'i', 'properties': properties},
            extra_specs={'hw:mem_page_size': 'any'})
        self.assertEqual(wanted, found.topology.cells[0].page_size_kib)
        self.assertEqual(4, found.fit.page_size_kib)

    @ddt.data(({}, 'shared'), ({'0': 4}, 'mixed'),
              ({'0': 4, '1': 5}, 'dedicated'))
    @ddt.unpack
    def test_policy(self, pins, policy):
        found = self.guest(node(0, pins, vcpu_set=[0, 1]), extra_specs={
            'hw:numa_nodes': '1'})
        self.assertEqual(policy, found.topology.cpu_policy)

    def test_floating(self):
        found = self.guest()
        self.assertIsNone(found.topology)
        self.assertEqual('f', found.flavor)
        # It cannot have one, so nobody asks.
        self.assertFalse([one for one in self.sent()
                          if one.path.endswith('/topology')])

    @ddt.data(
        {'image': {'id': 'i', 'properties': {'hw_numa_nodes': '1'}}},
        {'image': {'id': 'i'}}, {'extra_specs': {'hw:mem_page_size': '4'}},
        {'extra_specs': {'resources:PCPU': '1'}})
    def test_asked(self, changes):
        self.assertIsNotNone(self.guest(node(0), **changes).topology)

    def test_from_volume(self):
        flavor = {**test_segregation_cloud.server()['flavor'], 'disk': 20,
                  'ephemeral': 3, 'swap': 1025}
        self.assertEqual(25, self.guest(flavor=flavor).disk_gib)
        self.assertEqual(5, self.guest(flavor=flavor, image='').disk_gib)

    def test_cpu_model(self):
        self.hypervisors(hypervisor(), cpu_info={
            'arch': 'x86_64', 'vendor': 'Intel', 'model': 'Cascadelake-Server',
            'topology': {'cells': 2}, 'features': ['pku', 'rdpid']})
        host, = self.fleet().hosts
        self.assertEqual(offered_host.HostCpuModel(
            arch='x86_64', vendor='Intel', model='Cascadelake-Server',
            features=frozenset({'pku', 'rdpid'})), host.cpu_model)

    @ddt.data({'model': None, 'arch': 'aarch64'}, {})
    def test_no_cpu_model(self, cpu_info):
        self.hypervisors(hypervisor(), cpu_info=cpu_info)
        self.assertIsNone(self.fleet().hosts[0].cpu_model)

    @ddt.data('text', {'model': 'm', 'features': [1]}, {'model': [1]})
    def test_odd_cpu_model(self, cpu_info):
        self.hypervisors(hypervisor(), cpu_info=cpu_info)
        fleet, notes = self.read()
        self.assertIsNone(fleet.hosts[0].cpu_model)
        self.assertIn('host h: its cpu_info cannot be read: ', notes[0])

    def test_server_groups(self):
        self.servers(*map(test_segregation_cloud.server, 'abc'))
        rules = {'max_server_per_host': 2}
        self.server_groups(
            {'id': 'g1', 'name': 'one', 'policy': 'anti-affinity',
             'rules': rules, 'members': ['id-a', 'gone']},
            {'id': 'g2', 'name': 'two', 'policy': 'soft-affinity',
             'rules': {}, 'members': []},
            {'id': 'g3', 'name': 'three', 'policy': 'affinity',
             'rules': {}, 'members': ['id-c']},
            {'id': 'g4', 'name': 'old', 'policy': 'legacy', 'rules': {},
             'members': ['id-b']})
        fleet = self.fleet()
        self.assertEqual((
            offered_host.ServerGroup(
                id='g1', name='one', max_per_host=2,
                policy=offered_host.GroupPolicy.ANTI_AFFINITY),
            offered_host.ServerGroup(
                id='g2', name='two',
                policy=offered_host.GroupPolicy.SOFT_AFFINITY),
            offered_host.ServerGroup(
                id='g3', name='three',
                policy=offered_host.GroupPolicy.AFFINITY),
        ), fleet.server_groups)
        self.assertEqual(['g1', '', 'g3'],
                         [guest.server_group for guest in fleet.guests])

    def test_no_rights_to_server_groups(self):
        self.http.get(f'{URL}/os-server-groups',
                      **test_segregation_cloud.refusal('forbidden', 403, 'no'))
        self.assertRaises(errors.CloudError, self.read)

    @ddt.data((None, ''), ('east', 'east'))
    @ddt.unpack
    def test_wishes(self, shown, zone):
        found = self.guest(**{
            'pinned_availability_zone': shown, 'OS-EXT-STS:vm_state': 'paused',
            'tags': ['b', 'a'], 'metadata': {
                'pinning:movable': 'false', 'colour': 'red'}})
        self.assertEqual((zone, 'paused', 'p', ('a', 'b'),
                          {'pinning:movable': 'false'}), (
            found.availability_zone, found.vm_state, found.project,
            found.tags, found.metadata))

    def test_wishes_not_shown(self):
        found = self.guest()
        self.assertIsNone(found.availability_zone)
        self.assertEqual(('', '', ()), (
            found.vm_state, found.server_group, found.tags))

    @ddt.data({'status': 'ERROR'}, {'OS-EXT-STS:task_state': 'rebooting'})
    def test_not_movable(self, changes):
        self.assertFalse(self.guest(**changes).is_movable)

    def test_on_no_host(self):
        self.servers(test_segregation_cloud.server(host=None))
        self.assertEqual((), self.fleet().guests)

    def test_gone_meanwhile(self):
        self.servers(test_segregation_cloud.server('a', extra_specs=DEDICATED),
                     test_segregation_cloud.server('b', extra_specs=DEDICATED))
        self.topology('b', node(0, {'0': 2}))
        self.http.get(
            f'{URL}/servers/id-a/topology',
            **test_segregation_cloud.refusal('itemNotFound', 404, 'gone'))
        self.assertEqual(['id-b'],
                         [guest.uuid for guest in self.fleet().guests])

    def test_tried_again(self):
        self.servers(test_segregation_cloud.server(extra_specs=DEDICATED))
        self.http.get(f'{URL}/servers/id-s/topology', [
            test_segregation_cloud.refusal('computeFault', 503, 'busy'),
            {'json': {'nodes': [node(0, {'0': 2})], 'pagesize_kb': None}}])
        self.assertEqual(1, len(self.fleet().guests))

    def test_fails(self):
        self.servers(
            *(test_segregation_cloud.server(f'{number}', extra_specs=DEDICATED)
              for number in range(20)))
        for number in range(20):
            self.topology(f'{number}', node(0, {'0': 2}))
        self.http.get(
            f'{URL}/servers/id-7/topology',
            **test_segregation_cloud.refusal('computeFault', 500, 'broken'))
        before = threading.active_count()
        error = self.assertRaises(errors.CloudError, self.read)
        self.assertIn('500 broken', str(error))
        self.assertEqual(before, threading.active_count())

    def test_no_rights(self):
        self.servers(test_segregation_cloud.server(extra_specs=DEDICATED))
        self.topology('s', {'vcpu_set': [0], 'memory_mb': 1, 'siblings': []})
        error = self.assertRaises(errors.CloudError, self.read)
        self.assertIn('compute:server:topology:host:index', str(error))

    @ddt.data('OS-EXT-SRV-ATTR:host', 'flavor')
    def test_not_shown(self, key):
        shown = test_segregation_cloud.server()
        del shown[key]
        self.servers(shown)
        self.assertRaises(errors.CloudError, self.read)

    @ddt.data({'pins': {'x': 1}}, {'pins': {'0': 10 ** 9}},
              {'memory_mb': None, 'vcpu_set': None})
    def test_odd_topology(self, changes):
        self.servers(test_segregation_cloud.server(extra_specs=DEDICATED))
        self.topology('s', {**node(0), **changes} if 'pins' not in changes
                      else {**node(0), 'cpu_pinning': changes['pins']})
        fleet, notes = self.read()
        self.assertEqual((), fleet.guests)
        self.assertIn('server id-s on h is left out: ', notes[0])

    def test_notes(self):
        self.servers(test_segregation_cloud.server(
            status='VERIFY_RESIZE', extra_specs={
                **DEDICATED, 'hw:emulator_threads_policy': 'isolate'}))
        self.topology('s', node(0, {'0': 2}))
        fleet, notes = self.read()
        self.assertEqual((
            'server id-s on h is being moved; what it holds on its other host '
            'is known as far as Placement has it',), notes)
        self.assertIn(outcome.Doubt(
            outcome.DoubtKind.EMULATOR_CPUS,
            'the API does not tell the CPU for emulator threads of 1 server'),
            fleet.hosts[0].gaps)

    def test_many(self):
        """Whatever the number of jobs, the same in the same order."""
        names = [f'{number:02}' for number in range(30)]
        self.servers(
            *(test_segregation_cloud.server(name, extra_specs=DEDICATED)
              for name in names))
        for number, name in enumerate(names):
            self.topology(name, node(0, {'0': number}))
        for jobs in (1, 3, 8):
            fleet, _notes = self.read(jobs=jobs)
            self.assertEqual(
                [(f'id-{name}', number)
                 for number, name in enumerate(names)],
                [(guest.uuid, guest.fit.cells[0].pins[0][1])
                 for guest in fleet.guests])
