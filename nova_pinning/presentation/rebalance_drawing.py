# SPDX-License-Identifier: Apache-2.0
"""The hosts of a plan of moves before and after it, for the terminal.

A cell is one row, its CPUs core by core, with the state after the plan below
the one before it, so that what has moved stands where it shows::

    cmp-1
      cell 0  before  AAAA....xxxxBBBB   4 free
              after   ........xxxx....  12 free
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import itertools

from nova_pinning.presentation import cpu_use
from nova_pinning.presentation import guest_drawing
from nova_pinning.presentation import rebalance_picture
from nova_pinning.presentation import terminal_drawing
from nova_pinning import spelling

_TILES = {
    cpu_use.CpuUseKind.TAKEN: terminal_drawing.TextTile('x', 'taken'),
    cpu_use.CpuUseKind.FREE: terminal_drawing.FREE,
    cpu_use.CpuUseKind.SHARED: terminal_drawing.TextTile(':', 'shared'),
    cpu_use.CpuUseKind.KEPT: terminal_drawing.KEPT,
}
_STATES = ('before', 'after', 'as it is')

#: What rich shows a mark of the drawing as.
style = guest_drawing.style


def draw(
    picture: rebalance_picture.MovePicture, width: int = 80,
    most: int | None = None,
) -> list[terminal_drawing.Line]:
    """Draw hosts below each other, and what the signs mean.

    :param width: columns of the terminal, at least 40
    :param most: hosts that are drawn, None for all
    :returns: lines whose marks :func:`style` knows
    """
    hosts = picture.hosts[:most]
    size = max((len(guest.letter) for guest in picture.guests), default=1)
    lines: list[terminal_drawing.Line] = []
    for host in hosts:
        lines.append([terminal_drawing.TextSpan(
            spelling.printable(host.name), 'title')])
        for cell in host.cells:
            lines += _cell(cell, size, width)
        lines += _floating(host, width)
    lines += terminal_drawing.legend([
        (terminal_drawing.TextTile('A', 'guest:0'),
         'a guest that is moved, by its letter in the table'),
        *((_TILES[kind], meaning)
          for kind, meaning in rebalance_picture.meanings(picture))], width)
    return lines


def _cell(
    cell: rebalance_picture.MovePictureCell, size: int, width: int,
) -> Iterator[terminal_drawing.Line]:
    before, after, unchanged = _STATES
    name = f'  cell {cell.id}  '
    states = [(before, cell.before), (after, cell.after)]
    if not cell.is_changed:
        states = [(unchanged, cell.before)]
    for state, uses in states:
        yield from _row(f'{name}{state.ljust(len(unchanged))}  ', cell.cores,
                        uses, size, width)
        name = ' ' * len(name)


def _row(
    label: str, cores: Sequence[Sequence[int]],
    uses: Mapping[int, rebalance_picture.CpuOccupant], size: int, width: int,
) -> Iterator[terminal_drawing.Line]:
    """One state of a cell; cores that find no room go to further lines."""
    free = f'  {rebalance_picture.free_count(uses):3} free'
    # Several letters need a blank between them to be told apart.
    each = size + (size > 1)
    room = max(1, (width - len(label) - len(free)) // each)
    cpus = [cpu for core in cores for cpu in core]
    for first in range(0, max(1, len(cpus)), room):
        line = [terminal_drawing.TextSpan(label, 'label')]
        line += _spans([uses[cpu] for cpu in cpus[first:first + room]], each)
        if first == 0:
            line.append(terminal_drawing.TextSpan(free))
        yield line
        label = ' ' * len(label)


def _spans(
    uses: Sequence[rebalance_picture.CpuOccupant], each: int,
) -> Iterator[terminal_drawing.TextSpan]:
    """A span for CPUs next to each other that are used alike."""
    for use, group in itertools.groupby(uses):
        count = len(tuple(group))
        if use.moved is None:
            tile = _TILES[use.kind]
        else:
            tile = terminal_drawing.TextTile(
                use.moved.letter, f'guest:{use.moved.number}')
        yield terminal_drawing.TextSpan(
            tile.symbol.ljust(each) * count, tile.mark)


def _floating(
    host: rebalance_picture.MovePictureHost, width: int,
) -> Iterator[terminal_drawing.Line]:
    """The guests that no cell shows."""
    for what, guests in (('leave', host.leaving), ('come', host.coming)):
        if guests:
            letters = ', '.join(guest.letter for guest in guests)
            yield from ([terminal_drawing.TextSpan(line)]
                        for line in terminal_drawing.wrap(
                            f'without CPUs of their own {what}: {letters}',
                            width, '  ', '    '))
