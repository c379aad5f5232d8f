# SPDX-License-Identifier: Apache-2.0

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import json

import ddt
from nova.db.api import models as api_models
from nova.db.main import models
from nova import objects
import sqlalchemy as sa

from nova_pinning.bridge.importer import nova_database
from nova_pinning.bridge.importer import request_specs
from nova_pinning import errors
from nova_pinning.tests import novadatabase
from nova_pinning.tests.unit.bridge import test_fleet_import

REQUEST = 'req-0c1d2e3f'


@ddt.ddt
class RequestSpecTestCase(test_fleet_import.TestCase):

    def add_request(self, name='a', **changes):
        spec = objects.RequestSpec(**{
            'instance_uuid': novadatabase.uuid(name),
            'flavor': novadatabase.flavor(hw__cpu_policy='dedicated'),
            'image': objects.ImageMeta(
                properties=objects.ImageMetaProps()),
            'availability_zone': None, 'project_id': 'p', **changes})
        self.nova.insert('api', api_models.RequestSpec, [{
            'instance_uuid': novadatabase.uuid(name),
            'spec': json.dumps(spec.obj_to_primitive())}])

    def add_action(self, name, cell, request_id=REQUEST):
        self.nova.insert(cell, models.InstanceAction, [{
            'instance_uuid': novadatabase.uuid(name), 'deleted': 0,
            'action': 'create', 'request_id': request_id}])

    def stored(self, server):
        return request_specs.stored_request(
            server, ['--config-file', str(self.nova.conf)])

    def test_server(self):
        self.add_request(availability_zone='east')
        found = self.stored(novadatabase.uuid('a'))
        self.assertEqual(('d.4', 4, {'hw:cpu_policy': 'dedicated'}), (
            found.flavor.name, found.flavor.vcpus, found.flavor.extra_specs))
        self.assertEqual(('east', 'p', {}, '', ()), (
            found.availability_zone, found.project_id,
            found.image_properties, found.fault, found.notes))

    @ddt.data('cell0', 'north')
    def test_request_id(self, cell):
        self.add_request('a')
        self.add_request('b', availability_zone='west')
        self.add_action('a', 'north', 'req-other')
        self.add_action('b', cell)
        found = self.stored(REQUEST)
        self.assertEqual(novadatabase.uuid('b'), found.server)
        self.assertEqual('west', found.availability_zone)

    def test_fault(self):
        self.add_request()
        for message in ('too early', 'No valid host was found.'):
            self.nova.insert('cell0', models.InstanceFault, [{
                'instance_uuid': novadatabase.uuid('a'), 'code': 500,
                'message': message, 'created_at': novadatabase.NOW,
                'deleted': 0}])
        self.assertEqual('No valid host was found. (2026-11-21T12:00:00Z)',
                         self.stored(novadatabase.uuid('a')).fault)

    def _take_down(self, cell):
        self.nova.execute('api', sa.update(api_models.CellMapping).where(
            api_models.CellMapping.name == cell).values(
                database_connection='sqlite:////nowhere/cell.sqlite'))

    def test_cell_down(self):
        """It keeps nobody from what the other cells and the API know."""
        self.add_request()
        self._take_down('north')
        found = self.stored(novadatabase.uuid('a'))
        self.assertEqual(('d.4', ''), (found.flavor.name, found.fault))
        self.assertEqual(
            ('cell north: it cannot be read: unable to open database file',),
            found.notes)
        error = self.assertRaises(nova_database.DatabaseError, self.stored,
                                  server=REQUEST)
        self.assertIn('cell north: it cannot be read', str(error))
        self.add_action('a', 'cell0')
        self.assertEqual(novadatabase.uuid('a'),
                         self.stored(REQUEST).server)

    def test_image_properties(self):
        """What comes out makes the same properties again."""
        given = {
            'hw_cpu_policy': 'dedicated', 'hw_numa_nodes': '2',
            'hw_numa_cpus.0': '0,1', 'hw_numa_cpus.1': '2,3',
            'hw_numa_mem.0': '1024', 'hw_numa_mem.1': '2048',
            'hw_mem_page_size': 'large', 'trait:CUSTOM_X': 'required',
            'hw_boot_menu': 'True', 'hw_vif_model': 'virtio'}
        properties = objects.ImageMetaProps.from_dict(dict(given))
        self.add_request(image=objects.ImageMeta(properties=properties))
        found = self.stored(novadatabase.uuid('a')).image_properties
        self.assertEqual(given, found)
        again = objects.ImageMetaProps.from_dict(dict(found))
        self.assertEqual(properties.obj_to_primitive()['nova_object.data'],
                         again.obj_to_primitive()['nova_object.data'])

    def test_notes(self):
        self.add_request(
            image=None, scheduler_hints={'same_host': ['x', 'y']},
            force_hosts=['cmp-1'], pci_requests=objects.InstancePCIRequests(
                requests=[
                    objects.InstancePCIRequest(
                        count=1, spec=[{}], alias_name=None),
                    objects.InstancePCIRequest(
                        count=1, spec=[{}], alias_name='gpu')]))
        notes = self.stored(novadatabase.uuid('a')).notes
        self.assertEqual((
            'it has the scheduler hint same_host=x,y',
            'it asks for host cmp-1',
            'it has 1 ports that take PCI devices, which are not looked at'),
            notes)

    def test_no_server(self):
        error = self.assertRaises(errors.InputError, self.stored,
                                  server='nonsense')
        self.assertIn('--server: nova has no request of a server nonsense',
                      str(error))

    def test_no_request(self):
        error = self.assertRaises(errors.InputError, self.stored,
                                  server=REQUEST)
        self.assertIn(f'--server: nova has no server on which {REQUEST}',
                      str(error))

    @ddt.data('{', '{}', '[]', 'null')
    def test_broken(self, text):
        self.nova.insert('api', api_models.RequestSpec, [{
            'instance_uuid': novadatabase.uuid('a'), 'spec': text}])
        error = self.assertRaises(errors.InputError, self.stored,
                                  server=novadatabase.uuid('a'))
        self.assertIn('cannot be read', str(error))
