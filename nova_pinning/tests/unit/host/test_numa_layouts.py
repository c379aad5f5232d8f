# SPDX-License-Identifier: Apache-2.0
"""Hosts with other NUMA nodes."""

import dataclasses

import ddt
from oslotest import base

from nova_pinning.host import host_loader
from nova_pinning.host import numa_layouts
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host import host_samples


def _load(name):
    return host_loader.load(cli_case.ETC / 'hosts' / f'epyc-256-{name}.yaml')


@ddt.ddt
class TestDivided(base.BaseTestCase):

    @ddt.data(('nps1', 4, 'nps4'), ('nps1', None, 'l3-numa'),
              ('nps4', None, 'l3-numa'))
    @ddt.unpack
    def test_shipped_hosts(self, name, count, other):
        """The hosts of the same hardware with other settings."""
        found = numa_layouts.divided(_load(name), count)
        self.assertEqual(
            *[[(node.id, node.socket, node.cores, node.memory_mib,
                node.l3_domains) for node in host.nodes]
              for host in (_load(other), found)])

    def test_devices_and_pages(self):
        host = _load('nps1')
        found = numa_layouts.divided(host, None)
        self.assertEqual(
            [0, 0, 8, 8], [device.numa_node for device in found.pci_devices])
        self.assertEqual({984 // 8}, {
            pages for node in found.nodes
            for pages in node.huge_pages.values()})

    @ddt.data(('nps1', 1), ('nps1', 3), ('nps1', 8), ('nps4', 4),
              ('l3-numa', None), ('l3-numa', 4))
    @ddt.unpack
    def test_nothing_to_divide(self, name, count):
        self.assertIsNone(numa_layouts.divided(_load(name), count))

    def test_caches_not_known(self):
        self.assertIsNone(numa_layouts.divided(host_samples.host(), None))

    def test_memory_alone(self):
        """A node without CPUs, such as one of CXL memory."""
        host = _load('nps1')
        memory = dataclasses.replace(
            host.nodes[0], id=2, cores=(), l3_domains=())
        self.assertIsNone(numa_layouts.divided(dataclasses.replace(
            host, nodes=(*host.nodes, memory)), None))
