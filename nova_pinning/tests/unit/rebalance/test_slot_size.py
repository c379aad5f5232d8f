# SPDX-License-Identifier: Apache-2.0


import ddt

from nova_pinning import errors
from nova_pinning import model
from nova_pinning.rebalance import slot_size
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.rebalance import small_fleets
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestDedicatedSlot(unit_base.TestCase):

    def _memory(self, size):
        return (size.request.memory_mib,
                size.request.topology.cells[0].memory_mib)

    def test_given(self):
        size = slot_size.dedicated_slot(4, 8192, 2.5)
        self.assertEqual(('4', 2.5, (8192, 8192)),
                         (size.name, size.weight, self._memory(size)))
        self.assertEqual(
            [{'PCPU': 4, 'MEMORY_MB': 8192}, {'VCPU': 4, 'MEMORY_MB': 8192}],
            [query.resources for query in size.request.queries])

    def test_no_guests(self):
        self.assertEqual((0, 0), self._memory(slot_size.dedicated_slot(4)))

    def test_as_guests_have_it(self):
        fleet = small_fleets.fleet_of(
            [small_fleets.fleet_host(0, 16)],
            [(0, [0], 2, 10), (0, [0], 2, 30), (0, [0], 4, 20)])
        self.assertEqual((80, 80), self._memory(
            slot_size.dedicated_slot(4, guests=fleet.guests)))

    @ddt.data(1048576, model.PAGES_LARGE)
    def test_pages(self, asked):
        """Those that most guests have, and whole ones."""
        pages = model.PagePool(4, 0), model.PagePool(1048576, 64)
        host = small_fleets.fleet_host(0)
        cell = builders.host_cell(0, range(8), memory_mib=65536,
                                  pages=pages)
        occupancy = small_fleets.host_occupancy.of_host(
            small_fleets.dataclasses.replace(host, cells=(cell,)))
        guest = small_fleets.put(occupancy, 'guest', builders.guest(
            (4, 6144, asked)))
        size = slot_size.dedicated_slot(1, guests=[guest])
        self.assertEqual((2048, 2048), self._memory(size))
        self.assertEqual(1048576,
                         size.request.topology.cells[0].page_size_kib)

    @ddt.data((0, None), (-1, None), (4, 0))
    @ddt.unpack
    def test_bad(self, vcpus, memory_mib):
        self.assertRaises(errors.InputError, slot_size.dedicated_slot, vcpus,
                          memory_mib)
