# SPDX-License-Identifier: Apache-2.0
"""What is said to nova, and what is made of its answers."""

import dataclasses
import time
from unittest import mock
import urllib.parse

import ddt
import fixtures
from keystoneauth1 import exceptions as ksa_exceptions
import openstack
from oslotest import base as oslotest
import requests
from requests_mock.contrib import fixture

from nova_pinning import errors
from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import flavor_model

URL = 'http://nova.example/v2.1'
VERSIONS = {'version': {
    'id': 'v2.1', 'status': 'CURRENT', 'version': '2.102',
    'min_version': '2.1', 'links': [{'rel': 'self', 'href': URL}]}}

FLAVOR = flavor_model.Flavor(
    name='ours.large', id='id-1', vcpus=2, memory_mib=8192, disk_gib=3,
    ephemeral_gib=4, swap_mib=5, rxtx_factor=1.5, is_public=False,
    projects=('p1', 'p2'), description='words',
    extra_specs={'hw:cpu_policy': 'dedicated'})


def shown(name='m1', **changes):
    """A flavor as nova shows it."""
    return {
        'id': f'id-{name}', 'name': name, 'ram': 512, 'disk': 1, 'swap': 0,
        'OS-FLV-EXT-DATA:ephemeral': 0, 'OS-FLV-DISABLED:disabled': False,
        'vcpus': 1, 'os-flavor-access:is_public': True, 'rxtx_factor': 1.0,
        'links': [], 'description': None, 'extra_specs': {}, **changes}


def no_projects(flavor):
    return False


class CloudTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.nova = self.useFixture(fixture.Fixture())
        self.nova.get(URL, json=VERSIONS)
        self.nova.get(f'{URL}/', json=VERSIONS)
        self.waits = []
        self.useFixture(fixtures.MockPatch(
            'keystoneauth1.session.time',
            mock.Mock(wraps=time, sleep=self.waits.append)))
        self.connection = openstack.connect(
            auth_type='none', endpoint=URL, load_yaml_config=False,
            load_envvars=False)
        self.cloud = flavor_cloud.FlavorCloud(self.connection, 'here')

    def sent(self):
        """The requests, without the search for the API's version."""
        return [request for request in self.nova.request_history
                if urllib.parse.urlsplit(request.url).path.rstrip('/')
                != '/v2.1']


@ddt.ddt
class TestMicroversion(CloudTestCase):

    @ddt.data(('2.102', 102), ('2.96', 96), ('', None))
    @ddt.unpack
    def test_of_the_api(self, version, expected):
        document = {'version': VERSIONS['version'] | {'version': version}}
        for url in (URL, f'{URL}/'):
            self.nova.get(url, json=document)
        self.assertEqual(expected, self.cloud.microversion())

    def test_no_answer(self):
        for url in (URL, f'{URL}/'):
            self.nova.get(url, exc=requests.ConnectionError)
        self.nova.get('http://nova.example/', exc=requests.ConnectionError)
        try:
            self.assertIsNone(self.cloud.microversion())
        except errors.CloudError as error:
            self.assertNotEqual('', str(error))


