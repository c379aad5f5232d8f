# SPDX-License-Identifier: Apache-2.0
"""What is said to nova, and what is made of its answers."""

import json
import time
from unittest import mock
import urllib.parse

import ddt
import fixtures
import openstack
from oslotest import base as oslotest
import requests
from requests_mock.contrib import fixture

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_cloud
from nova_pinning.segregation import segregation_model

URL = 'http://nova.example/v2.1'
PLACEMENT = 'http://placement.example'
DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED
AGGREGATE = segregation_model.HostAggregate(7, 'uuid-a', 'a', frozenset({'h'}),
                                            {'k': 'v'})


def versions(newest='2.102'):
    return {'version': {
        'id': 'v2.1', 'status': 'CURRENT', 'version': newest,
        'min_version': '2.1', 'links': [{'rel': 'self', 'href': URL}]}}


def server(name='s', host='h', extra_specs=None, **changes):
    """A server as nova shows it."""
    return {
        'id': f'id-{name}', 'name': name, 'tenant_id': 'p',
        'status': 'ACTIVE', 'OS-EXT-SRV-ATTR:host': host,
        'flavor': {'original_name': 'f', 'vcpus': 1, 'ram': 1, 'disk': 1,
                   'ephemeral': 0, 'swap': 0,
                   'extra_specs': extra_specs or {}},
        'image': {'id': 'i', 'links': [], 'properties': {}}, **changes}


def aggregate(*hosts):
    """AGGREGATE as nova shows it."""
    return {'id': 7, 'uuid': 'uuid-a', 'name': 'a', 'hosts': list(hosts),
            'metadata': {'k': 'v'}, 'availability_zone': None,
            'created_at': '', 'updated_at': None, 'deleted': False,
            'deleted_at': None}


def refusal(kind, code, message):
    return {'status_code': code,
            'headers': {'Content-Type': 'application/json'},
            'json': {kind: {'code': code, 'message': message}}}


class CloudTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.http = self.useFixture(fixture.Fixture())
        self.useFixture(fixtures.MockPatch(
            'keystoneauth1.session.time',
            mock.Mock(wraps=time, sleep=lambda seconds: None)))
        self.versions(versions())
        self.http.get(f'{PLACEMENT}/', json={'versions': [{
            'id': 'v1.0', 'status': 'CURRENT', 'min_version': '1.0',
            'max_version': '1.39',
            'links': [{'rel': 'self', 'href': ''}]}]})

    def versions(self, body):
        self.http.get(URL, json=body)
        self.http.get(f'{URL}/', json=body)

    def cloud(self, **settings):
        connection = openstack.connect(
            auth_type='none', compute_endpoint_override=URL,
            placement_endpoint_override=PLACEMENT, load_yaml_config=False,
            load_envvars=False, **settings)
        self.addCleanup(connection.close)
        return segregation_cloud.SegregationCloud(connection, 'here')

    def sent(self, method='GET'):
        """The requests to nova, without the search for its versions."""
        return [one for one in self.http.request_history
                if one.method == method and one.url.startswith(f'{URL}/')
                and urllib.parse.urlsplit(one.url).path != '/v2.1/']


