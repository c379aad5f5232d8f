# SPDX-License-Identifier: Apache-2.0
"""Cells of hosts, with what the engine reads of them worked out once.

Over a simulation many hosts come through the same states, and each state is
looked at by many requests.
"""

from collections.abc import Hashable
import dataclasses
from typing import Any

from nova_pinning.fit import threads
from nova_pinning import model

#: States that are kept; above that all are forgotten.
_MOST = 200_000


class CellState(model.HostCell):
    """A cell that works out its properties when they are first asked for.

    :ivar notes: what was found out about this state of the cell
    """

    __slots__ = (
        'core_sizes', 'dedicated_count', 'free_cores', 'free_count',
        'free_in_cores', 'has_stray_pins', 'is_legacy', 'notes',
        'shared_count', 'smallest_pages')

    notes: dict[Hashable, Any]

    def __getattr__(self, name: str) -> Any:
        # Only what has no value yet comes here.
        if name not in CellState.__slots__:
            raise AttributeError(name)
        value: Any
        if name == 'notes':
            value = {}
        elif name == 'free_cores':
            value = _free_cores(self)
        else:
            value = getattr(model.HostCell, name).fget(self)
        object.__setattr__(self, name, value)
        return value


def _free_cores(cell: model.HostCell) -> tuple[tuple[int, ...], ...]:
    """The free CPUs of each core, in the order in which nova takes them.

    That is the core's own order, unless it has all CPUs that are free: Python
    then goes over the set of these.
    """
    free = set(cell.free_cpus)
    if cell.free_count > max(cell.core_sizes, default=0):
        return tuple([tuple([cpu for cpu in core if cpu in free])
                      for core in cell.cores])
    return tuple(tuple(threads.as_set(core) & free) for core in cell.cores)


class CellStates:
    """Makes states of cells; equal cells share one."""

    def __init__(self) -> None:
        self._kinds: dict[model.HostCell, int] = {}
        self._states: dict[tuple[int, int, int, int, tuple[int, ...]],
                           CellState] = {}

    def kind(self, cell: model.HostCell) -> int:
        """A number for a cell's hardware.

        :param cell: with nothing used
        """
        return self._kinds.setdefault(cell, len(self._kinds))

    def state(self, kind: int, cell: model.CellView) -> CellState:
        """
        :param kind: number of what the cell is when nothing is used
        :param cell: a ``model.HostCell``
        """
        assert isinstance(cell, model.HostCell)
        key = (kind, cell.pinned_cpus.mask, cell.memory_used_mib,
               cell.shared_used, tuple([pool.used for pool in cell.pages]))
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= _MOST:
                self._states.clear()
            state = self._states[key] = (
                cell if isinstance(cell, CellState) else CellState(**{
                    field.name: getattr(cell, field.name)
                    for field in dataclasses.fields(cell)}))
        return state