@ddt.ddt
class TestFlavors(CloudTestCase):

    def list(self, with_projects=no_projects):
        return self.cloud.flavors(with_projects)

    def test_fields(self):
        self.nova.get(f'{URL}/flavors/detail', json={'flavors': [shown(
            'ours.large', id='id-1', ram=8192, vcpus=2, disk=3, swap=5,
            description='words', rxtx_factor=1.5,
            extra_specs=FLAVOR.extra_specs, **{
                'OS-FLV-EXT-DATA:ephemeral': 4,
                'os-flavor-access:is_public': False})]})
        self.nova.get(f'{URL}/flavors/id-1/os-flavor-access', json={
            'flavor_access': [
                {'flavor_id': 'id-1', 'tenant_id': 'p2'},
                {'flavor_id': 'id-1', 'tenant_id': 'p1'}]})

        [flavor] = self.list(lambda flavor: flavor.id == 'id-1')

        self.assertEqual(FLAVOR, flavor)
        self.assertEqual('cloud here: flavor ours.large', str(flavor.where))
        for request in self.sent():
            self.assertEqual('compute 2.86',
                             request.headers['OpenStack-API-Version'])
        self.assertEqual(['none'], self.sent()[0].qs['is_public'])

    def test_projects_are_read_where_they_are_wanted(self):
        self.nova.get(f'{URL}/flavors/detail', json={'flavors': [
            shown('public'),
            shown('private', **{'os-flavor-access:is_public': False})]})

        self.list()
        self.assertEqual(1, len(self.sent()))
        # The one that is read is gone by then.
        self.nova.get(f'{URL}/flavors/id-private/os-flavor-access',
                      status_code=404)
        self.assertEqual([(), ()], [flavor.projects for flavor
                                    in self.list(lambda flavor: True)])

    def test_an_old_factor(self):
        self.nova.get(f'{URL}/flavors/detail', json={
            'flavors': [shown(rxtx_factor='')]})
        self.assertEqual(1.0, self.list()[0].rxtx_factor)

    def test_pages(self):
        more = [{'rel': 'next', 'href': 'http://elsewhere/'}]
        self.nova.get(f'{URL}/flavors/detail?is_public=None', json={
            'flavors': [shown('a'), shown('b')], 'flavors_links': more})
        self.nova.get(f'{URL}/flavors/detail?marker=id-b', json={
            'flavors': [shown('c'), shown('d')], 'flavors_links': more})
        self.nova.get(f'{URL}/flavors/detail?marker=id-d', json={
            'flavors': []})

        self.assertEqual(list('abcd'),
                         [flavor.name for flavor in self.list()])

    def test_pages_without_end(self):
        self.nova.get(f'{URL}/flavors/detail', json={
            'flavors': [shown('a')],
            'flavors_links': [{'rel': 'next', 'href': 'http://elsewhere/'}]})
        error = self.assertRaises(errors.CloudError, self.list)
        self.assertIn('no end', str(error))

    def test_a_page_whose_marker_has_gone(self):
        more = [{'rel': 'next', 'href': 'http://elsewhere/'}]
        self.nova.get(f'{URL}/flavors/detail?is_public=None', [
            {'json': {'flavors': [shown('a')], 'flavors_links': more}},
            {'json': {'flavors': [shown('b')]}}])
        self.nova.get(f'{URL}/flavors/detail?marker=id-a', status_code=400)

        self.assertEqual(['a', 'b'], [flavor.name for flavor in self.list()])

        self.nova.get(f'{URL}/flavors/detail', status_code=400)
        error = self.assertRaises(errors.CloudError, self.list)
        self.assertNotIsInstance(error, errors.UnsettledError)

    def test_hidden_extra_specs(self):
        hidden = shown()
        del hidden['extra_specs']
        self.nova.get(f'{URL}/flavors/detail', json={'flavors': [hidden]})
        error = self.assertRaises(errors.CloudError, self.list)
        self.assertIn('reader', str(error))

    @ddt.data({'status_code': 500}, {'status_code': 503},
              {'status_code': 429}, {'status_code': 409},
              {'exc': requests.exceptions.ConnectionError},
              {'exc': requests.exceptions.ConnectTimeout})
    def test_reading_is_repeated(self, trouble):
        url = f'{URL}/flavors/detail'
        self.nova.get(url, [trouble, {'json': {'flavors': []}}])
        self.assertEqual((), self.list())
        self.assertEqual([0.5], self.waits)

        self.waits.clear()
        self.nova.get(url, [trouble])
        error = self.assertRaises(errors.CloudError, self.list)
        self.assertNotIsInstance(error, errors.UnsettledError)
        self.assertEqual([0.5, 1.0, 2.0, 4.0], self.waits)

    @ddt.data({'status_code': 401}, {'status_code': 403},
              {'status_code': 406}, {'status_code': 418},
              {'text': '<html>', 'status_code': 200},
              {'exc': requests.exceptions.SSLError},
              {'exc': ksa_exceptions.ServiceUnavailable},
              {'exc': ksa_exceptions.Unauthorized})
    def test_what_does_not_help_to_repeat(self, trouble):
        self.nova.get(f'{URL}/flavors/detail', [trouble])
        self.assertRaises(errors.CloudError, self.list)
        self.assertEqual([], self.waits)

    def test_no_answer_from_the_start(self):
        for url in (URL, f'{URL}/', 'http://nova.example/'):
            self.nova.get(url, exc=requests.ConnectionError)
        self.assertRaises(errors.CloudError, self.list)
        self.assertRaises(errors.CloudError, self.cloud.delete, 'a')

    def test_one(self):
        self.nova.get(f'{URL}/flavors/id-m1', json={'flavor': shown(
            **{'os-flavor-access:is_public': False})})
        self.nova.get(f'{URL}/flavors/id-m1/os-flavor-access', json={
            'flavor_access': [{'flavor_id': 'id-m1', 'tenant_id': 'p1'}]})
        self.assertEqual(('p1',), self.cloud.flavor('id-m1').projects)
        self.nova.get(f'{URL}/flavors/id-m1', status_code=404)
        self.assertIsNone(self.cloud.flavor('id-m1'))

    def test_servers(self):
        self.nova.get(f'{URL}/servers', [
            {'json': {'servers': [{'id': 's1', 'name': 'one'}],
                      'servers_links': [{'rel': 'next', 'href': ''}]}},
            # Its cell does not answer.
            {'json': {'servers': [{'id': 's2', 'status': 'UNKNOWN'}]}}])
        self.assertEqual(('one (s1)', '? (s2)'), self.cloud.servers('id 1'))
        self.assertEqual(
            {'all_tenants': ['1'], 'flavor': ['id 1'],
             'soft_deleted': ['1'], 'marker': ['s1']}, self.sent()[1].qs)

    def test_own_extra_specs(self):
        self.nova.get(f'{URL}/servers/detail', json={'servers': [
            {'id': 's1', 'name': 'one', 'flavor': {'extra_specs': {'a': 'b'}}},
            {'id': 's2', 'status': 'UNKNOWN'}]})
        self.assertEqual((('one (s1)', {'a': 'b'}), ('? (s2)', None)),
                         self.cloud.own_extra_specs('m1'))


