# SPDX-License-Identifier: Apache-2.0
"""Servers for measurements on nova's real API and scheduler.

libvirt is nova's own stand-in, and images come from a fixture; what runs in
servers is for test_experiments.
"""

from unittest import mock

from nova.tests import fixtures as nova_fixtures

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import flavor_choice
from nova_pinning.instance_bench.platforms import server_cloud
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes

IMAGE = nova_fixtures.GlanceFixture.image1['id']


class CloudTest(marked_cloud.SegregationTestCase):

    def setUp(self):
        super().setUp()
        self.nova.start_host('d1', functional_base.small_host(dedicated='0-1'))
        self.nova.create_flavor('pinned', 1, 512,
                                {'hw:cpu_policy': 'dedicated'})
        self.bench = server_cloud.ServerCloud(self.connect(), 'test')
        chosen = flavor_choice.choose(platform_fakes.tenant(),
                                      self.bench.flavors(),
                                      weights_differ=False)
        self.assertEqual('pinned', chosen.name)
        self.flavor = chosen.id

    def boot(self, name='a-0', by=None):
        return (by or self.bench).boot(name, self.flavor, IMAGE)

    def test_life(self):
        self.assertTrue(self.bench.sees_hosts())
        asked = self.boot()
        found = self.bench.await_active(asked, 60)
        self.assertEqual((f'{self.bench.run}-a-0', 'd1'),
                         (found.name, found.compute_host))
        self.bench.delete([found])
        self.assertEqual([], self.bench.servers())
        # Once more is no matter.
        self.bench.delete([found])

    def test_no_room(self):
        for number in range(2):
            self.bench.await_active(self.boot(f'a-{number}'), 60)
        asked = self.boot('a-2')
        error = self.assertRaises(
            bench_errors.InstanceError, self.bench.await_active, asked, 60)
        self.assertIn('No valid host', str(error))
        self.bench.delete_own()
        self.assertEqual([], self.bench.servers())

    def test_whose_servers(self):
        self.nova.start_host('d2', functional_base.small_host(dedicated='0-1'))
        other = server_cloud.ServerCloud(self.connect(), 'test')
        mine = self.bench.await_active(self.boot(), 60).id
        self.bench.await_active(self.boot(by=other), 60)
        other.delete_own()
        self.assertEqual({mine}, self.there())
        left = self.bench.await_active(self.boot(by=other), 60).id
        with mock.patch.object(server_cloud, 'machine', return_value='far'):
            far = self.bench.await_active(self.boot(by=other), 60).id
        self.assertEqual({mine, left, far}, self.there())
        # One run at a time: what is not ours is of one that was killed.
        self.assertEqual(1, self.bench.sweep())
        self.assertEqual({mine, far}, self.there())
        self.assertEqual(0, self.bench.sweep())

    def there(self):
        return {server.id for server in self.bench.servers()}
