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

"""A host's NUMA topology: nova's objects as the engine reads them."""

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

from nova_pinning import model


class BrokenTopology(Exception):
    """A NUMA topology, a host's or a guest's, that cannot be read."""


class NovaCell:
    """A nova.objects.NUMACell as a :class:`nova_pinning.model.CellView`.

    What counting needs is read at once, the rest when asked for: for most
    hosts of a request nobody asks. Sets stay as nova has them, since nova
    takes the threads of a core in the order in which Python iterates over
    just these sets (``free_siblings`` in nova.objects.numa).

    :param cell: the nova object; it is not changed, and must not be while
        this view is used
    :raises BrokenTopology: if a field that is always needed is missing
    """

    __slots__ = ('_cell', '_core_sizes', '_free', '_free_cores', '_pages',
                 'dedicated_count', 'free_count', 'id', 'memory_mib',
                 'memory_used_mib', 'shared_count', 'shared_used')

    def __init__(self, cell: Any) -> None:
        self._cell = cell
        self._pages: tuple[model.PagePool, ...] | None = None
        self._free_cores: tuple[tuple[int, ...], ...] | None = None
        self._core_sizes: tuple[int, ...] | None = None
        try:
            self.id: int = cell.id
            dedicated = cell.pcpuset
            self._free: set[int] = dedicated - cell.pinned_cpus
            self.dedicated_count = len(dedicated)
            self.free_count = len(self._free)
            self.shared_count = len(cell.cpuset)
            self.shared_used: int = cell.cpu_usage
            self.memory_mib: int = cell.memory
            self.memory_used_mib: int = cell.memory_usage
        except Exception as error:
            raise _broken(cell, error) from error

    @property
    def pages(self) -> tuple[model.PagePool, ...]:
        if self._pages is None:
            try:
                self._pages = tuple(
                    model.PagePool(
                        pool.size_kb, pool.total, pool.used,
                        pool.reserved if 'reserved' in pool else 0)
                    for pool in self._cell.mempages)
            except Exception as error:
                raise _broken(self._cell, error) from error
        return self._pages

    @property
    def core_sizes(self) -> tuple[int, ...]:
        if self._core_sizes is None:
            self._core_sizes = tuple(map(len, self._siblings()))
        return self._core_sizes

    @property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        if self._free_cores is None:
            free = self._free
            self._free_cores = tuple(
                [tuple(core & free) for core in self._siblings()])
        return self._free_cores

    @property
    def free_in_cores(self) -> int | None:
        cores = self._siblings()
        together = set().union(*cores)
        if len(together) != sum(map(len, cores)):
            return None
        return len(together & self._free)

    @property
    def is_legacy(self) -> bool:
        return bool(self._cell.pcpuset == self._cell.cpuset)

    @property
    def physnets(self) -> frozenset[str]:
        network = self._network()
        return frozenset(network.physnets) if network else frozenset()

    @property
    def tunneled(self) -> bool:
        network = self._network()
        return bool(network.tunneled) if network else False

    @property
    def cores(self) -> Sequence[Collection[int]]:
        return self._siblings()

    @property
    def pinned_cpus(self) -> Collection[int]:
        pinned: Collection[int] = self._cell.pinned_cpus
        return pinned

    def _network(self) -> Any:
        cell = self._cell
        return cell.network_metadata if 'network_metadata' in cell else None

    def _siblings(self) -> Sequence[set[int]]:
        try:
            siblings: Sequence[set[int]] = self._cell.siblings
        except Exception as error:
            raise _broken(self._cell, error) from error
        return siblings


def host_from_nova(topology: Any, limits: Any = None) -> model.Host:
    """A nova.objects.NUMATopology as the engine's host.

    :param topology: the nova object, or None
    :param limits: nova.objects.NUMATopologyLimits, or None for no limits
    :raises BrokenTopology: if it cannot be read
    """
    if topology is None:
        return model.Host(())
    try:
        cells = topology.cells
    except Exception as error:
        raise BrokenTopology(f'no list of cells: {error}') from error
    host_cells = tuple([NovaCell(cell) for cell in cells])
    if limits is None:
        return model.Host(host_cells)
    return model.Host(
        host_cells, limits.cpu_allocation_ratio, limits.ram_allocation_ratio)


def guest_from_nova(topology: Any, network_metadata: Any = None) -> model.Guest:
    """A nova.objects.InstanceNUMATopology as the engine's guest.

    :param topology: the nova object
    :param network_metadata: nova.objects.NetworkMetadata, or None
    :raises BrokenTopology: if it cannot be read, or if its cells differ in
        their policies, which nova never lets them
    """
    try:
        policies = {(cell.cpu_policy, cell.cpu_thread_policy)
                    for cell in topology.cells}
        if len(policies) != 1:
            raise BrokenTopology(
                'the cells of the guest differ in their CPU policies'
                if policies else 'the guest has no cells')
        (cpu_policy, thread_policy), = policies
        emulator = (topology.emulator_threads_policy
                    if 'emulator_threads_policy' in topology else None)
        physnets, tunneled = _networks(network_metadata)
        return model.Guest(
            cells=tuple(_guest_cell(cell) for cell in topology.cells),
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
        dedicated_vcpus=tuple(sorted(cell.pcpuset)),
        shared_vcpus=tuple(sorted(cell.cpuset)),
        memory_mib=cell.memory,
        page_size_kib=(cell.pagesize or None) if 'pagesize' in cell else None)


def _networks(metadata: Any) -> tuple[frozenset[str], bool]:
    if not metadata:
        return frozenset(), False
    physnets = metadata.physnets if 'physnets' in metadata else ()
    tunneled = metadata.tunneled if 'tunneled' in metadata else False
    return frozenset(physnets), bool(tunneled)


def _broken(cell: Any, error: Exception) -> BrokenTopology:
    name = cell.id if 'id' in cell else '?'
    return BrokenTopology(f'cell {name}: {error}')
