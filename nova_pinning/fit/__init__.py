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

"""The engine: does a guest fit on a host, and exactly where."""

from nova_pinning.fit import cell as one_cell
from nova_pinning.fit.cells import Choice
from nova_pinning.fit.cells import choose_cells
from nova_pinning.fit.cells import PciCheck
from nova_pinning.fit.cells import set_check
from nova_pinning import model

__all__ = [
    'Choice', 'PciCheck', 'choose_cells', 'fit', 'pin', 'pin_cell',
    'set_check',
]


def fit(
    host: model.Host,
    guest: model.Guest,
    *,
    pack: bool = False,
    pci: PciCheck | None = None,
) -> model.Fit | model.Refusal:
    """The first assignment in nova's order that is valid, or why none is.

    Exact, and polynomial in the number of cells and CPUs; only guests with
    PCI devices or NUMA-aware networks can cost more, as the number of
    different sets of host cells near such devices and networks does.

    :param pack: nova's packing_host_numa_cells_allocation_strategy
    :param pci: the host's PCI devices and what the guest wants of them, None
        if the host has no tracker of them
    """
    choice = choose_cells(host, guest, pack=pack, pci=pci)
    if isinstance(choice, model.Refusal):
        return choice
    return pin(guest, choice.cells)


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
        cpus, emulator_cpus = one_cell.pick_cpus(
            cell, guest.thread_policy, demand)
    return model.CellFit(
        host_cell=cell.id,
        pins=tuple(zip(guest.cells[index].dedicated_vcpus, cpus)),
        emulator_cpus=emulator_cpus,
        page_size_kib=one_cell.page_size_kib(cell, demand))
