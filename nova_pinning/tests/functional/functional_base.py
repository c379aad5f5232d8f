# SPDX-License-Identifier: Apache-2.0
"""What the functional tests have in common."""

from collections.abc import Iterable
from unittest import mock

import fixtures
from oslotest import base

from demo import cloud
from demo import hosts
from demo import story
from nova_pinning.conf import CONF
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.functional import operated_cloud

GIB = 1024  # in MiB


class TestCase(base.BaseTestCase):
    """A test with its own cloud, with this project's filters.

    :ivar nova: the operated_cloud.Cloud
    """

    def setUp(self):
        super().setUp()
        self.nova, given = self.have_cloud()
        vars(self).update(given)

    def have_cloud(self):
        """A cloud for the test, and what it has been given there."""
        nova = self.useFixture(operated_cloud.Cloud())
        return nova, self.start(nova)

    @classmethod
    def start(cls, nova):
        """Start what all tests of the class have in their cloud.

        :returns: further attributes of the tests, by name
        """
        return {}

    def enterprise_flavor(self):
        return self.nova.create_flavor(
            'enterprise', 8, 16 * GIB, story.ENTERPRISE_SPECS)

    def shared_flavor(self):
        return self.nova.create_flavor('shared', 8, 16 * GIB)

    def assert_active(self, servers: Iterable[cloud.Server], host=None):
        """All servers run, on this host if one is named."""
        for server in servers:
            self.assertEqual('ACTIVE', server.status, server)
            if host is not None:
                self.assertEqual(host, server.host)

    def assert_refused(self, server: cloud.Server, *words: str):
        """A server was refused by our filters, in these words among others.

        :returns: the explanation
        """
        self.assertEqual('ERROR', server.status, server)
        self.assertIn('No valid host was found', server.fault)
        said = [message for message in self.nova.explanations
                if server.id in message]
        self.assertEqual(1, len(said), said)
        for word in words:
            self.assertIn(word, said[0])
        return said[0]

    def pinned_cpus(self, server: cloud.Server) -> set[int]:
        """The host CPUs that nova has written down for a server."""
        topology = self.nova.guest_topology(server)
        return {cpu for cell in topology.cells
                for cpu in (cell.cpu_pinning or {}).values()}

    def host_pinned_cpus(self, host: str) -> set[int]:
        """The host CPUs that nova counts as pinned on a host."""
        return {cpu for cell in self.nova.host_topology(host).cells
                for cpu in cell.pinned_cpus}


class OneCloud(TestCase):
    """Tests of a class that have one cloud: to start one takes longest.

    Servers, aggregates, flavors and traits that a test leaves are taken away.
    Whatever else it changes it puts back itself, and what nova logs is not
    kept.
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        nova = operated_cloud.Cloud()
        # What nova logs between tests is no test's.
        for fixture in fixtures.FakeLogger(), nova:
            fixture.setUp()
            cls.addClassCleanup(fixture.cleanUp)
        # oslotest has all patches stopped at the end of each test.
        active = mock._patch._active_patches
        patches = active[:]
        active.clear()
        cls.addClassCleanup(active.extend, patches)
        cls._one = nova, cls.start(nova)
        cls._flavors = cls._flavor_ids(nova)
        cls._traits = {host: nova.traits(host) for host in nova.shapes}

    def have_cloud(self):
        self.addCleanup(self._put_back)
        return self._one

    @staticmethod
    def _flavor_ids(nova):
        return {flavor['id'] for flavor in nova.stage.admin_api.api_get(
            '/flavors?is_public=None').body['flavors']}

    def _put_back(self):
        nova, api = self.nova, self.nova.stage.admin_api
        servers = api.get_servers(
            detail=False, search_opts={'all_tenants': '1'})
        for one in servers:
            nova.delete(cloud.Server(
                one['id'], one['name'], 'ACTIVE', None, None))
        for one in api.api_get('/os-aggregates').body['aggregates']:
            for host in one['hosts']:
                api.remove_host_from_aggregate(one['id'], host)
            api.api_delete(f'/os-aggregates/{one["id"]}')
        for flavor in self._flavor_ids(nova) - self._flavors:
            api.api_delete(f'/flavors/{flavor}')
        for host, before in self._traits.items():
            now = nova.traits(host)
            if now != before:
                nova.change_traits(host, before - now, now - before)
        if servers:
            # What they had is counted until nova-compute reports next.
            nova.update_resources()
        # None of those that have been read are there any more.
        traits_reader.use(None)

    def set_option(self, name, value, group):
        """Set an option for the rest of the test."""
        CONF.set_override(name, value, group)
        self.addCleanup(CONF.clear_override, name, group)


def small_host(**changes) -> hosts.HostShape:
    """A host that one 8-vCPU guest fills: 1 cell, 4 cores of 2 threads."""
    return hosts.HostShape(**{
        'cores_per_cell': 4, 'memory_mib': 64 * GIB, 'dedicated': '0-7',
        **changes})
