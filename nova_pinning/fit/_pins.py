# SPDX-License-Identifier: Apache-2.0
"""The CPUs that a guest gets within the host cells chosen for it."""

from nova_pinning.fit import cell_check
from nova_pinning import model


def pin(
    guest: model.Guest, cells: tuple[model.CellView, ...],
) -> model.Fit:
    """Choose the CPUs within the host cells that choose_cells gave."""
    return model.Fit(tuple([
        pin_cell(guest, index, cell) for index, cell in enumerate(cells)]))


def pin_cell(
    guest: model.Guest, index: int, cell: model.CellView,
) -> model.CellFit:
    """Choose the CPUs for one guest cell, given by index, in a host cell."""
    demand = guest.demands[index]
    cpus: tuple[int, ...] = ()
    emulator_cpus: tuple[int, ...] = ()
    if guest.is_pinned:
        cpus, emulator_cpus = cell_check.pick_cpus(
            cell, guest.thread_policy, demand)
    return model.CellFit(
        host_cell=cell.id,
        pins=tuple(zip(guest.cells[index].dedicated_vcpus, cpus)),
        emulator_cpus=emulator_cpus,
        page_size_kib=cell_check.page_size_kib(cell, demand))
