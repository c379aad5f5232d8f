# SPDX-License-Identifier: Apache-2.0
"""A drawing of hosts as SVG.

The file stands alone: no script, no font and no picture from elsewhere. It
brings its own light ground, so that it reads the same on a dark page. A
number, a sign or a hatching says what a CPU is used for as well as its colour
does. Each CPU has a tooltip.

A host in one state is drawn with its sockets, caches and cores. Of one in
several states each cell stands in a row, once for each state: a column is a
core, and CPUs next to each other that are used alike are one rectangle.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
import math
from xml.sax import saxutils

from nova_pinning import cpuset
from nova_pinning.presentation import drawing
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import svg_boxes
from nova_pinning.presentation import svg_style

_Box = svg_boxes.SvgBox

_TILE_WIDTH = 34
_TILE_HEIGHT = 29
_GAP = 5
_MARGIN = 24
_LEAST_WIDTH = 640
_NODE_WIDTH = 190
_SAMPLE_WIDTH = 26
# Of devices.
_LABEL_WIDTH = 50
_BADGE = 15
_BAR_HEIGHT = 14
_DEVICE_COLUMNS = 3
# Of rows of cores.
_CORE_WIDTH = svg_style.CORE_WIDTH
_THREAD_HEIGHT = 13
_CORES_A_LINE = 32
_CELL_WIDTH = 46
_FREE_WIDTH = 54
# A few hosts stand below each other, many in so many columns at most.
_HOSTS_A_COLUMN = 8
_MOST_COLUMNS = 4


def render(drawn: drawing.Drawing) -> str:
    """Draw it.

    :returns: a whole SVG document
    """
    hosts = [_host(host) if len(host.states) == 1 else _rows(host)
             for host in drawn.hosts]
    body = _Box(0, 0)
    if hosts:
        columns = 1
        if len(hosts) > _HOSTS_A_COLUMN:
            columns = min(_MOST_COLUMNS, svg_boxes.columns_for(hosts, 10, 1))
        body = svg_boxes.grid(hosts, columns, 10)
    inner = max(body.width, _LEAST_WIDTH)
    about = drawn.hosts[0].about if len(hosts) == 1 else ''
    heading = [
        svg_style.paragraph(text, style, inner) for text, style in (
            (drawn.title, 'title'), (about, 'sub'),
            *((remark, 'remark') for remark in drawn.remarks)) if text]
    content = svg_boxes.grid(
        [svg_boxes.grid(heading or [_Box(inner, 0)], 1, 1), body,
         _legend(drawn, inner)], 1, 16)
    width = math.ceil(inner + 2 * _MARGIN)
    height = math.ceil(content.height + 2 * _MARGIN)
    described = saxutils.escape('; '.join(drawn.remarks))
    return '\n'.join((
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f'<title>{saxutils.escape(drawn.title)}</title>',
        f'<desc>{described}</desc>',
        f'<defs>{svg_style.DEFINITIONS}</defs>',
        svg_boxes.rectangle(
            0.5, 0.5, width - 1, height - 1, 'np-ground', 12),
        svg_boxes.at(_MARGIN, _MARGIN, content),
        '</svg>', ''))


def _host(host: drawing.DrawnHost) -> _Box:
    """A host with all that it is made of, and what is of none of its nodes."""
    tiles = host.states[0].tiles
    parts = [svg_boxes.framed_grid(
        [_socket(socket, tiles) for socket in host.sockets], 'np-socket',
        2.2, 16)] if host.sockets else []
    if host.notes:
        width = max(_LEAST_WIDTH, *(part.width for part in parts))
        columns = min(_DEVICE_COLUMNS, len(host.notes))
        each = (width - 2 * svg_boxes.PADDING - 8 * (columns - 1)) / columns
        parts += svg_boxes.framed([svg_boxes.grid([
            svg_style.paragraph('Devices of no NUMA node', 'head', width),
            svg_boxes.grid([_note(note, each) for note in host.notes],
                           columns, 8)], 1, 4)], 'np-socket')
    return svg_boxes.grid(parts or [_Box(0, 0)], 1, 16)


def _socket(socket: drawing.DrawnSocket,
            tiles: Mapping[int, drawing.Tile]) -> _Box:
    nodes = svg_boxes.framed_grid(
        [_node(node, tiles) for node in socket.nodes], 'np-node', 1.1,
        svg_boxes.PADDING)
    name = svg_style.text(socket.name.capitalize(), 'name', 0, 13)
    return svg_boxes.grid([_Box(0, 16, name), nodes], 1, 8)


def _node(node: drawing.DrawnNode, tiles: Mapping[int, drawing.Tile]) -> _Box:
    caches = [_cache(cache, tiles) for cache in node.caches]
    if any(cache.name for cache in node.caches):
        caches = svg_boxes.framed(caches, 'np-l3', 6)
    inside = _Box(0, 16, svg_style.text('no CPUs', 'note', 0, 12))
    if caches:
        inside = svg_boxes.grid(
            caches, svg_boxes.columns_for(caches, 8, 1.9), 8)
    name = ', '.join(filter(None, (f'NUMA node {node.id}', node.die)))
    memory = host_structure.memory(node.memory_mib)
    width = max(
        inside.width, _NODE_WIDTH, svg_style.width(name, 'head') + 10
        + svg_style.width(memory, 'note'))
    head = (svg_style.text(name, 'head', 0, 12)
            + svg_style.text(memory, 'note', width, 12, 'end'))
    above = [
        _Box(width, 14, svg_style.text(
            svg_style.shorten(note.text, 'guest', width), 'guest', 0, 12,
            colour=note.guest)) for note in node.above]
    return svg_boxes.grid(
        [svg_boxes.grid([_Box(width, 15, head), *above], 1, 1), inside,
         *(_note(note, width) for note in node.below)], 1, 6)


def _cache(cache: drawing.DrawnCache,
           tiles: Mapping[int, drawing.Tile]) -> _Box:
    """The cores that share a cache, with a heading if the cache is known."""
    cores = [_core(core, tiles) for core in cache.cores]
    columns = svg_boxes.columns_for(cores, _GAP, 4 if cache.name else 3)
    grid = svg_boxes.grid(cores, columns, _GAP)
    if not cache.name:
        return grid
    width = svg_style.width(cache.name, 'small')
    return svg_boxes.grid([
        _Box(width, 9, svg_style.text(cache.name, 'small', 0, 8)), grid], 1, 4)


def _core(core: drawing.DrawnCore, tiles: Mapping[int, drawing.Tile]) -> _Box:
    each = _TILE_HEIGHT + 2
    height = len(core.cpus) * each + 2
    return _Box(_TILE_WIDTH + 4, height, svg_boxes.rectangle(
        0, 0, _TILE_WIDTH + 4, height, 'np-core', 5) + ''.join(
            svg_boxes.at(2, 2 + thread * each,
                         _cpu(cpu, core.where, tiles[cpu]))
            for thread, cpu in enumerate(core.cpus)))


def _cpu(cpu: int, where: str, tile: drawing.Tile) -> _Box:
    tip = saxutils.escape(f'CPU {cpu}: {tile.meaning}; {where}')
    middle = _TILE_WIDTH / 2
    # The upper half is shared with what stands in the corner.
    sign_middle = 10 if len(tile.corner) > 1 else middle
    white = svg_style.is_dark(tile)
    return _Box(_TILE_WIDTH, _TILE_HEIGHT, ''.join((
        f'<title>{tip}</title>',
        svg_boxes.rectangle(0, 0, _TILE_WIDTH, _TILE_HEIGHT,
                            svg_style.tile_class(tile), 4),
        svg_style.text(str(cpu), 'id', middle, 26, 'middle', white),
        svg_style.text(svg_style.shorten(
            svg_style.sign(tile), 'big', _TILE_WIDTH - 4), 'big',
            sign_middle, 15, 'middle', white),
        svg_style.text(svg_style.shorten(
            tile.corner, 'id', _TILE_WIDTH - 19), 'id', _TILE_WIDTH - 3, 8,
            'end', white))))


def _note(note: drawing.Note, width: float) -> _Box:
    """What is said of a node: with a bar, or in a frame if it has a label."""
    if note.parts or not note.label:
        told = svg_style.paragraph(note.text, 'row', width)
        return svg_boxes.grid(
            [_bar(note.parts, width), told] if note.parts else [told], 1, 1)
    room = width - _LABEL_WIDTH - 6 - (_BADGE + 4 if note.number else 0)
    told = svg_style.paragraph(note.text, 'row', room)
    height = told.height + 7
    svg = [
        svg_boxes.rectangle(0, 0, width, height,
                            'np-sold' if note.is_sold else 'np-device', 4),
        svg_style.text(note.label, 'tag', 6, 13.5),
        svg_boxes.at(_LABEL_WIDTH, 3, told)]
    if note.number:
        x = width - _BADGE - 3
        svg += [
            svg_boxes.rectangle(x, 2.5, _BADGE, _BADGE, 'np-badge',
                                _BADGE / 2),
            svg_style.text(str(note.number), 'id', x + _BADGE / 2, 13,
                           'middle', True)]
    return _Box(width, height, ''.join(svg))


def _bar(parts: Sequence[tuple[drawing.TileStyle, int]],
         width: float) -> _Box:
    # A part that is too thin to be seen gets some of the others' room.
    total = sum(amount for _style, amount in parts)
    shares = [max(amount / total, 0.015) for _style, amount in parts]
    svg = []
    x = 0.0
    for (style, _amount), share in zip(parts, shares):
        length = width * share / sum(shares)
        tile = drawing.Tile(style, style[0].upper())
        svg.append(svg_boxes.rectangle(
            x, 0, length, _BAR_HEIGHT, svg_style.tile_class(tile), 2))
        if length > 9:
            svg.append(svg_style.text(
                tile.sign, 'tag', x + length / 2, 11, 'middle',
                svg_style.is_dark(tile)))
        x += length
    return _Box(width, _BAR_HEIGHT, ''.join(svg))


def _rows(host: drawing.DrawnHost) -> _Box:
    """A host of which each cell is a row, with a column for each state."""
    parts = [_Box(0, 16, svg_style.text(host.name, 'name', 0, 13))]
    nodes = list(host.nodes)
    if nodes:
        cells = [_Box(_CELL_WIDTH, 12)]
        cells += (_Box(0, 12, svg_style.text(state.label, 'state', 0, 10))
                  for state in host.states)
        for node in nodes:
            cells.append(_Box(_CELL_WIDTH, 0, svg_style.text(
                f'cell {node.id}', 'head', 0, 12)))
            cells += (_row(node, state.tiles) for state in host.states)
        parts.append(svg_boxes.grid(cells, len(host.states) + 1, 7))
    parts += (_Box(0, 14, svg_style.text(note.text, 'note', 0, 11))
              for note in host.notes)
    return svg_boxes.framed([svg_boxes.grid(parts, 1, 5)], 'np-socket')[0]


def _row(node: drawing.DrawnNode, tiles: Mapping[int, drawing.Tile]) -> _Box:
    """The cores of a cell, and how many CPUs are free."""
    count = len(node.cores)
    if not count:
        return _Box(120, 14, svg_style.text('no CPUs', 'note', 0, 11))
    # Lines of about one length.
    each = math.ceil(count / math.ceil(count / _CORES_A_LINE))
    drawn = svg_boxes.grid(
        [_cores(node.cores[first:first + each], tiles)
         for first in range(0, count, each)], 1, 4)
    free = svg_style.text(f'{drawing.free_count(node, tiles)} free', 'note',
                          drawn.width + 6, 12)
    return _Box(drawn.width + _FREE_WIDTH, drawn.height, drawn.svg + free)


def _cores(cores: Sequence[tuple[int, ...]],
           tiles: Mapping[int, drawing.Tile]) -> _Box:
    threads = max(map(len, cores))
    width, height = len(cores) * _CORE_WIDTH, threads * _THREAD_HEIGHT
    svg = []
    x = 0
    for alike, group in itertools.groupby(
            cores, lambda core: tuple(tiles[cpu] for cpu in core)):
        members = tuple(group)
        if len(set(alike)) == 1:
            svg.append(_alike(members, alike[0], x, 0, len(alike)))
        else:
            svg += (_alike([(core[thread],) for core in members], tile, x,
                           thread, 1) for thread, tile in enumerate(alike))
        x += len(members) * _CORE_WIDTH
    # It must not keep the pointer from what has a tooltip.
    lines = svg_boxes.rectangle(0, 0, width, height, 'np-cores', 0)
    svg.append(f'<g pointer-events="none">{lines}</g>')
    return _Box(width, height, ''.join(svg))


def _alike(cores: Sequence[tuple[int, ...]], tile: drawing.Tile, x: float,
           thread: int, threads: int) -> str:
    """CPUs that are used alike.

    :param thread: the first of each core, counted from above
    :param threads: how many of each
    """
    cpus = cpuset.CpuSet(cpu for core in cores for cpu in core)
    width, height = len(cores) * _CORE_WIDTH, threads * _THREAD_HEIGHT
    y = thread * _THREAD_HEIGHT
    tip = saxutils.escape(f'{host_structure.cpus_text(cpus)}: {tile.meaning}')
    return ''.join((
        f'<g><title>{tip}</title>',
        svg_boxes.rectangle(x, y, width, height, svg_style.tile_class(tile),
                            2),
        svg_style.text(svg_style.sign(tile), 'letter', x + width / 2,
                       y + height / 2 + 4, 'middle', svg_style.is_dark(tile)),
        '</g>'))


def _legend(drawn: drawing.Drawing, width: float) -> _Box:
    """Entries in as many columns as there is room for, and notes."""
    entries = [_entry(tile, meaning, width) for tile, meaning in drawn.legend]
    parts = []
    if entries:
        widest = max(entry.width for entry in entries)
        columns = max(1, int((width + 14) // (widest + 14)))
        parts.append(svg_boxes.grid(entries, columns, 6))
    notes = ' '.join(_notes(drawn))
    if notes:
        parts.append(svg_style.paragraph(notes, 'note', width))
    return svg_boxes.grid(parts or [_Box(0, 0)], 1, 8)


def _entry(tile: drawing.Tile, meaning: str, width: float) -> _Box:
    told = svg_style.paragraph(meaning, 'legend', width - _SAMPLE_WIDTH - 8)
    return _Box(told.width + _SAMPLE_WIDTH + 8, max(18, told.height), ''.join((
        svg_boxes.rectangle(0, 0, _SAMPLE_WIDTH, 18,
                            svg_style.tile_class(tile), 4),
        svg_style.text(svg_style.sign(tile), 'legend', _SAMPLE_WIDTH / 2, 14,
                       'middle', svg_style.is_dark(tile)),
        svg_boxes.at(_SAMPLE_WIDTH + 8, 1, told))))


def _notes(drawn: drawing.Drawing) -> Iterator[str]:
    if any(len(host.states) == 1 for host in drawn.hosts):
        yield ('Each grey frame is a core with its threads; the small number '
               'is the CPU.')
    yield from drawn.notes
    if any(cache.name for host in drawn.hosts if len(host.states) == 1
           for node in host.nodes for cache in node.caches):
        yield 'Cores in one dashed frame share an L3 cache.'
