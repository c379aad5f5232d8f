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
    count = _fewest(one) if asked == 'fewest' else int(asked)
    if count > one.vcpus:
        raise one.error(
            f'{one.vcpus} vCPUs do not go on {count} NUMA nodes',
            one.path_of('numa_nodes'))
    return _divided(one, count)


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


def _pair(one: shape.Shape) -> int:
    """How many vCPUs stay in one cell, since they share a core."""
    is_paired = one.get('thread_policy') == 'require' and one.vcpus % 2 == 0
    return 2 if is_paired else 1


def _page_mib(one: shape.Shape) -> int:
    """What the memory of a cell should be a multiple of."""
    page = 1
    if not _may_shrink(one):
        page = quantities.page_size_kib(
            one.get('page_size'),
            one.where(one.path_of('page_size'))) // 1024
    elif one.memory_mib % _MIB_PER_GIB == 0:
        page = _MIB_PER_GIB
    return page if page and one.memory_mib % page == 0 else 1


def _fewest(one: shape.Shape) -> int:
    path = one.path_of('numa_nodes')
    if one.numa_cell is None:
        raise one.document.error(
            '"fewest" needs to know what a host NUMA cell offers', path,
            'add "numa_cell: {vcpus: 36, memory: 180GiB}" at the top')
    needs = []
    for total, unit, room, what in zip(
            (one.vcpus, one.memory_mib), (_pair(one), _page_mib(one)),
            one.numa_cell,
            ('vCPUs', 'MiB'), strict=True):
        if room < unit:
            raise one.error(
                f'cells of {room} {what} hold nothing, as {unit} {what} must '
                'stay together', path)
        needs.append(-(-(total // unit) // (room // unit)))
    return max(needs)


def _divided(one: shape.Shape, count: int) -> Cells:
    vcpus = _spread(one.vcpus, _pair(one), count)
    # Nova finds smaller pages where the size is left to it, so shares that
    # are equal are worth more than shares in whole GiB.
    page = _page_mib(one)
    if _may_shrink(one) and one.memory_mib % count == 0:
        page = 1
    memory = _spread(one.memory_mib, page, count)
    if not vcpus[-1] or not memory[-1]:
        raise one.error(
            f'{one.vcpus} vCPUs and {one.memory_mib} MiB do not go on {count} '
            'NUMA nodes', one.path_of('numa_nodes'))
    made = []
    first = 0
    for number, mib in zip(vcpus, memory, strict=True):
        made.append(Cell(cpuset.CpuSet(range(first, first + number)), mib))
        first += number
    return Cells(tuple(made), len(set(vcpus)) > 1 or len(set(memory)) > 1)


def _may_shrink(one: shape.Shape) -> bool:
    return one.get('page_size') in (None, 'any', 'large', 'small')


def _spread(total: int, unit: int, count: int) -> list[int]:
    """Shares in whole units, as even as can be, the larger ones first."""
    each, rest = divmod(total // unit, count)
    return [(each + (position < rest)) * unit for position in range(count)]
