# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.topology."""

from nova_pinning.tempest_plugin import topology
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base


class TopologyTest(unit_base.TestCase):

    def test_two_cells(self):
        found = topology.parse({'pagesize_kb': 2048, 'nodes': [
            {'host_node': 1, 'memory_mb': 64, 'siblings': [[0, 1]],
             'vcpu_set': [0, 1], 'cpu_pinning': {'0': 4, '1': 5}},
            {'host_node': 0, 'memory_mb': 32, 'siblings': [],
             'vcpu_set': [2], 'cpu_pinning': None}]})
        self.assertEqual(
            (topology.ServerCell(1, guest_samples.cpus('0-1'), 64,
                                 {0: 4, 1: 5}),
             topology.ServerCell(0, guest_samples.cpus('2'), 32, {})),
            found.cells)
        self.assertEqual({0: 4, 1: 5}, found.pins)
        self.assertEqual(guest_samples.cpus('4-5'), found.pinned_cpus)
        self.assertEqual(guest_samples.cpus('0-1'), found.nodes)
        self.assertEqual(2048, found.page_size_kib)

    def test_none(self):
        found = topology.parse({'nodes': [], 'pagesize_kb': None})
        self.assertEqual({}, found.pins)
        self.assertIsNone(found.page_size_kib)
