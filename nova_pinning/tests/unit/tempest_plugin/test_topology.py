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

"""Tests of nova_pinning.tempest_plugin.topology."""

from nova_pinning.tempest_plugin import topology
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.tempest_plugin import samples


class TopologyTest(base.TestCase):

    def test_two_cells(self):
        found = topology.parse({'pagesize_kb': 2048, 'nodes': [
            {'host_node': 1, 'memory_mb': 64, 'siblings': [[0, 1]],
             'vcpu_set': [0, 1], 'cpu_pinning': {'0': 4, '1': 5}},
            {'host_node': 0, 'memory_mb': 32, 'siblings': [],
             'vcpu_set': [2], 'cpu_pinning': None}]})
        self.assertEqual(
            (topology.Cell(1, samples.cpus('0-1'), 64, {0: 4, 1: 5}),
             topology.Cell(0, samples.cpus('2'), 32, {})), found.cells)
        self.assertEqual({0: 4, 1: 5}, found.pins)
        self.assertEqual(samples.cpus('4-5'), found.pinned_cpus)
        self.assertEqual(samples.cpus('0-1'), found.nodes)
        self.assertEqual(2048, found.page_size_kib)

    def test_none(self):
        found = topology.parse({'nodes': [], 'pagesize_kb': None})
        self.assertEqual({}, found.pins)
        self.assertIsNone(found.page_size_kib)