@ddt.ddt
class TestResizing(CloudTestCase):

    PLACEMENT = 'http://placement.example'

    def setUp(self):
        super().setUp()
        self.connection.config.config['placement_endpoint_override'] = (
            self.PLACEMENT)
        self.nova.get(f'{self.PLACEMENT}/', json={'versions': [{
            'id': 'v1.0', 'status': 'CURRENT', 'max_version': '1.39',
            'min_version': '1.0', 'links': [
                {'rel': 'self', 'href': self.PLACEMENT}]}]})
        self.migrations([{'uuid': 'm1', 'status': 'finished',
                          'migration_type': 'resize'}])
        self.nova.get(f'{URL}/servers?status=resize', json={'servers': []})
        self.nova.get(f'{URL}/servers?status=verify_resize', json={
            'servers': [{'id': 's1', 'name': 'one'}]})
        self.allocations(8192, 1024)

    def migrations(self, migrations):
        self.nova.get(f'{URL}/os-migrations?instance_uuid=s1&limit=1',
                      json={'migrations': migrations})

    def allocations(self, *memory_mib):
        for consumer, each in zip(('m1', 's1'), memory_mib, strict=True):
            self.nova.get(
                f'{self.PLACEMENT}/allocations/{consumer}', json={
                    'allocations': {} if each is None else {
                        'p1': {'resources': {'VCPU': 2, 'MEMORY_MB': each}},
                        'p2': {'resources': {'DISK_GB': 1}}}})

    def found(self, **changes):
        return self.cloud.resizing(dataclasses.replace(FLAVOR, **changes))

    def test_from_it(self):
        self.assertEqual(('one (s1)',), self.found())

    def test_from_another(self):
        self.assertEqual((), self.found(memory_mib=2048))

    def test_to_it(self):
        self.assertEqual(('one (s1)',), self.found(memory_mib=1024))

    def test_a_resource_class_of_its_own(self):
        self.assertEqual(('one (s1)',), self.found(
            memory_mib=2048, extra_specs={'resources:MEMORY_MB': '0'}))

    def test_a_migration(self):
        self.migrations([{'uuid': 'm1', 'status': 'finished',
                          'migration_type': 'migration'}])
        self.assertEqual((), self.found())

    @ddt.data([], [{'uuid': 'm1', 'status': 'confirmed',
                    'migration_type': 'migration'}])
    def test_one_that_has_just_begun(self, migrations):
        self.migrations(migrations)
        self.assertEqual(('one (s1)',), self.found(memory_mib=2048))

    def test_what_placement_does_not_tell(self):
        self.allocations(None, 1024)
        self.assertEqual(('one (s1)',), self.found(memory_mib=2048))
        self.nova.get(f'{self.PLACEMENT}/allocations/m1', status_code=403)
        self.assertEqual(('one (s1)',), self.found(memory_mib=2048))


