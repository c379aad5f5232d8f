# SPDX-License-Identifier: Apache-2.0

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import datetime
import json
import pathlib
from unittest import mock

import ddt
import fixtures
from nova.compute import resource_tracker
from nova.db.api import models as api_models
from nova.db.main import models
from nova import objects
import sqlalchemy as sa
from sqlalchemy import exc as sa_exception

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import pci_alias
from nova_pinning.admission import providers
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge.importer import fleet_import
from nova_pinning.bridge.importer import fleet_import_settings
from nova_pinning.bridge.importer import nova_database
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import occupied
from nova_pinning.fleet import provider_trees
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_loader
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.tests import novadatabase
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit import unit_base

NIC = devices.device_keys('15b3', '101e', 'type-VF')


class TestCase(unit_base.TestCase):
    """Tests with databases of nova in SQLite files."""

    CELLS = ('north',)

    def setUp(self):
        super().setUp()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.nova = novadatabase.NovaDatabase(directory, self.CELLS)
        self.addCleanup(self.nova.close)
        self.nova.create_tables()
        self.nova.add_mappings()

    def import_(self, **options):
        conf = nova_database.load_conf(['--config-file', str(self.nova.conf)])
        options.setdefault('now', novadatabase.NOW)
        with nova_database.opened(conf) as database:
            return fleet_import.read(database, **options)

    def host(self, **options):
        """The one host, of which nothing is odd."""
        imported = self.import_(**options)
        self.assertEqual((), imported.notes)
        host, = imported.fleet.hosts
        return host

    def add_pinned(self, name, host, cells, flavor=None, **changes):
        """A guest that is pinned to these CPUs, by cell."""
        extra = {'numa_topology': novadatabase.guest_json(name, cells),
                 'flavor': novadatabase.flavors_json(
                     flavor or novadatabase.flavor(
                         hw__cpu_policy='dedicated')),
                 **changes.pop('extra', {})}
        return self.nova.add_guest(name, host, extra=extra, **changes)


