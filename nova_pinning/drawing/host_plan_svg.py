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

"""A host and what its CPUs are for, drawn as SVG."""

from collections.abc import Sequence
import functools

from nova_pinning.drawing import boxes
from nova_pinning.drawing import host_plan_facts as facts_lib
from nova_pinning.drawing import picture
from nova_pinning.host import model

_ROW_SIZE = 10.5
_TAG_WIDTH = 44
_BADGE = 15
_BAR_HEIGHT = 14
# Columns of devices that belong to no node.
_COLUMNS = 3

_STYLE = ''.join([
    '.np-usehost{fill:#4d5566;stroke:#333b49}',
    '.np-usepoll{fill:url(#np-stripes);stroke:#8a5a00;stroke-width:1.2}',
    '.np-useshared{fill:#cdeaf0;stroke:#2f7f8f}',
    '.np-usededicated{fill:#dff2e1;stroke:#1b6e3c}',
    '.np-useany{fill:#fff;stroke:#8d98aa;stroke-dasharray:3 2}',
    '.np-device{fill:#f6f8fb;stroke:#bcc5d2}',
    '.np-sold{fill:#f1f9f2;stroke:#1b6e3c}',
    '.np-row{font-size:10.5px}',
    '.np-tag{font-size:10.5px;font-weight:700}',
    '.np-badge{fill:#4d5566}',
])
_DEFINITIONS = (
    '<pattern id="np-stripes" width="7" height="7" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="7" height="7" fill="#ffe9ab"/>'
    '<rect width="2.5" height="7" fill="#fbd977"/></pattern>')


def render(description: model.HostDescription) -> str:
    """Draw it.

    :returns: a whole SVG document
    """
    found = facts_lib.facts(description)
    tiles = {cpu: _tile(cpu, found) for cpu in found.kinds}
    notes = []
    if found.served:
        notes.append('The numbers in the corners of CPUs are those of the '
                     'devices whose interrupts they serve.')
    strangers = found.devices_of(None)
    return picture.render(picture.Picture(
        description=description,
        title=facts_lib.title(found),
        remarks=list(facts_lib.remarks(found)),
        tiles=tiles,
        legend=[(_sample(kind), meaning)
                for kind, meaning in facts_lib.legend(found)],
        notes=notes,
        feet={node.id: functools.partial(_foot, found, node)
              for node in description.nodes},
        appendix=functools.partial(_strangers, strangers)
        if strangers else None,
        style=_STYLE,
        definitions=_DEFINITIONS))


def _sample(kind: facts_lib.Kind) -> picture.Tile:
    return picture.Tile(
        style=f'np-use{kind}', sign=facts_lib.SIGNS[kind], meaning='',
        is_dark=kind is facts_lib.Kind.HOST)


def _tile(cpu: int, found: facts_lib.Facts) -> picture.Tile:
    kind = found.kinds[cpu]
    served = found.served.get(cpu)
    meaning = facts_lib.MEANINGS[kind]
    if served:
        meaning += '; interrupts of ' + '; '.join(
            f'{one.kind} {one.text}'.partition('; interrupts')[0]
            for one in found.devices if one.number in served)
    return picture.Tile(
        style=f'np-use{kind}', sign=facts_lib.SIGNS[kind], meaning=meaning,
        corner='' if served is None else str(served),
        is_dark=kind is facts_lib.Kind.HOST)


def _foot(
    found: facts_lib.Facts, node: model.Node, width: float,
) -> boxes.Box:
    """The memory and the devices of a node."""
    parts = [_memory(found, node, width)]
    parts += [_row(one, width) for one in found.devices_of(node.id)]
    return boxes.grid(parts, 1, 5)


def _memory(
    found: facts_lib.Facts, node: model.Node, width: float,
) -> boxes.Box:
    """A bar with the parts of the node's memory, and what they are."""
    parts = facts_lib.memory(found, node)
    svg = []
    y = 0.0
    if parts:
        # A part that is too thin to be seen gets some of the others' room.
        shares = [max(part.mib / node.memory_mib, 0.015) for part in parts]
        x = 0.0
        for part, share in zip(parts, shares):
            length = width * share / sum(shares)
            svg.append(boxes.rectangle(
                x, y, length, _BAR_HEIGHT, f'np-use{part.kind}', 2))
            white = ' np-white' if part.kind is facts_lib.Kind.HOST else ''
            if length > 9:
                svg.append(boxes.text(
                    facts_lib.SIGNS[part.kind], x + length / 2, y + 11,
                    f'np-t np-tag{white}', 'middle'))
            x += length
        y += _BAR_HEIGHT
    text = ', '.join(part.text for part in parts) or 'no memory'
    for line in boxes.wrap(picture.pieces(text), width, _ROW_SIZE):
        y += 13
        svg.append(boxes.text(line, 0, y, 'np-t np-row'))
    return boxes.Box(width, y + 4, ''.join(svg))


def _row(one: facts_lib.Devices, width: float) -> boxes.Box:
    """Devices that are alike, in a frame."""
    room = width - _TAG_WIDTH - 6 - (_BADGE + 4 if one.number else 0)
    lines = boxes.wrap(picture.pieces(one.text), room, _ROW_SIZE)
    height = 13.0 * len(lines) + 7
    svg = [
        boxes.rectangle(0, 0, width, height,
                        'np-sold' if one.is_sold else 'np-device', 4),
        boxes.text(one.kind, 6, 13.5, 'np-t np-tag')]
    svg += [boxes.text(line, _TAG_WIDTH, 13.5 + 13 * number, 'np-t np-row')
            for number, line in enumerate(lines)]
    if one.number:
        x = width - _BADGE - 3
        svg.append(boxes.rectangle(
            x, 2.5, _BADGE, _BADGE, 'np-badge', _BADGE / 2))
        svg.append(boxes.text(
            str(one.number), x + _BADGE / 2, 13, 'np-t np-id np-white',
            'middle'))
    return boxes.Box(width, height, ''.join(svg))


def _strangers(
    devices: Sequence[facts_lib.Devices], width: float,
) -> boxes.Box:
    """Devices that belong to no node."""
    columns = min(_COLUMNS, len(devices))
    each = (width - 2 * picture.PADDING - 8 * (columns - 1)) / columns
    head = boxes.Box(0, 14, boxes.text(
        'Devices of no NUMA node', 0, 11, 'np-t np-head'))
    rows = boxes.grid([_row(one, each) for one in devices], columns, 8)
    return picture.framed([boxes.grid([head, rows], 1, 6)], 'np-socket')[0]
