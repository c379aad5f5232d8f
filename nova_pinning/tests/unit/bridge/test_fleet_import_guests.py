# SPDX-License-Identifier: Apache-2.0

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import collections
import contextlib
import datetime
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies
from nova.compute import resource_tracker
from nova import context as nova_context
from nova.db.main import models
from nova import objects
import sqlalchemy as sa

from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.tests import novadatabase
from nova_pinning.tests.unit.bridge import test_fleet_import
from nova_pinning.tests.unit import unit_base

LARGE = novadatabase.flavor('d.8', 8, 16384, hw__cpu_policy='dedicated')
SMALL = novadatabase.flavor('d.4', 4, 8192, hw__cpu_policy='dedicated')


class TestCase(test_fleet_import.TestCase):

    def setUp(self):
        super().setUp()
        for name in ('cmp-1', 'cmp-2'):
            self.nova.add_host(name)

    def guest(self):
        """The one guest, of which nothing is odd."""
        imported = self.import_()
        self.assertEqual((), imported.notes)
        guest, = imported.fleet.guests
        return guest


@ddt.ddt
class GuestTestCase(TestCase):

    def test_pinned(self):
        uuid = self.add_pinned('web', 'cmp-1', {1: [8, 24], 0: [0]})
        guest = self.guest()
        self.assertEqual(uuid, guest.uuid)
        self.assertEqual(('web', 'cmp-1', 'd.4', 4, 8192, 20), (
            guest.name, guest.host, guest.flavor, guest.vcpus,
            guest.memory_mib, guest.disk_gib))
        self.assertIs(hostclass.HostClass.DEDICATED, guest.guest_class)
        self.assertEqual(model.Guest((
            model.GuestCell((0, 1), (), 4096),
            model.GuestCell((2,), (), 4096)), model.CpuPolicy.DEDICATED),
            guest.topology)
        self.assertEqual(model.Fit((
            model.CellFit(1, ((0, 8), (1, 24))),
            model.CellFit(0, ((2, 0),)))), guest.fit)
        self.assertTrue(guest.is_movable)

    def test_launched(self):
        self.nova.add_guest('web', 'cmp-1', launched_at=datetime.datetime(
            2026, 5, 4, 10, 11, 12))
        self.assertEqual('2026-05-04T10:11:12Z', self.guest().launched_at)

    def test_never_launched(self):
        self.nova.add_guest('web', 'cmp-1', launched_at=None)
        self.assertEqual('', self.guest().launched_at)

    def test_all_of_a_cell(self):
        topology = novadatabase.guest_topology(
            'a', {0: [0, 16]}, pagesize=1048576, cpu_thread_policy='require',
            cpuset={7}, cpu_policy='mixed', cpuset_reserved={5})
        topology.emulator_threads_policy = 'isolate'
        self.nova.add_guest('a', 'cmp-1', extra={
            'numa_topology': topology._to_json()})
        guest = self.guest()
        self.assertEqual(model.Guest(
            (model.GuestCell((0, 1), (7,), 8192, 1048576),),
            model.CpuPolicy.MIXED, model.ThreadPolicy.REQUIRE,
            emulator_isolated=True), guest.topology)
        self.assertEqual(model.Fit((model.CellFit(
            0, ((0, 0), (1, 16)), (5,), 1048576),)), guest.fit)
        self.assertIs(hostclass.HostClass.DEDICATED, guest.guest_class)

    @ddt.data(('any', {}, model.PAGES_ANY), ('large', {}, model.PAGES_LARGE),
              ('any', {'hw_mem_page_size': 'large'}, model.PAGES_LARGE),
              ('large', {'hw_mem_page_size': '2MB'}, 2048), ('2MB', {}, 2048))
    @ddt.unpack
    def test_page_size(self, asked, image, wanted):
        """A move asks for what the guest asked for, not for what it got."""
        topology = novadatabase.guest_topology('a', {0: [0]}, pagesize=2048)
        uuid = self.nova.add_guest('a', 'cmp-1', extra={
            'numa_topology': topology._to_json(),
            'flavor': novadatabase.flavors_json(novadatabase.flavor(
                hw__mem_page_size=asked))})
        self.nova.insert('north', models.InstanceSystemMetadata, [
            {'instance_uuid': uuid, 'deleted': 0, 'key': f'image_{key}',
             'value': value} for key, value in image.items()] or [
            {'instance_uuid': uuid, 'deleted': 0, 'key': 'x', 'value': 'y'}])
        guest = self.guest()
        self.assertEqual([wanted], [
            cell.page_size_kib for cell in guest.topology.cells])
        self.assertEqual(2048, guest.fit.page_size_kib)

    def test_floating(self):
        self.nova.add_guest('a', 'cmp-1')
        guest = self.guest()
        self.assertIsNone(guest.topology)
        self.assertIsNone(guest.fit)
        self.assertIs(hostclass.HostClass.SHARED, guest.guest_class)

    def test_without_extra(self):
        self.nova.add_guest('a', 'cmp-1')
        self.nova.execute('north', sa.delete(models.InstanceExtra))
        guest = self.guest()
        self.assertEqual(('', 4, 8192, 20), (
            guest.flavor, guest.vcpus, guest.memory_mib, guest.disk_gib))

    @ddt.data(('', 2), ('some-image', 22))
    @ddt.unpack
    def test_disk(self, image, wanted):
        flavor = novadatabase.flavor()
        flavor.ephemeral_gb = 1
        flavor.swap = 512
        self.nova.add_guest('a', 'cmp-1', image_ref=image, extra={
            'flavor': novadatabase.flavors_json(flavor)})
        self.assertEqual(wanted, self.guest().disk_gib)

    @ddt.data(
        ('active', None, True), ('stopped', None, True),
        ('active', 'migrating', False), ('error', None, False),
        ('soft-delete', None, False), ('shelved', None, False),
        ('building', 'spawning', False))
    @ddt.unpack
    def test_holds_room(self, vm_state, task_state, is_movable):
        self.nova.add_guest('a', 'cmp-1', vm_state=vm_state,
                            task_state=task_state)
        self.assertIs(is_movable, self.guest().is_movable)

    @ddt.data(
        {'deleted': 7}, {'host': None, 'vm_state': 'shelved_offloaded'},
        {'vm_state': 'deleted'}, {'vm_state': 'shelved_offloaded'},
        {'host': None, 'vm_state': 'error'})
    def test_holds_none(self, changes):
        self.nova.add_guest('a', changes.pop('host', 'cmp-1'), **changes)
        imported = self.import_()
        self.assertEqual(((), ()), (imported.fleet.guests, imported.notes))

    def test_on_no_host_yet(self):
        self.nova.add_guest('a', None, vm_state='building')
        imported = self.import_()
        self.assertEqual((), imported.fleet.guests)
        self.assertEqual(('1 servers are being built and are not on a host '
                          'yet, so their resources still count as free',),
                         imported.notes)

    def test_on_a_host_that_is_gone(self):
        self.nova.add_guest('a', 'gone')
        self.assertEqual('gone', self.guest().host)

    def test_class_by_flavor(self):
        self.nova.add_guest('a', 'cmp-1', extra={
            'flavor': novadatabase.flavors_json(novadatabase.flavor(
                pinning__class='dedicated'))})
        self.assertIs(hostclass.HostClass.DEDICATED, self.guest().guest_class)

    def test_unknown_class(self):
        uuid = self.nova.add_guest('a', 'cmp-1', extra={
            'flavor': novadatabase.flavors_json(novadatabase.flavor(
                pinning__class='gold'))})
        imported = self.import_()
        self.assertIs(hostclass.HostClass.SHARED,
                      imported.fleet.guests[0].guest_class)
        self.assertEqual((
            f"server {uuid} on cmp-1: flavor extra spec pinning:class is "
            "'gold'; it can be dedicated or shared",), imported.notes)

    @ddt.data('{', '[]', '7', '{"nova_object.name": "Nonsense"}',
              '{"cells": [{}]}', '{"cells": 5}',
              novadatabase.guest_json('a', {}),
              novadatabase.guest_json('a', {0: [10 ** 9]}),
              novadatabase.guest_json('a', {0: [1]}, cpuset={10 ** 12}),
              novadatabase.guest_json('a', {0: [1]}).replace(
                  '"dedicated"', '"strange"'))
    def test_broken_topology(self, text):
        uuid = self.nova.add_guest('a', 'cmp-1', extra={'numa_topology': text})
        self.add_pinned('b', 'cmp-1', {0: [0]})
        imported = self.import_()
        broken, good = imported.fleet.guests
        self.assertIsNone(broken.topology)
        self.assertIsNone(broken.fit)
        self.assertIsNotNone(good.fit)
        note, = imported.notes
        self.assertIn(f'server {uuid} on cmp-1: its NUMA topology ', note)

    @ddt.data('{', '[]', '{"cur": {}}', '{"cur": 7}')
    def test_broken_flavor(self, text):
        uuid = self.nova.add_guest('a', 'cmp-1', extra={'flavor': text})
        imported = self.import_()
        self.assertEqual(4, imported.fleet.guests[0].vcpus)
        note, = imported.notes
        self.assertIn(f'server {uuid} on cmp-1: its flavor cannot be read: ',
                      note)

    def test_without_pins(self):
        topology = novadatabase.guest_topology('a', {0: [0, 1]})
        topology.clear_host_pinning()
        topology.cells[0].id = 0
        uuid = self.nova.add_guest('a', 'cmp-1', extra={
            'numa_topology': topology._to_json()})
        self.assertEqual(
            (f'server {uuid} on cmp-1: 0 of its 2 dedicated vCPUs are '
             'pinned',), self.import_().notes)

    def test_pages(self):
        names = [f'g{number}' for number in range(7)]
        for name in names:
            self.nova.add_guest(name, 'cmp-1')
        for rows in (1, 2, 3, 7, 8):
            told = []
            fleet = self.import_(
                page_rows=rows, tell=lambda *what: told.append(what)).fleet
            self.assertEqual(names, [guest.name for guest in fleet.guests])
            self.assertEqual((7, 7), told[-1])
            self.assertEqual(-(-7 // rows), len(told))

    def test_one_that_comes_meanwhile(self):
        """Of those that there were nobody is read twice or left out."""
        for number in range(4):
            self.nova.add_guest(f'g{number}', 'cmp-1')

        def tell(done, total):
            if done == 2:
                self.nova.execute('north', sa.update(models.Instance).where(
                    models.Instance.display_name == 'g0').values(deleted=9))
                self.nova.add_guest('late', 'cmp-1')

        fleet = self.import_(page_rows=2, tell=tell).fleet
        self.assertEqual(['g0', 'g1', 'g2', 'g3'],
                         [guest.name for guest in fleet.guests])

    def test_cpus_that_no_guest_has(self):
        self.nova.add_host('cmp-3', numa_topology=novadatabase.topology_json(
            {0: [0, 16, 1]}))
        self.add_pinned('a', 'cmp-3', {0: [0, 16]})
        self.assertEqual(
            ('host cmp-3: nova has CPUs 1 down as taken, but no guest has '
             'them; guests may have come or gone meanwhile',),
            self.import_().notes)


class MigrationTestCase(TestCase):

    def add_moving(self, host, *, type='migration', old=None, new=None,
                   flavors=None, **changes):
        """A guest pinned to old CPUs on cmp-1, and new ones on cmp-2."""
        old = novadatabase.guest_topology('a', {0: [0, 16]})
        new = novadatabase.guest_topology('a', {1: [8, 24]})
        uuid = self.nova.add_migration(
            'a', 'cmp-1', changes.pop('dest', 'cmp-2'), migration_type=type,
            updated_at=novadatabase.NOW, **changes.pop('migration', {}))
        topology = new if changes.pop('is_moved', False) else old
        self.nova.add_guest('a', host, extra={
            'numa_topology': topology._to_json(),
            'flavor': flavors or novadatabase.flavors_json(SMALL),
            'migration_context': novadatabase.context_json('a', 1, old, new)},
            **changes)
        return uuid

    def held(self):
        imported = self.import_()
        self.assertEqual((), imported.notes)
        return [(guest.uuid, guest.host, guest.flavor,
                 [pin[1] for cell in guest.fit.cells for pin in cell.pins],
                 guest.is_movable) for guest in imported.fleet.guests]

    def test_live(self):
        migration = self.add_moving(
            'cmp-1', type='live-migration', task_state='migrating')
        self.assertEqual(
            [(novadatabase.uuid('a'), 'cmp-1', 'd.4', [0, 16], False),
             (migration, 'cmp-2', 'd.4', [8, 24], False)], self.held())

    def test_resized_and_not_confirmed(self):
        migration = self.add_moving(
            'cmp-2', type='resize', vm_state='resized', is_moved=True,
            migration={'status': 'finished'}, instance_type_id=2,
            flavors=novadatabase.flavors_json(LARGE, SMALL, LARGE))
        self.assertEqual(
            [(novadatabase.uuid('a'), 'cmp-2', 'd.8', [8, 24], False),
             (migration, 'cmp-1', 'd.4', [0, 16], False)], self.held())

    def test_with_its_new_host_but_old_topology(self):
        migration = self.add_moving(
            'cmp-2', task_state='resize_migrated',
            migration={'status': 'post-migrating'})
        self.assertEqual(
            [(novadatabase.uuid('a'), 'cmp-2', 'd.4', [8, 24], False),
             (migration, 'cmp-1', 'd.4', [0, 16], False)], self.held())

    def test_resize_on_its_host(self):
        migration = self.add_moving(
            'cmp-1', dest='cmp-1', type='resize', task_state='resize_prep',
            flavors=novadatabase.flavors_json(SMALL, SMALL, LARGE))
        self.assertEqual(
            [(novadatabase.uuid('a'), 'cmp-1', 'd.4', [0, 16], False),
             (migration, 'cmp-1', 'd.8', [8, 24], False)], self.held())

    def add_device(self, host, number):
        self.nova.insert('north', models.PciDevice, [{
            'compute_node_id': self.nova.node_id(host), 'status': 'allocated',
            'address': f'0000:3b:00.{number}', 'vendor_id': '15b3',
            'product_id': '101e', 'dev_type': 'type-VF', 'label': 'x',
            'numa_node': 0, 'instance_uuid': novadatabase.uuid('a'),
            'deleted': 0, 'dev_id': '', 'uuid': novadatabase.uuid(
                f'device {host} {number}')}])

    def test_devices_on_both_hosts(self):
        self.add_moving('cmp-1', type='live-migration',
                        task_state='migrating')
        self.add_device('cmp-1', 0)
        for number in (1, 2):
            self.add_device('cmp-2', number)
        self.assertEqual(
            [('cmp-1', 1), ('cmp-2', 2)],
            [(guest.host, use.count) for guest in self.import_().fleet.guests
             for use in guest.devices])

    def test_devices_on_one_host(self):
        """Of a server that is resized on its host they count once."""
        self.add_moving(
            'cmp-1', dest='cmp-1', type='resize', task_state='resize_prep',
            flavors=novadatabase.flavors_json(SMALL, SMALL, LARGE))
        self.add_device('cmp-1', 0)
        self.assertEqual([1, 0], [
            sum(use.count for use in guest.devices)
            for guest in self.import_().fleet.guests])

    def test_what_changed_last_counts(self):
        """Of two migrations on one host, whichever is the newer row."""
        self.add_moving('cmp-1', type='resize', task_state='resize_prep',
                        flavors=novadatabase.flavors_json(
                            SMALL, SMALL, LARGE))
        self.nova.add_migration(
            'a', 'cmp-1', 'cmp-2', updated_at=None,
            created_at=novadatabase.NOW - datetime.timedelta(minutes=1))
        self.assertEqual(['d.4', 'd.8'], [one[2] for one in self.held()])

    def test_confirmed(self):
        self.add_moving('cmp-2', is_moved=True,
                        migration={'status': 'confirmed'})
        self.assertEqual(
            [(novadatabase.uuid('a'), 'cmp-2', 'd.4', [8, 24], True)],
            self.held())

    def test_broken_context(self):
        self.add_moving('cmp-1', task_state='migrating',
                        type='live-migration')
        self.nova.execute('north', sa.update(models.InstanceExtra).values(
            migration_context='{'))
        imported = self.import_()
        self.assertEqual(2, len(imported.fleet.guests))
        self.assertIn('its migration context cannot be read',
                      imported.notes[0])


HOSTS = ('cmp-1', 'cmp-2', 'cmp-3')
STATUSES = ('accepted', 'migrating', 'post-migrating', 'finished', 'error',
            'confirmed', 'failed', 'done')
ENDED = ('confirmed', 'reverted', 'failed', 'completed', 'cancelled', 'done')
STATES = (('active', None), ('active', 'resize_prep'),
          ('stopped', 'resize_migrated'), ('resized', None),
          ('active', 'migrating'), ('paused', 'migrating'),
          ('active', 'rebuilding'), ('error', None),
          ('shelved_offloaded', None), ('shelved_offloaded', 'spawning'))


@strategies.composite
def cases(draw):
    """An instance and its migrations, however odd."""
    migrations = [{
        'source_compute': draw(strategies.sampled_from(HOSTS)),
        'dest_compute': draw(strategies.sampled_from(HOSTS)),
        'status': draw(strategies.sampled_from(STATUSES)),
        'migration_type': draw(strategies.sampled_from(
            ('migration', 'resize', 'live-migration', 'evacuation'))),
        'old_instance_type_id': draw(strategies.integers(1, 2)),
        'created_at': novadatabase.NOW + datetime.timedelta(
            seconds=10 * number + draw(strategies.integers(0, 20))),
    } for number in range(draw(strategies.integers(0, 3)))]
    return {
        'host': draw(strategies.sampled_from(HOSTS)),
        'state': draw(strategies.sampled_from(STATES)),
        'instance_type_id': draw(strategies.integers(1, 2)),
        'has_topology': draw(strategies.booleans()),
        'context': draw(strategies.sampled_from((None, 1, 2, 3))),
        'is_resize': draw(strategies.booleans()),
        'migrations': migrations}


class AgainstNovaTestCase(TestCase):
    """What is held where, compared with nova's resource tracker."""

    @unit_base.settings(25)
    @hypothesis.given(cases())
    def test_tracker(self, case):
        counted = [one for one in case['migrations']
                   if one['status'] not in ENDED]
        times = [one['created_at'] for one in counted]
        # Nova takes the first or the last of two as it finds them.
        hypothesis.assume(len(set(times)) == len(times))
        # Nova's tracker loses what a server has that is resized on its host.
        hypothesis.assume(not any(
            one['source_compute'] == one['dest_compute']
            for one in counted))
        self.fill(case)
        found = collections.defaultdict(list)
        for guest in self.import_().fleet.guests:
            pins = [pin for cell in (guest.fit.cells if guest.fit else ())
                    for pin in cell.pins]
            found[guest.host].append((guest.vcpus, pins))
        for host in HOSTS:
            self.assertCountEqual(
                tracked(case, host), found[host], (host, case))

    def fill(self, case):
        for table in (models.InstanceExtra, models.Migration,
                      models.Instance):
            self.nova.execute('north', sa.delete(table))
        for number, one in enumerate(case['migrations'], start=1):
            self.nova.add_migration(
                'a', one['source_compute'], one['dest_compute'],
                id=number, **{key: value for key, value in one.items()
                              if not key.endswith('_compute')})
        vm_state, task_state = case['state']
        now, old, new = topologies(case)
        self.nova.add_guest(
            'a', case['host'], vm_state=vm_state, task_state=task_state,
            instance_type_id=case['instance_type_id'], extra={
                'numa_topology': now._to_json() if now else None,
                'flavor': novadatabase.flavors_json(
                    SMALL, *flavors(case)),
                'migration_context': novadatabase.context_json(
                    'a', case['context'], old, new)
                if case['context'] else None})


def topologies(case):
    if not case['has_topology']:
        return None, None, None
    return tuple(novadatabase.guest_topology('a', {0: cpus})
                 for cpus in ([0], [0], [1, 2]))


def flavors(case):
    """Those before and after a resize."""
    return (SMALL, LARGE) if case['is_resize'] else (None, None)


def tracked(case, host):
    """What nova's tracker on a host counts: (vCPUs, pins) for each.

    The steps of ResourceTracker._update_available_resource.
    """
    vm_state, task_state = case['state']
    now, old, new = topologies(case)
    before, after = flavors(case)
    instance = objects.Instance(
        uuid=novadatabase.uuid('a'), host=case['host'], node=case['host'],
        vm_state=vm_state, task_state=task_state, numa_topology=now,
        instance_type_id=case['instance_type_id'], flavor=SMALL,
        old_flavor=before, new_flavor=after, pci_devices=None,
        pci_requests=None, resources=None, migration_context=None)
    if case['context']:
        instance.migration_context = objects.MigrationContext.obj_from_db_obj(
            novadatabase.context_json('a', case['context'], old, new))
    migrations = []
    for number, one in enumerate(case['migrations'], start=1):
        if one['status'] in ENDED or host not in (
                one['source_compute'], one['dest_compute']):
            continue
        migration = objects.Migration(
            id=number, uuid=novadatabase.uuid(str(number)),
            instance_uuid=instance.uuid, source_node=one['source_compute'],
            dest_node=one['dest_compute'], updated_at=None, **one)
        migration._cached_instance = instance
        migrations.append(migration)
    instances = [instance] if case['host'] == host else []
    tracker = resource_tracker.ResourceTracker.__new__(
        resource_tracker.ResourceTracker)
    tracker.host = host
    tracker.tracked_instances = set()
    tracker.tracked_migrations = {}
    tracker.pci_tracker = None
    tracker.compute_nodes = {host: mock.MagicMock()}
    tracker.stats = {host: mock.MagicMock()}
    tracker.is_bfv = {instance.uuid: False}
    counted = []
    context = nova_context.get_admin_context()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(
            tracker, '_update_usage',
            lambda usage, node, sign=1: counted.append(usage)))
        stack.enter_context(mock.patch.object(objects.Migration, 'save'))
        for migration in migrations:
            if migration.dest_compute == host and instances:
                instance.apply_migration_context()
        tracker._update_usage_from_instances(context, instances, host)
        try:
            tracker._update_usage_from_migrations(context, migrations, host)
        except AttributeError:
            # Nova's tracker fails, and counts nothing more, if a server has
            # no new flavor before its resize comes in.
            hypothesis.reject()
    return [(usage['vcpus'], pins(usage['numa_topology']))
            for usage in counted]


def pins(topology):
    return [pin for cell in (topology.cells if topology else ())
            for pin in sorted(cell.cpu_pinning.items())]