@ddt.ddt
class HostTestCase(TestCase):

    def test_cells(self):
        self.nova.add_host('cmp-1')
        host = self.host()
        self.assertEqual('cmp-1', host.name)
        self.assertEqual(
            [cpuset.CpuSet.parse('0-7,16-23'),
             cpuset.CpuSet.parse('8-15,24-31')],
            [cell.dedicated_cpus for cell in host.cells])
        cell = host.cells[1]
        self.assertEqual(1, cell.id)
        self.assertEqual(novadatabase.CELL_MIB, cell.memory_mib)
        self.assertEqual([(8, 24), (9, 25)],
                         list(map(tuple, map(sorted, cell.cores)))[:2])
        self.assertEqual((model.PagePool(4, 8388608, 0, 0),
                          model.PagePool(1048576, 32, 0, 1)), cell.pages)
        self.assertEqual(frozenset({'east'}), cell.physnets)
        self.assertFalse(cell.tunneled)
        self.assertEqual(1, cell.socket)
        self.assertEqual(900, host.disk_gib)
        self.assertEqual(512, host.reserved_memory_mib)
        self.assertTrue(host.is_enabled)
        self.assertIsNone(host.traits)

    def test_same_as_the_scheduler_sees(self):
        """Hosts with guests on them are what nova has in its own row."""
        from nova_pinning.bridge import topology
        cells = {0: [0, 16], 1: [8, 24, 9]}
        self.add_pinned('a', 'cmp-1', cells)
        found = objects.NUMATopology.obj_from_db_obj(
            novadatabase.topology_json())
        for cell in found.cells:
            for pool in cell.mempages:
                pool.used = 0
            # In no order, as nova-compute reports them.
            cell.siblings = cell.siblings[5:] + cell.siblings[4::-1]
        guest = novadatabase.guest_topology('a', cells)
        from nova.virt import hardware
        found = hardware.numa_usage_from_instance_numa(found, guest)
        text = found._to_json()
        self.nova.add_host('cmp-1', numa_topology=text)
        imported = self.import_()
        self.assertEqual((), imported.notes)
        own = fleet_samples.engine_hosts(imported.fleet)['cmp-1']
        theirs = topology.host_from_nova(
            objects.NUMATopology.obj_from_db_obj(text))
        for ours, nova in zip(own.cells, theirs.cells, strict=True):
            for name in ('id', 'free_count', 'memory_used_mib', 'pages',
                         'shared_used', 'free_cores'):
                self.assertEqual(getattr(nova, name), getattr(ours, name))

    def test_for_migrations(self):
        self.nova.add_host('cmp-1', cpu_info=json.dumps({
            'arch': 'x86_64', 'vendor': 'Intel', 'model': 'Cascadelake-Server',
            'topology': {'cells': 2}, 'features': ['rdpid', 'pku']}))
        host = self.host()
        self.assertEqual(('north', 7002000), (
            host.nova_cell, host.hypervisor_version))
        self.assertEqual(offered_host.HostCpuModel(
            arch='x86_64', vendor='Intel', model='Cascadelake-Server',
            features=frozenset({'pku', 'rdpid'})), host.cpu_model)

    @ddt.data('', '{}', '{"model": null, "arch": "aarch64"}')
    def test_no_cpu_model(self, text):
        self.nova.add_host('cmp-1', cpu_info=text)
        self.assertIsNone(self.host().cpu_model)

    @ddt.data('{', '[]', '{"model": 3}')
    def test_odd_cpu_model(self, text):
        self.nova.add_host('cmp-1', cpu_info=text)
        imported = self.import_()
        self.assertIsNone(imported.fleet.hosts[0].cpu_model)
        self.assertEqual(2, len(imported.fleet.hosts[0].cells))
        self.assertIn('host cmp-1: its cpu_info cannot be read: ',
                      imported.notes[0])

    @ddt.data((None, 16.0), (0.0, 16.0), (3.0, 3.0))
    @ddt.unpack
    def test_ratios(self, stored, wanted):
        self.nova.write_conf('[DEFAULT]\ncpu_allocation_ratio = 16\n')
        self.nova.add_host('cmp-1', cpu_allocation_ratio=stored)
        self.assertEqual(wanted, self.host().cpu_allocation_ratio)

    def test_initial_ratios(self):
        self.nova.add_host('cmp-1', cpu_allocation_ratio=None,
                           ram_allocation_ratio=None,
                           disk_allocation_ratio=0.0)
        host = self.host()
        self.assertEqual((4.0, 1.0, 1.0), (
            host.cpu_allocation_ratio, host.ram_allocation_ratio,
            host.disk_allocation_ratio))

    @ddt.data(
        ({'disabled': True, 'disabled_reason': 'broken fan'}, 'broken fan'),
        ({'disabled': True}, 'disabled'),
        ({'forced_down': True}, 'nova-compute was forced down'),
        ({'last_seen_up': datetime.datetime(2026, 11, 21, 11, 58)},
         'nova-compute is down since 2026-11-21T11:58:00Z'),
        ({'deleted': 1}, 'it has no compute service'))
    @ddt.unpack
    def test_disabled(self, service, reason):
        self.nova.add_host('cmp-1', service=service)
        host = self.host()
        self.assertFalse(host.is_enabled)
        self.assertEqual(reason, host.disabled_reason)

    @ddt.data((68, '2025.1'), (69, '2025.2'), (74, '2026.2'), (0, None))
    @ddt.unpack
    def test_release(self, version, release):
        self.nova.add_host('cmp-1', service={'version': version})
        self.assertEqual(release, self.host().nova_release)

    @ddt.data(
        (('cmp-1',), 1000,
         'host cmp-1 runs a newer nova than 2026.2, the newest that is known '
         'here (service version 1000, not 74), so the snapshot names no '
         'release for it'),
        (('cmp-1', 'cmp-2'), 1000,
         '2 hosts, such as cmp-1, run a newer nova than 2026.2, the newest '
         'that is known here (service version 1000, not 74), so the snapshot '
         'names no release for them'),
        (('cmp-1',), 67,
         'host cmp-1 runs 2024.1 or 2024.2 (service version 67, as both '
         'report), so the snapshot names no release for it'),
        (('cmp-1',), 66,
         'host cmp-1 runs a nova from before 2024.1, the oldest that is known '
         'here (service version 66), so the snapshot names no release for '
         'it'))
    @ddt.unpack
    def test_release_that_is_not_known(self, names, version, told):
        for name in names:
            self.nova.add_host(name, service={'version': version})
        imported = self.import_()
        self.assertEqual({None}, {
            host.nova_release for host in imported.fleet.hosts})
        self.assertEqual((f'cell north: {told}',), imported.notes)

    def test_release_without_a_service(self):
        self.nova.add_host('cmp-1', service={'deleted': 1})
        self.assertIsNone(self.host().nova_release)

    def test_of_a_disabled_cell(self):
        self.nova.add_host('cmp-1')
        self.nova.execute('api', sa.update(api_models.CellMapping).values(
            disabled=True))
        self.assertEqual('cell north is disabled', self.host().disabled_reason)

    def test_others_left_out(self):
        self.nova.add_host('cmp-1')
        self.nova.add_host('metal', hypervisor_type='ironic')
        self.nova.add_host('gone', deleted=7)
        self.assertEqual('cmp-1', self.host().name)

    def test_several_nodes(self):
        self.nova.add_host('cmp-1', hypervisor_hostname='old')
        self.nova.insert('north', models.ComputeNode, [
            novadatabase.node_row('cmp-1', local_gb=5,
                                  uuid=novadatabase.uuid('other'))])
        imported = self.import_()
        self.assertEqual([5], [host.disk_gib for host in imported.fleet.hosts])
        self.assertEqual(
            ('host cmp-1 has several compute nodes, of which cmp-1 was taken '
             'and old left out',), imported.notes)

    def test_without_topology(self):
        self.nova.add_host('cmp-1', numa_topology=None)
        self.assertEqual((), self.host().cells)

    def test_legacy_topology(self):
        self.nova.add_host('cmp-1', numa_topology=json.dumps({'cells': [
            {'id': 0, 'cpus': '0-3', 'cpu_usage': 1,
             'mem': {'total': 1024, 'used': 5}}]}))
        cell, = self.host().cells
        self.assertEqual(cpuset.CpuSet.parse('0-3'), cell.shared_cpus)
        self.assertTrue(cell.is_legacy)
        self.assertEqual(1024, cell.memory_mib)
        self.assertEqual(0, cell.memory_used_mib)

    def test_topology_before_train(self):
        found = json.loads(novadatabase.topology_json(is_dedicated=False))
        for cell in found['nova_object.data']['cells']:
            cell['nova_object.version'] = '1.3'
            for key in ('pcpuset', 'socket'):
                del cell['nova_object.data'][key]
        self.nova.add_host('cmp-1', numa_topology=json.dumps(found))
        cell = self.host().cells[0]
        self.assertTrue(cell.is_legacy)
        self.assertIsNone(cell.socket)

    @ddt.data('{', '[]', '7', '{"nova_object.name": "Nonsense"}', 'null',
              '{"cells": [{"id": 0, "cpus": "x"}]}',
              novadatabase.topology_json({0: [10 ** 9]}),
              novadatabase.topology_json().replace('"NUMACell"', '"Nothing"'),
              novadatabase.topology_json().replace('"id": 1', '"id": 0'),
              novadatabase.topology_json().replace('"siblings"', '"other"'))
    def test_broken_topology(self, text):
        self.nova.add_host('cmp-0', numa_topology=text)
        self.nova.add_host('cmp-1')
        imported = self.import_()
        broken, good = imported.fleet.hosts
        self.assertEqual((), broken.cells)
        self.assertEqual(2, len(good.cells))
        note, = imported.notes
        self.assertIn('host cmp-0: its NUMA topology cannot be read: ', note)

    def test_devices(self):
        self.nova.add_host('cmp-1')
        self.nova.add_host('cmp-2')
        guest = self.nova.add_guest('a', 'cmp-1')
        for number, (status, node, owner) in enumerate((
                ('available', 0, None), ('available', 1, None),
                ('allocated', 0, guest), ('claimed', 0, guest),
                ('unavailable', 0, None), ('removed', 0, None),
                ('available', None, None))):
            self.nova.insert('north', models.PciDevice, [{
                'compute_node_id': self.nova.node_id('cmp-1'),
                'address': f'0000:3b:00.{number}', 'vendor_id': '15B3',
                'product_id': '101e', 'dev_type': 'type-VF', 'label': 'x',
                'status': status, 'numa_node': node, 'instance_uuid': owner,
                'deleted': 0, 'dev_id': '', 'uuid': novadatabase.uuid(
                    f'device {number}')}])
        imported = self.import_()
        host, other = imported.fleet.hosts
        self.assertCountEqual(
            [devices.PciPool(NIC, 0, 3, is_complete=False),
             devices.PciPool(NIC, 1, 1, is_complete=False),
             devices.PciPool(NIC, None, 1, is_complete=False)],
            host.pci_pools)
        self.assertEqual((), other.pci_pools)
        self.assertEqual((devices.PciUse(NIC, 0, 2),),
                         imported.fleet.guests[0].devices)

    def add_devices(self, *rows, pools=None):
        """Devices of cmp-1.

        :param pools: what nova-compute has written of those that are free
        """
        number = self.nova.node_id('cmp-1')
        self.nova.insert('north', models.PciDevice, [{
            'compute_node_id': number, 'vendor_id': '15b3',
            'product_id': '101e', 'dev_type': 'type-VF', 'label': 'x',
            'status': 'allocated' if device.get('instance_uuid')
            else 'available', 'numa_node': 0, 'instance_uuid': None,
            'request_id': None, 'parent_addr': None, 'extra_info': '{}',
            'deleted': 0, 'dev_id': '',
            'address': f'0000:3b:00.{index}', **device}
            for index, device in enumerate(rows)])
        self.nova.execute('north', sa.update(models.ComputeNode).values(
            pci_stats=json.dumps(pools or [])))

    def test_tags(self):
        """What nova-compute has written of pools is all there is to know."""
        self.nova.add_host('cmp-1')
        self.add_devices({}, {'dev_type': 'type-PCI'}, pools=[
            {'vendor_id': '15b3', 'product_id': '101e', 'numa_node': 0,
             'count': 1, 'dev_type': 'type-VF', 'remote_managed': 'false',
             'address': '0000:3b:00.0', 'physical_network': 'east',
             'managed': 'true', 'live_migratable': 'true',
             'one_time_use': 'false'}])
        self.assertCountEqual([
            devices.PciPool(devices.device_keys(
                '15b3', '101e', 'type-VF', remote_managed='false',
                physical_network='east', managed='true',
                live_migratable='true', one_time_use='false'), 0, 1),
            devices.PciPool(devices.device_keys('15b3', '101e'), 0, 1,
                            is_complete=False)], self.host().pci_pools)

    @ddt.data((('0', '1', '2'), False), (('0', '2', '1'), True))
    @ddt.unpack
    def test_order_of_devices(self, order, has_addresses):
        """As nova-scheduler has pools, whatever comes between like ones."""
        self.nova.add_host('cmp-1')
        rows = {number: {'address': f'0000:{number}b:00.0',
                         'numa_node': int(number == '2')}
                for number in '012'}
        self.add_devices(*rows.values(), pools=[
            {'vendor_id': '15b3', 'product_id': '101e', 'count': 1,
             'dev_type': 'type-VF', **rows[number]} for number in order])
        pools = self.host().pci_pools
        self.assertEqual([0, 1, 0] if has_addresses else [0, 1],
                         [pool.numa_node for pool in pools])
        self.assertEqual([has_addresses and pool.numa_node == 0
                          for pool in pools],
                         ['address' in dict(pool.keys) for pool in pools])

    def test_order_of_claims(self):
        """What Placement knows of devices is a tag to nova-scheduler only."""
        self.nova.add_host('cmp-1')
        self.add_devices(
            {'extra_info': json.dumps({'rp_uuid': 'one'})},
            {'numa_node': 1}, {'numa_node': 1, 'dev_type': 'type-PF'}, pools=[
                {'vendor_id': '15b3', 'product_id': '101e', 'count': 1,
                 **pool} for pool in (
                    {'numa_node': 0, 'dev_type': 'type-VF', 'rp_uuid': 'one',
                     'address': '0000:3b:00.0'},
                    {'numa_node': 1, 'dev_type': 'type-VF',
                     'address': '0000:3b:00.1'},
                    {'numa_node': 1, 'dev_type': 'type-PF', 'managed': 'true',
                     'address': '0000:3b:00.2'})])
        self.assertEqual(
            [(1, 'type-VF', 1), (0, 'type-VF', 0), (1, 'type-PF', 2)],
            [(pool.numa_node, dict(pool.keys)['dev_type'], pool.claim_rank)
             for pool in self.host().pci_pools])

    def test_tags_of_devices_in_use(self):
        """Then those tell who have them, and nova's notes of the device."""
        self.nova.add_host('cmp-1')
        guest = self.nova.add_guest('a', 'cmp-1', extra={
            'pci_requests': json.dumps([{
                'request_id': 'r1', 'count': 1, 'alias_name': None,
                'spec': [{'physical_network': 'east'}]}])})
        self.add_devices({
            'instance_uuid': guest, 'request_id': 'r1',
            'extra_info': json.dumps({
                'live_migratable': 'true', 'capabilities': '{}'})})
        imported = self.import_()
        keys = devices.device_keys(
            '15b3', '101e', 'type-VF', physical_network='east',
            live_migratable='true', remote_managed='false')
        self.assertEqual((devices.PciPool(keys, 0, 1, is_complete=False),),
                         imported.fleet.hosts[0].pci_pools)
        self.assertEqual((devices.PciUse(keys, 0, 1),),
                         imported.fleet.guests[0].devices)

    @ddt.data(([], None), ([('gpu', 'true')], True),
              ([('gpu', 'true'), ('old', None)], False),
              ([('gpu', 'true'), (None, None)], None),
              ([('old', None), (None, None)], False), ('odd', None))
    @ddt.unpack
    def test_devices_that_move_live(self, requests, expected):
        self.nova.add_host('cmp-1')
        self.nova.add_guest('a', 'cmp-1', extra={'pci_requests': json.dumps(
            requests if requests == 'odd' else [
                {'request_id': 'r1', 'count': 1, 'alias_name': alias,
                 'spec': [{'vendor_id': '10de', 'live_migratable': asked}]}
                for alias, asked in requests])})
        guest, = self.import_().fleet.guests
        self.assertIs(expected, guest.asks_live_devices)

    @ddt.data(([], ''), ([('gpu', 'required'), (None, 'legacy')], 'required'),
              ([('gpu', 'required'), ('ib', 'required')], 'required'),
              ([('gpu', 'required'), ('ib', 'legacy')], ''),
              ([('gpu', None)], ''), ('odd', None))
    @ddt.unpack
    def test_policy_that_devices_were_asked_for_with(self, requests, expected):
        self.nova.add_host('cmp-1')
        self.nova.add_guest('a', 'cmp-1', extra={'pci_requests': json.dumps(
            requests if requests == 'odd' else [
                {'request_id': 'r1', 'count': 1, 'alias_name': alias,
                 'numa_policy': policy, 'spec': [{'vendor_id': '10de'}]}
                for alias, policy in requests])})
        guest, = self.import_().fleet.guests
        self.assertEqual(expected, guest.device_policy)

    def test_devices_in_placement(self):
        """Each pool with the provider that counts it."""
        self.nova.add_host('cmp-1')
        own = novadatabase.uuid('cmp-1')
        self.add_devices(
            {'extra_info': json.dumps({'rp_uuid': 'two'})},
            {'extra_info': json.dumps({'rp_uuid': 'one'})}, pools=[
                {'vendor_id': '15b3', 'product_id': '101e', 'numa_node': 0,
                 'count': 1, 'dev_type': 'type-VF', 'rp_uuid': uuid,
                 'address': f'0000:3b:00.{index}'}
                for index, uuid in enumerate(('two', 'one'))])
        provider = provider_trees.TreeProvider
        host = self.host(read_trees=lambda _hosts: {own: (
            provider(own, '', None, {}, frozenset(), {}),
            *[provider(name, '', own, {'CUSTOM_PCI': inventory.Inventory(1)},
                       frozenset(), {}) for name in ('one', 'two')])})
        self.assertEqual(
            {'0000:3b:00.0': 2, '0000:3b:00.1': 1},
            {dict(pool.keys)['address']: pool.provider
             for pool in host.pci_pools})
        self.assertTrue(all(pool.is_complete for pool in host.pci_pools))

    def test_host_files(self):
        self.nova.add_host('cmp-1')
        path = self.nova.directory / 'cmp-1.yaml'
        path.write_text(
            'version: 1\nname: cmp-1\nnodes:\n'
            '- {id: 0, cpus: "0-3", memory: 1GiB, '
            'l3_domains: ["0-1", "2-3"]}\n'
            'nova: {reserved_memory: 256MiB}\n')
        host = self.host(descriptions={'cmp-1': host_loader.load(path)})
        self.assertEqual(256, host.reserved_memory_mib)
        self.assertEqual((cpuset.CpuSet.parse('0-1'),
                          cpuset.CpuSet.parse('2-3')), host.l3_domains)

    def test_placement(self):
        """Providers, and whose they are; without it, what is not known."""
        for name in ('cmp-1', 'cmp-2'):
            self.nova.add_host(name)
        self.add_pinned('a', 'cmp-1', {0: [0, 16]})
        self.add_pinned('b', 'cmp-1', {0: [1, 17]})
        own, other = map(novadatabase.uuid, ('cmp-1', 'cmp-2'))
        asked = []

        def read(hosts):
            asked.extend(hosts)
            provider = provider_trees.TreeProvider
            return {own: (
                provider(own, 'cmp-1', None, {
                    'PCPU': inventory.Inventory(32),
                    'MEMORY_MB': inventory.Inventory(131072, 512)},
                    frozenset({'CUSTOM_PINNING_SHARED'}),
                    {novadatabase.uuid('a'): {
                        'PCPU': 2, 'MEMORY_MB': 8192},
                     novadatabase.uuid('b'): {
                         'PCPU': 2, 'MEMORY_MB': 8192}}),
                provider('gpu', 'gpu', own, {'VGPU': inventory.Inventory(4)},
                         frozenset({'CUSTOM_A'}),
                         {novadatabase.uuid('a'): {'VGPU': 1},
                          'a migration': {'VGPU': 2}}))}

        imported = self.import_(read_trees=read)
        self.assertEqual([own, other], asked)
        first, second = imported.fleet.hosts
        # Though its CPUs are dedicated ones.
        self.assertIs(hostclass.HostClass.SHARED, first.host_class)
        self.assertEqual(inventory.Inventory(131072, 512),
                         first.inventories['MEMORY_MB'])
        gpu, = first.children
        self.assertEqual((0, frozenset({'CUSTOM_A'}), (('VGPU', 2),)),
                         (gpu.parent, gpu.traits, gpu.held))
        guest = next(guest for guest in imported.fleet.guests
                     if guest.uuid == novadatabase.uuid('a'))
        self.assertEqual(((1, (('VGPU', 1),)),), guest.allocations)
        self.assertEqual(
            {'VGPU': 3}, occupied.of_fleet(imported.fleet)['cmp-1'].used[1])
        self.assertIsNone(second.traits)
        self.assertEqual({}, second.inventories)
        self.assertEqual(('host cmp-2: Placement has no such provider',),
                         imported.notes)
        self.assertEqual((), first.gaps)

    def test_without_placement(self):
        """What does not follow from cells and disks is not known."""
        self.nova.add_host('cmp-1')
        host = self.host()
        used = occupied.of_fleet(snapshot.Fleet(hosts=(host,)))['cmp-1'].used
        [candidate] = providers.candidates(host, used, guest_request.query(
            {'PCPU': 2, 'VGPU': 1}, ['CUSTOM_A']))
        self.assertEqual(['VGPU', 'CUSTOM_A'],
                         [doubt.about for doubt in candidate.doubts])
        [candidate] = providers.candidates(
            host, used, guest_request.query({'PCPU': 2, 'DISK_GB': 1}))
        self.assertEqual((), candidate.doubts)

    def test_not_mapped(self):
        """What nova sends there ends in cell0."""
        self.nova.add_host('cmp-1', is_mapped=False)
        host = self.host()
        self.assertFalse(host.is_enabled)
        self.assertEqual('it is not mapped to cell north (nova-manage '
                         'cell_v2 discover_hosts)', host.disabled_reason)


