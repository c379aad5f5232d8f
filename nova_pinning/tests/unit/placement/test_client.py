# SPDX-License-Identifier: Apache-2.0
"""What is said to Placement, and what is made of its answers."""

from concurrent import futures
import time
from unittest import mock

import ddt
import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslotest import base as oslotest
import requests
from requests_mock.contrib import fixture

from nova_pinning import errors
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.placement import provider_reader

URL = 'http://placement.example'
RP = f'{URL}/resource_providers/rp'


def shown(uuid, **changes):
    return {'uuid': uuid, 'name': f'name-{uuid}', 'generation': 1,
            'parent_provider_uuid': None, 'root_provider_uuid': uuid,
            'links': [], **changes}


def own(*names, generation=1):
    return {'traits': list(names),
            'resource_provider_generation': generation}


class ClientTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.http = self.useFixture(fixture.Fixture())
        self.waits = []
        self.useFixture(fixtures.MockPatch(
            'keystoneauth1.session.time',
            mock.Mock(wraps=time, sleep=self.waits.append)))
        self.client = client.PlacementClient(self.adapter(), retries=2)

    def adapter(self):
        return adapter.Adapter(
            session.Session(token_endpoint.Token(URL, 'token')),
            service_type='placement')

    def sent(self):
        return [(one.method, one.path, one.query)
                for one in self.http.request_history]


@ddt.ddt
class TestReading(ClientTestCase):

    def test_providers(self):
        self.http.get(f'{URL}/resource_providers', json={
            'resource_providers': [shown('a'), shown(
                'b', parent_provider_uuid='a', generation=7)]})
        self.assertEqual(
            (provider_reader.ResourceProvider('a', 'name-a', 1),
             provider_reader.ResourceProvider('b', 'name-b', 7, 'a')),
            self.client.providers(required='T', member_of='agg'))
        [request] = self.http.request_history
        self.assertEqual({'required': ['t'], 'member_of': ['agg']},
                         request.qs)
        self.assertEqual('placement 1.22',
                         request.headers['OpenStack-API-Version'])

    def test_traits_by_provider(self):
        self.http.get(f'{URL}/traits', json={'traits': ['P_A', 'P_B']})
        self.http.get(f'{URL}/resource_providers?required=P_A', json={
            'resource_providers': [shown('one'), shown('two')]})
        self.http.get(f'{URL}/resource_providers?required=P_B', json={
            'resource_providers': [shown('two')]})
        self.assertEqual({'one': {'P_A'}, 'two': {'P_A', 'P_B'}},
                         self.client.traits_by_provider('P_'))
        self.assertEqual(('GET', '/traits', 'name=startswith%3ap_&'
                          'associated=true'), self.sent()[0])
        self.assertEqual(3, len(self.sent()))

    def test_of_one_provider(self):
        self.http.get(f'{RP}/traits', json=own('B', 'A', generation=5))
        self.http.get(f'{RP}/inventories', json={
            'resource_provider_generation': 5, 'inventories': {'VCPU': {
                'total': 8, 'reserved': 1, 'allocation_ratio': 4.0,
                'min_unit': 1, 'max_unit': 8, 'step_size': 1}}})
        self.http.get(f'{RP}/allocations', json={
            'resource_provider_generation': 5,
            'allocations': {'s1': {'resources': {'VCPU': 1}},
                            's2': {'resources': {'PCPU': 2}}}})
        self.http.get(f'{RP}/aggregates', json={
            'resource_provider_generation': 5, 'aggregates': ['agg']})
        self.assertEqual(client.ProviderTraits(frozenset({'A', 'B'}), 5),
                         self.client.traits('rp'))
        self.assertEqual({'VCPU': client.ProviderInventory(8, 1, 4.0)},
                         self.client.inventories('rp'))
        self.assertEqual({'s1': {'VCPU': 1}, 's2': {'PCPU': 2}},
                         self.client.allocations('rp'))
        self.assertEqual({'s1', 's2'}, self.client.consumers('rp'))
        self.assertEqual(('agg',), self.client.aggregates('rp'))

    def test_odd_names_stay_in_their_place(self):
        self.http.get(f'{URL}/resource_providers/a%2Fb%3Fc/traits',
                      json=own())
        self.assertEqual(set(), self.client.traits('a/b?c').names)

    @ddt.data(429, 500, 502, 503, 504)
    def test_sent_again(self, status):
        self.http.get(f'{RP}/traits', [
            {'status_code': status}, {'exc': requests.ConnectionError},
            {'status_code': status}, {'json': own('A')}])
        self.assertEqual({'A'}, self.client.traits('rp').names)
        self.assertEqual(3, len(self.waits))

    @ddt.data(
        ({'status_code': 500, 'reason': 'Oh'},
         'Placement: GET /resource_providers/rp/traits: 500 Oh', 3),
        ({'status_code': 503, 'json': {'errors': [{'detail': ' No\n way. '}]}},
         'Placement: GET /resource_providers/rp/traits: 503 No way', 3),
        ({'status_code': 401, 'reason': 'Who'}, '401 Who', 1),
        ({'status_code': 403, 'reason': 'No'}, '403 No', 1),
        ({'status_code': 406, 'json': {'errors': []}, 'reason': 'Old'},
         '406 Old', 1),
        ({'text': '<html>'}, 'is not JSON', 1),
        ({'exc': requests.ConnectionError('gone')}, 'gone', 3),
        ({'exc': requests.ReadTimeout('slow')}, 'timed out', 3))
    @ddt.unpack
    def test_cannot_be_worked_with(self, answer, told, times):
        self.http.get(f'{RP}/traits', **answer)
        error = self.assertRaises(errors.CloudError, self.client.traits,
                                  'rp')
        self.assertIs(errors.CloudError, type(error))
        self.assertIn(told, str(error))
        self.assertEqual(times, len(self.http.request_history))

    @ddt.data(400, 404, 409)
    def test_refused(self, status):
        self.http.get(f'{RP}/traits', status_code=status, json={
            'errors': [{'status': status, 'detail': 'It is not there.'}]})
        error = self.assertRaises(errors.RefusedError, self.client.traits,
                                  'rp')
        self.assertEqual(
            f'Placement: GET /resource_providers/rp/traits: {status} It is '
            'not there', str(error))

    def test_from_threads(self):
        for number in range(20):
            self.http.get(f'{URL}/resource_providers/{number}/traits',
                          json=own(str(number)))
        with futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(self.client.traits, map(str, range(20))))
        self.assertEqual([{str(number)} for number in range(20)],
                         [one.names for one in found])


