# SPDX-License-Identifier: Apache-2.0
"""Which servers keep a flavor from being deleted, on nova's own API."""

import openstack

from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.functional import commands
from nova_pinning.tests.functional import functional_base


class TestUse(commands.CommandTestCase):

    def setUp(self):
        super().setUp()
        for host in ('one', 'two'):
            self.nova.start_host(host, functional_base.small_host(
                dedicated=None, shared='0-7'))
        connection = openstack.connect(
            auth_type='none', compute_endpoint_override=self.api.url,
            placement_endpoint_override=self.api.placement_url,
            load_yaml_config=False, load_envvars=False)
        self.addCleanup(connection.close)
        self.cloud = flavor_cloud.FlavorCloud(connection, 'test')
        self.small, self.large, self.other = (
            self.flavor(name, memory_mib) for name, memory_mib in (
                ('small', 512), ('large', 1024), ('other', 2048)))

    def flavor(self, name, memory_mib):
        one = flavor_model.Flavor(name=name, id=f'id-{name}', vcpus=1,
                                  memory_mib=memory_mib)
        self.cloud.create(one)
        return one

    def resizing(self):
        """The names of the flavors that a resize may be from or to."""
        return [one.name for one in (self.small, self.large, self.other)
                if self.cloud.resizing(one)]

    def test_servers_that_can_be_restored(self):
        server = self.nova.boot('guest', self.small.id)
        expected = (f'guest ({server.id})',)
        self.assertEqual(expected, self.cloud.servers(self.small.id))
        self.assertEqual((), self.cloud.servers(self.large.id))
        self.nova.stage.flags(reclaim_instance_interval=3600)
        self.nova.stage.api.delete_server(server.id)
        self.nova.stage._wait_for_state_change(
            {'id': server.id}, 'SOFT_DELETED')
        self.assertEqual(expected, self.cloud.servers(self.small.id))

    def test_a_resize_that_is_not_confirmed(self):
        server = self.nova.boot('guest', self.small.id)
        self.assertEqual([], self.resizing())

        server = self.nova.resize(server, self.large.id, confirm=False)

        self.assertEqual('VERIFY_RESIZE', server.status)
        # Nova no longer counts it here.
        self.assertEqual((), self.cloud.servers(self.small.id))
        self.assertEqual(['small', 'large'], self.resizing())
        self.nova.confirm(server)
        self.assertEqual([], self.resizing())

        # A cold migration keeps the flavor, which counts as used anyway.
        server = self.nova.migrate(server, confirm=False)
        self.assertEqual('VERIFY_RESIZE', server.status)
        self.assertEqual([], self.resizing())

    def test_what_comes_of_a_flavor_that_was_deleted(self):
        server = self.nova.boot('guest', self.small.id)
        server = self.nova.resize(server, self.large.id, confirm=False)
        self.cloud.delete(self.small.id)

        server = self.nova.revert(server)

        # It runs, with a flavor that no list has and that nobody finds it by.
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual((), self.cloud.servers(self.small.id))
        self.assertEqual((), self.cloud.servers(self.large.id))