class CloudTestCase(TestCase):
    """What is no host's or guest's own."""

    def add_aggregate(self, name, hosts, **metadata):
        self.nova.insert('api', api_models.Aggregate, [
            {'name': name, 'uuid': novadatabase.uuid(name)}])
        (number,), = self.nova.execute('api', sa.select(
            api_models.Aggregate.id).where(api_models.Aggregate.name == name))
        for host in hosts:
            self.nova.insert('api', api_models.AggregateHost, [
                {'aggregate_id': number, 'host': host}])
        for key, value in metadata.items():
            self.nova.insert('api', api_models.AggregateMetadata, [
                {'aggregate_id': number, 'key': key.replace('__', ':'),
                 'value': value}])

    def test_empty(self):
        imported = self.import_()
        self.assertEqual((), imported.notes)
        self.assertEqual((), imported.fleet.hosts)
        self.assertEqual('2026-11-21T12:00:00Z', imported.fleet.taken_at)

    def test_aggregates(self):
        self.nova.add_host('cmp-1')
        self.nova.add_host('cmp-2', numa_topology=novadatabase.topology_json(
            is_dedicated=False))
        self.add_aggregate('b', ['cmp-1'], availability_zone='east',
                           pinning__class='shared')
        self.add_aggregate('a', ['cmp-1', 'gone'])
        fleet = self.import_().fleet
        self.assertEqual(
            (offered_host.Aggregate('b', 'east', {'pinning:class': 'shared'}),
             offered_host.Aggregate('a')), fleet.aggregates)
        first, second = fleet.hosts
        self.assertEqual(('a', 'b'), first.aggregates)
        self.assertIs(hostclass.HostClass.SHARED, first.host_class)
        self.assertEqual((), second.aggregates)
        self.assertIs(hostclass.HostClass.SHARED, second.host_class)

    def test_class_in_dispute(self):
        self.nova.add_host('cmp-1')
        self.add_aggregate('a', ['cmp-1'], pinning__class='shared')
        self.add_aggregate('b', ['cmp-1'], pinning__class='dedicated')
        imported = self.import_()
        self.assertIsNone(imported.fleet.hosts[0].host_class)
        self.assertEqual(('host cmp-1 is of no class: its aggregates name '
                          'both classes under pinning:class',),
                         imported.notes)

    def test_flavors(self):
        self.nova.insert('api', api_models.Flavors, [{
            'name': 'd.4', 'flavorid': 'four', 'vcpus': 4, 'memory_mb': 8192,
            'root_gb': 10, 'ephemeral_gb': 0, 'swap': 0, 'rxtx_factor': 1.0,
            'disabled': False, 'is_public': False}])
        self.nova.insert('api', api_models.FlavorExtraSpecs, [{
            'flavor_id': 1, 'key': 'hw:cpu_policy', 'value': 'dedicated'}])
        flavor, = self.import_().fleet.flavors
        self.assertEqual('d.4', flavor.name)
        self.assertEqual('four', flavor.id)
        self.assertFalse(flavor.is_public)
        self.assertEqual({'hw:cpu_policy': 'dedicated'}, flavor.extra_specs)

    def test_settings(self):
        self.nova.write_conf(
            '[compute]\npacking_host_numa_cells_allocation_strategy = true\n'
            '[filter_scheduler]\npci_in_placement = true\n'
            '[DEFAULT]\nreserved_host_memory_mb = 4096\n[pci]\n'
            'alias = {"name": "nic", "vendor_id": "15B3", "product_id": '
            '"101e", "device_type": "type-VF", "numa_policy": "required"}\n'
            'alias = {"name": "gpu", "resource_class": "GPU"}\n')
        self.nova.add_host('cmp-1')
        imported = self.import_()
        self.assertTrue(imported.fleet.packs_cells)
        self.assertEqual(4096, imported.fleet.hosts[0].reserved_memory_mib)
        self.assertEqual(
            {'nic': pci_alias.PciAlias((devices.device_keys(
                '15B3', '101e', 'type-VF'),), 'required'),
             'gpu': pci_alias.PciAlias(((('resource_class', 'GPU'),),))},
            imported.fleet.pci_aliases)
        self.assertEqual((), imported.notes)

    def test_enabled_filters(self):
        """Those that nova enables if nothing is said have no place there."""
        self.nova.add_host('cmp-1')
        fleet = self.import_().fleet
        self.assertEqual((), fleet.enabled_filters)
        self.assertEqual(scheduler_rules.SchedulerRules(), fleet.rules)
        self.nova.write_conf(
            '[filter_scheduler]\nenabled_filters = ComputeFilter, '
            'HostClassFilter,PinnedTopologyFilter,\n')
        fleet = self.import_().fleet
        self.assertEqual(
            ('ComputeFilter', 'HostClassFilter', 'PinnedTopologyFilter'),
            fleet.enabled_filters)
        self.assertIs(False, fleet.rules.isolates_hosts)

    def test_rules(self):
        """What filters go by, and what Placement is asked for besides."""
        self.nova.write_conf(
            '[DEFAULT]\ndefault_availability_zone = south\n'
            '[scheduler]\nenable_isolated_aggregate_filtering = true\n'
            'limit_tenants_to_placement_aggregate = true\n'
            'placement_aggregate_required_for_tenants = true\n'
            '[filter_scheduler]\npci_in_placement = true\n'
            'enabled_filters = ComputeFilter\nisolated_hosts = h\n'
            'max_instances_per_host = 7\n'
            'aggregate_image_properties_isolation_separator = :\n'
            'aggregate_image_properties_isolation_namespace = ours\n')
        self.assertEqual(scheduler_rules.SchedulerRules(
            enabled_filters=('ComputeFilter',), default_zone='south',
            isolates=True, limits_tenants=True,
            requires_tenant_aggregate=True, pci_in_placement=True,
            max_instances_per_host=7, isolates_hosts=True,
            image_separator=':', image_namespace='ours'),
            occupied.rules_of(self.import_().fleet))

    def test_bad_alias(self):
        self.nova.write_conf('[pci]\nalias = {"name": 7}\n')
        error = self.assertRaises(errors.InputError, self.import_)
        self.assertIn('nova.conf: [pci] alias: ', str(error))

    def test_alias_of_a_nova_conf_that_says_no_more(self):
        """Nova takes one by class if the cloud has devices in Placement."""
        self.nova.write_conf(
            '[pci]\nalias = {"name": "gpu", "resource_class": "GPU"}\n')
        conf = nova_database.load_conf(
            ['--config-file', str(self.nova.conf)])
        told = fleet_import_settings.overridden(
            snapshot.Fleet(hosts=(), rules=scheduler_rules.SchedulerRules(
                pci_in_placement=True)), conf)
        self.assertTrue(told.rules.pci_in_placement)
        self.assertIn('gpu', told.pci_aliases)
        error = self.assertRaises(
            errors.InputError, fleet_import_settings.overridden,
            snapshot.Fleet(hosts=()), conf)
        self.assertIn(f'{self.nova.conf}: [pci] alias: ', str(error))

    def test_no_api_database(self):
        self.nova.conf.write_text('[DEFAULT]\n')
        error = self.assertRaises(errors.InputError, self.import_)
        self.assertIn('nova.conf: there is no [api_database] connection',
                      str(error))

    def test_bad_conf(self):
        self.nova.write_conf('nonsense\n')
        self.assertRaises(errors.InputError, self.import_)


