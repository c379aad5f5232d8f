#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Servers for measurements on nova's real API and scheduler.

libvirt is nova's own stand-in, and images come from a fixture; what runs in
servers is for test_experiments.
"""

import dataclasses

from nova.tests import fixtures as nova_fixtures

from nova_pinning.bench import errors
from nova_pinning.bench.platforms import cloud
from nova_pinning.bench.platforms import flavor_choice
from nova_pinning.tests.functional import base
from nova_pinning.tests.functional import segregation
from nova_pinning.tests.unit.bench.platforms import fakes

IMAGE = nova_fixtures.GlanceFixture.image1['id']


class CloudTest(segregation.SegregationTestCase):

    def setUp(self):
        super().setUp()
        self.nova.start_host('d1', base.small_host(dedicated='0-1'))
        self.nova.create_flavor('pinned', 1, 512,
                                {'hw:cpu_policy': 'dedicated'})
        self.bench = cloud.Cloud(self.connect(), 'test')
        chosen = flavor_choice.choose(
            fakes.tenant(), self.bench.flavors(), weights_differ=False)
        self.assertEqual('pinned', chosen.name)
        self.flavor = chosen.id

    def boot(self, name='a-0', by=None):
        return (by or self.bench).boot(name, self.flavor, IMAGE, '')

    def test_life(self):
        self.assertTrue(self.bench.sees_hosts())
        asked = self.boot()
        found = self.bench.await_active(asked, 60)
        self.assertEqual(
            (f'{self.bench.run}-a-0', 'd1', self.bench.owner, ()),
            (found.name, found.host, found.owner, found.addresses))
        self.bench.delete([found])
        self.assertEqual([], self.bench.servers())
        # Once more is no matter.
        self.bench.delete([found])

    def test_no_room(self):
        for number in range(2):
            self.bench.await_active(self.boot(f'a-{number}'), 60)
        asked = self.boot('a-2')
        error = self.assertRaises(
            errors.InstanceError, self.bench.await_active, asked, 60)
        self.assertIn('No valid host', str(error))
        self.bench.delete_own()
        self.assertEqual([], self.bench.servers())

    def test_whose_servers(self):
        other = cloud.Cloud(self.connect(), 'test')
        killed = cloud.Cloud(self.connect(), 'test')
        # A process that had this one's ID.
        killed.owner = dataclasses.replace(
            killed.owner, started=killed.owner.started + 1)
        mine = self.bench.await_active(self.boot(), 60).id
        left = self.bench.await_active(self.boot(by=killed), 60).id
        other.delete_own()
        self.assertEqual({mine, left}, self.there())
        self.assertEqual(1, other.sweep())
        self.assertEqual({mine}, self.there())
        self.assertEqual(0, other.sweep())
        self.assertEqual({mine}, self.there())

    def there(self):
        return {one.id for one in self.bench.servers()}
