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
"""Which vCPUs and how much memory go to which guest NUMA cell."""

import dataclasses

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import shape

_MIB_PER_GIB = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A guest NUMA cell."""

    vcpus: cpuset.CpuSet
    memory_mib: int


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """The guest NUMA cells of a flavor.

    :param is_explicit: whether nova has to be told what each cell gets,
        because it would divide otherwise, or could not
    """

    cells: tuple[Cell, ...]
    is_explicit: bool


def cells(one: shape.Shape) -> Cells | None:
    """The cells that a shape asks for, None if it leaves that to nova.

    :raises errors.InputError: if they cannot be made
    """
    asked = one.get('numa_nodes')
    if asked is None:
        return None
    if isinstance(asked, list):
        return Cells(tuple(
            _written_out(one, position) for position in range(len(asked))),
            is_explicit=True)
    room = None
    if asked == 'fewest':
        room = _room(one)
        asked = max(-(-one.vcpus // room[0]),
                    -(-one.memory_mib // (room[1] // _page_mib(one)
                                          * _page_mib(one))))
    return _divided(one, int(asked), room)


def _written_out(one: shape.Shape, position: int) -> Cell:
    path = (*one.path_of('numa_nodes'), position)
    raw = one.get('numa_nodes')[position]
    return Cell(
        cpus(one, raw['vcpus'], (*path, 'vcpus')),
        quantities.memory_mib(raw['memory'], one.where((*path, 'memory'))))


def cpus(one: shape.Shape, text: str,
         path: tuple[str | int, ...]) -> cpuset.CpuSet:
    """A list of vCPUs; one that begins with ``^`` means all but these.

    :raises errors.InputError: if it cannot be read or is empty
    """
    whole = f'0-{one.vcpus - 1},' if text.strip().startswith('^') else ''
    try:
        found = cpuset.CpuSet.parse(whole + text)
    except ValueError:
        raise one.error(f'{text!r} is not a list of vCPUs', path,
                        "write it like '0-3,8' or '^0'") from None
    if not found:
        raise one.error(f'{text!r} leaves no vCPU', path)
    return found


def _page_mib(one: shape.Shape) -> int:
    """What the memory of each cell must be a multiple of.

    Where the size of pages is left to nova, it finds smaller ones. Where
    not even the whole is a multiple, it does not matter any more.
    """
    if one.get('page_size') in (None, 'any', 'large', 'small'):
        return 1
    page = quantities.page_size_kib(
        one.get('page_size'), one.where(one.path_of('page_size'))) // 1024
    return page if page and one.memory_mib % page == 0 else 1


def _room(one: shape.Shape) -> tuple[int, int]:
    """vCPUs and MiB that a host NUMA cell offers, at least one page."""
    path = one.path_of('numa_nodes')
    if one.numa_cell is None:
        raise one.document.error(
            '"fewest" needs to know what a host NUMA cell offers', path,
            'add "numa_cell: {vcpus: 36, memory: 180GiB}" at the top')
    if one.numa_cell[1] < _page_mib(one):
        raise one.error(
            f'the {one.numa_cell[1]} MiB of a host NUMA cell are less than '
            'a page', path)
    return one.numa_cell


def _divided(one: shape.Shape, count: int,
             room: tuple[int, int] | None) -> Cells:
    """As many cells as asked for, as equal as can be.

    If they cannot be equal, or siblings would end up in different cells,
    shares are pairs of vCPUs and whole GiB, as long as there is room.
    """
    is_paired = one.get('thread_policy') == 'require' and one.vcpus % 2 == 0
    page = _page_mib(one)
    whole = _MIB_PER_GIB
    if one.memory_mib % count == 0 or one.memory_mib % whole or page > 1:
        whole = page
    if count > min(one.vcpus, one.memory_mib):
        raise _no_room(one, count)
    vcpus = _spread(one.vcpus, (2 if is_paired else 1, 1), count,
                    room and room[0])
    memory = _spread(one.memory_mib, (whole, page), count, room and room[1])
    if vcpus is None or memory is None:
        raise _no_room(one, count)
    made = []
    first = 0
    for number, mib in zip(vcpus, memory, strict=True):
        made.append(Cell(cpuset.CpuSet(range(first, first + number)), mib))
        first += number
    return Cells(tuple(made), len(set(vcpus)) > 1 or len(set(memory)) > 1)


def _no_room(one: shape.Shape, count: int) -> errors.InputError:
    return one.error(
        f'{one.vcpus} vCPUs and {one.memory_mib} MiB do not go on {count} '
        'NUMA nodes', one.path_of('numa_nodes'))


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