@ddt.ddt
class TestMicroversion(CloudTestCase):

    @ddt.data(('2.102', '2.98'), ('2.98', '2.98'), ('2.97', '2.97'),
              ('2.86', '2.86'))
    @ddt.unpack
    def test_asked_for(self, newest, expected):
        self.versions(versions(newest))
        self.http.get(f'{URL}/servers/detail', json={'servers': []})
        self.http.get(f'{URL}/os-aggregates', json={'aggregates': []})
        self.http.get(f'{URL}/os-hypervisors/detail',
                      json={'hypervisors': []})
        self.http.get(f'{URL}/servers/s', json={'server': server()})
        self.http.get(f'{URL}/servers/s/topology', json={'nodes': []})
        self.http.post(f'{URL}/os-aggregates',
                       json={'aggregate': aggregate()})
        self.http.get(f'{PLACEMENT}/traits', json={'traits': []})
        self.http.get(f'{PLACEMENT}/resource_providers',
                      json={'resource_providers': []})
        # Whatever the user asks for in general.
        nova = self.cloud(compute_default_microversion='2.1')
        list(nova.servers())
        nova.hosts()
        nova.server('s')
        nova.topology('s')
        nova.create_aggregate('a')
        found = self.sent() + self.sent('POST')
        self.assertEqual(6, len(found))
        for request in found:
            self.assertEqual(f'compute {expected}',
                             request.headers['OpenStack-API-Version'])

    def test_too_old(self):
        self.versions(versions('2.79'))
        error = self.assertRaises(errors.CloudError, self.cloud)
        self.assertEqual("the cloud's compute API knows versions up to 2.79; "
                         '2.86 (Ussuri, 2020) is needed', str(error))

    def test_not_there(self):
        for url in (URL, f'{URL}/', 'http://nova.example/',
                    'http://nova.example'):
            self.http.get(url, exc=requests.ConnectionError)
        error = self.assertRaises(errors.CloudError, self.cloud)
        self.assertIn(URL, str(error))