@ddt.ddt
class TestChanges(CloudTestCase):

    @ddt.data(
        (lambda nova: nova.create(FLAVOR), 'POST', '/flavors', {'flavor': {
            'name': 'ours.large', 'id': 'id-1', 'vcpus': 2, 'ram': 8192,
            'disk': 3, 'OS-FLV-EXT-DATA:ephemeral': 4, 'swap': 5,
            'rxtx_factor': 1.5, 'os-flavor-access:is_public': False,
            'description': 'words'}}),
        (lambda nova: nova.delete('a b'), 'DELETE', '/flavors/a%20b', None),
        (lambda nova: nova.set_extra_specs('1', {'a:b': 'c'}), 'POST',
         '/flavors/1/os-extra_specs', {'extra_specs': {'a:b': 'c'}}),
        (lambda nova: nova.unset_extra_spec('1', 'a b:c'), 'DELETE',
         '/flavors/1/os-extra_specs/a%20b%3Ac', None),
        (lambda nova: nova.set_description('1', 'words'), 'PUT',
         '/flavors/1', {'flavor': {'description': 'words'}}),
        (lambda nova: nova.set_description('1', ''), 'PUT',
         '/flavors/1', {'flavor': {'description': None}}),
        (lambda nova: nova.add_project('1', 'p'), 'POST',
         '/flavors/1/action', {'addTenantAccess': {'tenant': 'p'}}),
        (lambda nova: nova.remove_project('1', 'p'), 'POST',
         '/flavors/1/action', {'removeTenantAccess': {'tenant': 'p'}}),
    )
    @ddt.unpack
    def test_requests(self, change, method, path, body):
        self.nova.register_uri(method, URL + path, json={})
        change(self.cloud)
        [request] = self.sent()
        self.assertEqual(method, request.method)
        self.assertEqual(f'/v2.1{path}'.lower(),
                         urllib.parse.urlsplit(request.url).path.lower())
        self.assertEqual(body, request.json() if body else None)
        self.assertEqual('compute 2.86',
                         request.headers['OpenStack-API-Version'])

    def test_create_without_description(self):
        self.nova.post(f'{URL}/flavors', json={})
        self.cloud.create(dataclasses.replace(FLAVOR, description=''))
        self.assertIsNone(self.sent()[0].json()['flavor']['description'])

    def test_retries_that_clouds_yaml_asks_for(self):
        self.connection.compute.status_code_retries = 1
        self.connection.compute.connect_retries = 1
        for trouble in ({'status_code': 503},
                        {'exc': requests.exceptions.ConnectionError}):
            before = len(self.sent())
            self.assertRaises(errors.UnsettledError, self.change, trouble)
            self.assertEqual(1, len(self.sent()) - before)

    def change(self, *answers):
        self.nova.put(f'{URL}/flavors/1', list(answers))
        self.cloud.set_description('1', 'words')

    @ddt.data({'status_code': 404}, {'status_code': 409},
              {'status_code': 500}, {'status_code': 502},
              {'status_code': 503}, {'status_code': 504},
              {'exc': requests.exceptions.ConnectionError},
              {'exc': requests.exceptions.ReadTimeout},
              # Keystone's answer, when a new token is needed.
              {'exc': ksa_exceptions.ServiceUnavailable})
    def test_unsettled(self, trouble):
        self.assertRaises(errors.UnsettledError, self.change, trouble)
        # A change is not sent twice without looking in between.
        self.assertEqual(1, len(self.sent()))
        self.assertEqual([], self.waits)

    def test_refused(self):
        error = self.assertRaises(
            errors.RefusedError, self.change,
            {'status_code': 400,
             'headers': {'Content-Type': 'application/json'},
             'json': {'badRequest': {
                 'code': 400, 'message': "Invalid\n  'hw:x' spec."}}})
        self.assertEqual(
            "PUT /v2.1/flavors/1: 400 Invalid 'hw:x' spec", str(error))

    @ddt.data('', '[]', '{}', '"x"', '{"a": 1}', '{"a": {"b": 1}}', '<html>')
    def test_refused_without_words(self, text):
        error = self.assertRaises(
            errors.RefusedError, self.change,
            {'status_code': 400, 'text': text, 'reason': 'Bad Request'})
        self.assertIn('PUT /v2.1/flavors/1: 400', str(error))

    @ddt.data({'status_code': 401}, {'status_code': 403},
              {'status_code': 406}, {'exc': ksa_exceptions.Unauthorized})
    def test_nothing_will_work(self, trouble):
        error = self.assertRaises(errors.CloudError, self.change, trouble)
        self.assertIs(errors.CloudError, type(error))

    def test_rate_limit(self):
        self.change({'status_code': 429}, {'json': {}})
        self.assertEqual([0.5], self.waits)
        self.assertEqual(2, len(self.sent()))

    def test_rate_limit_that_never_lets_through(self):
        self.assertRaises(errors.UnsettledError, self.change,
                          {'status_code': 413})
        self.assertEqual(4, len(self.waits))
