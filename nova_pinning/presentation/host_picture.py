# SPDX-License-Identifier: Apache-2.0
"""A host drawn as SVG: its sockets, nodes, caches and cores.

The file stands alone: no script, no font and no picture from elsewhere. It
brings its own light ground, so that it reads the same on a dark page. Whoever
has something drawn says what each CPU looks like; a number, a sign or a
hatching is to say what it is used for as well as its colour does. Each CPU
has a tooltip.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import math
import re
import typing
from xml.sax import saxutils

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import svg_boxes
from nova_pinning import spelling

TILE_WIDTH = 34
TILE_HEIGHT = 29
PADDING = 10
_GAP = 5
_MARGIN = 24
_LEAST_WIDTH = 640
_NODE_WIDTH = 190

# Class names have a prefix: inside an HTML page they hold for the whole page.
_STYLE = ''.join([
    '.np-t{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,'
    'Arial,sans-serif;fill:#1d2430}',
    '.np-title{font-size:22px;font-weight:700}',
    '.np-sub{font-size:13px;fill:#566072}',
    '.np-guest{font-size:14px}',
    '.np-name{font-size:15px;font-weight:600}',
    '.np-head{font-size:12.5px;font-weight:600}',
    '.np-note{font-size:11.5px;fill:#566072}',
    '.np-small{font-size:9.5px;fill:#566072}',
    '.np-legend{font-size:12.5px}',
    '.np-big{font-size:14px;font-weight:700}',
    '.np-id{font-size:8.5px;fill:#3c4656}',
    '.np-white{fill:#fff}',
    '.np-ground{fill:#fbfcfe;stroke:#c9d0db}',
    '.np-socket{fill:#eef1f6;stroke:#c3cad6}',
    '.np-node{fill:#fff;stroke:#aab4c4}',
    '.np-l3{fill:none;stroke:#8d98aa;stroke-dasharray:4 3}',
    '.np-core{fill:#e3e8f0;stroke:#bcc5d2}',
])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PictureTile:
    """How one CPU is drawn.

    :param style: the class of its rectangle
    :param sign: in its middle, may be ''
    :param meaning: for the tooltip
    :param corner: a second sign, a small one; beside a longer one there is
        room for a single letter as sign
    :param is_dark: whether letters on it are white
    """

    style: str
    sign: str
    meaning: str
    corner: str = ''
    is_dark: bool = False


class PictureText(typing.NamedTuple):
    """A line of text.

    :param style: the class that gives its size and weight
    :param size: of its letters
    """

    content: str
    style: str = 'np-note'
    size: float = 11.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostPicture:
    """What is to be drawn.

    :param remarks: sentences below the title
    :param tiles: by CPU id, all CPUs of the host
    :param legend: a tile as a sample, and what it means
    :param notes: sentences below the legend
    :param heads: lines below the name of each node, by its id; as many for
        each, so that the nodes' CPUs stand level
    :param feet: what is drawn below a node's cores, by its id and for a width
    :param appendix: what is drawn below the sockets, for a width
    :param style: CSS of the tiles
    :param definitions: patterns that it uses
    """

    description: host_model.HostDescription
    title: str
    remarks: Sequence[str]
    tiles: Mapping[int, PictureTile]
    legend: Sequence[tuple[PictureTile, str]]
    notes: Sequence[str]
    heads: Mapping[int, Sequence[PictureText]] = dataclasses.field(
        default_factory=dict)
    feet: Mapping[int, Callable[[float],
                                svg_boxes.SvgBox]] = dataclasses.field(
                                    default_factory=dict)
    appendix: Callable[[float], svg_boxes.SvgBox] | None = None
    style: str
    definitions: str


def render(picture: HostPicture) -> str:
    """Draw it.

    :returns: a whole SVG document
    """
    host = _host(picture)
    inner = max(host.width, _LEAST_WIDTH)
    parts = [_heading(picture, inner), host]
    if picture.appendix is not None:
        parts.append(picture.appendix(inner))
    parts.append(_legend(picture, inner))
    return page(svg_boxes.grid(parts, 1, 16), inner, picture.title,
                picture.remarks, picture.style, picture.definitions)


def page(drawn: svg_boxes.SvgBox, inner: float, title: str,
         remarks: Iterable[str], style: str, definitions: str) -> str:
    """A drawing on its ground, with what all drawings of hosts share.

    :param inner: the width of the page without its margins
    :param title: for readers of pages, with the remarks
    :param style: more CSS
    :param definitions: patterns that it uses
    :returns: a whole SVG document
    """
    width = math.ceil(inner + 2 * _MARGIN)
    height = math.ceil(drawn.height + 2 * _MARGIN)
    described = saxutils.escape('; '.join(remarks))
    background = svg_boxes.rectangle(
        0.5, 0.5, width - 1, height - 1, 'np-ground', 12)
    return '\n'.join((
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f'<title>{saxutils.escape(title)}</title>',
        f'<desc>{described}</desc>' if described else '<desc/>',
        f'<defs><style>{_STYLE}{style}</style>{definitions}</defs>',
        background,
        svg_boxes.at(_MARGIN, _MARGIN, drawn),
        '</svg>', ''))


def framed(
    inner: Sequence[svg_boxes.SvgBox], style: str, padding: float = PADDING,
) -> list[svg_boxes.SvgBox]:
    """Each box in a frame, all frames of one size."""
    width = max((box.width for box in inner), default=0) + 2 * padding
    height = max((box.height for box in inner), default=0) + 2 * padding
    return [
        svg_boxes.SvgBox(
            width, height,
            svg_boxes.rectangle(0, 0, width, height, style, 8) +
            svg_boxes.at(padding, padding, box)) for box in inner]


def pieces(text: str) -> Iterator[str]:
    """Where a text may be broken: CPU lists have commas, but no blanks."""
    return iter(re.split(r'(?<=[, ])', text))


def _heading(picture: HostPicture, width: float) -> svg_boxes.SvgBox:
    description = picture.description
    # Bold letters are wider.
    title = svg_boxes.shorten(picture.title, width, 24)
    svg = [svg_boxes.text(title, 0, 20, 'np-t np-title')]
    about = [host_structure.summary(description)]
    if description.cpu_model.model:
        about.append(spelling.printable(description.cpu_model.model))
    y = 42.0
    svg.append(svg_boxes.text(
        svg_boxes.shorten(' · '.join(about), width, 13), 0, y, 'np-t np-sub'))
    for remark in picture.remarks:
        for line in svg_boxes.wrap(pieces(remark), width, 14):
            y += 20
            svg.append(svg_boxes.text(line, 0, y, 'np-t np-guest'))
    return svg_boxes.SvgBox(width, y + 4, ''.join(svg))


class _PicturedHost:
    """A picture, with what is worked out of the host once."""

    def __init__(self, picture: HostPicture) -> None:
        self.picture = picture
        self.l3_numbers = host_structure.l3_numbers(picture.description)
        self.dies = host_structure.dies(picture.description)
        self.l3_sizes = host_structure.l3_sizes_kib(picture.description)

    def sockets_of(self, node: host_model.NumaNode) -> tuple[int, ...]:
        return (host_structure.sockets(self.picture.description, node.cpus)
                or (node.socket,))


def _host(picture: HostPicture) -> svg_boxes.SvgBox:
    host = _PicturedHost(picture)
    nodes = sorted(picture.description.nodes, key=host.sockets_of)
    sockets = [
        _socket(ids, list(members), host)
        for ids, members in itertools.groupby(
            nodes, key=host.sockets_of)]
    return _framed_grid(sockets, 'np-socket', 2.2, 16)


def _socket(
    ids: tuple[int, ...],
    nodes: list[host_model.NumaNode],
    host: _PicturedHost,
) -> svg_boxes.SvgBox:
    """A socket; several, where a node reaches over them."""
    name = host_structure.socket_text(
        host.picture.description, ids).capitalize()
    nodes_grid = _framed_grid(
        [_node(node, host) for node in nodes], 'np-node', 1.1, PADDING)
    head = svg_boxes.SvgBox(0, 16, svg_boxes.text(name, 0, 13, 'np-t np-name'))
    return svg_boxes.grid([head, nodes_grid], 1, 8)


def _framed_grid(
    inner: Sequence[svg_boxes.SvgBox], style: str, ratio: float, gap: float,
) -> svg_boxes.SvgBox:
    """Boxes in frames, all as wide, and those of a row as high.

    :param ratio: of width to height, which the whole comes near
    """
    columns = svg_boxes.columns_for(framed(inner, style), gap, ratio)
    widest = svg_boxes.SvgBox(max(box.width for box in inner), 0)
    frames: list[svg_boxes.SvgBox] = []
    for first in range(0, len(inner), columns):
        row = inner[first:first + columns]
        frames += framed([*row, widest], style)[:-1]
    return svg_boxes.grid(frames, columns, gap)


def _node(node: host_model.NumaNode, host: _PicturedHost) -> svg_boxes.SvgBox:
    domains = [
        _domain(number, cores, node, host)
        for number, cores in host_structure.domains(node, host.l3_numbers)]
    if host.l3_numbers:
        domains = framed(domains, 'np-l3', 6)
    if domains:
        columns = svg_boxes.columns_for(domains, 8, 1.9)
        inside = svg_boxes.grid(domains, columns, 8)
    else:
        inside = svg_boxes.SvgBox(
            0, 16, svg_boxes.text('no CPUs', 0, 12, 'np-t np-note'))
    name, memory = _node_name(node,
                              host), host_structure.memory(node.memory_mib)
    # Bold letters are wider than others.
    width = max(
        inside.width, _NODE_WIDTH,
        svg_boxes.text_width(name, 12.5 * 1.15) + 10 +
        svg_boxes.text_width(memory, 11.5))
    parts = [_node_head(node, host, width), inside]
    foot = host.picture.feet.get(node.id)
    if foot is not None:
        parts.append(foot(width))
    return svg_boxes.grid(parts, 1, 6)


def _node_name(node: host_model.NumaNode, host: _PicturedHost) -> str:
    dies = sorted({host.dies[core[0]] for core in node.cores
                   if core[0] in host.dies})
    die = f', die {dies[0]}' if len(dies) == 1 else ''
    return f'NUMA node {node.id}{die}'


def _node_head(
    node: host_model.NumaNode, host: _PicturedHost, width: float,
) -> svg_boxes.SvgBox:
    svg = [
        svg_boxes.text(_node_name(node, host), 0, 12, 'np-t np-head'),
        svg_boxes.text(host_structure.memory(node.memory_mib), width, 12,
                       'np-t np-note', 'end')]
    y = 12.0
    for line in host.picture.heads.get(node.id, ()):
        # One more unit below what is larger.
        y += 15 if line.size < 12 else 16
        svg.append(
            svg_boxes.text(svg_boxes.shorten(line.content, width, line.size),
                           0, y, f'np-t {line.style}'))
    return svg_boxes.SvgBox(width, y + 3, ''.join(svg))


def _domain(
    number: int | None,
    cores: Sequence[tuple[int, ...]],
    node: host_model.NumaNode,
    host: _PicturedHost,
) -> svg_boxes.SvgBox:
    """The cores that share a cache, with a heading if the cache is known."""
    inner = [_core(core, number, node, host) for core in cores]
    columns = svg_boxes.columns_for(inner, _GAP, 4 if host.l3_numbers else 3)
    grid = svg_boxes.grid(inner, columns, _GAP)
    if not host.l3_numbers:
        return grid
    name, least = 'no L3 known', 60
    if number is not None:
        name = f'L3 cache {number}'
        size_kib = host.l3_sizes.get(cores[0][0])
        if size_kib:
            name += f', {host_structure.memory(size_kib / 1024)}'
            least = 110
    head = svg_boxes.text(
        svg_boxes.shorten(name, max(grid.width, least), 9.5), 0, 8,
        'np-t np-small')
    return svg_boxes.grid([svg_boxes.SvgBox(least, 9, head), grid], 1, 4)


def _core(
    core: tuple[int, ...], domain: int | None, node: host_model.NumaNode,
    host: _PicturedHost,
) -> svg_boxes.SvgBox:
    sockets = host_structure.socket_text(
        host.picture.description, host_structure.sockets(
            host.picture.description, cpuset.CpuSet(core)))
    description = f'node {node.id}, {sockets}'
    if core[0] in host.dies:
        description = f'{description}, die {host.dies[core[0]]}'
    if len(core) > 1:
        description = f'core of CPUs {cpuset.CpuSet(core)}, {description}'
    if domain is not None:
        description = f'{description}, L3 cache {domain}'
    height = len(core) * (TILE_HEIGHT + 2) + 2
    svg = [svg_boxes.rectangle(0, 0, TILE_WIDTH + 4, height, 'np-core', 5)]
    for thread, cpu in enumerate(core):
        svg.append(svg_boxes.at(
            2, 2 + thread * (TILE_HEIGHT + 2),
            _cpu(cpu, description, host.picture.tiles[cpu])))
    return svg_boxes.SvgBox(TILE_WIDTH + 4, height, ''.join(svg))


def _cpu(cpu: int, position: str, tile: PictureTile) -> svg_boxes.SvgBox:
    tip = saxutils.escape(f'CPU {cpu}: {tile.meaning}; {position}')
    middle = TILE_WIDTH / 2
    # The upper half is shared with what stands in the corner.
    sign_middle = 10 if len(tile.corner) > 1 else middle
    corner = svg_boxes.shorten(tile.corner, TILE_WIDTH - 19, 8.5)
    white = ' np-white' if tile.is_dark else ''
    svg = [
        f'<title>{tip}</title>',
        svg_boxes.rectangle(0, 0, TILE_WIDTH, TILE_HEIGHT, tile.style, 4),
        svg_boxes.text(str(cpu), middle, 26, f'np-t np-id{white}', 'middle'),
        svg_boxes.text(svg_boxes.shorten(tile.sign, TILE_WIDTH - 4, 14),
                       sign_middle, 15, f'np-t np-big{white}', 'middle'),
        svg_boxes.text(corner, TILE_WIDTH - 3, 8, f'np-t np-id{white}', 'end')]
    return svg_boxes.SvgBox(TILE_WIDTH, TILE_HEIGHT, ''.join(svg))


def _legend(picture: HostPicture, width: float) -> svg_boxes.SvgBox:
    svg = []
    y = 0.0
    for tile, meaning in picture.legend:
        white = ' np-white' if tile.is_dark else ''
        sample = svg_boxes.rectangle(
            0, 0, 26, 18, tile.style, 4) + svg_boxes.text(
                tile.sign, 13, 14, f'np-t np-legend{white}', 'middle')
        svg.append(svg_boxes.at(0, y, svg_boxes.SvgBox(26, 18, sample)))
        for line in svg_boxes.wrap(pieces(meaning), width - 34, 12.5):
            svg.append(svg_boxes.text(line, 34, y + 13.5, 'np-t np-legend'))
            y += 17
        y += 7
    notes = ['Each grey frame is a core with its threads; the small number '
             'is the CPU.', *picture.notes]
    if host_structure.l3_numbers(picture.description):
        notes.append('Cores in one dashed frame share an L3 cache.')
    for line in svg_boxes.wrap(pieces(' '.join(notes)), width, 11.5):
        svg.append(svg_boxes.text(line, 0, y + 10, 'np-t np-note'))
        y += 15
    return svg_boxes.SvgBox(width, y, ''.join(svg))
