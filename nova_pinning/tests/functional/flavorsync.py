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

"""A cloud with flavors, served over HTTP."""

import logging

import openstack

from nova_pinning.flavors import cloud
from nova_pinning.tests.functional import apiserver
from nova_pinning.tests.functional import base


class SyncTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        # Half the time would be spent on what nobody reads.
        logging.disable(logging.DEBUG)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.api = self.useFixture(apiserver.ApiServer(self.nova))

    def connect(self, waits_s=cloud.WAITS_S):
        """The cloud as a new run of a command sees it."""
        connection = openstack.connect(
            auth_type='none', endpoint=self.api.url, load_yaml_config=False,
            load_envvars=False)
        self.addCleanup(connection.close)
        return cloud.Cloud(connection, 'test', waits_s=waits_s,
                           sleep=lambda seconds: None)

    def state(self):
        """All that nova shows of its flavors, by name."""
        api = self.nova.stage.admin_api
        api.microversion = cloud.MICROVERSION
        found = {}
        marker = ''
        while True:
            page = api.api_get(
                f'/flavors/detail?is_public=None{marker}').body['flavors']
            for one in page:
                if not one['os-flavor-access:is_public']:
                    one['access'] = sorted(
                        access['tenant_id'] for access in api.api_get(
                            f'/flavors/{one["id"]}/os-flavor-access')
                        .body['flavor_access'])
                found[one['name']] = one
            if not page:
                return found
            marker = f'&marker={page[-1]["id"]}'
