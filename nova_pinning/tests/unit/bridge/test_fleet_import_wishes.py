# SPDX-License-Identifier: Apache-2.0

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import json

import ddt
from nova import context as nova_context
from nova.db.api import models as api_models
from nova.db.main import models
from nova import objects
import sqlalchemy as sa

from nova_pinning.admission import offered_host
from nova_pinning.tests import novadatabase
from nova_pinning.tests.unit.bridge import test_fleet_import_guests


def spec(zone=None):
    """A request as nova stores it."""
    return json.dumps(objects.RequestSpec(
        context=nova_context.get_admin_context(), availability_zone=zone,
        flavor=novadatabase.flavor(), num_instances=1,
    ).obj_to_primitive())


@ddt.ddt
class WishesTestCase(test_fleet_import_guests.TestCase):

    def setUp(self):
        super().setUp()
        self.uuid = self.nova.add_guest('web', 'cmp-1')

    def add_spec(self, text, uuid=None):
        self.nova.insert('api', api_models.RequestSpec, [
            {'instance_uuid': uuid or self.uuid, 'spec': text}])

    def add_group(self, name, policy, *members, rules=None):
        uuid = novadatabase.uuid(name)
        self.nova.insert('api', api_models.InstanceGroup, [
            {'uuid': uuid, 'name': name, 'project_id': 'p', 'user_id': 'u'}])
        (number,), = self.nova.execute('api', sa.select(
            api_models.InstanceGroup.id).where(
                api_models.InstanceGroup.uuid == uuid))
        self.nova.insert('api', api_models.InstanceGroupPolicy, [
            {'group_id': number, 'policy': policy,
             'rules': rules and json.dumps(rules)}])
        for member in members:
            self.nova.insert('api', api_models.InstanceGroupMember, [
                {'group_id': number, 'instance_uuid': member}])
        return uuid

    @ddt.data('east', 'with "quotes"', '%null%')
    def test_zone(self, zone):
        self.add_spec(spec(zone))
        self.assertEqual(zone, self.guest().availability_zone)

    def test_no_zone(self):
        self.add_spec(spec())
        self.assertEqual('', self.guest().availability_zone)

    def test_no_request(self):
        self.assertEqual('', self.guest().availability_zone)

    @ddt.data('{', '[]', json.dumps({'nova_object.data': {
        'availability_zone': 3}}))
    def test_odd_request(self, text):
        self.add_spec(text)
        imported = self.import_()
        self.assertEqual('', imported.fleet.guests[0].availability_zone)
        self.assertIn(f'server {self.uuid}: its request cannot be read',
                      imported.notes[0])

    def test_server_groups(self):
        other = self.nova.add_guest('db', 'cmp-2')
        one = self.add_group('one', 'anti-affinity', self.uuid, 'gone',
                             rules={'max_server_per_host': 3})
        two = self.add_group('two', 'soft-affinity', other)
        self.add_group('three', 'legacy')
        fleet = self.import_().fleet
        self.assertEqual({
            offered_host.ServerGroup(
                id=one, name='one', max_per_host=3,
                policy=offered_host.GroupPolicy.ANTI_AFFINITY),
            offered_host.ServerGroup(
                id=two, name='two',
                policy=offered_host.GroupPolicy.SOFT_AFFINITY),
        }, set(fleet.server_groups))
        self.assertEqual({'web': one, 'db': two}, {
            guest.name: guest.server_group for guest in fleet.guests})

    def test_tags_and_metadata(self):
        self.nova.insert('north', models.Tag, [
            {'resource_id': self.uuid, 'tag': tag} for tag in ('b', 'a')])
        self.nova.insert('north', models.InstanceMetadata, [
            {'instance_uuid': self.uuid, 'key': key, 'value': value,
             'deleted': deleted} for key, value, deleted in (
                ('pinning:movable', 'false', 0),
                ('pinning:dirty_rate', 'low', 1), ('colour', 'red', 0),
                ('pinning_x', 'no', 0), ('pinning:empty', None, 0))])
        guest = self.guest()
        self.assertEqual(('a', 'b'), guest.tags)
        self.assertEqual({'pinning:movable': 'false', 'pinning:empty': ''},
                         guest.metadata)

    def test_image(self):
        """Those of its properties for which Placement is asked."""
        self.nova.insert('north', models.InstanceSystemMetadata, [
            {'instance_uuid': self.uuid, 'key': key, 'value': value,
             'deleted': deleted} for key, value, deleted in (
                ('image_hw_pci_numa_affinity_policy', 'socket', 0),
                ('image_trait:HW_CPU_X86_AVX2', 'required', 0),
                ('image_hw_tpm_version', '2.0', 1),
                ('image_os_distro', 'debian', 0), ('boot_roles', 'x', 0))])
        self.assertEqual({'hw_pci_numa_affinity_policy': 'socket',
                          'trait:HW_CPU_X86_AVX2': 'required'},
                         self.guest().image)

    def test_state_and_project(self):
        self.nova.add_guest('db', 'cmp-2', vm_state='stopped',
                            project_id='other')
        self.assertEqual(
            {'web': ('active', 'project'), 'db': ('stopped', 'other')},
            {guest.name: (guest.vm_state, guest.project)
             for guest in self.import_().fleet.guests})

    @ddt.data((None, ''), ('Haswell-noTSX', 'Haswell-noTSX'))
    @ddt.unpack
    def test_cpu_model(self, named, wanted):
        self.nova.add_guest('db', 'cmp-2', extra={'vcpu_model': json.dumps(
            objects.VirtCPUModel(
                arch='x86_64', vendor=None, topology=None, features=[],
                mode='custom' if named else 'host-model', model=named,
                match='exact').obj_to_primitive())})
        self.assertEqual({'web': '', 'db': wanted}, {
            guest.name: guest.cpu_model
            for guest in self.import_().fleet.guests})

    def test_odd_cpu_model(self):
        self.nova.add_guest('db', 'cmp-2', extra={'vcpu_model': '{'})
        imported = self.import_()
        self.assertIn('its CPU model cannot be read: ', imported.notes[0])
