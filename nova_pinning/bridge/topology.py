# SPDX-License-Identifier: Apache-2.0
"""A host's NUMA topology: nova's objects as the engine reads them."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
import re
from typing import Any

from nova_pinning.bridge import nova_objects
from nova_pinning import model


class BrokenTopology(Exception):
    """A NUMA topology, a host's or a guest's, that cannot be read."""


class NovaCell:
    """A nova.objects.NUMACell as a :class:`nova_pinning.model.CellView`.

    What counting needs is read at once, the rest when asked for: for most
    cells nobody asks. Sets stay as nova has them, since nova takes the
    threads of a core in the order in which Python iterates over just these
    sets (``free_siblings`` in nova.objects.numa).

    Fields are read from where oslo.versionedobjects keeps them
    (``_get_attrname`` there): its getters take most of the time of a fit.

    :param cell: the nova object; it is not changed, and must not be while
        this view is used
    :raises BrokenTopology: if a field that is always needed is missing; the
        same goes for the properties
    """

    __slots__ = ('_cell', '_free_cores', '_pages', 'free_count',
                 'has_stray_pins', 'id', 'memory_mib', 'memory_used_mib')

    def __init__(self, cell: Any) -> None:
        self._cell = cell
        self._free_cores: tuple[tuple[int, ...], ...] | None = None
        self._pages: tuple[model.PagePool, ...] | None = None
        try:
            self.id: int = cell._obj_id
            dedicated, pinned = cell._obj_pcpuset, cell._obj_pinned_cpus
            self.has_stray_pins = not pinned <= dedicated
            # Mostly the lengths will do, which are known without a new set.
            self.free_count = (
                len(dedicated - pinned) if self.has_stray_pins
                else len(dedicated) - len(pinned))
            self.memory_mib: int = cell._obj_memory
            self.memory_used_mib: int = cell._obj_memory_usage
        except (AttributeError, TypeError) as error:
            raise _broken(cell, error) from error

    def _read(self, field: str) -> Any:
        try:
            return getattr(self._cell, field)
        except AttributeError as error:
            raise _broken(self._cell, error) from error

    @property
    def shared_count(self) -> int:
        return len(self._read('_obj_cpuset'))

    @property
    def dedicated_count(self) -> int:
        return len(self._read('_obj_pcpuset'))

    @property
    def shared_used(self) -> int:
        used: int = self._read('_obj_cpu_usage')
        return used

    @property
    def pages(self) -> tuple[model.PagePool, ...]:
        if self._pages is None:
            try:
                self._pages = tuple(map(_page_pool, self._cell._obj_mempages))
            except (AttributeError, TypeError) as error:
                raise _broken(self._cell, error) from error
        return self._pages

    @property
    def smallest_pages(self) -> model.PagePool | None:
        try:
            smallest = None
            # For so few this is faster than min() or sorted().
            for pool in self._cell._obj_mempages:
                if (smallest is None
                        or pool._obj_size_kb < smallest._obj_size_kb):
                    smallest = pool
            return None if smallest is None else _page_pool(smallest)
        except (AttributeError, TypeError) as error:
            raise _broken(self._cell, error) from error

    @property
    def cores(self) -> Sequence[set[int]]:
        cores: Sequence[set[int]] = self._read('_obj_siblings')
        return cores

    @property
    def core_sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.cores))

    @property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        if self._free_cores is None:
            free = self._free()
            self._free_cores = tuple(
                [tuple(core & free) for core in self.cores])
        return self._free_cores

    @property
    def free_in_cores(self) -> int | None:
        cell = self._cell
        try:
            cores = cell._obj_siblings
            together = set().union(*cores)
            listed = sum(map(len, cores))
            dedicated = cell._obj_pcpuset
        except (AttributeError, TypeError) as error:
            raise _broken(cell, error) from error
        if not together or len(together) != listed:
            return None
        if dedicated <= together:
            return self.free_count
        return len(self._free() & together)

    def _free(self) -> set[int]:
        free: set[int] = (
            self._read('_obj_pcpuset') - self._read('_obj_pinned_cpus'))
        return free

    @property
    def is_legacy(self) -> bool:
        return bool(self._read('_obj_pcpuset') == self._read('_obj_cpuset'))

    @property
    def pinned_cpus(self) -> Collection[int]:
        pinned: Collection[int] = self._read('_obj_pinned_cpus')
        return pinned

    @property
    def shared_cpus(self) -> Collection[int]:
        shared: Collection[int] = self._read('_obj_cpuset')
        return shared

    @property
    def physnets(self) -> frozenset[str]:
        network = getattr(self._cell, '_obj_network_metadata', None)
        return frozenset(getattr(network, '_obj_physnets', ()))

    @property
    def tunneled(self) -> bool:
        try:
            return bool(self._cell._obj_network_metadata._obj_tunneled)
        except AttributeError:
            return False


def host_from_nova(
    topology: Any,
    cpu_allocation_ratio: float | None = None,
    ram_allocation_ratio: float | None = None,
) -> model.Host:
    """A nova.objects.NUMATopology as the engine's host.

    :param topology: the nova object, or None
    :param cpu_allocation_ratio: floating vCPUs per host CPU, None for no
        limit
    :param ram_allocation_ratio: the same for memory
    :raises BrokenTopology: if it cannot be read
    """
    if topology is None:
        return model.Host(())
    try:
        cells = list(topology._obj_cells)
    except (AttributeError, TypeError) as error:
        raise BrokenTopology('the list of cells is missing') from error
    return model.Host(
        tuple([NovaCell(cell) for cell in cells]),
        cpu_allocation_ratio, ram_allocation_ratio)


def check_countable(cells: Iterable[Any]) -> None:
    """See that nova can count a guest on some cells of a host.

    Its accounting (nova.virt.hardware.numa_usage_from_instance_numa) reads
    more than its fit, and looks for the smallest pages.

    :param cells: nova.objects.NUMACell
    :raises BrokenTopology: if it cannot
    """
    for cell in cells:
        try:
            cell._obj_memory - cell._obj_memory_usage - cell._obj_cpu_usage
            len(cell._obj_cpuset), len(cell._obj_siblings)
            if [pool._obj_size_kb * pool._obj_total
                    for pool in cell._obj_mempages]:
                continue
        except (AttributeError, TypeError) as error:
            raise _broken(cell, error) from error
        raise BrokenTopology(
            f'cell {cell._obj_id}: it has no memory pages, without which nova '
            'cannot count memory')


def nova_cells(cells: Iterable[model.CellView]) -> list[Any]:
    """The nova.objects.NUMACell behind each view of one."""
    return [cell._cell for cell in cells if isinstance(cell, NovaCell)]


def guest_from_nova(
    topology: Any, network_metadata: Any = None,
) -> model.Guest:
    """A nova.objects.InstanceNUMATopology as the engine's guest.

    :param topology: the nova object
    :param network_metadata: nova.objects.NetworkMetadata, or None
    :raises BrokenTopology: if it cannot be read, or if its cells differ in
        their policies, which nova never lets them
    """
    try:
        cells = topology._obj_cells
        policies = {(cell._obj_cpu_policy, cell._obj_cpu_thread_policy)
                    for cell in cells}
        if len(policies) != 1:
            raise BrokenTopology(
                'the cells of the guest differ in their CPU policies'
                if policies else 'the guest has no cells')
        (cpu_policy, thread_policy), = policies
        emulator = nova_objects.given(topology, 'emulator_threads_policy')
        physnets, tunneled = _networks(network_metadata)
        return model.Guest(
            cells=tuple(map(_guest_cell, cells)),
            cpu_policy=model.CpuPolicy(cpu_policy or 'shared'),
            thread_policy=model.ThreadPolicy(thread_policy or 'prefer'),
            emulator_isolated=emulator == 'isolate',
            physnets=physnets,
            tunneled=tunneled)
    except BrokenTopology:
        raise
    except Exception as error:
        raise BrokenTopology(
            f"the guest's NUMA topology cannot be read: {error}") from error


def _guest_cell(cell: Any) -> model.GuestCell:
    return model.GuestCell(
        dedicated_vcpus=tuple(sorted(cell._obj_pcpuset)),
        shared_vcpus=tuple(sorted(cell._obj_cpuset)),
        memory_mib=cell._obj_memory,
        page_size_kib=nova_objects.given(cell, 'pagesize') or None)


def _networks(metadata: Any) -> tuple[frozenset[str], bool]:
    if not metadata:
        return frozenset(), False
    return (frozenset(nova_objects.given(metadata, 'physnets', ())),
            bool(nova_objects.given(metadata, 'tunneled')))


def _page_pool(pool: Any) -> model.PagePool:
    return model.PagePool(
        pool._obj_size_kb, pool._obj_total, pool._obj_used,
        getattr(pool, '_obj_reserved', 0))


def _broken(cell: Any, error: Exception) -> BrokenTopology:
    why = re.sub(r".* has no attribute '(?:_obj_)?(\w+)'",
                 r'field \1 is not set', str(error))
    return BrokenTopology(f'cell {getattr(cell, "_obj_id", "?")}: {why}')
