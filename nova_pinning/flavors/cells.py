# SPDX-License-Identifier: Apache-2.0
"""Which vCPUs and how much memory go to which guest NUMA cell."""

import dataclasses
import fractions
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import shape
from nova_pinning import units


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorCell:
    """A guest NUMA cell."""

    vcpus: cpuset.CpuSet
    memory_mib: int


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorCells:
    """The guest NUMA cells of a flavor.

    :param is_explicit: whether nova has to be told what each cell gets,
        because it would divide otherwise, or could not
    """

    cells: tuple[FlavorCell, ...]
    is_explicit: bool


def cells_of(size: shape.CatalogueEntry) -> FlavorCells | None:
    """The cells that a size asks for, None if it leaves that to nova.

    :raises errors.InputError: if they cannot be made
    """
    nodes = size.get('numa_nodes')
    if nodes is None:
        return None
    if isinstance(nodes.value, list):
        return FlavorCells(tuple(FlavorCell(
            vcpus_of(size, node.value['vcpus'].value, node.value['vcpus']),
            quantities.memory_mib(node.value['memory'].value,
                                  node.value['memory'].where),
        ) for node in nodes.value), is_explicit=True)
    if nodes.value != 'fewest':
        return _divided(size, nodes, int(nodes.value), None)
    room = _room(size, nodes)
    page = _page_mib(size)
    fewest = max(-(-(size.vcpus.value + _emulator_cpus(size)) // room[0]),
                 -(-size.memory_mib.value // (room[1] // page * page)))
    try:
        return _divided(size, nodes, fewest, room)
    except errors.InputError:
        # Equal shares can leave no room for the emulator's CPU where one
        # cell more does.
        if not _emulator_cpus(size):
            raise
        return _divided(size, nodes, fewest + 1, room)


def _emulator_cpus(size: shape.CatalogueEntry) -> int:
    """Host CPUs that nova adds to the first cell, for emulator threads."""
    return int(size.says('emulator_threads', 'isolate'))


def vcpus_of(size: shape.CatalogueEntry, text: str,
             of: shape.Placed[str]) -> cpuset.CpuSet:
    """A list of vCPUs; one that begins with ``^`` means all but these.

    :param of: what it comes from
    :raises errors.InputError: if it cannot be read or is empty
    """
    is_rest = text.strip().startswith('^')
    whole = f'0-{size.vcpus.value - 1},' if is_rest else ''
    try:
        cpus = cpuset.CpuSet.parse(whole + text)
    except ValueError:
        raise size.error(f'{text!r} is not a list of vCPUs', of,
                         "write it like '0-3,8' or '^0'") from None
    if not cpus:
        raise size.error(f'{text!r} leaves no vCPU', of)
    return cpus


def dedicated_of(
    cells: FlavorCells, count: int, unit: int,
) -> cpuset.CpuSet:
    """So many vCPUs of all cells together, in proportion to their sizes.

    They are the last ones of each cell: guests do their housekeeping on the
    first. Where it does not come out even the first cells have more, since
    isolated emulator threads need a dedicated vCPU in the first.

    :param unit: how many to give to a cell at once: 2 for whole cores
    """
    given = [0] * len(cells.cells)
    sizes = [len(cell.vcpus) for cell in cells.cells]
    for step in (unit, 1):
        while count >= step:
            open_cells = [number for number, size in enumerate(sizes)
                          if given[number] + step <= size]
            if not open_cells:
                break
            neediest = max(open_cells, key=lambda number: fractions.Fraction(
                sizes[number] - given[number], sizes[number]))
            given[neediest] += step
            count -= step
    return cpuset.CpuSet(
        vcpu for cell, number in zip(cells.cells, given)
        for vcpu in sorted(cell.vcpus)[len(cell.vcpus) - number:])


def _page_mib(size: shape.CatalogueEntry) -> int:
    """What the memory of each cell must be a multiple of.

    Where the size of pages is left to nova, it finds smaller ones. Where
    not even the whole is a multiple, it does not matter any more.
    """
    setting = size.get('page_size')
    if not setting or setting.value in ('any', 'large', 'small'):
        return 1
    page = quantities.page_size_kib(setting.value, setting.where) // 1024
    return page if page and size.memory_mib.value % page == 0 else 1


def _room(size: shape.CatalogueEntry,
          nodes: shape.Placed[Any]) -> tuple[int, int]:
    """vCPUs and MiB that a host NUMA cell offers, at least one page."""
    if size.numa_cell is None:
        raise errors.InputError(
            '"fewest" needs to know what a host NUMA cell offers', nodes.where,
            'add "numa_cell: {vcpus: 36, memory: 180GiB}" at the top')
    if size.numa_cell[1] < _page_mib(size):
        raise size.error(
            f'the {size.numa_cell[1]} MiB of a host NUMA cell are less than '
            'a page', nodes)
    return size.numa_cell


def _divided(size: shape.CatalogueEntry, nodes: shape.Placed[Any], count: int,
             room: tuple[int, int] | None) -> FlavorCells:
    """As many cells as asked for, as equal as can be.

    If they cannot be equal, or siblings would end up in different cells,
    shares are pairs of vCPUs and whole GiB, as long as there is room.
    """
    vcpus, memory_mib = size.vcpus.value, size.memory_mib.value
    is_paired = size.says('thread_policy', 'require') and vcpus % 2 == 0
    page = _page_mib(size)
    whole = units.MIB_PER_GIB
    if memory_mib % count == 0 or memory_mib % whole or page > 1:
        whole = page
    shares = mibs = None
    if count <= min(vcpus, memory_mib):
        shares = _spread(vcpus, (2 if is_paired else 1, 1), count,
                         room and room[0])
        if shares and room and shares[0] + _emulator_cpus(size) > room[0]:
            # The first cell has the emulator's CPU as well.
            shares = shares[::-1]
            if shares[0] + _emulator_cpus(size) > room[0]:
                shares = None
        mibs = _spread(memory_mib, (whole, page), count, room and room[1])
    if not shares or not mibs:
        raise size.error(
            f'{vcpus} vCPUs and {memory_mib} MiB do not go on {count} NUMA '
            'nodes', nodes)
    made = []
    first = 0
    for number, mib in zip(shares, mibs, strict=True):
        made.append(
            FlavorCell(cpuset.CpuSet(range(first, first + number)), mib))
        first += number
    return FlavorCells(tuple(made), len(set(shares)) > 1 or len(set(mibs)) > 1)


def _spread(total: int, units: tuple[int, int], count: int,
            room: int | None) -> list[int] | None:
    """Shares in whole units, the larger ones first.

    :param units: tried one after the other
    :returns: None if someone would go without
    """
    for unit in units:
        each, rest = divmod(total // unit, count)
        shares = [(each + (position < rest)) * unit
                  for position in range(count)]
        if shares[-1] and (room is None or shares[0] <= room):
            return shares
    return None