@ddt.ddt
class TestServers(CloudTestCase):

    def list(self, *pages, host=''):
        self.http.get(f'{URL}/servers/detail', list(pages))
        return list(self.cloud().servers(host))

    @staticmethod
    def page(*servers, more=''):
        links = [{'rel': 'next',
                  'href': f'{URL}/servers/detail?marker={more}'}]
        return {'json': {'servers': list(servers),
                         **({'servers_links': links} if more else {})}}

    def test_fields(self):
        [found] = self.list(self.page(server()))
        self.assertEqual(segregation_model.HostedServer(
            id='id-s', name='s', project='p', host='h', flavor='f',
            host_class=SHARED, is_certain=True, status='ACTIVE'), found)
        [request] = self.sent()
        self.assertEqual({'all_tenants': ['1']}, request.qs)

    def test_of_a_host(self):
        self.list(self.page(server()), host='H')
        self.assertIn('host=H', self.http.request_history[-1].url)

    @ddt.data(
        (server(extra_specs={'hw:cpu_policy': 'dedicated'}), DEDICATED, True),
        (server(image={'properties': {'hw_cpu_policy': 'dedicated'}}),
         DEDICATED, True),
        # Booted from a volume, and from an image before 2.98.
        (server(image=''), SHARED, False),
        (server(image={'id': 'i'}), SHARED, False),
        (server(image='', extra_specs={'hw:cpu_policy': 'shared'}), SHARED,
         True),
        (server(extra_specs={'pinning:class': 'gold'}), None, True),
        (server(host=None), SHARED, True))
    @ddt.unpack
    def test_class(self, one, host_class, is_certain):
        [found] = self.list(self.page(one))
        self.assertEqual((host_class, is_certain, one[
            'OS-EXT-SRV-ATTR:host'] or ''),
            (found.host_class, found.is_certain, found.host))

    @ddt.data(
        ({}, {}, False), ({'hw:mem_page_size': 'large'}, {}, True),
        ({'hw:numa_nodes': '2'}, {}, True), ({'hw:pmem': '6GB'}, {}, True),
        ({}, {'properties': {'hw_mem_page_size': '2MB'}}, True),
        ({}, {'properties': {'os_distro': 'x'}}, False), ({}, '', False))
    @ddt.unpack
    def test_cells(self, extra_specs, image, expected):
        [found] = self.list(self.page(server(
            extra_specs=extra_specs, image=image)))
        self.assertIs(expected, found.has_cells)

    def test_in_a_cell_that_is_down(self):
        [found] = self.list(self.page({
            'id': 'x', 'status': 'UNKNOWN', 'tenant_id': 'p', 'links': [],
            'created': ''}))
        self.assertEqual(('x', '', None, False), (
            found.id, found.host, found.host_class, found.is_certain))

    def test_pages(self):
        found = self.list(self.page(server('a'), server('b'), more='id-b'),
                          self.page(server('c')))
        self.assertEqual(['a', 'b', 'c'], [one.name for one in found])
        self.assertEqual(['id-b'], self.sent()[1].qs['marker'])

    def test_pages_that_change(self):
        """The last server of the first page is deleted."""
        found = self.list(
            self.page(server('a'), server('b'), more='id-b'),
            refusal('badRequest', 400, 'marker [id-b] not found'),
            self.page(server('a'), server('c'), more='id-c'),
            self.page(server('d')))
        self.assertEqual(list('abcd'), [one.name for one in found])

    def test_pages_that_always_change(self):
        pages = [self.page(server('a'), more='id-a'),
                 refusal('badRequest', 400, 'marker [id-a] not found')]
        error = self.assertRaises(errors.CloudError, self.list, *pages * 9)
        self.assertIn('changes faster', str(error))
        self.assertEqual(10, len(self.sent()))

    def test_a_query_that_is_refused(self):
        error = self.assertRaises(
            errors.RefusedError, self.list,
            refusal('badRequest', 400, 'Bad\n query.'))
        self.assertEqual('GET /v2.1/servers/detail: 400 Bad query',
                         str(error))
        self.assertEqual(1, len(self.sent()))

    @ddt.data('OS-EXT-SRV-ATTR:host', 'extra_specs')
    def test_what_the_user_may_not_see(self, key):
        one = server()
        (one if key in one else one['flavor']).pop(key)
        error = self.assertRaises(errors.CloudError, self.list,
                                  self.page(one))
        self.assertIn('does not show to this user', str(error))

    @ddt.data(
        refusal('forbidden', 403, 'Not you'),
        refusal('computeFault', 500, 'Not you'),
        {'text': 'Not you'}, {'exc': requests.ConnectionError('Not you')})
    def test_cannot_be_had(self, answer):
        error = self.assertRaises(errors.CloudError, self.list, answer)
        self.assertIs(errors.CloudError, type(error))
        self.assertIn('an answer is not JSON' if 'text' in answer
                      else 'Not you', str(error))

    # Without a connection, older openstacksdk sends a query again only once.
    @ddt.data(({'status_code': 503}, 2), ({'status_code': 429}, 2),
              ({'exc': requests.ConnectionError}, 1))
    @ddt.unpack
    def test_sent_again(self, answer, times):
        self.assertEqual(1, len(self.list(
            *[answer] * times, self.page(server()))))

    def test_one(self):
        self.http.get(f'{URL}/servers/id-s', json={'server': server()})
        self.http.get(f'{URL}/servers/gone', **refusal(
            'itemNotFound', 404, 'Gone'))
        nova = self.cloud()
        self.assertEqual('s', nova.server('id-s').name)
        self.assertIsNone(nova.server('gone'))

    def test_one_whose_cell_is_down(self):
        self.http.get(f'{URL}/servers/s', json={'server': {
            'id': 's', 'status': 'UNKNOWN', 'tenant_id': 'p'}})
        error = self.assertRaises(errors.CloudError, self.cloud().server, 's')
        self.assertEqual('the cell of server s does not answer', str(error))


