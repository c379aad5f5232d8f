# SPDX-License-Identifier: Apache-2.0
"""Which host cell each guest cell goes to.

Nova walks the permutations of the host cells in a certain order and takes the
first in which every guest cell fits (nova.virt.hardware.
numa_fit_instance_to_host). The same answer is found here without walking
them: a bipartite matching says whether there is one at all, and putting each
guest cell in turn on the first host cell that leaves the others a matching
gives the first one. PCI devices and NUMA-aware networks depend on the set of
host cells only, not on who gets which, so they are tried over sets: first it
is asked whether the cells with room could have the devices in any combination,
then about each set that differs, until one will do or the caller says that it
is enough.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence
import functools
import operator
from typing import Protocol

from nova_pinning.fit import _matching
from nova_pinning.fit import cell_check
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.model import Shortage

_ANY_DEVICES = model.CellOrder.ANY_DEVICES


class PciCheck(Protocol):
    """A host's PCI devices, as far as NUMA affinity goes.

    :ivar is_requested: whether the guest asks for devices
    :ivar short: sets of cells, of those that were asked about, that nova takes
        for the guest though it gets too few devices there
    """

    is_requested: bool
    short: set[tuple[int, ...]]

    @property
    def total_devices(self) -> int:
        """Free devices of the host, of whatever kind."""

    def device_count(self, cell_id: int) -> int:
        """Free devices near the host cell, of whatever kind."""

    def label(self, cell: model.CellView) -> Hashable:
        """Equal for host cells that may stand for each other in a set."""

    def shortfall(self, cell_ids: tuple[int, ...], count: int) -> str:
        """What is missing, given only if no so many of these cells will do.

        '' otherwise.
        """

    def supports(self, cell_ids: tuple[int, ...]) -> bool:
        """Whether this set of cells can have the guest's devices."""

    def nova_supports(self, cell_ids: tuple[int, ...]) -> bool:
        """Whether nova thinks so."""


class CellChoice:
    """A host cell for each guest cell, of the host cells in nova's order.

    :param sets_tried: sets of cells before this one, as far as the check can
        tell them apart, that are not near the devices or networks; nova looks
        at each at least once
    """

    __slots__ = ('cells', 'order', 'sets_tried')

    def __init__(
        self,
        cells: tuple[model.CellView, ...],
        order: tuple[model.CellView, ...],
        sets_tried: int = 0,
    ) -> None:
        self.cells = cells
        self.order = order
        self.sets_tried = sets_tried

    @property
    def is_first(self) -> bool:
        """Whether no assignment comes before this one."""
        cells, order = self.cells, self.order
        return cells[0] is order[0] and (
            len(cells) == 1 or cells == order[:len(cells)])


def choose_cells(
    host: model.Host,
    guest: model.Guest,
    *,
    pack: bool = False,
    pci: PciCheck | None = None,
    is_over: _matching.IsOver | None = None,
) -> CellChoice | Refusal:
    """A host cell for each guest cell, or why there are none.

    1. Order the host cells as nova does.
    2. For each guest cell, see which host cells have room for it.
    3. Match guest cells to host cells, the first in order.
    4. If devices matter, see whether the host cells with room can have them.
    5. If devices or networks matter, take the first match whose set of host
       cells has them near.

    :param pack: nova's packing_host_numa_cells_allocation_strategy
    :param pci: the host's PCI devices, None if it has no tracker of them
    :param is_over: asked before each set of host cells that is tried for
        devices and networks; once it says True the search is given up, with
        ``Reason.BUDGET``
    """
    count = len(guest.cells)
    if not host.cells or not count:
        return Refusal(Reason.NO_TOPOLOGY)
    if len(host.cells) < count:
        return Refusal(
            Reason.TOO_FEW_CELLS,
            detail=f'{len(host.cells)} host cells, {count} guest cells')
    cells = host.cells
    if len(cells) > 1:
        if len({cell.id for cell in cells}) < len(cells):
            return Refusal(Reason.BROKEN_TOPOLOGY,
                           detail='two cells have the same id')
        if len(cells) > count:
            sees_devices = pci is not None and (
                pci.is_requested or host.claim_order is not _ANY_DEVICES)
            cells = order_cells(
                cells, guest, pack, pci if sees_devices else None)
    check = set_check(host, guest, pci)
    if check is None and count == 1:
        return _first_with_room(host, guest, cells)
    finder = _Finder(host, guest, cells)
    if check is None:
        first = finder.first_come()
        if first is not None:
            return CellChoice(first, cells)
    rows = finder.rows()
    if isinstance(rows, Refusal):
        return rows
    match = _matching.first_match(rows)
    if isinstance(match, Refusal):
        return match
    sets_tried = 0
    if check is not None:
        lack = _lack_of_devices(rows, cells, pci)
        if lack is not None:
            return lack
        labels = [_label(cell, guest, pci) for cell in cells]
        ids = [cell.id for cell in cells]
        tried = _matching.first_match_of_sets(
            rows, labels, ids, check, is_over)
        if isinstance(tried, Refusal):
            return tried
        match, sets_tried = tried
    return CellChoice(tuple([cells[index] for index in match]), cells,
                      sets_tried)


