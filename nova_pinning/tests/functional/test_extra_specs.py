# SPDX-License-Identifier: Apache-2.0
"""What nova-api says to the extra specs of this project."""

from nova.tests.functional.api import client as api_client

from nova_pinning.tests.functional import functional_base


class ExtraSpecsTest(functional_base.TestCase):

    def setUp(self):
        super().setUp()
        self.flavor = self.shared_flavor()
        self.api = self.nova.stage.admin_api
        self.api.microversion = '2.86'

    def _add(self, **extra_specs):
        self.api.post_extra_spec(self.flavor, {'extra_specs': {
            f'pinning:{name}': value
            for name, value in extra_specs.items()}})

    def _refused(self, **extra_specs):
        error = self.assertRaises(
            api_client.OpenStackApiException, self._add, **extra_specs)
        self.assertEqual(400, error.response.status_code)
        return str(error)

    def test_taken(self):
        self._add(**{'class': 'shared', 'catalogue': 'default',
                     'family': 'local-nvme'})
        self.assertEqual({
            'pinning:class': 'shared', 'pinning:catalogue': 'default',
            'pinning:family': 'local-nvme',
        }, self.api.get_flavor(self.flavor)['extra_specs'])

    def test_misspelt(self):
        self.assertIn("'pinning:clas' does not appear to be a valid",
                      self._refused(clas='shared'))

    def test_a_class_that_there_is_not(self):
        self.assertIn("'shard' is not one of: dedicated, shared",
                      self._refused(**{'class': 'shard'}))

    def test_nothing_is_kept_of_what_is_refused(self):
        self._refused(family='a', clas='shared')
        self.assertEqual({}, self.api.get_flavor(self.flavor)['extra_specs'])
