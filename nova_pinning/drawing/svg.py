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

"""A host with a guest on it, drawn as SVG.

The file stands alone: no script, no font and no picture from elsewhere. It
brings its own light ground, so that it reads the same on a dark page. What a
CPU is used for is said by a number, a sign or a hatching as well as by its
colour, and each CPU has a tooltip.
"""

import collections
from collections.abc import Iterator
from collections.abc import Sequence
import itertools
import math
import re
from xml.sax import saxutils

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.drawing import boxes
from nova_pinning.drawing import plan as plan_lib
from nova_pinning.host import model

_TILE_WIDTH = 34
_TILE_HEIGHT = 29
_GAP = 5
_PADDING = 10
_MARGIN = 24
_LEAST_WIDTH = 640

# White letters on these have a contrast of 4.5 or more (WCAG 2 AA).
_GUEST_COLOURS = ('#1a5fb4', '#a03c00', '#1b6e3c', '#7a3b96',
                  '#8a5a00', '#00687a', '#a1295b', '#4d5566')

#: The sign on a CPU without a vCPU number.
_SIGNS = {
    plan_lib.Kind.EMULATOR: 'E',
    plan_lib.Kind.FLOATING: '~',
    plan_lib.Kind.TAKEN: '×',
    plan_lib.Kind.FREE: '',
    plan_lib.Kind.SHARED: ':',
    plan_lib.Kind.KEPT: '#',
}

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
    '.np-free{fill:#fff;stroke:#8d98aa}',
    '.np-shared{fill:#d9eef2;stroke:#4c8f9d}',
    '.np-floating{fill:#bfe0fa;stroke:#1a5fb4;stroke-width:1.6;'
    'stroke-dasharray:4 2}',
    '.np-emulator{fill:#ffe08a;stroke:#8a5a00;stroke-width:1.6}',
    '.np-taken{fill:url(#np-hatch);stroke:#6b7585}',
    '.np-kept{fill:url(#np-dots);stroke:#98a2b3}',
    *(f'.np-pinned{cell}{{fill:{colour};stroke:#fff;stroke-width:0.6}}'
      f'.np-cell{cell}{{fill:{colour};font-size:12px;font-weight:600}}'
      for cell, colour in enumerate(_GUEST_COLOURS)),
])
_DEFINITIONS = (
    '<pattern id="np-hatch" width="6" height="6" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#e4e7ec"/>'
    '<rect width="1.8" height="6" fill="#c3c9d3"/></pattern>'
    '<pattern id="np-dots" width="5" height="5" '
    'patternUnits="userSpaceOnUse"><rect width="5" height="5" '
    'fill="#e6e9ee"/><circle cx="2.5" cy="2.5" r="0.8" fill="#b6bdc9"/>'
    '</pattern>')


def render(
    description: model.HostDescription,
    used: cpuset.CpuSet = cpuset.CpuSet(),
    placement: plan_lib.Placement | None = None,
) -> str:
    """Draw a host with a guest on it.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    :returns: a whole SVG document
    """
    found = plan_lib.plan(description, used, placement)
    host = _host(found)
    inner = max(host.width, _LEAST_WIDTH)
    parts = [_heading(found, inner), host, _legend(found, inner)]
    whole = boxes.grid(parts, 1, 16)
    width = math.ceil(inner + 2 * _MARGIN)
    height = math.ceil(whole.height + 2 * _MARGIN)
    title = saxutils.escape(plan_lib.title(found))
    remarks = saxutils.escape('; '.join(plan_lib.remarks(found)))
    ground = boxes.rectangle(
        0.5, 0.5, width - 1, height - 1, 'np-ground', 12)
    return '\n'.join((
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f'<title>{title}</title>',
        f'<desc>{remarks}</desc>' if remarks else '<desc/>',
        f'<defs><style>{_STYLE}</style>{_DEFINITIONS}</defs>',
        ground,
        boxes.at(_MARGIN, _MARGIN, whole),
        '</svg>', ''))


def _heading(found: plan_lib.Plan, width: float) -> boxes.Box:
    description = found.description
    # Bold letters are wider.
    title = boxes.shorten(plan_lib.title(found), width, 24)
    svg = [boxes.text(title, 0, 20, 'np-t np-title')]
    about = [plan_lib.summary(description)]
    if description.cpu_model.model:
        about.append(plan_lib.printable(description.cpu_model.model))
    y = 42.0
    svg.append(boxes.text(
        boxes.shorten(' · '.join(about), width, 13), 0, y, 'np-t np-sub'))
    for remark in plan_lib.remarks(found):
        for line in boxes.wrap(_pieces(remark), width, 14):
            y += 20
            svg.append(boxes.text(line, 0, y, 'np-t np-guest'))
    return boxes.Box(width, y + 4, ''.join(svg))