def _first_with_room(
    host: model.Host, guest: model.Guest, cells: tuple[model.CellView, ...],
) -> CellChoice | Refusal:
    """The choice for a guest of one cell, which has nothing to be matched.

    :param cells: the host cells in the order in which they are tried
    """
    demand, = guest.demands
    shortages = []
    for cell in cells:
        missing = cell_check.shortage(cell, host, guest, demand)
        if missing is None:
            return CellChoice((cell,), cells)
        shortages.append(missing)
    return Refusal.of_cell(0, tuple(shortages))


def order_cells(
    cells: Sequence[model.CellView],
    guest: model.Guest,
    pack: bool,
    pci: PciCheck | None,
) -> tuple[model.CellView, ...]:
    """The host cells in the order in which nova tries them.

    Cells without devices first, unless the guest asks for devices; then the
    emptiest by CPU (the fullest if packing), then by memory.

    :param pci: None if devices do not matter
    """
    # Python leaves equal ones in their order, reversed or not, as nova's sort
    # of sorts does. This is done for each host, so no key has a branch.
    if not guest.is_pinned:
        ordered = sorted(cells, key=_floating_room, reverse=not pack)
    else:
        ordered = sorted(cells, key=_pinned_room, reverse=not pack)
    if pci is not None:
        sign = -1 if pci.is_requested else 1
        ordered.sort(key=lambda cell: sign * pci.device_count(cell.id))
    return tuple(ordered)


def _pinned_room(cell: model.CellView) -> tuple[int, int]:
    return cell.free_count, cell.memory_mib - cell.memory_used_mib


def _floating_room(cell: model.CellView) -> tuple[int, int]:
    return -cell.shared_used, cell.memory_mib - cell.memory_used_mib


def is_order_of_matter(
    host: model.Host, guest: model.Guest, pci: PciCheck | None,
) -> bool:
    """Whether the host cells come in one order by devices, else in another."""
    return (pci is not None and not pci.is_requested
            and len(host.cells) > len(guest.cells)
            and len({pci.device_count(cell.id) for cell in host.cells}) > 1)