class TestCache(CloudTestCase):

    def test_what_was_true_before_is_not_told_again(self):
        self.http.get(f'{URL}/servers/detail', [
            {'json': {'servers': []}}, {'json': {'servers': [server()]}}])
        [path] = self.create_tempfiles([('clouds', json.dumps({
            'cache': {'class': 'dogpile.cache.memory',
                      'expiration': {'compute.servers.detail': 3600}},
            'clouds': {'c': {
                'auth_type': 'none', 'compute_endpoint_override': URL,
                'placement_endpoint_override': PLACEMENT}}}))], '.yaml')
        connection = openstack.connection.Connection(
            config=openstack.config.OpenStackConfig(
                config_files=[path], load_envvars=False).get_one('c'))
        self.addCleanup(connection.close)
        self.assertTrue(connection.cache_enabled)
        nova = segregation_cloud.SegregationCloud(connection, 'here')
        self.assertEqual([0, 1], [
            len(list(nova.servers())) for _look in range(2)])

    def test_answers_are_not_waited_for_without_end(self):
        self.http.get(f'{URL}/servers/detail', json={'servers': []})
        list(self.cloud().servers())
        self.assertEqual(60, self.http.last_request.timeout)
        list(self.cloud(api_timeout=5).servers())
        self.assertEqual(5, self.http.last_request.timeout)


class TestRevertible(CloudTestCase):

    def test_those_that_left(self):
        def migration(uuid, source, server):
            return {'id': 1, 'uuid': uuid, 'source_compute': source,
                    'instance_uuid': server, 'status': 'x'}

        # Nova has moved it, and is starting it there.
        self.http.get(
            f'{URL}/os-migrations?host=h&status=post-migrating',
            json={'migrations': [migration('m0', 'h', 's0')]})
        self.http.get(f'{URL}/os-migrations?host=h&status=finished', json={
            'migrations': [migration('m1', 'h', 's1'),
                           migration('m2', 'other', 's2')]})
        self.http.get(f'{URL}/os-migrations?host=h&status=reverting', json={
            'migrations': [migration('m3', 'h', 's3')]})
        self.assertEqual({'m0': 's0', 'm1': 's1', 'm3': 's3'},
                         self.cloud().revertible('h'))


@ddt.ddt
class TestTopology(CloudTestCase):

    def ask(self, **answer):
        self.http.get(f'{URL}/servers/s/topology', **answer)
        return self.cloud().topology('s')

    @ddt.data([], [{}], [{}, {'0': 3}])
    def test_pinning(self, cells):
        shown = {'nodes': [{'host_node': 0, 'cpu_pinning': pins}
                           for pins in cells]}
        self.assertEqual(shown, self.ask(json=shown))

    @ddt.data({'host_node': 0}, {'cpu_pinning': {}})
    def test_what_the_user_may_not_see(self, node):
        error = self.assertRaises(errors.CloudError, self.ask, json={
            'nodes': [node]})
        self.assertIn('policy compute:server:topology:host:index', str(error))

    def test_not_json(self):
        self.assertRaises(errors.CloudError, self.ask, text='x')

    def test_gone(self):
        self.assertIsNone(self.ask(**refusal('itemNotFound', 404, 'Gone')))


class TestHosts(CloudTestCase):

    def test_hosts(self):
        self.http.get(f'{URL}/os-aggregates',
                      json={'aggregates': [aggregate('h')]})
        self.http.get(f'{PLACEMENT}/traits',
                      json={'traits': [placement_traits.DEDICATED]})
        found = {'uuid': 'rp-1', 'name': 'n', 'generation': 1,
                 'parent_provider_uuid': None}
        self.http.get(f'{PLACEMENT}/resource_providers',
                      json={'resource_providers': [found]})
        one = {'id': 'rp-1', 'hypervisor_hostname': 'n',
               'hypervisor_type': 'QEMU', 'state': 'up',
               'service': {'host': 'h', 'id': 's', 'disabled_reason': None}}
        self.http.get(f'{URL}/os-hypervisors/detail', json={'hypervisors': [
            one | {'id': 'rp-2', 'hypervisor_hostname': 'z',
                   'service': {'host': 'z'}},
            one, one | {'id': 'rp-3', 'hypervisor_type': 'ironic'}]})

        hosts = self.cloud().hosts()

        self.assertEqual((
            segregation_model.MarkedHost(
                'h', 'n', 'rp-1', frozenset({placement_traits.DEDICATED}),
                (AGGREGATE,)),
            segregation_model.MarkedHost('z', 'z', 'rp-2', None, ())), hosts)
        self.assertEqual(1, self.cloud().bare_metal())

    def test_members(self):
        self.http.get(f'{PLACEMENT}/resource_providers?member_of=uuid-a',
                      json={'resource_providers': []})
        self.assertEqual(set(), self.cloud().members(AGGREGATE))