def _host(found: plan_lib.Plan) -> boxes.Box:
    nodes = sorted(found.description.nodes, key=lambda node: node.socket)
    sockets = [
        _socket(socket, list(members), found)
        for socket, members in itertools.groupby(
            nodes, key=lambda node: node.socket)]
    return boxes.grid(sockets, boxes.columns_for(sockets, 16, 2.2), 16)


def _socket(
    socket: int, nodes: list[model.Node], found: plan_lib.Plan,
) -> boxes.Box:
    inner = _framed([_node(node, found) for node in nodes], 'np-node')
    columns = boxes.columns_for(inner, _PADDING, 1.1)
    head = boxes.Box(
        0, 16, boxes.text(f'Socket {socket}', 0, 13, 'np-t np-name'))
    inside = boxes.grid(
        [head, boxes.grid(inner, columns, _PADDING)], 1, 8)
    return _framed([inside], 'np-socket')[0]


def _node(node: model.Node, found: plan_lib.Plan) -> boxes.Box:
    domains = [
        _domain(number, cores, node, found)
        for number, cores in found.domains(node)]
    if found.l3_numbers:
        domains = _framed(domains, 'np-l3', 6)
    if domains:
        columns = boxes.columns_for(domains, 8, 1.9)
        inside = boxes.grid(domains, columns, 8)
    else:
        inside = boxes.Box(
            0, 16, boxes.text('no CPUs', 0, 12, 'np-t np-note'))
    width = max(inside.width, 190)
    return boxes.grid([_node_head(node, found, width), inside], 1, 6)


def _node_head(
    node: model.Node, found: plan_lib.Plan, width: float,
) -> boxes.Box:
    memory = quantities.shown_memory(node.memory_mib)
    svg = [
        boxes.text(f'NUMA node {node.id}', 0, 12, 'np-t np-head'),
        boxes.text(memory, width, 12, 'np-t np-note', 'end')]
    y = 12.0
    # A line that one node has, all have, so that their CPUs stand level.
    nodes = found.description.nodes
    if any(_equipment(other, found) for other in nodes):
        y += 15
        line = boxes.shorten(_equipment(node, found), width, 11.5)
        svg.append(boxes.text(line, 0, y, 'np-t np-note'))
    if any(found.guest_on(other) for other in nodes):
        y += 16
        cell = min(found.guest_cells(node), default=0) % len(_GUEST_COLOURS)
        line = boxes.shorten(found.guest_on(node), width, 12.5)
        svg.append(boxes.text(line, 0, y, f'np-t np-cell{cell}'))
    return boxes.Box(width, y + 3, ''.join(svg))


def _equipment(node: model.Node, found: plan_lib.Plan) -> str:
    """Huge pages and devices of a node: '160 × 1 GiB, 2 × nvme'."""
    parts = [f'{pages} × {quantities.shown_page_size(size)} pages'
             for size, pages in sorted(node.huge_pages.items()) if pages]
    devices = collections.Counter(
        plan_lib.printable(device.alias)
        for device in found.description.pci_devices
        if device.alias and device.numa_node == node.id)
    parts += [f'{number} × {alias}'
              for alias, number in sorted(devices.items())]
    return ', '.join(parts)


def _domain(
    number: int | None, cores: Sequence[tuple[int, ...]], node: model.Node,
    found: plan_lib.Plan,
) -> boxes.Box:
    """The cores that share a cache, with a heading if the cache is known."""
    inner = [_core(core, number, node, found) for core in cores]
    columns = boxes.columns_for(inner, _GAP, 4 if found.l3_numbers else 3)
    grid = boxes.grid(inner, columns, _GAP)
    if not found.l3_numbers:
        return grid
    name = 'no L3 known' if number is None else f'L3 cache {number}'
    head = boxes.text(
        boxes.shorten(name, max(grid.width, 60), 9.5), 0, 8, 'np-t np-small')
    return boxes.grid([boxes.Box(60, 9, head), grid], 1, 4)


def _core(
    core: tuple[int, ...], domain: int | None, node: model.Node,
    found: plan_lib.Plan,
) -> boxes.Box:
    place = f'node {node.id}, socket {node.socket}'
    if len(core) > 1:
        place = f'core of CPUs {cpuset.CpuSet(core)}, {place}'
    if domain is not None:
        place = f'{place}, L3 cache {domain}'
    height = len(core) * (_TILE_HEIGHT + 2) + 2
    svg = [boxes.rectangle(0, 0, _TILE_WIDTH + 4, height, 'np-core', 5)]
    for thread, cpu in enumerate(core):
        svg.append(boxes.at(
            2, 2 + thread * (_TILE_HEIGHT + 2), _cpu(cpu, place, found)))
    return boxes.Box(_TILE_WIDTH + 4, height, ''.join(svg))


