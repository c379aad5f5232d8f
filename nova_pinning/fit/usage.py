# SPDX-License-Identifier: Apache-2.0
"""A host cell with one more guest cell on it, or with one less.

The accounting is that of nova.virt.hardware.numa_usage_from_instance_numa.
Unlike nova's it never raises: a CPU that two guests have is used, and whether
that may be is for others to say.
"""

from collections.abc import Iterable
import dataclasses

from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning import units


def take(host: model.Host, guest: model.Guest, fit: model.Fit) -> model.Host:
    """The host with the guest on it; other cells than its own are shared.

    :param host: of ``model.HostCell``
    :param fit: cells that the host does not have are left out
    """
    return _changed(host, ((guest, fit),), 1)


def take_all(
    host: model.Host, placed: Iterable[tuple[model.Guest, model.Fit]],
) -> model.Host:
    """The same with several guests, in a fraction of the time."""
    return _changed(host, placed, 1)


def release(
    host: model.Host, guest: model.Guest, fit: model.Fit,
) -> model.Host:
    """The host without a guest that was taken before."""
    return _changed(host, ((guest, fit),), -1)


def taken_cpus(
    cell: model.HostCell, guest: model.Guest, cell_fit: model.CellFit,
) -> cpuset.CpuSet:
    """The dedicated CPUs of a cell that nobody else gets beside a guest.

    Under thread policy isolate nova counts whole cores.
    """
    return cpuset.CpuSet.from_mask(_taken_mask(cell, guest, cell_fit))


def _taken_mask(cell: model.HostCell, guest: model.Guest,
                cell_fit: model.CellFit) -> int:
    mask = 0
    for _vcpu, cpu in cell_fit.pins:
        mask |= 1 << cpu
    for cpu in cell_fit.emulator_cpus:
        mask |= 1 << cpu
    if guest.thread_policy is model.ThreadPolicy.ISOLATE:
        for core in cell.cores:
            whole = cpuset.CpuSet(core).mask
            if whole & mask:
                mask |= whole
    return mask


class _Change:
    """What guests change of one cell.

    :ivar pages: pages by their size in KiB
    """

    __slots__ = ('cell', 'mask', 'memory_mib', 'pages', 'shared')

    def __init__(self, cell: model.HostCell) -> None:
        self.cell = cell
        self.mask = 0
        self.memory_mib = 0
        self.shared = 0
        self.pages: dict[int, int] = {}

    def add(self, guest: model.Guest, demand: model.Demand,
            cell_fit: model.CellFit) -> None:
        if guest.is_pinned:
            self.mask |= _taken_mask(self.cell, guest, cell_fit)
        self.memory_mib += demand.memory_mib
        self.shared += demand.shared
        size_kib = cell_fit.page_size_kib
        if not size_kib:
            # Who asks for no page size gets the smallest pages.
            smallest = self.cell.smallest_pages
            size_kib = smallest.size_kib if smallest is not None else 0
        if size_kib > 0:
            self.pages[size_kib] = (
                self.pages.get(size_kib, 0)
                + demand.memory_mib * units.KIB_PER_MIB // size_kib)

    def changed(self, sign: int) -> model.HostCell:
        cell = self.cell
        pinned = cpuset.CpuSet.from_mask(self.mask)
        return dataclasses.replace(
            cell,
            pinned_cpus=(cell.pinned_cpus | pinned if sign > 0
                         else cell.pinned_cpus - pinned),
            memory_used_mib=max(
                0, cell.memory_used_mib + sign * self.memory_mib),
            shared_used=max(0, cell.shared_used + sign * self.shared),
            pages=tuple(
                pool._replace(used=max(
                    0, pool.used + sign * self.pages[pool.size_kib]))
                if pool.size_kib in self.pages else pool
                for pool in cell.pages))


def _changed(
    host: model.Host, placed: Iterable[tuple[model.Guest, model.Fit]],
    sign: int,
) -> model.Host:
    cells = {cell.id: cell for cell in host.cells}
    changes: dict[int, _Change] = {}
    for guest, fit in placed:
        for demand, cell_fit in zip(guest.demands, fit.cells):
            number = cell_fit.host_cell
            if number not in changes:
                cell = cells.get(number)
                if cell is None:
                    continue
                assert isinstance(cell, model.HostCell)
                changes[number] = _Change(cell)
            changes[number].add(guest, demand, cell_fit)
    return host._replace(cells=tuple([
        changes[cell.id].changed(sign) if cell.id in changes else cell
        for cell in host.cells]))
