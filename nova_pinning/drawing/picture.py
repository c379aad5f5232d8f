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

"""A host drawn as SVG: its sockets, nodes, caches and cores.

The file stands alone: no script, no font and no picture from elsewhere. It
brings its own light ground, so that it reads the same on a dark page. Whoever
has something drawn says what each CPU looks like; a number, a sign or a
hatching is to say what it is used for as well as its colour does. Each CPU
has a tooltip.
"""

from collections.abc import Callable
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
from nova_pinning.drawing import boxes
from nova_pinning.drawing import topology
from nova_pinning.host import model

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
class Tile:
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


class Text(typing.NamedTuple):
    """A line of text.

    :param style: the class that gives its size and weight
    :param size: of its letters
    """

    content: str
    style: str = 'np-note'
    size: float = 11.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
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

    description: model.HostDescription
    title: str
    remarks: Sequence[str]
    tiles: Mapping[int, Tile]
    legend: Sequence[tuple[Tile, str]]
    notes: Sequence[str]
    heads: Mapping[int, Sequence[Text]] = dataclasses.field(
        default_factory=dict)
    feet: Mapping[int, Callable[[float], boxes.Box]] = dataclasses.field(
        default_factory=dict)
    appendix: Callable[[float], boxes.Box] | None = None
    style: str
    definitions: str


def render(picture: Picture) -> str:
    """Draw it.

    :returns: a whole SVG document
    """
    host = _host(picture)
    inner = max(host.width, _LEAST_WIDTH)
    parts = [_heading(picture, inner), host]
    if picture.appendix is not None:
        parts.append(picture.appendix(inner))
    parts.append(_legend(picture, inner))
    whole = boxes.grid(parts, 1, 16)
    width = math.ceil(inner + 2 * _MARGIN)
    height = math.ceil(whole.height + 2 * _MARGIN)
    title = saxutils.escape(picture.title)
    remarks = saxutils.escape('; '.join(picture.remarks))
    ground = boxes.rectangle(
        0.5, 0.5, width - 1, height - 1, 'np-ground', 12)
    return '\n'.join((
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f'<title>{title}</title>',
        f'<desc>{remarks}</desc>' if remarks else '<desc/>',
        f'<defs><style>{_STYLE}{picture.style}</style>'
        f'{picture.definitions}</defs>',
        ground,
        boxes.at(_MARGIN, _MARGIN, whole),
        '</svg>', ''))


def framed(
    inner: Sequence[boxes.Box], style: str, padding: float = PADDING,
) -> list[boxes.Box]:
    """Each box in a frame, all frames of one size."""
    width = max((box.width for box in inner), default=0) + 2 * padding
    height = max((box.height for box in inner), default=0) + 2 * padding
    return [
        boxes.Box(width, height, boxes.rectangle(
            0, 0, width, height, style, 8) + boxes.at(padding, padding, box))
        for box in inner]


def pieces(text: str) -> Iterator[str]:
    """Where a text may be broken: CPU lists have commas, but no blanks."""
    return iter(re.split(r'(?<=[, ])', text))


def _heading(picture: Picture, width: float) -> boxes.Box:
    description = picture.description
    # Bold letters are wider.
    title = boxes.shorten(picture.title, width, 24)
    svg = [boxes.text(title, 0, 20, 'np-t np-title')]
    about = [topology.summary(description)]
    if description.cpu_model.model:
        about.append(topology.printable(description.cpu_model.model))
    y = 42.0
    svg.append(boxes.text(
        boxes.shorten(' · '.join(about), width, 13), 0, y, 'np-t np-sub'))
    for remark in picture.remarks:
        for line in boxes.wrap(pieces(remark), width, 14):
            y += 20
            svg.append(boxes.text(line, 0, y, 'np-t np-guest'))
    return boxes.Box(width, y + 4, ''.join(svg))


