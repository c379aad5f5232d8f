# SPDX-License-Identifier: Apache-2.0
"""A host as the engine sees it: NUMA cells, what they have, what is used."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

from nova_pinning import compat
from nova_pinning import cpuset
from nova_pinning.model import cell_order


class PagePool(NamedTuple):
    """The memory pages of one size in one host cell.

    ``reserved`` pages are kept from guests by the operator
    (nova's ``reserved_huge_pages``); all counts are in pages.
    """

    size_kib: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free_kib(self) -> int:
        return (self.total - self.used - self.reserved) * self.size_kib

    @property
    def total_kib(self) -> int:
        return self.total * self.size_kib


class CellView(Protocol):
    """What the engine reads of a host cell.

    :class:`HostCell` has all of it at hand; the bridge's view of a nova
    object works out the dearer parts (those that need the sibling sets) only
    when the engine asks, which it does only after counting has not already
    settled the matter.
    """

    @property
    def id(self) -> int: ...

    @property
    def shared_count(self) -> int:
        """Host CPUs that floating vCPUs may run on."""

    @property
    def dedicated_count(self) -> int:
        """Host CPUs that vCPUs may be pinned to, taken ones included."""

    @property
    def free_count(self) -> int:
        """Host CPUs that vCPUs may be pinned to and that no guest has."""

    @property
    def shared_used(self) -> int:
        """Floating vCPUs that are placed on this cell already."""

    @property
    def memory_mib(self) -> int: ...

    @property
    def memory_used_mib(self) -> int: ...

    @property
    def pages(self) -> tuple[PagePool, ...]:
        """Page pools; empty where the host reports none."""

    @property
    def smallest_pages(self) -> PagePool | None:
        """The pool of the smallest pages, which guests get by default."""

    @property
    def physnets(self) -> frozenset[str]:
        """Physical networks whose NICs are attached to this cell."""

    @property
    def tunneled(self) -> bool:
        """Whether tunneled networks leave the host from this cell."""

    @property
    def cores(self) -> Sequence[Collection[int]]:
        """The CPUs of each core (sibling set), free or not."""

    @property
    def pinned_cpus(self) -> Collection[int]:
        """CPUs that guests are pinned to."""

    @property
    def shared_cpus(self) -> Collection[int]:
        """CPUs that floating vCPUs may run on."""

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """Threads of each core, free or not, cores in nova's order."""

    @property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """The free CPUs of each core, cores and CPUs in nova's order.

        Aligned with ``core_sizes``; a core without free CPUs is ``()``.
        """

    @property
    def free_in_cores(self) -> int | None:
        """Free CPUs that belong to a core.

        None if that is not known: no list of cores, or a CPU twice in it.
        """

    @property
    def has_stray_pins(self) -> bool:
        """Whether CPUs are pinned that are not among the dedicated ones."""

    @property
    def is_legacy(self) -> bool:
        """Whether pinned and floating guests use the same CPUs.

        So it is on hosts set up with ``vcpu_pin_set``, or with nothing.
        """


@compat.dataclass(frozen=True, slots=True)
class HostCell:
    """One NUMA cell of a host, complete and unchangeable.

    :param id: the cell's id (nova's NUMACell.id)
    :param shared_cpus: CPUs for floating vCPUs (nova's NUMACell.cpuset)
    :param dedicated_cpus: CPUs for pinned vCPUs (nova's NUMACell.pcpuset)
    :param pinned_cpus: CPUs that guests are pinned to
    :param cores: the sibling sets, each with its CPUs in the order in which
        they are to be taken
    :param socket: the cell's socket, None if unknown
    """

    id: int
    shared_cpus: cpuset.CpuSet
    dedicated_cpus: cpuset.CpuSet
    pinned_cpus: cpuset.CpuSet
    cores: tuple[tuple[int, ...], ...]
    memory_mib: int
    memory_used_mib: int = 0
    shared_used: int = 0
    pages: tuple[PagePool, ...] = ()
    physnets: frozenset[str] = frozenset()
    tunneled: bool = False
    socket: int | None = None

    @property
    def free_cpus(self) -> cpuset.CpuSet:
        return self.dedicated_cpus - self.pinned_cpus

    @property
    def shared_count(self) -> int:
        return len(self.shared_cpus)

    @property
    def dedicated_count(self) -> int:
        return len(self.dedicated_cpus)

    @property
    def free_count(self) -> int:
        return len(self.free_cpus)

    @property
    def smallest_pages(self) -> PagePool | None:
        return min(self.pages, key=lambda pool: pool.size_kib, default=None)

    @property
    def core_sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.cores))

    @property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        free = self.free_cpus.mask
        return tuple(
            tuple(cpu for cpu in core if free >> cpu & 1)
            for core in self.cores)

    @property
    def free_in_cores(self) -> int | None:
        together = cpuset.CpuSet(cpu for core in self.cores for cpu in core)
        if not together or len(together) != sum(map(len, self.cores)):
            return None
        return len(together & self.free_cpus)

    @property
    def has_stray_pins(self) -> bool:
        return not self.pinned_cpus.issubset(self.dedicated_cpus)

    @property
    def is_legacy(self) -> bool:
        return self.dedicated_cpus == self.shared_cpus


class Host(NamedTuple):
    """The cells of a host, in the order in which nova lists them.

    :param cpu_allocation_ratio: floating vCPUs per host CPU, None for no
        limit
    :param ram_allocation_ratio: floating guests' memory per host memory, None
        for no limit
    :param claim_order: in which nova-compute there tries the cells
    :param may_forget_pages: whether nova-compute there may be of a release
        whose claims do not see which pages are free
    """

    cells: tuple[CellView, ...]
    cpu_allocation_ratio: float | None = None
    ram_allocation_ratio: float | None = None
    claim_order: cell_order.CellOrder = cell_order.CellOrder.FEWEST_DEVICES
    may_forget_pages: bool = False
