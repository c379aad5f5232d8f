# SPDX-License-Identifier: Apache-2.0
"""The harness itself: hosts of any shape, each with its own nova.conf."""

import threading
from unittest import mock
from xml.etree import ElementTree

from nova.compute import manager
from oslotest import base as oslotest

from demo import cloud
from demo import hosts
from demo import story
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import operated_cloud


class TestHosts(functional_base.TestCase):

    def test_shape(self):
        self.nova.start_host('host', hosts.HostShape(
            sockets=2, cells_per_socket=2, cores_per_cell=2, threads=2,
            numbering=hosts.Numbering.ADJACENT,
            memory_mib=32 * functional_base.GIB, dedicated='2-13',
            shared='0-1',
            huge_pages={2048: 1024}, reserved_huge_pages=(
                'node:1,size:2048,count:64',),
            offline=frozenset({15}), reserved_memory_mib=512))

        cells = self.nova.host_topology('host').cells

        self.assertEqual([0, 1, 2, 3], [cell.id for cell in cells])
        self.assertEqual([0, 0, 1, 1], [cell.socket for cell in cells])
        self.assertEqual([{0, 1}, set(), set(), set()],
                         [cell.cpuset for cell in cells])
        self.assertEqual(
            [{2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13}],
            [cell.pcpuset for cell in cells])
        self.assertIn({4, 5}, cells[1].siblings)
        for cell in cells:
            self.assertEqual(8 * functional_base.GIB, cell.memory)
            pages = {page.size_kb: page for page in cell.mempages}
            self.assertEqual(1024, pages[2048].total)
            self.assertEqual((8 - 2) * functional_base.GIB * 1024 // 4,
                             pages[4].total)
            self.assertEqual(64 if cell.id == 1 else 0, pages[2048].reserved)
        inventories = self.nova.inventories('host')
        self.assertEqual(12, inventories['PCPU']['total'])
        self.assertEqual(2, inventories['VCPU']['total'])
        self.assertEqual(32 * functional_base.GIB,
                         inventories['MEMORY_MB']['total'])
        self.assertEqual(512, inventories['MEMORY_MB']['reserved'])

    def test_split_siblings(self):
        self.nova.start_host('host', hosts.enterprise_host())

        first, second = self.nova.host_topology('host').cells

        self.assertEqual(set(range(2, 20)) | set(range(42, 60)),
                         first.pcpuset)
        self.assertEqual(set(range(20, 40)) | set(range(60, 80)),
                         second.pcpuset)
        self.assertEqual(
            sorted([cpu, cpu + 40] for cpu in range(2, 20)),
            sorted(sorted(core) for core in first.siblings))

    def test_no_host_sees_the_options_of_another(self):
        shapes = {
            'dedicated': functional_base.small_host(),
            'shared': functional_base.small_host(
                dedicated=None, shared='0-7', cpu_allocation_ratio=3.0),
            'both': functional_base.small_host(
                dedicated='0-1,4-5', shared='2-3,6-7',
                cpu_allocation_ratio=2.0),
        }
        for name, shape in shapes.items():
            self.nova.start_host(name, shape)

        def found():
            return {name: (self.nova.inventories(name),
                           [(cell.cpuset, cell.pcpuset)
                            for cell in self.nova.host_topology(name).cells])
                    for name in shapes}

        at_first = found()
        self.assertEqual(
            [(set(), set(range(8)))], at_first['dedicated'][1])
        self.assertEqual(
            [(set(range(8)), set())], at_first['shared'][1])
        self.assertEqual(
            [({2, 3, 6, 7}, {0, 1, 4, 5})], at_first['both'][1])
        self.assertNotIn('VCPU', at_first['dedicated'][0])
        self.assertNotIn('PCPU', at_first['shared'][0])
        self.assertEqual(
            [3.0, 2.0], [at_first[name][0]['VCPU']['allocation_ratio']
                         for name in ('shared', 'both')])

        self.nova.stage._run_periodics(raise_on_error=True)
        self.assertEqual(at_first, found())

        for name in shapes:
            self.nova.restart_host(name)
        self.assertEqual(at_first, found())

        # The floating vCPUs of a guest stay on the shared CPUs of its host.
        self.nova.create_aggregate('all', list(shapes),
                                   {'pinning:class': 'shared'})
        flavor = self.nova.create_flavor('small', 1, functional_base.GIB)
        for name, cpus in (('shared', '0-7'), ('both', '2-3,6-7')):
            server = self.nova.boot(f'on-{name}', flavor, host=name)
            self.assert_active([server], host=name)
            domain = ElementTree.fromstring(self.nova.guest_xml(server))
            self.assertEqual(cpus, domain.find('vcpu').get('cpuset'))