class _Finder:
    """Finds out which guest cell fits which host cell, each pair once.

    :param cells: the host cells in the order in which they are tried
    """

    def __init__(
        self,
        host: model.Host,
        guest: model.Guest,
        cells: tuple[model.CellView, ...],
    ) -> None:
        self._host = host
        self._guest = guest
        self._cells = cells
        # Guest cells with equal demands share what was found for them.
        self._shortages: dict[model.Demand, list[Shortage | None]] = {}

    def first_come(self) -> tuple[model.CellView, ...] | None:
        """Give each guest cell in turn the first host cell left with room.

        If each gets one, no assignment comes before this one in order. If
        not, there may still be others.
        """
        host, guest = self._host, self._guest
        taken: tuple[model.CellView, ...] = ()
        for demand in guest.demands:
            shortages = self._shortages.setdefault(demand, [])
            for position, cell in enumerate(self._cells):
                if position == len(shortages):
                    shortages.append(
                        cell_check.shortage(cell, host, guest, demand))
                if shortages[position] is None and cell not in taken:
                    taken += (cell,)
                    break
            else:
                return None
        return taken

    def rows(self) -> list[int] | Refusal:
        """For each guest cell, a bitmask of the host cells with room for it.

        Bit n stands for the n-th host cell in order.
        """
        rows = []
        for index, demand in enumerate(self._guest.demands):
            shortages = self._shortages.setdefault(demand, [])
            for cell in self._cells[len(shortages):]:
                shortages.append(cell_check.shortage(
                    cell, self._host, self._guest, demand))
            row = sum(1 << position
                      for position, missing in enumerate(shortages)
                      if missing is None)
            if not row:
                return Refusal.of_cell(index, tuple([
                    shortage for shortage in shortages
                    if shortage is not None]))
            rows.append(row)
        return rows


def set_check(
    host: model.Host, guest: model.Guest, pci: PciCheck | None,
) -> _matching.SetCheck | None:
    """What a set of host cells must meet, or None if any set will do."""
    wants_pci = pci is not None and pci.is_requested
    wants_network = ((guest.tunneled or bool(guest.physnets))
                     and _wants_network(host, guest))
    if not wants_pci and not wants_network:
        return None
    # Not a closure: to set one up takes time for hosts that need none.
    return functools.partial(
        _unmet, host, guest if wants_network else None,
        pci if wants_pci else None)


def _unmet(
    host: model.Host, guest: model.Guest | None, pci: PciCheck | None,
    cell_ids: tuple[int, ...],
) -> Reason | None:
    """What a set of host cells does not meet.

    :param guest: None if it asks for no network that is near some cells
    :param pci: None if it asks for no devices
    """
    if pci is not None and not pci.supports(cell_ids):
        return Reason.PCI
    if guest is not None and not _near_networks(host, guest, cell_ids):
        return Reason.NETWORK
    return None


def _wants_network(host: model.Host, guest: model.Guest) -> bool:
    """Whether any host cell is bound to a network that the guest uses."""
    if guest.tunneled:
        for cell in host.cells:
            if cell.tunneled:
                return True
    return bool(guest.physnets) and any(
        guest.physnets & cell.physnets for cell in host.cells)


def _near_networks(
    host: model.Host, guest: model.Guest, cell_ids: tuple[int, ...],
) -> bool:
    """Whether each network with an affinity has it to one of the cells.

    A network that is bound to no cell at all sets no condition
    (nova.virt.hardware._numa_cells_support_network_metadata).
    """
    outside = [cell for cell in host.cells if cell.id not in cell_ids]
    inside = [cell for cell in host.cells if cell.id in cell_ids]
    far = guest.physnets.difference(*(cell.physnets for cell in inside))
    if any(far & cell.physnets for cell in outside):
        return False
    if guest.tunneled and not any(cell.tunneled for cell in inside):
        return not any(cell.tunneled for cell in outside)
    return True


def _lack_of_devices(
    rows: Sequence[int],
    cells: Sequence[model.CellView],
    pci: PciCheck | None,
) -> Refusal | None:
    """A refusal if no host cells with room can have the devices near them.

    :param rows: for each guest cell, a bitmask of the cells with room for it
    """
    if pci is None or not pci.is_requested:
        return None
    with_room = functools.reduce(operator.or_, rows)
    ids = tuple(sorted(
        cells[column].id for column in _matching.columns_of(with_room)))
    lack = pci.shortfall(ids, len(rows))
    return Refusal(Reason.PCI, detail=lack) if lack else None


def _label(
    cell: model.CellView, guest: model.Guest, pci: PciCheck | None,
) -> Hashable:
    return (
        guest.physnets & cell.physnets,
        guest.tunneled and cell.tunneled,
        pci.label(cell) if pci is not None and pci.is_requested else None)
