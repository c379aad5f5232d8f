# SPDX-License-Identifier: Apache-2.0
"""A cloud with hosts of both classes, served over HTTP."""

import openstack
import yaml

from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_cloud
from nova_pinning.tests.functional import commands


class SegregationTestCase(commands.CommandTestCase):
    """A test of what works on a cloud's hosts, over HTTP.

    ``self.api`` is the server of both APIs, ``self.nova`` the cloud.
    """

    def connect(self):
        """The cloud as a new run of a command sees it.

        :returns: an openstack.connection.Connection
        """
        connection = openstack.connect(
            auth_type='none', compute_endpoint_override=self.api.url,
            placement_endpoint_override=self.api.placement_url,
            load_yaml_config=False, load_envvars=False)
        self.addCleanup(connection.close)
        return connection

    def cloud(self):
        """A segregation.cloud.Cloud, with its own connection."""
        return segregation_cloud.SegregationCloud(self.connect(), 'test')

    def environment(self):
        """The environment in which ``openstack`` finds the cloud.

        It is called 'test'.
        """
        [path] = self.create_tempfiles([('clouds', yaml.safe_dump({
            'clouds': {'test': {
                # osc-placement goes by the one endpoint of this plugin.
                'auth_type': 'none',
                'auth': {'endpoint': self.api.placement_url},
                'compute_endpoint_override': self.api.url,
                'identity_endpoint_override': self.api.identity_url,
                'placement_endpoint_override': self.api.placement_url,
            }}}))], '.yaml')
        return {**super().environment(), 'OS_CLOUD': 'test',
                'OS_CLIENT_CONFIG_FILE': path}

    # What there is, asked of nova and Placement directly.

    def provider(self, host):
        """The UUID of a host's resource provider."""
        return self.nova.stage.compute_rp_uuids[host]

    def traits(self, host):
        """The traits of a host's provider that are ours."""
        return {name for name in self.nova.stage._get_provider_traits(
            self.provider(host)) if name.startswith(placement_traits.PREFIX)}

    def set_traits(self, host, *names):
        """Give a host's provider these of our traits, and no others."""
        others = {name for name in self.nova.stage._get_provider_traits(
            self.provider(host))
                  if not name.startswith(placement_traits.PREFIX)}
        for name in names:
            self.nova.stage._create_trait(name)
        self.nova.stage._set_provider_traits(
            self.provider(host), sorted(others.union(names)))

    def aggregates(self, host):
        """The names of the aggregates that a host is in."""
        answer = self.nova.stage.admin_api.api_get('/os-aggregates')
        return {aggregate['name'] for aggregate in answer.body['aggregates']
                if host in aggregate['hosts']}
