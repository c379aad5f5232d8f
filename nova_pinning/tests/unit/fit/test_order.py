# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import fit
from nova_pinning.fit import _cells
from nova_pinning import model
from nova_pinning.model import CellOrder
from nova_pinning.model import CpuPolicy
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base


class _Devices:
    """A host's PCI devices, as many as the test says."""

    def __init__(self, counts, is_requested):
        self._counts = counts
        self.is_requested = is_requested

    def device_count(self, cell_id):
        return self._counts.get(cell_id, 0)

    def label(self, cell):
        return cell.id

    def shortfall(self, cell_ids, count):
        return ''

    def supports(self, cell_ids):
        return True


def _sorted_as_nova_does(host_cells, is_pinned, pack, devices):
    """One stable sort after the other, the least important one first."""
    host_cells = sorted(
        host_cells, reverse=not pack,
        key=lambda cell: cell.memory_mib - cell.memory_used_mib)
    if is_pinned:
        host_cells = sorted(
            host_cells, reverse=not pack, key=lambda cell: cell.free_count)
    else:
        host_cells = sorted(
            host_cells, reverse=pack, key=lambda cell: cell.shared_used)
    if devices:
        host_cells = sorted(
            host_cells, reverse=devices.is_requested,
            key=lambda cell: devices.device_count(cell.id))
    return tuple(host_cells)


@strategies.composite
def _host_cells(draw):
    few = strategies.integers(0, 2)
    return tuple(
        builders.host_cell(
            number, range(8 * number, 8 * number + 2),
            pinned_cpus=range(8 * number, 8 * number + draw(few)),
            memory_mib=1024 * draw(few), memory_used_mib=512 * draw(few),
            shared_used=draw(few))
        for number in draw(strategies.permutations(range(5))))


class TestOrder(oslotest.BaseTestCase):

    @unit_base.settings(150)
    @hypothesis.given(
        _host_cells(), strategies.sampled_from(list(CpuPolicy)),
        strategies.booleans(),
        strategies.none() | strategies.builds(
            _Devices,
            strategies.dictionaries(
                strategies.integers(0, 4), strategies.integers(0, 2)),
            strategies.booleans()))
    def test_against_sorting_in_turns(
            self, host_cells, policy, pack, devices):
        guest = builders.guest((1, 1), cpu_policy=policy)
        self.assertEqual(
            _sorted_as_nova_does(
                host_cells, policy is not CpuPolicy.SHARED, pack, devices),
            _cells.order_cells(host_cells, guest, pack, devices))

    @unit_base.settings(100)
    @hypothesis.given(
        _host_cells(), strategies.sampled_from(list(CpuPolicy)),
        strategies.booleans(), strategies.sampled_from(list(CellOrder)),
        strategies.builds(
            _Devices,
            strategies.dictionaries(
                strategies.integers(0, 4), strategies.integers(0, 2)),
            strategies.booleans()))
    def test_where_claims_are_not_told_of_devices(
            self, host_cells, policy, pack, order, devices):
        guest = builders.guest((1, 1), cpu_policy=policy)
        host = builders.host(*host_cells, claim_order=order)
        choice = fit.choose_cells(host, guest, pack=pack, pci=devices)
        hypothesis.assume(not isinstance(choice, model.Refusal))
        told = devices.is_requested or order is not CellOrder.ANY_DEVICES
        self.assertEqual(
            _sorted_as_nova_does(
                host_cells, policy is not CpuPolicy.SHARED, pack,
                devices if told else None),
            choice.order)

    def _chosen(self, *memory_used, guest_cells=1, pack=False):
        host = builders.host(*(
            builders.host_cell(number, [number], memory_used_mib=used)
            for number, used in enumerate(memory_used)))
        outcome = fit.fit_guest(
            host, builders.guest(*[(1, 1024)] * guest_cells), pack=pack)
        return [cell.host_cell for cell in outcome.cells]

    def test_the_emptiest_first_unless_packing(self):
        self.assertEqual([1], self._chosen(3000, 1000, 2000))
        self.assertEqual([0], self._chosen(3000, 1000, 2000, pack=True))
        self.assertEqual([1, 2], self._chosen(
            3000, 1000, 2000, guest_cells=2))

    def test_not_where_the_guest_takes_all_cells(self):
        """Nova does not sort them then, so the first cell is cell 0."""
        for pack in (False, True):
            self.assertEqual([0, 1, 2], self._chosen(
                3000, 1000, 2000, guest_cells=3, pack=pack))