@ddt.ddt
class TestAggregates(CloudTestCase):

    def setUp(self):
        super().setUp()
        self.nova = self.cloud()
        self.live('h')

    def live(self, *hosts):
        # Another one comes first, which is the other way round.
        another = aggregate(*(() if hosts else ('h',))) | {
            'id': 6, 'name': '0'}
        self.http.get(f'{URL}/os-aggregates',
                      json={'aggregates': [another, aggregate(*hosts)]})

    def action(self, *answers):
        return self.http.post(f'{URL}/os-aggregates/7/action', list(answers))

    def test_create(self):
        post = self.http.post(f'{URL}/os-aggregates', json={
            'aggregate': {key: value for key, value in aggregate('h').items()
                          if key not in ('hosts', 'metadata')}})
        self.assertEqual(segregation_model.HostAggregate(7, 'uuid-a', 'a'),
                         self.nova.create_aggregate('a'))
        self.assertEqual({'aggregate': {'name': 'a'}},
                         post.last_request.json())
        # It is there already.
        self.http.post(f'{URL}/os-aggregates', **refusal(
            'conflictingRequest', 409, 'Exists'))
        self.assertEqual(AGGREGATE, self.nova.create_aggregate('a'))
        self.assertRaises(errors.UnsettledError, self.nova.create_aggregate,
                          'b')

    def test_metadata(self):
        post = self.action({'json': {'aggregate': aggregate()}})
        self.nova.set_metadata(AGGREGATE, {'a': '1', 'b': None})
        self.assertEqual({'set_metadata': {'metadata': {'a': '1',
                                                        'b': None}}},
                         post.last_request.json())

    def test_add_and_remove(self):
        post = self.action({'json': {'aggregate': aggregate()}})
        self.nova.add_host(AGGREGATE, 'h')
        self.assertEqual({'add_host': {'host': 'h'}},
                         post.last_request.json())
        self.nova.remove_host(AGGREGATE, 'h')
        self.assertEqual({'remove_host': {'host': 'h'}},
                         post.last_request.json())
        self.assertEqual([], self.sent())

    def test_as_it_should_be_already(self):
        self.action(refusal('conflictingRequest', 409, 'Is there'),
                    refusal('itemNotFound', 404, 'Is not there'))
        self.nova.add_host(AGGREGATE, 'h')
        self.live()
        self.nova.remove_host(AGGREGATE, 'h')
        # Nor in an aggregate that has gone.
        self.http.get(f'{URL}/os-aggregates', json={'aggregates': []})
        self.nova.remove_host(AGGREGATE, 'h')

    @ddt.data((409, 'conflictingRequest'), (404, 'itemNotFound'))
    @ddt.unpack
    def test_refused(self, code, kind):
        self.action(refusal(kind, code, 'There are servers'))
        error = self.assertRaises(errors.RefusedError,
                                  self.nova.remove_host, AGGREGATE, 'h')
        self.assertEqual(f'POST /v2.1/os-aggregates/7/action: {code} There '
                         'are servers', str(error))
        self.live()
        self.assertRaises(errors.RefusedError, self.nova.add_host, AGGREGATE,
                          'h')

    def test_sent_again(self):
        self.action({'status_code': 500}, {'exc': requests.ConnectionError},
                    {'json': {'aggregate': aggregate()}})
        self.nova.add_host(AGGREGATE, 'h')
