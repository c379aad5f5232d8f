# SPDX-License-Identifier: Apache-2.0
"""Guests that are told by their size alone."""

from nova_pinning.admission import guest_request
from nova_pinning.document import quantities
from nova_pinning import model
from nova_pinning.model import hostclass

_PAGES = {size: word for word, size in model.PAGE_WORDS.items()}


def plain(
    vcpus: int, memory_mib: int,
    guest_class: hostclass.HostClass = hostclass.HostClass.DEDICATED,
    cells: int = 1, page_size_kib: int | None = None,
) -> guest_request.GuestRequest:
    """A guest without wishes besides its size.

    It is what ``bridge.offline.flavor_request`` makes of the flavor that it
    comes with, without a look at nova.

    :param cells: NUMA cells, over which it is spread evenly; a shared guest
        of one cell that asks for no pages has no NUMA topology
    :param page_size_kib: as ``model.GuestCell`` has it
    """
    name = f'{guest_class}-{vcpus}x{memory_mib}'
    if cells > 1:
        name += f'-{cells}-cells'
    topology, extra_specs = None, {}
    is_pinned = guest_class is hostclass.HostClass.DEDICATED
    if is_pinned or cells > 1 or page_size_kib is not None:
        topology = _topology(vcpus, memory_mib, is_pinned, cells,
                             page_size_kib)
        extra_specs['hw:numa_nodes'] = str(cells)
    if is_pinned:
        extra_specs['hw:cpu_policy'] = 'dedicated'
    if page_size_kib is not None:
        extra_specs['hw:mem_page_size'] = _PAGES.get(
            page_size_kib, str(page_size_kib))
        shown = _PAGES.get(page_size_kib) or quantities.page_size_text(
            page_size_kib)
        name += f'-{shown}-pages'
    return guest_request.of_shape(
        name, vcpus, memory_mib, guest_class, topology,
        extra_specs=extra_specs)


def _topology(vcpus: int, memory_mib: int, is_pinned: bool, cells: int,
              page_size_kib: int | None) -> model.Guest:
    size = vcpus // cells
    guest_cells = []
    for number in range(cells):
        numbers = tuple(range(number * size, (number + 1) * size))
        guest_cells.append(model.GuestCell(
            numbers if is_pinned else (), () if is_pinned else numbers,
            memory_mib // cells, page_size_kib))
    return model.Guest(tuple(guest_cells), cpu_policy=(
        model.CpuPolicy.DEDICATED if is_pinned else model.CpuPolicy.SHARED))
