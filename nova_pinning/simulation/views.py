# SPDX-License-Identifier: Apache-2.0
"""Cells of hosts, with what the engine reads of them worked out once.

Over a simulation many hosts come through the same states, and each state is
looked at by many requests.
"""

from collections.abc import Hashable
from typing import Any

from nova_pinning import cpuset
from nova_pinning.fit import threads
from nova_pinning import model

#: States that are kept; above that all are forgotten.
_MOST = 200_000


class FrozenCellView:
    """A ``model.HostCell`` as a ``model.CellView``; it never changes.

    :ivar notes: what was found out about this state of the cell
    """

    __slots__ = (
        'cell', 'core_sizes', 'cores', 'dedicated_count', 'free_cores',
        'free_count', 'free_in_cores', 'has_stray_pins', 'id', 'is_legacy',
        'memory_mib', 'memory_used_mib', 'notes', 'pages', 'physnets',
        'pinned_cpus', 'shared_count', 'shared_cpus', 'shared_used',
        'smallest_pages', 'socket', 'tunneled')

    def __init__(self, cell: model.HostCell) -> None:
        self.cell = cell
        self.id = cell.id
        self.shared_count = cell.shared_count
        self.dedicated_count = cell.dedicated_count
        self.free_count = cell.free_count
        self.shared_used = cell.shared_used
        self.memory_mib = cell.memory_mib
        self.memory_used_mib = cell.memory_used_mib
        self.pages = cell.pages
        self.smallest_pages = cell.smallest_pages
        self.physnets = cell.physnets
        self.tunneled = cell.tunneled
        self.cores = cell.cores
        self.pinned_cpus: cpuset.CpuSet = cell.pinned_cpus
        self.shared_cpus: cpuset.CpuSet = cell.shared_cpus
        self.core_sizes = cell.core_sizes
        self.free_cores = _free_cores(cell)
        self.free_in_cores = cell.free_in_cores
        self.has_stray_pins = cell.has_stray_pins
        self.is_legacy = cell.is_legacy
        self.socket = cell.socket
        self.notes: dict[Hashable, Any] = {}


def _free_cores(cell: model.HostCell) -> tuple[tuple[int, ...], ...]:
    """The free CPUs of each core, in the order in which nova takes them.

    That is the core's own order, unless it has all CPUs that are free: Python
    then goes over the set of these.
    """
    if cell.free_count > max(cell.core_sizes, default=0):
        return cell.free_cores
    free = set(cell.dedicated_cpus) - set(cell.pinned_cpus)
    return tuple(tuple(threads.as_set(core) & free) for core in cell.cores)


class FrozenCellViews:
    """Makes views; equal cells share one."""

    def __init__(self) -> None:
        self._kinds: dict[model.HostCell, int] = {}
        self._views: dict[tuple[int, int, int, int, tuple[int, ...]],
                          FrozenCellView] = {}

    def kind(self, cell: model.HostCell) -> int:
        """A number for a cell's hardware.

        :param cell: with nothing used
        """
        return self._kinds.setdefault(cell, len(self._kinds))

    def view(self, kind: int, cell: model.HostCell) -> FrozenCellView:
        """
        :param kind: number of what the cell is when nothing is used
        """
        key = (kind, cell.pinned_cpus.mask, cell.memory_used_mib,
               cell.shared_used, tuple([pool.used for pool in cell.pages]))
        frozen = self._views.get(key)
        if frozen is None:
            if len(self._views) >= _MOST:
                self._views.clear()
            frozen = self._views[key] = FrozenCellView(cell)
        return frozen
