# SPDX-License-Identifier: Apache-2.0
"""The steps that the guide shows by hand, with stock commands only."""

import json

from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_model
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud


class TestByHand(marked_cloud.SegregationTestCase):

    def openstack(self, *arguments):
        """Run any ``openstack`` command; returns what it prints as JSON."""
        output, _error = self.call_openstack(
            '--os-placement-api-version', '1.22', *arguments)
        return json.loads(output) if '-f' in arguments else None

    def all_traits(self, provider):
        return [one['name'] for one in self.openstack(
            'resource', 'provider', 'trait', 'list', provider, '-f', 'json')]

    def set_traits(self, provider, *names):
        self.openstack(
            'resource', 'provider', 'trait', 'set', provider,
            *(word for name in names for word in ('--trait', name)))

    def test_mark_and_undo(self):
        self.nova.start_host('cmp-d-1', functional_base.small_host())
        [provider] = self.openstack('resource', 'provider', 'list', '--name',
                                    'cmp-d-1', '-f', 'json')
        uuid = provider['uuid']
        before = self.all_traits(uuid)
        self.assertIn('COMPUTE_NODE', before)

        self.openstack('trait', 'create', placement_traits.DEDICATED)
        self.set_traits(uuid, *before, placement_traits.DEDICATED)
        self.openstack(
            'aggregate', 'create', 'pinning-dedicated', '--property',
            f'trait:{placement_traits.DEDICATED}=required')
        self.openstack('aggregate', 'add', 'host', 'pinning-dedicated',
                       'cmp-d-1')

        # What the helpers would have done.
        [host] = self.cloud().hosts()
        self.assertEqual(
            [(segregation_model.MarkSource.TRAIT, 'dedicated'),
             (segregation_model.MarkSource.ISOLATION, 'dedicated')],
            [(mark.source, mark.host_class)
             for mark in segregation_model.marks(host)])
        self.assertEqual(
            [uuid], [one['uuid'] for one in self.openstack(
                'resource', 'provider', 'list', '--required',
                placement_traits.DEDICATED, '-f', 'json')])

        # By hand again, and by a helper.
        self.set_traits(uuid, *before)
        self.call_command('host', 'set', '--class', 'none', 'cmp-d-1')
        self.openstack('trait', 'delete', placement_traits.DEDICATED)
        self.openstack('aggregate', 'delete', 'pinning-dedicated')

        self.assertEqual(sorted(before), sorted(self.all_traits(uuid)))
        [host] = self.cloud().hosts()
        self.assertEqual([], list(segregation_model.marks(host)))
