# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies

from nova_pinning.placement import inventory
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit import unit_base

_SPECS = strategies.sampled_from((
    {}, {'hw:cpu_policy': 'shared', 'hw:numa_nodes': '2'},
    {'hw:cpu_policy': 'dedicated'},
    {'hw:cpu_policy': 'dedicated', 'hw:emulator_threads_policy': 'isolate'},
    {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-1'},
    {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^0',
     'hw:emulator_threads_policy': 'isolate'}))


class TestRequests(unit_base.TestCase):

    @unit_base.settings(40)
    @hypothesis.given(_SPECS, strategies.sampled_from((4, 6)))
    def test_as_nova_asks(self, specs, vcpus):
        flavor = explain_cases.flavor(vcpus, policy='shared', **specs)
        wanted = explain_cases.read(flavor)
        self.assertEqual(
            [query.resources for query in wanted.queries],
            list(inventory.resource_requests(
                flavor.vcpus, flavor.memory_mib, wanted.disk_gib,
                wanted.topology)))

    def test_counted_by_the_query_that_finds_the_host(self):
        topology = builders.guest((4, 64), emulator_isolated=True)
        for on_pcpus, vcpu, pcpu in ((True, 0, 5), (False, 4, 0)):
            self.assertEqual(
                {'VCPU': vcpu, 'PCPU': pcpu, 'MEMORY_MB': 64, 'DISK_GB': 0},
                inventory.allocation(4, 64, 0, topology, on_pcpus=on_pcpus))
