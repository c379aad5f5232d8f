# SPDX-License-Identifier: Apache-2.0
"""What the functional tests have in common."""

from collections.abc import Iterable

from oslotest import base

from demo import cloud
from demo import hosts
from demo import story

GIB = 1024  # in MiB


class TestCase(base.BaseTestCase):
    """A test with its own cloud, with this project's filters."""

    def setUp(self):
        super().setUp()
        self.nova = self.useFixture(cloud.Cloud())

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


def small_host(**changes) -> hosts.HostShape:
    """A host that one 8-vCPU guest fills: 1 cell, 4 cores of 2 threads."""
    return hosts.HostShape(**{
        'cores_per_cell': 4, 'memory_mib': 64 * GIB, 'dedicated': '0-7',
        **changes})