class TestChangeTraits(ClientTestCase):

    def setUp(self):
        super().setUp()
        self.put_trait = self.http.put(
            f'{URL}/traits/{placement_traits.DEDICATED}', status_code=201)

    def change(self):
        return self.client.change_traits('rp', [placement_traits.DEDICATED],
                                         [placement_traits.SHARED])

    def test_in_one_step(self):
        self.http.get(f'{RP}/traits', json=own('X', placement_traits.SHARED,
                                               generation=3))
        put = self.http.put(f'{RP}/traits', json={})
        self.assertTrue(self.change())
        self.assertEqual({'resource_provider_generation': 3,
                          'traits': [placement_traits.DEDICATED, 'X']},
                         put.last_request.json())
        self.assertTrue(self.put_trait.called_once)

    def test_only_what_it_lacks_is_made_known(self):
        self.http.get(f'{RP}/traits', json=own('X'))
        self.http.put(f'{RP}/traits', json={})
        self.client.change_traits('rp', ['X', placement_traits.DEDICATED])
        self.assertEqual([f'/traits/{placement_traits.DEDICATED}'.lower(),
                          '/resource_providers/rp/traits'],
                         [path for method, path, _query in self.sent()
                          if method == 'PUT'])

    def test_nothing_to_do(self):
        self.http.get(f'{RP}/traits',
                      json=own('X', placement_traits.DEDICATED))
        self.assertFalse(self.change())
        self.assertEqual(['GET'], [one[0] for one in self.sent()])

    def test_others_change_it_meanwhile(self):
        self.http.get(f'{RP}/traits', [
            {'json': own('X', placement_traits.SHARED, generation=3)},
            {'json': own('Y', placement_traits.SHARED, generation=4)}])
        put = self.http.put(f'{RP}/traits', [{'status_code': 409},
                                             {'json': {}}])
        self.assertTrue(self.change())
        self.assertEqual({'resource_provider_generation': 4,
                          'traits': [placement_traits.DEDICATED, 'Y']},
                         put.last_request.json())

    def test_somebody_else_does_it(self):
        """Or we did, and did not get the answer."""
        self.http.get(f'{RP}/traits', [
            {'json': own(placement_traits.SHARED)},
            {'json': own(placement_traits.DEDICATED)}])
        self.http.put(f'{RP}/traits', status_code=409)
        self.assertTrue(self.change())

    def test_others_change_it_all_the_time(self):
        self.http.get(f'{RP}/traits', json=own())
        put = self.http.put(f'{RP}/traits', status_code=409)
        error = self.assertRaises(errors.CloudError, self.change)
        self.assertIn('changes faster', str(error))
        self.assertEqual(10, put.call_count)

    def test_refused(self):
        self.http.get(f'{RP}/traits', json=own())
        self.http.put(f'{RP}/traits', status_code=400)
        self.assertRaises(errors.RefusedError, self.change)
        self.http.put(f'{URL}/traits/{placement_traits.DEDICATED}',
                      status_code=400)
        self.assertRaises(errors.RefusedError, self.change)
