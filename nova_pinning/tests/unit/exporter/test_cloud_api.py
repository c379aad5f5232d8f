# SPDX-License-Identifier: Apache-2.0
"""Read through the API again and again, by one connection."""

from nova_pinning import errors
from nova_pinning.exporter import fleet_sources
from nova_pinning.tests.unit.importers import test_compute_api
from nova_pinning.tests.unit.segregation import test_segregation_cloud

URL = test_segregation_cloud.URL


class CloudApiTestCase(test_segregation_cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.connections = []
        self.closed = []
        self.http.get(f'{URL}/os-hypervisors/detail',
                      json={'hypervisors': []})
        self.http.get(f'{URL}/os-server-groups', json={'server_groups': []})
        self.http.get(f'{URL}/os-aggregates', json={'aggregates': []})
        self.http.get(f'{URL}/flavors/detail', json={'flavors': []})
        self.http.get(f'{URL}/os-availability-zone/detail',
                      json={'availabilityZoneInfo': []})
        self.servers(json={'servers': []})
        self.source = fleet_sources.CloudApi(
            'here', self.connect,
            {'h': test_compute_api.DESCRIPTION})

    def connect(self):
        connection = self.cloud()._connection
        close = connection.close
        connection.close = lambda: (self.closed.append(connection), close())
        self.connections.append(connection)
        return connection

    def servers(self, **answer):
        self.http.get(f'{URL}/servers/detail', **answer)

    def test_one_connection(self):
        for _time in range(3):
            self.assertEqual((), self.source.read().guests)
        self.assertEqual(1, len(self.connections))
        self.assertEqual([], self.closed)

    def test_another_after_a_failure(self):
        self.source.read()
        self.servers(status_code=503)
        self.assertRaises(errors.CloudError, self.source.read)
        self.assertEqual(self.connections, self.closed)
        self.servers(json={'servers': [
            test_segregation_cloud.server('odd', **{
                'OS-EXT-STS:task_state': None})]})
        guest, = self.source.read().guests
        self.assertEqual(('id-odd', 2), (guest.uuid, len(self.connections)))

    def test_no_connection(self):
        def refuse():
            raise errors.CloudError('there is no such cloud')

        source = fleet_sources.CloudApi('here', refuse, {})
        for _time in range(2):
            self.assertRaises(errors.CloudError, source.read)