class TestMoves(functional_base.OneCloud):
    """Each way in which a server may come to another host."""

    @classmethod
    def start(cls, nova):
        for name in ('host-1', 'host-2'):
            nova.start_host(name, functional_base.small_host())
        return {}

    def setUp(self):
        super().setUp()
        self.server = self.nova.boot(
            'guest', self.enterprise_flavor(), host='host-1')
        self.assert_active([self.server], host='host-1')

    def assert_on(self, host):
        """The server runs on this host, and holds nothing on another."""
        self.assert_active([self.server], host=host)
        self.nova.update_resources()
        for name in ('host-1', 'host-2'):
            cpus = set(range(8)) if name == host else set()
            self.assertEqual(cpus, self.host_pinned_cpus(name))
            granted = self.nova.allocations(name)
            self.assertEqual([self.server.id] if cpus else [], list(granted))
        self.assertEqual(8, self.nova.allocations(host)[self.server.id]
                         ['PCPU'])
        self.assertEqual(set(range(8)), self.pinned_cpus(self.server))

    def test_migration(self):
        self.server = self.nova.migrate(self.server)
        self.assert_on('host-2')
        libvirt = self.nova.stage.computes['host-1'].driver._host
        self.assertEqual([], libvirt.get_connection().listAllDomains(0))

    def test_live_migration(self):
        self.server = self.nova.migrate_live(self.server)
        self.assert_on('host-2')
        self.assertIn('vcpupin', self.nova.guest_xml(self.server))
        self.server = self.nova.migrate_live(self.server)
        self.assert_on('host-1')

    def test_live_migration_gives_back_late(self):
        """The old host has the CPUs until nova-compute comes to it."""
        give_back = manager.ComputeManager._delete_allocation_after_move
        moves_on = self.nova._moves_on
        asked = threading.Event()

        def late(*args, **kwargs):
            asked.clear()
            asked.wait(60)
            return give_back(*args, **kwargs)

        def ask(*args):
            found = moves_on(*args)
            asked.set()
            return found

        with (mock.patch.object(manager.ComputeManager,
                                '_delete_allocation_after_move', late),
              mock.patch.object(self.nova, '_moves_on', ask)):
            self.server = self.nova.migrate_live(self.server)
            self.assertEqual({}, self.nova.allocations('host-1'))

    def test_evacuation_to_where_it_moved_from(self):
        self.server = self.nova.migrate_live(self.server)
        libvirt = self.nova.stage.computes['host-1'].driver._host
        self.assertEqual([], libvirt.get_connection().listAllDomains(0))
        self.nova.fail_host('host-2')
        self.server = self.nova.evacuate(self.server)
        self.nova.recover_host('host-2')
        self.assert_on('host-1')

    def test_evacuation(self):
        self.nova.fail_host('host-1')
        self.server = self.nova.evacuate(self.server)
        self.nova.recover_host('host-1')
        self.assert_on('host-2')
        self.server = self.nova.migrate(self.server)
        self.assert_on('host-1')

    def test_shelving(self):
        # Off a host to which it moved live, where libvirt has to know it.
        self.server = self.nova.migrate_live(self.server)
        self.server = self.nova.shelve(self.server)
        self.assertEqual(('SHELVED_OFFLOADED', None),
                         (self.server.status, self.server.host))
        self.assertEqual({}, self.nova.allocations('host-2'))
        self.nova.fail_host('host-2')
        self.server = self.nova.unshelve(self.server)
        self.nova.recover_host('host-2')
        self.assert_on('host-1')

    def test_reverted_migration(self):
        self.server = self.nova.migrate(self.server, confirm=False)
        self.assertEqual(('VERIFY_RESIZE', 'host-2'),
                         (self.server.status, self.server.host))
        self.server = self.nova.revert(self.server)
        self.assert_on('host-1')

    def test_nowhere_to_go(self):
        self.nova.fail_host('host-2')
        self.addCleanup(self.nova.recover_host, 'host-2')
        for move in (self.nova.migrate, self.nova.migrate_live):
            error = self.assertRaises(cloud.RefusedError, move, self.server)
            self.assertIn('NoValidHost', str(error))
        self.server = self.nova.show(self.server)
        self.assert_active([self.server], host='host-1')


class TestMarks(functional_base.TestCase):
    """Traits of providers, and members of aggregates."""

    def test_traits(self):
        self.nova.start_host('host', functional_base.small_host())
        before = self.nova.traits('host')

        self.nova.change_traits('host', add=['CUSTOM_A', 'CUSTOM_B'])
        self.assertEqual(before | {'CUSTOM_A', 'CUSTOM_B'},
                         self.nova.traits('host'))
        self.nova.change_traits('host', add=['CUSTOM_C'],
                                remove=['CUSTOM_A', 'CUSTOM_B'])
        self.nova.update_resources()
        self.assertEqual(before | {'CUSTOM_C'}, self.nova.traits('host'))

    def test_aggregate(self):
        self.nova.start_host('host', functional_base.small_host())
        aggregate = self.nova.create_aggregate(
            'shared', [], {'pinning:class': 'shared'})
        flavor = self.enterprise_flavor()

        self.nova.stage.admin_api.add_host_to_aggregate(aggregate, 'host')
        self.assert_refused(self.nova.boot('refused', flavor))
        self.nova.stage.admin_api.remove_host_from_aggregate(aggregate, 'host')
        self.assert_active([self.nova.boot('placed', flavor)], host='host')


class TestNovaAlone(oslotest.BaseTestCase):

    def test_without_our_filters(self):
        nova = self.useFixture(operated_cloud.Cloud(
            filters=cloud.NOVA_FILTERS))
        nova.start_host('host', functional_base.small_host())
        flavor = nova.create_flavor('enterprise', 8, functional_base.GIB,
                                    story.ENTERPRISE_SPECS)

        self.assertEqual('ACTIVE', nova.boot('first', flavor).status)
        self.assertEqual('ERROR', nova.boot('second', flavor).status)

        self.assertEqual((), nova.explanations)
        self.assertIn('nova.scheduler.manager', nova.nova_log)