def _cpu(cpu: int, place: str, found: plan_lib.Plan) -> boxes.Box:
    use = found.uses[cpu]
    tip = saxutils.escape(f'CPU {cpu}: {_purpose(use)}; {place}')
    middle = _TILE_WIDTH / 2
    white = ' np-white' if use.kind is plan_lib.Kind.PINNED else ''
    svg = [
        f'<title>{tip}</title>',
        _tile(use, _TILE_WIDTH, _TILE_HEIGHT),
        boxes.text(str(cpu), middle, 26, f'np-t np-id{white}', 'middle')]
    svg.append(boxes.text(
        _sign(use), middle, 15, f'np-t np-big{white}', 'middle'))
    if white and use.emulator and _emulator_is_apart(found):
        svg.append(boxes.text(
            'e', _TILE_WIDTH - 3, 8, 'np-t np-id np-white', 'end'))
    return boxes.Box(_TILE_WIDTH, _TILE_HEIGHT, ''.join(svg))


def _tile(use: plan_lib.Use, width: float, height: float) -> str:
    style = f'np-{use.kind}'
    if use.kind is plan_lib.Kind.PINNED:
        style += str((use.guest_cell or 0) % len(_GUEST_COLOURS))
    return boxes.rectangle(0, 0, width, height, style, 4)


def _sign(use: plan_lib.Use) -> str:
    if use.kind is not plan_lib.Kind.PINNED:
        return _SIGNS[use.kind]
    return boxes.shorten(
        ','.join(map(str, use.vcpus)), _TILE_WIDTH - 4, 14)


def _purpose(use: plan_lib.Use) -> str:
    purpose = {
        plan_lib.Kind.PINNED: 'pinned to it',
        plan_lib.Kind.FLOATING: 'floating over it',
        plan_lib.Kind.EMULATOR: '',
        plan_lib.Kind.TAKEN: 'taken by another guest',
        plan_lib.Kind.FREE: 'free',
        plan_lib.Kind.SHARED: 'shared by floating guests',
        plan_lib.Kind.KEPT: 'kept for the host',
    }[use.kind]
    parts = [f'{plan_lib.vcpus_text(use.vcpus)} {purpose}' if use.vcpus
             else purpose]
    if use.emulator:
        parts.append('emulator threads')
    return ', '.join(filter(None, parts))


def _emulator_is_apart(found: plan_lib.Plan) -> bool:
    """Whether emulator threads run on some of the vCPUs' CPUs only."""
    return not found.cpus_of(plan_lib.Kind.PINNED).issubset(
        found.placement.emulator_cpus)


def _legend(found: plan_lib.Plan, width: float) -> boxes.Box:
    svg = []
    y = 0.0
    for kind, cpu, meaning in plan_lib.legend(found):
        use = found.uses[cpu]
        white = ' np-white' if kind is plan_lib.Kind.PINNED else ''
        tile = _tile(use, 26, 18) + boxes.text(
            _sign(use), 13, 14, f'np-t np-legend{white}', 'middle')
        svg.append(boxes.at(0, y, boxes.Box(26, 18, tile)))
        for line in boxes.wrap(_pieces(meaning), width - 34, 12.5):
            svg.append(boxes.text(line, 34, y + 13.5, 'np-t np-legend'))
            y += 17
        y += 7
    notes = ['Each grey frame is a core with its threads; the small number '
             'is the CPU.']
    if _emulator_is_apart(found) and any(
            use.emulator and use.kind is plan_lib.Kind.PINNED
            for use in found.uses.values()):
        notes.append(" An e marks vCPUs that share their CPU with the guest's"
                     ' emulator threads.')
    if found.l3_numbers:
        notes.append(' Cores in one dashed frame share an L3 cache.')
    for line in boxes.wrap(_pieces(''.join(notes)), width, 11.5):
        svg.append(boxes.text(line, 0, y + 10, 'np-t np-note'))
        y += 15
    return boxes.Box(width, y, ''.join(svg))


def _framed(
    inner: Sequence[boxes.Box], style: str, padding: float = _PADDING,
) -> list[boxes.Box]:
    """Each box in a frame, all frames of one size."""
    width = max((box.width for box in inner), default=0) + 2 * padding
    height = max((box.height for box in inner), default=0) + 2 * padding
    return [
        boxes.Box(width, height, boxes.rectangle(
            0, 0, width, height, style, 8) + boxes.at(padding, padding, box))
        for box in inner]


def _pieces(text: str) -> Iterator[str]:
    """Where a text may be broken: CPU lists have commas, but no blanks."""
    return iter(re.split(r'(?<=[, ])', text))
