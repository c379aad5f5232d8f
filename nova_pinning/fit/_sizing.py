# SPDX-License-Identifier: Apache-2.0
"""What a host cell has left, and what guests of one size take of it."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence
from typing import NamedTuple

from nova_pinning import model
from nova_pinning import units


#: (page size, free memory), both in KiB. A size of 0 stands for the memory of
#: a host cell that reports no pages.
PagePool = tuple[int, int]


class DeviceDemand(NamedTuple):
    """Like PCI devices that each guest of a size asks for.

    :param wish: equal where nova takes the same devices for it
    :param number: for each guest
    :param policy: nova's numa_policy, 'legacy' for its default
    """

    wish: Hashable
    number: int
    policy: str = 'legacy'


class Size(NamedTuple):
    """A size of guests on sale: equal cells, each on its own host cell.

    :param vcpus: of each cell, all of them pinned
    :param memory_mib: of each cell
    :param page_size_kib: as ``model.GuestCell`` has it
    :param devices: of the whole guest
    """

    vcpus: int
    memory_mib: int = 0
    thread_policy: model.ThreadPolicy = model.ThreadPolicy.PREFER
    page_size_kib: int | None = None
    cells: int = 1
    devices: tuple[DeviceDemand, ...] = ()

    @property
    def guest_vcpus(self) -> int:
        """vCPUs of the whole guest."""
        return self.vcpus * self.cells


class Room(NamedTuple):
    """What a host cell has left for pinned guests.

    :param cpus: free dedicated CPUs
    :param pools: free memory, the smallest pages first; None where memory is
        not looked at
    :param paired: those of the CPUs on cores with two or more free threads
    :param whole_cores: cores with every thread free, where nova can give
        them to a guest that wants its vCPUs isolated; else 0
    :param threads: threads of a core
    """

    cpus: int
    pools: tuple[PagePool, ...] | None = None
    paired: int = 0
    whole_cores: int = 0
    threads: int = 1

    @classmethod
    def of(
        cls, cell: model.CellView, taken: model.CellFit | None = None,
        taken_memory_mib: int = 0, is_isolated: bool = False,
    ) -> Room:
        """What a cell has left, after a guest cell if one is given.

        :param taken: the guest cell
        :param is_isolated: whether it keeps the other threads of its cores
            from others too
        """
        gone = set()
        if taken is not None:
            gone = {cpu for _vcpu, cpu in taken.pins}
            gone.update(taken.emulator_cpus)
        free = paired = whole = 0
        sizes = cell.core_sizes
        for core, size in zip(cell.free_cores, sizes):
            left = len(core)
            if left and gone:
                taken_here = sum(cpu in gone for cpu in core)
                left -= left if is_isolated and taken_here else taken_here
            free += left
            if left > 1:
                paired += left
            if left and left == size:
                whole += 1
        threads = max(sizes, default=1) or 1
        if threads > 1 and not cell.is_legacy:
            whole = 0
        page_size_kib = taken.page_size_kib if taken is not None else None
        return cls(free, free_pools(
            cell, page_size_kib, taken_memory_mib * units.KIB_PER_MIB),
            paired, whole, threads)

    def takes(self, size: Size) -> int:
        """How many guest cells of a size fit, one after another.

        With more than two threads a core, guests that want whole cores may
        find less room than is reckoned here.
        """
        vcpus = size.vcpus
        if vcpus <= 0:
            return 0
        policy = size.thread_policy
        if policy is model.ThreadPolicy.PREFER:
            count = self.cpus // vcpus
        elif policy is model.ThreadPolicy.REQUIRE:
            # An odd vCPU leaves the thread beside it to nobody else who wants
            # whole cores.
            count = self.paired // (vcpus + vcpus % 2)
        else:
            count = self.whole_cores // vcpus
        if not count or self.pools is None or not size.memory_mib:
            return count
        memory_kib = size.memory_mib * units.KIB_PER_MIB
        by_memory = 0
        for _size_kib, free_kib in allowed_pools(
                self.pools, size.page_size_kib):
            if free_kib > 0:
                by_memory += free_kib // memory_kib
        return min(count, by_memory)

    def without(self, size: Size, count: int) -> Room:
        """The room beside guest cells of a size that have no thread policy.

        :param count: of the guest cells, no more than it takes
        """
        cpus, pools = self.cpus - count * size.vcpus, self.pools
        if pools is not None and size.memory_mib:
            memory_kib = size.memory_mib * units.KIB_PER_MIB
            left = dict(pools)
            # As nova does, the largest pages first.
            for size_kib, free_kib in reversed(
                    allowed_pools(pools, size.page_size_kib)):
                taken = min(count, max(0, free_kib) // memory_kib)
                left[size_kib] -= taken * memory_kib
                count -= taken
            pools = tuple(left.items())
        return self._replace(cpus=cpus, pools=pools)

    def cpus_of(self, size: Size) -> int:
        """Host CPUs that a guest cell of a size takes here."""
        if size.thread_policy is model.ThreadPolicy.ISOLATE:
            return size.vcpus * self.threads
        return size.vcpus

    def stranded(self, size: Size) -> int:
        """Free CPUs that no further guest cell of a size can be sold.

        What remains after as many of them as CPUs and memory allow: all free
        CPUs if not one fits.
        """
        return self.cpus - self.takes(size) * self.cpus_of(size)


def spread(cells: Sequence[int], guest_cells: int) -> int:
    """How many guests fit of so many cells, each on its own node.

    n guests of c cells fit if the nodes take n * c cells, none of them more
    than n: given out in turn, no guest then has two cells on one node. What
    fits is the largest such n, and counting down finds it in a few steps.

    :param cells: that each node takes
    """
    count = sum(cells) // guest_cells
    while guest_cells > 1:
        fewer = sum([min(cell, count) for cell in cells]) // guest_cells
        if fewer == count:
            break
        count = fewer
    return count


def allowed_pools(
    pools: Sequence[PagePool], page_size_kib: int | None,
) -> Sequence[PagePool]:
    """The pools of a host cell that a guest may get its memory from.

    What ``hw:mem_page_size`` allows, as nova.virt.hardware.
    _numa_cell_supports_pagesize_request has it. Who asks for no page size
    gets the smallest pages.

    :param pools: the smallest pages first
    :param page_size_kib: as ``model.GuestCell`` has it
    """
    if not page_size_kib:
        return pools[:1]
    if pools and not pools[0][0]:
        return ()
    if page_size_kib == model.PAGES_SMALL:
        return pools[:1]
    if page_size_kib == model.PAGES_LARGE:
        return pools[1:]
    if page_size_kib == model.PAGES_ANY:
        return pools
    return [pool for pool in pools if pool[0] == page_size_kib]


def free_pools(
    cell: model.CellView, taken_page_kib: int | None = None,
    taken_kib: int = 0,
) -> tuple[PagePool, ...]:
    """The free memory of a host cell, the smallest pages first.

    :param taken_page_kib: pages that ``taken_kib`` more of it are in, None
        for the smallest
    """
    # Where a host lists a size twice, nova counts the first of the two only.
    free = {pool.size_kib: pool.free_kib for pool in reversed(cell.pages)
            if pool.size_kib > 0}
    if not free:
        free_mib = cell.memory_mib - cell.memory_used_mib
        return ((0, free_mib * units.KIB_PER_MIB - taken_kib),)
    if taken_kib:
        free[taken_page_kib or min(free)] -= taken_kib
    return tuple(sorted(free.items()))
