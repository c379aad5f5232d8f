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

"""A cloud with hosts of both classes, served over HTTP."""

import contextlib
import io
import logging
import os
import subprocess
import sys
import time
from unittest import mock

import fixtures
import openstack
from openstackclient import shell
import yaml

from nova_pinning.placement import traits
from nova_pinning.segregation import cloud
from nova_pinning.tests.functional import apiserver
from nova_pinning.tests.functional import base


class SegregationTestCase(base.TestCase):
    """A test of what works on a cloud's hosts, over HTTP.

    ``self.api`` is the server of both APIs, ``self.nova`` the cloud.
    """

    def setUp(self):
        super().setUp()
        # Half the time would be spent on what nobody reads.
        logging.disable(logging.DEBUG)
        self.addCleanup(logging.disable, logging.NOTSET)
        # keystoneauth1 waits before it sends a request again.
        self.useFixture(fixtures.MockPatch(
            'keystoneauth1.session.time',
            mock.Mock(wraps=time, sleep=lambda seconds: None)))
        self.api = self.useFixture(apiserver.ApiServer(self.nova))

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
        """A segregation.cloud.Cloud, with a connection of its own."""
        return cloud.Cloud(self.connect(), 'test')

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
        return {key: value for key, value in os.environ.items()
                if not key.startswith('OS_')} | {
            'PYTHONWARNINGS': 'ignore', 'OS_CLOUD': 'test',
            'OS_CLIENT_CONFIG_FILE': path}

    def run_command(self, *arguments, status=0):
        """Run ``openstack pinning ...`` as a process of its own.

        :returns: (output, error output)
        """
        done = subprocess.run(
            [sys.executable, '-m', 'openstackclient.shell', 'pinning',
             *arguments], env=self.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120)
        self.assertEqual(status, done.returncode,
                         f'{done.stdout}\n{done.stderr}')
        return done.stdout, done.stderr

    def call_command(self, *arguments, status=0):
        """The same in this process, which is quicker.

        :returns: (output, error output)
        """
        output, error = io.StringIO(), io.StringIO()
        environment = self.environment()
        with (mock.patch.dict(os.environ, environment, clear=True),
              contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            found = shell.main(['pinning', *arguments])
        self.assertEqual(status, found,
                         f'{output.getvalue()}\n{error.getvalue()}')
        return output.getvalue(), error.getvalue()

    # What there is, asked of nova and Placement directly.

    def provider(self, host):
        """The UUID of a host's resource provider."""
        return self.nova.stage.compute_rp_uuids[host]

    def traits(self, host):
        """The traits of a host's provider that are ours."""
        return {name for name in self.nova.stage._get_provider_traits(
            self.provider(host)) if name.startswith(traits.PREFIX)}

    def set_traits(self, host, *names):
        """Give a host's provider these of our traits, and no others."""
        others = {name for name in self.nova.stage._get_provider_traits(
            self.provider(host)) if not name.startswith(traits.PREFIX)}
        for name in names:
            self.nova.stage._create_trait(name)
        self.nova.stage._set_provider_traits(
            self.provider(host), sorted(others.union(names)))

    def aggregates(self, host):
        """The names of the aggregates that a host is in."""
        return {one['name'] for one in self.nova.stage.admin_api.api_get(
            '/os-aggregates').body['aggregates'] if host in one['hosts']}