@ddt.ddt
class CellsTestCase(TestCase):

    CELLS = ('north', 'south')

    def setUp(self):
        super().setUp()
        self.nova.add_host('cmp-1')
        self.nova.add_host('cmp-2', 'south')
        self.nova.add_guest('a', 'cmp-1')
        self.nova.add_guest('b', 'cmp-2', 'south')

    def test_all(self):
        self.nova.add_guest('failed', None, 'cell0', vm_state='error')
        told = []
        imported = self.import_(tell=lambda *what: told.append(what))
        self.assertEqual(['cmp-1', 'cmp-2'],
                         [host.name for host in imported.fleet.hosts])
        self.assertEqual(['cmp-1', 'cmp-2'],
                         [guest.host for guest in imported.fleet.guests])
        self.assertEqual([(1, 2), (2, 2)], told)

    def test_down(self):
        self.nova.execute('api', sa.update(api_models.CellMapping).where(
            api_models.CellMapping.name == 'south').values(
                database_connection='sqlite:////nowhere/south.sqlite'))
        error = self.assertRaises(nova_database.DatabaseError, self.import_)
        self.assertEqual(
            'cell south: it cannot be read: unable to open database file; '
            'give --skip-down-cells to do without its hosts and guests',
            str(error))
        imported = self.import_(skips_down_cells=True)
        self.assertEqual(['cmp-1'],
                         [host.name for host in imported.fleet.hosts])
        self.assertEqual(
            ('cell south: it cannot be read: unable to open database file; '
             'its hosts and guests are left out',), imported.notes)

    def test_no_driver(self):
        self.nova.execute('api', sa.update(api_models.CellMapping).where(
            api_models.CellMapping.name == 'south').values(
                database_connection='mysql+nonsense://u:secret@h/south'))
        error = self.assertRaises(nova_database.DatabaseError, self.import_)
        self.assertNotIn('secret', str(error))

    @ddt.data(
        ('mysql+pymysql', 'pymysql', "pip install 'nova-pinning[tools]'"),
        ('mysql+mysqldb', 'MySQLdb', 'pip install mysqlclient'),
        ('postgresql', 'psycopg2', 'pip install psycopg2'))
    @ddt.unpack
    def test_driver_is_not_installed(self, scheme, package, advice):
        self.import_()  # what it loads stays
        hidden = mock.patch.dict(sys.modules, {package: None})
        hidden.start()
        self.addCleanup(hidden.stop)
        expected = (f'it cannot be read: the Python package {package} is not '
                    f'installed; run {advice}')
        self.nova.execute('api', sa.update(api_models.CellMapping).where(
            api_models.CellMapping.name == 'south').values(
                database_connection=f'{scheme}://u:secret@h/south'))
        error = self.assertRaises(nova_database.DatabaseError, self.import_)
        self.assertEqual(f'cell south: {expected}', str(error))
        self.nova.urls['api'] = f'{scheme}://u:secret@h/api'
        self.nova.write_conf()
        error = self.assertRaises(nova_database.DatabaseError, self.import_)
        self.assertEqual(f'the API database: {expected}', str(error))

    def test_dies_half_way(self):
        for number in range(5):
            self.nova.add_guest(f'c{number}', 'cmp-2', 'south')

        def tell(done, total):
            if done == 3:
                self.nova.execute(
                    'south', sa.text('DROP TABLE instance_extra'))

        error = self.assertRaises(nova_database.DatabaseError, self.import_,
                                  tell=tell, page_rows=2)
        self.assertIn('cell south: it cannot be read: no such table: '
                      'instance_extra', str(error))

    def test_api_database_down(self):
        self.nova.urls['api'] = 'sqlite:////nowhere/api.sqlite'
        self.nova.write_conf()
        error = self.assertRaises(nova_database.DatabaseError, self.import_)
        self.assertEqual('the API database: it cannot be read: unable to open '
                         'database file', str(error))

    def test_cell_mapping_from_template(self):
        self.nova.write_conf(
            '[database]\nconnection = sqlite:///'
            f'{self.nova.directory}/south.sqlite\n')
        self.nova.execute('api', sa.update(api_models.CellMapping).where(
            api_models.CellMapping.name == 'south').values(
                database_connection='{scheme}:////{path}'))
        self.assertEqual(2, len(self.import_().fleet.hosts))

    def test_server_between_cells(self):
        self.nova.add_guest('a', 'cmp-2', 'south', hidden=True)
        guests = self.import_().fleet.guests
        self.assertEqual(
            [novadatabase.uuid('a'), novadatabase.uuid('b'),
             f'{novadatabase.uuid("a")}@cmp-2'],
            [guest.uuid for guest in guests])


