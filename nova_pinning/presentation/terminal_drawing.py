# SPDX-License-Identifier: Apache-2.0
"""Host CPUs as a drawing for the terminal.

A cell is drawn with its cores as columns and the threads of a core below
each other, so that what shares a core stands together::

    CPUs 0-5    # A A B B .
    CPUs 12-17  # A A B B .

Pure: a drawing is a list of lines, a line a list of spans, and a span is a
piece of text with a mark that says what it stands for. Whoever shows the
drawing turns marks into colours, or leaves them out: the text alone says it
all.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import string
import textwrap
import typing

from nova_pinning import cpuset


class TextSpan(typing.NamedTuple):
    """A piece of a line.

    :param mark: what it stands for, '' for nothing in particular
    """

    text: str
    mark: str = ''


Line = list[TextSpan]


@dataclasses.dataclass(frozen=True, slots=True)
class TextTile:
    """How one CPU is drawn.

    :param symbol: one character, or more where there are very many guests
    :param mark: what the CPU is used for, see :class:`TextSpan`
    """

    symbol: str
    mark: str = ''


FREE = TextTile('.', 'free')
KEPT = TextTile('#', 'kept')
FLOATING = TextTile('~', 'floating')


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnCell:
    """One NUMA cell to draw.

    :param title: what is written above it
    :param cores: the ids of each core's CPUs
    :param domain_sizes: how many cores, in their order, share each
        last-level cache; () leaves the caches out
    :param notes: what else belongs to it, written below its cores
    """

    title: str
    cores: tuple[tuple[int, ...], ...]
    domain_sizes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def cell(
    title: str, domains: Iterable[tuple[tuple[int, ...], ...]], width: int,
    notes: Iterable[str] = (),
) -> DrawnCell:
    """A cell of which it is known which cores share a cache.

    :param domains: the cores of each
    :param width: what is longer of the title is cut off
    """
    cores = tuple(domains)
    return DrawnCell(
        title if len(title) <= width else f'{title[:width - 3]}...',
        tuple(itertools.chain.from_iterable(cores)),
        tuple(map(len, cores)) if len(cores) > 1 else (), tuple(notes))


def symbols() -> Iterator[str]:
    """Names for guests: A to Z, a to z, 0 to 9, then AA, AB and so on."""
    letters = string.ascii_letters.swapcase() + string.digits
    for length in itertools.count(1):
        for name in itertools.product(letters, repeat=length):
            yield ''.join(name)


def heading(
    title: str, remarks: Iterable[str], width: int,
) -> Iterator[Line]:
    """A title with sentences below it."""
    for line in wrap(title, width):
        yield [TextSpan(line, 'title')]
    for remark in remarks:
        for line in wrap(remark, width, '  ', '  '):
            yield [TextSpan(line)]


def legend(
    entries: Iterable[tuple[TextTile, str]], width: int,
) -> Iterator[Line]:
    """What tiles mean."""
    for tile, meaning in entries:
        indent = ' ' * (len(tile.symbol) + 3)
        first, *more = wrap(meaning, width, indent, indent)
        yield [TextSpan('  '), TextSpan(tile.symbol, tile.mark),
               TextSpan(first[len(indent) - 1:])]
        yield from ([TextSpan(line)] for line in more)


def between_caches(cells: Iterable[DrawnCell], size: int) -> list[
        tuple[TextTile, str]]:
    """What the bar between cores means, for a legend, if there is one.

    :param size: letters of a symbol
    """
    if not any(cell.domain_sizes for cell in cells):
        return []
    return [(TextTile('|'.rjust(size), 'label'),
             'between cores that do not share an L3 cache')]


class _Wrapper(textwrap.TextWrapper):

    def _handle_long_word(self, chunks: list[str], line: list[str],
                          length: int, width: int) -> None:
        end = chunks[-1].rfind(',', 0, width - length) + 1
        if end:
            line.append(chunks[-1][:end])
            chunks[-1] = chunks[-1][end:]
        elif not line:
            super()._handle_long_word(chunks, line, length, width)


def wrap(text: str, width: int, indent: str = '',
         further: str = '') -> list[str]:
    """Break lines after blanks, and CPU lists that are longer at commas.

    :param indent: what the first line begins with
    :param further: what all others do
    """
    return _Wrapper(
        max(width, 1), initial_indent=indent, subsequent_indent=further,
        break_on_hyphens=False).wrap(text) or [indent.rstrip()]


def draw_cells(
    cells: Iterable[DrawnCell],
    tiles: Mapping[int, TextTile],
    width: int = 80,
) -> list[Line]:
    """Draw the cells of a host below each other.

    :param tiles: how to draw each CPU, by its id; KEPT where it is missing,
        since a CPU that nobody may use is kept for the host
    :param width: columns of the terminal; cores that find no room go to
        another block of rows. One core a block is drawn in any case.
    """
    lines: list[Line] = []
    for cell in cells:
        lines.append([TextSpan(cell.title, 'title')])
        lines += _draw_cores(cell, tiles, width)
        for note in cell.notes:
            lines += ([TextSpan(line)]
                      for line in wrap(note, width, '  ', '    '))
    return lines


# A block is a row of cores, in groups with a bar between them.
_Block = Sequence[Sequence[tuple[int, ...]]]


def _draw_cores(
    cell: DrawnCell,
    tiles: Mapping[int, TextTile],
    width: int,
) -> list[Line]:
    if not cell.cores:
        return [[TextSpan('  no CPUs', 'label')]]
    size = max(len(tiles.get(cpu, KEPT).symbol)
               for core in cell.cores for cpu in core)
    blocks = (_blocks_of_domains(cell, size, width) or
              _blocks_of_cores(cell.cores, size, width))
    label_size = _label_size(blocks)
    lines = []
    for block in blocks:
        for thread, label in enumerate(_labels(block)):
            line = [TextSpan(label.ljust(label_size), 'label')]
            for number, group in enumerate(block):
                if number:
                    line.append(TextSpan(' |', 'label'))
                for core in group:
                    line.append(TextSpan(' '))
                    line.append(_span(core, thread, tiles, size))
            lines.append(line)
    return lines


def _blocks_of_domains(cell: DrawnCell, size: int, width: int) -> list[_Block]:
    """As many whole domains a block as there is room for; [] if not one."""
    ends = list(itertools.accumulate(cell.domain_sizes))
    domains = [cell.cores[first:last] for first, last in zip(
        [0, *ends], ends)]
    for count in range(len(domains), 0, -1):
        blocks: list[_Block] = [
            domains[first:first + count]
            for first in range(0, len(domains), count)]
        longest = max(
            sum(map(len, block)) * (size + 1) + 2 * (len(block) - 1)
            for block in blocks)
        if _label_size(blocks) + longest <= width:
            return blocks
    return []


def _blocks_of_cores(
    cores: Sequence[tuple[int, ...]], size: int, width: int,
) -> list[_Block]:
    per_block = len(cores)
    while True:
        blocks: list[_Block] = [
            [cores[first:first + per_block]]
            for first in range(0, len(cores), per_block)]
        room = (width - _label_size(blocks)) // (size + 1)
        if per_block <= max(room, 1):
            return blocks
        # Shorter rows may have longer labels, so look again.
        per_block = max(1, min(room, per_block - 1))


def _label_size(blocks: Iterable[_Block]) -> int:
    return max(len(label) for block in blocks for label in _labels(block))


def _labels(block: _Block) -> list[str]:
    """The CPU ids of each row."""
    rows = itertools.zip_longest(*itertools.chain.from_iterable(block))
    return ['  CPUs ' + _ids([cpu for cpu in row if cpu is not None])
            for row in rows]


def _ids(cpus: Sequence[int]) -> str:
    """CPU ids in the kernel's list syntax, with a stride where it helps."""
    step = cpus[1] - cpus[0] if len(cpus) > 2 else 0
    if step > 1 and list(cpus) == list(range(cpus[0], cpus[-1] + 1, step)):
        return f'{cpus[0]}-{cpus[-1]}:{step}'
    text = str(cpuset.CpuSet(cpus))
    # Ids without any order would leave no room for the drawing.
    return text if len(text) <= 24 else f'{min(cpus)}...{max(cpus)}'


def _span(
    core: tuple[int, ...],
    thread: int,
    tiles: Mapping[int, TextTile],
    size: int,
) -> TextSpan:
    if thread >= len(core):
        # A core with fewer threads than others, or one of them offline.
        return TextSpan(' ' * size)
    tile = tiles.get(core[thread], KEPT)
    return TextSpan(tile.symbol.ljust(size), tile.mark)


def plain(line: Iterable[TextSpan]) -> str:
    """A line without its marks."""
    return ''.join(span.text for span in line).rstrip()
