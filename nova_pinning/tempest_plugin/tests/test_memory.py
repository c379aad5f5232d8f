# SPDX-License-Identifier: Apache-2.0
"""NUMA cells, huge pages and locked memory."""

from collections.abc import Callable

from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import machine
from nova_pinning.tempest_plugin import pinning_test

_PAGE_KIB = 2048


class MemoryTest(pinning_test.PinningTest):
    """Where the memory of a guest comes from.

    Each boot is checked for what the kernel says of it.
    """

    def test_one_cell(self) -> None:
        """Memory is bound to the node that the vCPUs are on."""
        host, = self.pick(dedicated=1)
        seen = self.boot(host, 1, pinning_test.DEDICATED)
        cell, = seen.kept.cells
        node = self.machine_of(host).nodes[cell.host_node]
        self.assertTrue(seen.kept.pinned_cpus.issubset(node))

    def test_two_cells(self) -> None:
        """Each cell is on its own node, vCPUs and memory."""
        host, = self.pick(
            dedicated=2,
            where=lambda host: len(
                self.machine_of(host).per_node(host.sets.dedicated)) > 1,
            what='on two NUMA nodes')
        seen = self.boot(host, 2, {
            **pinning_test.DEDICATED, 'hw:numa_nodes': '2'})
        nodes = {cell.host_node: cell for cell in seen.kept.cells}
        self.assertEqual(2, len(nodes))
        for node, cell in nodes.items():
            on_node = self.machine_of(host).nodes[node]
            self.assertTrue(all(cpu in on_node for cpu in cell.pins.values()))

    def test_more_cells_than_nodes_are_refused(self) -> None:
        host, = self.pick(
            dedicated=2,
            where=lambda host: len(self.machine_of(host).nodes) == 1,
            what='with one NUMA node')
        self.refused(host, 2, self.specs_for(
            host, {**pinning_test.DEDICATED, 'hw:numa_nodes': '2'}))

    def test_huge_pages(self) -> None:
        host = self._pick_with_pages()
        seen = self.boot(host, 1, {
            **pinning_test.DEDICATED, 'hw:mem_page_size': str(_PAGE_KIB)})
        self.assertEqual(_PAGE_KIB, seen.kept.page_size_kib)
        self.assertEqual(
            [_PAGE_KIB],
            [pages.size_kib for pages in seen.guest.live.huge_pages])

    def test_locked_memory(self) -> None:
        host = self._pick_with_pages(
            lambda machine: machine.can_lock_memory,
            'that lets guests lock memory')
        seen = self.boot(host, 1, {
            **pinning_test.DEDICATED, 'hw:mem_page_size': str(_PAGE_KIB),
            'hw:locked_memory': 'True'})
        self.assertTrue(seen.guest.live.locked)
        # Huge pages are never swapped out and do not count as locked.
        self.assertGreater(seen.qemu.locked_kib, 0)

    def _pick_with_pages(
        self,
        where: Callable[[machine.ComputeMachine], bool] = lambda machine: True,
        what: str = '',
    ) -> hosts.ComputeHost:
        memory_mib = self.reference_flavor()['ram']
        needed = -(-memory_mib * 1024 // _PAGE_KIB)

        def has_pages(now: machine.ComputeMachine,
                      host: hosts.ComputeHost) -> bool:
            return any(now.free_pages.get((node, _PAGE_KIB), 0) >= needed
                       for node in now.per_node(host.sets.dedicated))

        words = f'with {needed} free pages of {_PAGE_KIB} KiB on a node'
        host, = self.pick(
            dedicated=1, where=lambda host: (
                where(self.machine_of(host)) and
                has_pages(self.machine_now(host), host)),
            what=f'{words} {what}'.strip())
        return host