class ReadOnlyTestCase(TestCase):

    def test_connections_cannot_write(self):
        self.nova.add_host('cmp-1')
        conf = nova_database.load_conf(['--config-file', str(self.nova.conf)])
        with nova_database.opened(conf) as database:
            cell, = database.cells
            error = self.assertRaises(
                sa_exception.OperationalError, nova_database.select,
                cell.context,
                sa.text("INSERT INTO services (host) VALUES ('x')"))
        self.assertIn('readonly', str(error).replace(' ', ''))

    def test_rows_that_nova_would_bring_up_to_date(self):
        """Nova's objects write when they load such rows."""
        legacy = json.dumps({'cells': [
            {'id': 0, 'cpus': '0-3', 'mem': {'total': 1024, 'used': 0}}]})
        self.nova.add_host('cmp-1', cpu_allocation_ratio=None,
                           numa_topology=legacy)
        self.nova.add_guest('a', 'cmp-1', extra={'numa_topology': legacy})
        old = json.loads(novadatabase.guest_json('b', {0: [0, 1]}))
        for cell in old['nova_object.data']['cells']:
            cell['nova_object.version'] = '1.4'
            data = cell['nova_object.data']
            data['cpuset'] = data.pop('pcpuset')
        self.nova.add_guest('b', 'cmp-1', extra={
            'numa_topology': json.dumps(old)})
        before = self.rows()
        imported = self.import_()
        self.assertEqual((), imported.notes)
        self.assertEqual(before, self.rows())
        first, second = imported.fleet.guests
        self.assertEqual((0, 1, 2, 3), first.topology.cells[0].shared_vcpus)
        self.assertEqual(((0, 0), (1, 1)), second.fit.cells[0].pins)
        self.assertEqual((0, 1), second.topology.cells[0].dedicated_vcpus)

    def rows(self):
        return [self.nova.execute('north', sa.select(one.__table__))
                for one in (models.ComputeNode, models.InstanceExtra)]


class NovaTestCase(unit_base.TestCase):

    def test_private_functions(self):
        """What is used of nova that nova does not promise to keep."""
        for function in (
                resource_tracker._instance_in_resize_state,
                resource_tracker._instance_is_live_migrating,
                objects.InstanceNUMATopology
                ._migrate_legacy_dedicated_instance_cpuset):
            self.assertTrue(callable(function))


class SnapshotTestCase(TestCase):

    def test_written_and_read(self):
        self.nova.add_host('cmp-1')
        self.add_pinned('a', 'cmp-1', {0: [0, 16], 1: [8]})
        self.nova.add_guest('b', 'cmp-1')
        fleet = self.import_().fleet
        path = self.nova.directory / 'fleet.json'
        document.write(path, fleet)
        self.assertEqual(fleet, document.read(path))