class _Host:
    """A picture, with what is worked out of the host once."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.l3_numbers = topology.l3_numbers(picture.description)
        self.dies = topology.dies(picture.description)
        self.l3_sizes = topology.l3_sizes_kib(picture.description)

    def sockets_of(self, node: model.Node) -> cpuset.CpuSet:
        return (topology.sockets(self.picture.description, node.cpus)
                or cpuset.CpuSet([node.socket]))


def _host(picture: Picture) -> boxes.Box:
    host = _Host(picture)
    nodes = sorted(picture.description.nodes, key=host.sockets_of)
    sockets = [
        _socket(numbers, list(members), host)
        for numbers, members in itertools.groupby(
            nodes, key=host.sockets_of)]
    return _framed_grid(sockets, 'np-socket', 2.2, 16)


def _socket(
    numbers: cpuset.CpuSet, nodes: list[model.Node], host: _Host,
) -> boxes.Box:
    """A socket; several, where a node reaches over them."""
    name = topology.numbered('Socket', numbers)
    nodes_grid = _framed_grid(
        [_node(node, host) for node in nodes], 'np-node', 1.1, PADDING)
    head = boxes.Box(0, 16, boxes.text(name, 0, 13, 'np-t np-name'))
    return boxes.grid([head, nodes_grid], 1, 8)


def _framed_grid(
    inner: Sequence[boxes.Box], style: str, ratio: float, gap: float,
) -> boxes.Box:
    """Boxes in frames, all as wide, and those of a row as high.

    :param ratio: of width to height, which the whole comes near
    """
    columns = boxes.columns_for(framed(inner, style), gap, ratio)
    widest = boxes.Box(max(box.width for box in inner), 0)
    frames: list[boxes.Box] = []
    for first in range(0, len(inner), columns):
        row = inner[first:first + columns]
        frames += framed([*row, widest], style)[:-1]
    return boxes.grid(frames, columns, gap)


def _node(node: model.Node, host: _Host) -> boxes.Box:
    domains = [
        _domain(number, cores, node, host)
        for number, cores in topology.domains(node, host.l3_numbers)]
    if host.l3_numbers:
        domains = framed(domains, 'np-l3', 6)
    if domains:
        columns = boxes.columns_for(domains, 8, 1.9)
        inside = boxes.grid(domains, columns, 8)
    else:
        inside = boxes.Box(
            0, 16, boxes.text('no CPUs', 0, 12, 'np-t np-note'))
    name, memory = _node_name(node, host), topology.memory(node.memory_mib)
    # Bold letters are wider than others.
    width = max(inside.width, _NODE_WIDTH, boxes.text_width(name, 12.5 * 1.15)
                + 10 + boxes.text_width(memory, 11.5))
    parts = [_node_head(node, host, width), inside]
    foot = host.picture.feet.get(node.id)
    if foot is not None:
        parts.append(foot(width))
    return boxes.grid(parts, 1, 6)


def _node_name(node: model.Node, host: _Host) -> str:
    dies = sorted({host.dies[core[0]] for core in node.cores
                   if core[0] in host.dies})
    die = f', die {dies[0]}' if len(dies) == 1 else ''
    return f'NUMA node {node.id}{die}'


def _node_head(
    node: model.Node, host: _Host, width: float,
) -> boxes.Box:
    svg = [
        boxes.text(_node_name(node, host), 0, 12, 'np-t np-head'),
        boxes.text(topology.memory(node.memory_mib), width, 12,
                   'np-t np-note', 'end')]
    y = 12.0
    for line in host.picture.heads.get(node.id, ()):
        # One more unit below what is larger.
        y += 15 if line.size < 12 else 16
        svg.append(boxes.text(boxes.shorten(line.content, width, line.size),
                              0, y, f'np-t {line.style}'))
    return boxes.Box(width, y + 3, ''.join(svg))


def _domain(
    number: int | None, cores: Sequence[tuple[int, ...]], node: model.Node,
    host: _Host,
) -> boxes.Box:
    """The cores that share a cache, with a heading if the cache is known."""
    inner = [_core(core, number, node, host) for core in cores]
    columns = boxes.columns_for(inner, _GAP, 4 if host.l3_numbers else 3)
    grid = boxes.grid(inner, columns, _GAP)
    if not host.l3_numbers:
        return grid
    name, least = 'no L3 known', 60
    if number is not None:
        name = f'L3 cache {number}'
        size_kib = host.l3_sizes.get(cores[0][0])
        if size_kib:
            name, least = f'{name}, {topology.memory(size_kib / 1024)}', 110
    head = boxes.text(
        boxes.shorten(name, max(grid.width, least), 9.5), 0, 8,
        'np-t np-small')
    return boxes.grid([boxes.Box(least, 9, head), grid], 1, 4)


def _core(
    core: tuple[int, ...], domain: int | None, node: model.Node,
    host: _Host,
) -> boxes.Box:
    socket = topology.sockets(
        host.picture.description, cpuset.CpuSet(core))
    place = f'node {node.id}, socket {socket}'
    if core[0] in host.dies:
        place = f'{place}, die {host.dies[core[0]]}'
    if len(core) > 1:
        place = f'core of CPUs {cpuset.CpuSet(core)}, {place}'
    if domain is not None:
        place = f'{place}, L3 cache {domain}'
    height = len(core) * (TILE_HEIGHT + 2) + 2
    svg = [boxes.rectangle(0, 0, TILE_WIDTH + 4, height, 'np-core', 5)]
    for thread, cpu in enumerate(core):
        svg.append(boxes.at(
            2, 2 + thread * (TILE_HEIGHT + 2),
            _cpu(cpu, place, host.picture.tiles[cpu])))
    return boxes.Box(TILE_WIDTH + 4, height, ''.join(svg))


def _cpu(cpu: int, place: str, tile: Tile) -> boxes.Box:
    tip = saxutils.escape(f'CPU {cpu}: {tile.meaning}; {place}')
    middle = TILE_WIDTH / 2
    # The upper half is shared with what stands in the corner.
    sign_middle = 10 if len(tile.corner) > 1 else middle
    corner = boxes.shorten(tile.corner, TILE_WIDTH - 19, 8.5)
    white = ' np-white' if tile.is_dark else ''
    svg = [
        f'<title>{tip}</title>',
        boxes.rectangle(0, 0, TILE_WIDTH, TILE_HEIGHT, tile.style, 4),
        boxes.text(str(cpu), middle, 26, f'np-t np-id{white}', 'middle'),
        boxes.text(boxes.shorten(tile.sign, TILE_WIDTH - 4, 14), sign_middle,
                   15, f'np-t np-big{white}', 'middle'),
        boxes.text(corner, TILE_WIDTH - 3, 8, f'np-t np-id{white}', 'end')]
    return boxes.Box(TILE_WIDTH, TILE_HEIGHT, ''.join(svg))


def _legend(picture: Picture, width: float) -> boxes.Box:
    svg = []
    y = 0.0
    for tile, meaning in picture.legend:
        white = ' np-white' if tile.is_dark else ''
        sample = boxes.rectangle(0, 0, 26, 18, tile.style, 4) + boxes.text(
            tile.sign, 13, 14, f'np-t np-legend{white}', 'middle')
        svg.append(boxes.at(0, y, boxes.Box(26, 18, sample)))
        for line in boxes.wrap(pieces(meaning), width - 34, 12.5):
            svg.append(boxes.text(line, 34, y + 13.5, 'np-t np-legend'))
            y += 17
        y += 7
    notes = ['Each grey frame is a core with its threads; the small number '
             'is the CPU.', *picture.notes]
    if topology.l3_numbers(picture.description):
        notes.append('Cores in one dashed frame share an L3 cache.')
    for line in boxes.wrap(pieces(' '.join(notes)), width, 11.5):
        svg.append(boxes.text(line, 0, y + 10, 'np-t np-note'))
        y += 15
    return boxes.Box(width, y, ''.join(svg))
