# SPDX-License-Identifier: Apache-2.0
"""A cloud with flavors, served over HTTP."""

import openstack

from nova_pinning.flavors import flavor_cloud
from nova_pinning.tests.functional import commands


class SyncTestCase(commands.CommandTestCase):

    def connect(self):
        """The cloud as a new run of a command sees it."""
        connection = openstack.connect(
            auth_type='none', endpoint=self.api.url, load_yaml_config=False,
            load_envvars=False)
        self.addCleanup(connection.close)
        return flavor_cloud.FlavorCloud(connection, 'test')

    def state(self):
        """All that nova shows of its flavors, by name."""
        api = self.nova.stage.admin_api
        api.microversion = flavor_cloud.MICROVERSION
        flavors = {}
        marker = ''
        while True:
            page = api.api_get(
                f'/flavors/detail?is_public=None{marker}').body['flavors']
            for flavor in page:
                if not flavor['os-flavor-access:is_public']:
                    flavor['access'] = sorted(
                        access['tenant_id'] for access in api.api_get(
                            f'/flavors/{flavor["id"]}/os-flavor-access')
                        .body['flavor_access'])
                flavors[flavor['name']] = flavor
            if not page:
                return flavors
            marker = f'&marker={page[-1]["id"]}'
