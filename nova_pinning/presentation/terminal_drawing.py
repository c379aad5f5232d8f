# SPDX-License-Identifier: Apache-2.0
"""A drawing of hosts for the terminal, and as a picture of one.

A node of a host in one state is drawn with its cores as columns and the
threads of a core below each other, so that what shares a core stands
together::

    CPUs 0-5    # A A B B .
    CPUs 12-17  # A A B B .

Of a host in several states a node is one row for each state, its CPUs core by
core, so that what has moved stands where it shows::

    cmp-1
      cell 0  before  AAAA....xxxxBBBB   4 free
              after   ........xxxx....  12 free

The text alone says it all; colours say it again.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import io
import itertools
from xml.sax import saxutils

import rich.console
from rich import terminal_theme
from rich import text as rich_text

from nova_pinning import cpuset
from nova_pinning.presentation import drawing
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import printing

_Style = drawing.TileStyle
_Lines = Iterator[rich_text.Text]

_TITLE = 'bold'
_LABEL = 'dim'
_STYLES = {
    _Style.EMULATOR: 'black on color(221)',
    _Style.FLOATING: 'black on color(117)',
    _Style.TAKEN: 'color(173)',
    _Style.FREE: 'bold',
    _Style.HOST: 'bold color(231) on color(240)',
    _Style.POLL: 'black on color(221)',
    _Style.SHARED: 'black on color(117)',
    _Style.DEDICATED: 'black on color(114)',
    _Style.ANY: 'bold',
    _Style.KEPT: 'dim',
}
# Backgrounds that black letters can be read on; neighbours differ much.
_GUEST_STYLES = tuple(f'black on color({number})' for number in (
    114, 215, 111, 183, 180, 80, 210, 150))
_AS_IT_IS = 'as it is'
_SVG_COLUMNS = 120
# Rich's own has the frame of a window, and a font that is fetched.
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
{styles}
</style>
<defs>{lines}</defs>
<rect width="{width}" height="{height}" rx="8" fill="#fff" stroke="#c9d0db"/>
<g transform="translate({terminal_x}, 25)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""


def style(tile: drawing.Tile) -> str:
    """What rich shows a tile as."""
    if tile.style is _Style.PINNED:
        return _GUEST_STYLES[tile.guest % len(_GUEST_STYLES)]
    return _STYLES[tile.style]


def show(drawn: drawing.Drawing, console: rich.console.Console) -> None:
    """Print a drawing."""
    for line in lines(drawn, console.width):
        console.print(line, soft_wrap=True)


def svg(drawn: drawing.Drawing) -> str:
    """What a terminal of 120 columns shows, as a picture that stands alone.

    :returns: an SVG document: no script and no font from elsewhere
    """
    shown = lines(drawn, _SVG_COLUMNS)
    console = rich.console.Console(
        file=io.StringIO(), record=True, force_terminal=True,
        color_system='truecolor', no_color=False, legacy_windows=False,
        highlight=False,
        width=max((line.cell_len for line in shown), default=1))
    for line in shown:
        console.print(line, soft_wrap=True)
    title = saxutils.escape(drawn.title, {'{': '{{', '}': '}}'})
    svg: str = console.export_svg(
        theme=terminal_theme.DEFAULT_TERMINAL_THEME,
        code_format=_SVG.replace('TITLE', title))
    return svg


def lines(drawn: drawing.Drawing, width: int = 80) -> list[rich_text.Text]:
    """Draw it.

    :param width: columns of the terminal, at least 40; no line is longer
    """
    size = max((len(tile.sign) for tile in (
        *(tile for host in drawn.hosts for state in host.states
          for tile in state.tiles.values()),
        *(tile for tile, _meaning in drawn.legend))), default=1)
    found = list(itertools.chain(
        _heading(drawn, width), *(
            _host(host, size, width) if len(host.states) == 1
            else _rows(host, size, width) for host in drawn.hosts),
        _legend(drawn, size, width)))
    for line in found:
        line.rstrip()
    return found


def _heading(drawn: drawing.Drawing, width: int) -> _Lines:
    about = drawn.hosts[0].about if drawn.hosts else ''
    title = ': '.join(filter(None, (drawn.title, about)))
    if title:
        yield from _wrapped(title, width, style=_TITLE)
    for remark in drawn.remarks:
        yield from _wrapped(remark, width, '  ', '  ')


def _wrapped(text: str, width: int, indent: str = '', further: str = '',
             style: str = '') -> _Lines:
    for line in printing.wrap(text, width, indent, further):
        yield rich_text.Text(line, style)


def _legend(drawn: drawing.Drawing, size: int,
            width: int) -> _Lines:
    entries = [(tile.sign, style(tile), meaning)
               for tile, meaning in drawn.legend]
    if any(len(node.caches) > 1 for host in drawn.hosts for node in host.nodes
           if len(host.states) == 1):
        entries.append(
            ('|', _LABEL, 'between cores that do not share an L3 cache'))
    indent = ' ' * (size + 3)
    for sign, look, meaning in entries:
        first, *more = printing.wrap(meaning, width, indent, indent)
        yield rich_text.Text.assemble(
            '  ', (sign.rjust(size), look), first[len(indent) - 1:])
        yield from map(rich_text.Text, more)


def _host(host: drawing.DrawnHost, size: int, width: int) -> _Lines:
    tiles = host.states[0].tiles
    for socket in host.sockets:
        for node in socket.nodes:
            where = ', '.join(filter(None, (
                socket.name, node.die,
                host_structure.memory(node.memory_mib))))
            title = '  '.join(filter(
                None, (f'node {node.id} ({where})', node.above)))
            if len(title) > width:
                title = f'{title[:width - 3]}...'
            yield rich_text.Text(title, _TITLE)
            yield from _cores(node, tiles, size, width)
            yield from _notes(node.below, width)
    if host.notes:
        yield rich_text.Text('no node', _TITLE)
        yield from _notes(host.notes, width)


def _notes(notes: Iterable[str], width: int) -> _Lines:
    for note in notes:
        yield from _wrapped(note, width, '  ', '    ')


# A block is a row of cores, in groups with a bar between them.
_Block = Sequence[Sequence[tuple[int, ...]]]


def _cores(node: drawing.DrawnNode, tiles: Mapping[int, drawing.Tile],
           size: int, width: int) -> _Lines:
    """The cores of a node; what finds no room goes to another block of rows.

    One core a block is drawn in any case.
    """
    if not node.cores:
        yield rich_text.Text('  no CPUs, so no NUMA cell of a guest', _LABEL)
        return
    blocks = (_blocks_of_caches(node, size, width) or
              _blocks_of_cores(node.cores, size, width))
    label_size = _label_size(blocks)
    for block in blocks:
        for thread, label in enumerate(_labels(block)):
            line = rich_text.Text().append(label.ljust(label_size), _LABEL)
            for number, group in enumerate(block):
                if number:
                    line.append(' |', _LABEL)
                for core in group:
                    # A core may have fewer threads, or have some offline.
                    sign, look = '', ''
                    if thread < len(core):
                        tile = tiles[core[thread]]
                        sign, look = tile.sign, style(tile)
                    line.append(' ').append(sign.rjust(size), look)
            yield line


def _blocks_of_caches(node: drawing.DrawnNode, size: int,
                      width: int) -> list[_Block]:
    """As many whole caches a block as there is room for; [] if not one."""
    caches = [[core.cpus for core in cache.cores] for cache in node.caches]
    for count in range(len(caches), 0, -1):
        blocks: list[_Block] = [caches[first:first + count] for first in
                                range(0, len(caches), count)]
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


def _rows(host: drawing.DrawnHost, size: int, width: int) -> _Lines:
    yield rich_text.Text(host.name, _TITLE)
    for node in host.nodes:
        cpus = [cpu for core in node.cores for cpu in core]
        states: Sequence[drawing.DrawnState] = host.states
        if all(state.tiles[cpu] == states[0].tiles[cpu]
               for state in states for cpu in cpus):
            states = [drawing.DrawnState(_AS_IT_IS, states[0].tiles)]
        name = f'  cell {node.id}  '
        for state in states:
            tiles = [state.tiles[cpu] for cpu in cpus]
            yield from _row(f'{name}{state.label.ljust(len(_AS_IT_IS))}  ',
                            tiles, drawing.free_count(node, state.tiles),
                            size, width)
            name = ' ' * len(name)
    yield from _notes(host.notes, width)


def _row(label: str, tiles: Sequence[drawing.Tile], free: int, size: int,
         width: int) -> _Lines:
    """One state of a cell; CPUs that find no room go to further lines."""
    end = f'  {free:3} free'
    # Several letters need a blank between them to be told apart.
    blank = ' ' * (size > 1)
    room = max(1, (width - len(label) - len(end)) // (size + len(blank)))
    for first in range(0, max(1, len(tiles)), room):
        yield rich_text.Text.assemble(
            (label, _LABEL), *((tile.sign.rjust(size) + blank, style(tile))
                               for tile in tiles[first:first + room]), end)
        label, end = ' ' * len(label), ''
