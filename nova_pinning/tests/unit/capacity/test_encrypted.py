# SPDX-License-Identifier: Apache-2.0
"""Guests with encrypted memory, each of which takes a context of its host."""

import ddt

from nova_pinning.admission import flavor_reader
from nova_pinning.admission import offered_host
from nova_pinning.placement import inventory
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.capacity import test_count
from nova_pinning.tests.unit import unit_base

CONTEXT = 'MEM_ENCRYPTION_CONTEXT'


def host(**contexts):
    """A host for eight guests, with contexts for each way of encryption.

    As nova has reported it since 2025.2: a provider below its own for each.
    """
    return test_count.fleet_host(
        builders.host_cell(0, range(16), memory_mib=10000),
        inventories={'PCPU': inventory.Inventory(16),
                     'MEMORY_MB': inventory.Inventory(10000)},
        traits=frozenset(), children=tuple(offered_host.OfferedProvider(
            0, ((CONTEXT, inventory.Inventory(total, max_unit=1)),),
            frozenset({f'HW_CPU_X86_{name}'}))
            for name, total in contexts.items()))


def wanted(model):
    topology = builders.guest((2, 100))
    return test_count.wanted(topology, queries=flavor_reader.FlavorReader(
        2, 100, 0, {'hw:cpu_policy': 'dedicated', 'hw:mem_encryption': 'yes',
                    'hw:mem_encryption_model': model}, (),
        topology).queries())


@ddt.ddt
class TestContexts(unit_base.TestCase):

    @ddt.data(('amd-sev', 5), ('amd-sev-es', 0), ('amd-sev-snp', 3),
              ('intel-tdx', 8))
    @ddt.unpack
    def test_guests(self, model, fits):
        place = host(AMD_SEV=5, AMD_SEV_ES=0, AMD_SEV_SNP=3, INTEL_TDX=99)
        self.assertEqual(
            fits, test_count.count_one(place, wanted(model)).fits)

    def test_none_reported(self):
        self.assertEqual(
            0, test_count.count_one(host(), wanted('amd-sev')).fits)
