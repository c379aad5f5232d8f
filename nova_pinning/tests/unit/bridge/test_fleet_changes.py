# SPDX-License-Identifier: Apache-2.0

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import dataclasses
import datetime

import ddt
from nova.db.main import models
import sqlalchemy as sa

from nova_pinning.bridge.importer import fleet_import
from nova_pinning.bridge.importer import fleet_import_guests
from nova_pinning.bridge.importer import nova_database
from nova_pinning.fleet import provider_trees
from nova_pinning.placement import inventory
from nova_pinning.tests import novadatabase
from nova_pinning.tests.unit.bridge import test_fleet_import

_OLD = novadatabase.NOW - datetime.timedelta(days=1)


@ddt.ddt
class ChangesTestCase(test_fleet_import.TestCase):
    """What is read after changes is what a whole reading reads."""

    def setUp(self):
        super().setUp()
        self.now = novadatabase.NOW
        for name in ('cmp-1', 'cmp-2', 'cmp-3'):
            self.nova.add_host(name, created_at=_OLD)
        self.add_pinned('a', 'cmp-1', {0: [0, 16]}, created_at=_OLD)
        self.add_pinned('b', 'cmp-2', {0: [0, 16]}, created_at=_OLD)
        self.add_pinned('c', 'cmp-2', {1: [8, 24]}, created_at=_OLD)
        # So that all else is long past.
        self.add_pinned('new', 'cmp-3', {1: [9, 25]}, created_at=self.now)
        self.nova.add_host('cmp-4', created_at=self.now)
        self.read_ids = []
        named = fleet_import_guests.named

        def counted(database, cell, reader, ids):
            self.read_ids.append(list(ids))
            return named(database, cell, reader, ids)

        self.patch(fleet_import_guests, 'named', counted)
        self.conf = nova_database.load_conf(
            ['--config-file', str(self.nova.conf)])
        self.reader = fleet_import.FleetReader()

    def patch(self, module, name, value):
        original = getattr(module, name)
        setattr(module, name, value)
        self.addCleanup(setattr, module, name, original)

    def read(self):
        self.read_ids.clear()
        with nova_database.opened(self.conf) as database:
            return self.reader.read(database, self.now)

    def check(self):
        """Read, and compare with a whole reading; returns what was read."""
        fleet = self.read()
        read_ids = [number for ids in self.read_ids for number in ids]
        whole = self.import_(now=self.now).fleet
        self.assertEqual(whole.hosts, fleet.hosts)
        self.assertCountEqual(whole.guests, fleet.guests)
        for field in dataclasses.fields(whole):
            if field.name != 'guests':
                self.assertEqual(getattr(whole, field.name),
                                 getattr(fleet, field.name))
        return read_ids

    def write(self, name, seconds, model=models.Instance, **values):
        """Write a row of an instance, so long after everything else."""
        key = (model.uuid if model is models.Instance
               else model.instance_uuid)
        values.setdefault(
            'updated_at', self.now + datetime.timedelta(seconds=seconds))
        self.nova.execute('north', sa.update(model).where(
            key == novadatabase.uuid(name)).values(**values))

    def settle(self):
        self.check()
        self.check()
        self.assertEqual([], self.check())

    def test_all_at_first(self):
        self.assertEqual([1, 2, 3, 4], self.check())

    def test_only_the_newest_once_more(self):
        self.check()
        self.assertEqual([4], self.check())
        self.assertEqual([], self.check())

    def test_unchanged_are_the_same_objects(self):
        self.settle()
        first, second = self.read(), self.read()
        for one, other in zip(first.guests, second.guests, strict=True):
            self.assertIs(one, other)
        for one, other in zip(first.hosts, second.hosts, strict=True):
            self.assertIs(one.cells, other.cells)

    def test_new_guest(self):
        self.settle()
        self.add_pinned('d', 'cmp-1', {1: [8, 24]},
                        created_at=self.now)
        self.assertEqual([5], self.check())

    @ddt.data(-3600, 5, 3600)
    def test_changed_guest(self, seconds):
        """Whatever clock those have who write."""
        self.settle()
        self.write('b', seconds, host='cmp-1')
        self.assertEqual([2], self.check())

    def test_changed_beside_the_row(self):
        self.settle()
        self.write('b', 5, models.InstanceExtra,
                   numa_topology=novadatabase.guest_json('b', {0: [1, 17]}))
        self.assertEqual([2], self.check())

    def test_second_write_within_a_second(self):
        self.settle()
        self.write('b', 5, vm_state='stopped')
        self.check()
        self.write('b', 5, host='cmp-1')
        self.assertEqual([2], self.check())
        self.assertEqual([], self.check())

    def test_deleted_guest(self):
        self.settle()
        # Nova leaves updated_at as it is.
        self.write('b', 0, deleted=2, updated_at=None)
        self.assertEqual([], self.check())

    def test_archived_guest(self):
        self.settle()
        self.nova.execute('north', sa.delete(models.Instance).where(
            models.Instance.uuid == novadatabase.uuid('b')))
        self.assertEqual([], self.check())

    def test_migration_that_ends_last(self):
        """What migrates is read until nova has written down the end."""
        self.settle()
        self.write('a', 5, vm_state='active', task_state='migrating')
        migration = self.nova.add_migration(
            'a', 'cmp-1', 'cmp-2', migration_type='live-migration',
            status='running')
        self.check()
        self.write('a', 6, host='cmp-2', task_state=None)
        for _round in range(3):
            self.assertEqual([1], self.check())
        self.nova.execute('north', sa.update(models.Migration).where(
            models.Migration.uuid == migration).values(status='completed'))
        self.assertEqual([1], self.check())
        self.assertEqual([], self.check())

    def test_new_and_gone_host(self):
        self.settle()
        self.nova.add_host('cmp-9', created_at=self.now)
        self.nova.execute('north', sa.update(models.ComputeNode).where(
            models.ComputeNode.host == 'cmp-4').values(deleted=4))
        self.check()

    def test_changed_host(self):
        self.settle()
        self.nova.execute('north', sa.update(models.ComputeNode).where(
            models.ComputeNode.host == 'cmp-4').values(
                cpu_allocation_ratio=3.0,
                updated_at=self.now + datetime.timedelta(seconds=5)))
        self.check()

    def test_service(self):
        """It is no part of the row of the host."""
        self.settle()
        self.nova.execute('north', sa.update(models.Service).where(
            models.Service.host == 'cmp-1').values(
                disabled=True, disabled_reason='broken'))
        self.check()
        self.now += datetime.timedelta(hours=1)
        self.check()

    def test_devices(self):
        """They may be written after the guest that has them."""
        self.settle()
        device = {
            'compute_node_id': 1, 'address': '0000:81:00.0', 'deleted': 0,
            'vendor_id': '15b3', 'product_id': '101e', 'numa_node': 0,
            'status': 'available', 'dev_type': 'type-VF', 'dev_id': 'x',
            'label': 'x', 'created_at': _OLD}
        self.nova.insert('north', models.PciDevice, [device])
        self.nova.execute('north', sa.update(models.ComputeNode).where(
            models.ComputeNode.host == 'cmp-1').values(updated_at=self.now))
        self.check()
        self.write('a', 5, vm_state='active')
        self.check()
        self.nova.execute('north', sa.update(models.PciDevice).values(
            status='allocated', instance_uuid=novadatabase.uuid('a')))
        self.check()
        guest, = [guest for guest in self.read().guests if guest.devices]
        self.assertEqual(novadatabase.uuid('a'), guest.uuid)

    def test_reads_all_after_a_fault(self):
        self.settle()

        def broken(*arguments):
            raise OSError('gone')

        named = fleet_import_guests.named
        self.write('b', 5, host='cmp-1')
        fleet_import_guests.named = broken
        self.assertRaises(nova_database.DatabaseError, self.read)
        fleet_import_guests.named = named
        self.assertEqual([1, 2, 3, 4], self.check())

    def test_placement(self):
        """Asked for once, and for hosts that are new or have others."""
        asked = []
        used = {novadatabase.uuid('a'): {'VGPU': 1}}

        def read_trees(hosts):
            asked.append(len(hosts))
            return {uuid: tree(uuid, used) for uuid in hosts}

        self.reader = fleet_import.FleetReader(read_trees=read_trees)
        for _time in range(3):
            fleet = self.read()
        self.nova.add_host('cmp-9', created_at=_OLD)
        self.write('a', 5, host='cmp-3')
        other = self.read()
        self.assertEqual([4, 2, 3], asked)
        self.assertEqual({frozenset({'CUSTOM_X'})},
                         {host.traits for host in other.hosts})
        unchanged = novadatabase.uuid('b')
        one, two = [next(guest for guest in read.guests
                         if guest.uuid == unchanged)
                    for read in (fleet, other)]
        self.assertIs(one, two)
        self.assertEqual({'cmp-3'}, {
            guest.host for guest in other.guests if 'VGPU' in guest.resources})


def tree(uuid, used):
    return (provider_trees.TreeProvider(
        uuid, uuid, None, {'VGPU': inventory.Inventory(4)},
        frozenset({'CUSTOM_X'}), used),)
