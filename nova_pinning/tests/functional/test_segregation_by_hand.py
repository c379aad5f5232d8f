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

"""The steps that the guide shows by hand, with stock commands only."""

import json
import subprocess
import sys

from nova_pinning.placement import traits
from nova_pinning.segregation import model
from nova_pinning.tests.functional import base
from nova_pinning.tests.functional import segregation


class TestByHand(segregation.SegregationTestCase):

    def openstack(self, *arguments):
        """Run any ``openstack`` command; returns what it prints as JSON."""
        done = subprocess.run(
            [sys.executable, '-m', 'openstackclient.shell',
             '--os-placement-api-version', '1.22', *arguments],
            env=self.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120)
        self.assertEqual(0, done.returncode, f'{done.stdout}\n{done.stderr}')
        return json.loads(done.stdout) if '-f' in arguments else None

    def all_traits(self, provider):
        return [one['name'] for one in self.openstack(
            'resource', 'provider', 'trait', 'list', provider, '-f', 'json')]

    def set_traits(self, provider, *names):
        self.openstack(
            'resource', 'provider', 'trait', 'set', provider,
            *(word for name in names for word in ('--trait', name)))

    def test_mark_and_undo(self):
        self.nova.start_host('cmp-d-1', base.small_host())
        [provider] = self.openstack('resource', 'provider', 'list', '--name',
                                    'cmp-d-1', '-f', 'json')
        uuid = provider['uuid']
        before = self.all_traits(uuid)
        self.assertIn('COMPUTE_NODE', before)

        self.openstack('trait', 'create', traits.DEDICATED)
        self.set_traits(uuid, *before, traits.DEDICATED)
        self.openstack(
            'aggregate', 'create', 'pinning-dedicated', '--property',
            f'trait:{traits.DEDICATED}=required')
        self.openstack('aggregate', 'add', 'host', 'pinning-dedicated',
                       'cmp-d-1')

        # What the helpers would have done.
        [host] = self.cloud().hosts()
        self.assertEqual(
            [(model.Source.TRAIT, 'dedicated'),
             (model.Source.ISOLATION, 'dedicated')],
            [(mark.source, mark.host_class) for mark in model.marks(host)])
        self.assertEqual(
            [uuid], [one['uuid'] for one in self.openstack(
                'resource', 'provider', 'list', '--required',
                traits.DEDICATED, '-f', 'json')])

        # By hand again, and by a helper.
        self.set_traits(uuid, *before)
        self.call_command('host', 'set', '--class', 'none', 'cmp-d-1')
        self.openstack('trait', 'delete', traits.DEDICATED)
        self.openstack('aggregate', 'delete', 'pinning-dedicated')

        self.assertEqual(sorted(before), sorted(self.all_traits(uuid)))
        [host] = self.cloud().hosts()
        self.assertEqual([], list(model.marks(host)))
