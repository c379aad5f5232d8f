# SPDX-License-Identifier: Apache-2.0
"""A host and what its CPUs are for, drawn as SVG."""

from collections.abc import Sequence
import functools

from nova_pinning.host import host_model
from nova_pinning.presentation import host_picture
from nova_pinning.presentation import plan_facts
from nova_pinning.presentation import svg_boxes

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


def render(description: host_model.HostDescription) -> str:
    """Draw it.

    :returns: a whole SVG document
    """
    drawn = plan_facts.facts(description)
    tiles = {cpu: _tile(cpu, drawn) for cpu in drawn.kinds}
    notes = []
    if drawn.served:
        notes.append('The numbers in the corners of CPUs are those of the '
                     'devices whose interrupts they serve.')
    strangers = drawn.devices_of(None)
    return host_picture.render(host_picture.HostPicture(
        description=description,
        title=plan_facts.title(drawn),
        remarks=list(plan_facts.remarks(drawn)),
        tiles=tiles,
        legend=[(_sample(kind), meaning)
                for kind, meaning in plan_facts.legend(drawn)],
        notes=notes,
        feet={node.id: functools.partial(_foot, drawn, node)
              for node in description.nodes},
        appendix=functools.partial(_strangers, strangers)
        if strangers else None,
        style=_STYLE,
        definitions=_DEFINITIONS))


def _sample(kind: plan_facts.DrawnPurpose) -> host_picture.PictureTile:
    return host_picture.PictureTile(
        style=f'np-use{kind}', sign=plan_facts.SIGNS[kind], meaning='',
        is_dark=kind is plan_facts.DrawnPurpose.HOST)


def _tile(cpu: int, drawn: plan_facts.DrawnFacts) -> host_picture.PictureTile:
    kind = drawn.kinds[cpu]
    served = drawn.served.get(cpu)
    meaning = plan_facts.MEANINGS[kind]
    if served:
        meaning += '; interrupts of ' + '; '.join(
            f'{device.kind} {device.text}'.partition('; interrupts')[0]
            for device in drawn.devices if device.number in served)
    return host_picture.PictureTile(
        style=f'np-use{kind}', sign=plan_facts.SIGNS[kind], meaning=meaning,
        corner='' if served is None else str(served),
        is_dark=kind is plan_facts.DrawnPurpose.HOST)


def _foot(
    drawn: plan_facts.DrawnFacts, node: host_model.NumaNode, width: float,
) -> svg_boxes.SvgBox:
    """The memory and the devices of a node."""
    parts = [_memory(drawn, node, width)]
    parts += [_row(part, width) for part in drawn.devices_of(node.id)]
    return svg_boxes.grid(parts, 1, 5)


def _memory(
    drawn: plan_facts.DrawnFacts, node: host_model.NumaNode, width: float,
) -> svg_boxes.SvgBox:
    """A bar with the parts of the node's memory, and what they are."""
    parts = plan_facts.memory(drawn, node)
    svg = []
    y = 0.0
    if parts:
        # A part that is too thin to be seen gets some of the others' room.
        shares = [max(part.mib / node.memory_mib, 0.015) for part in parts]
        x = 0.0
        for part, share in zip(parts, shares):
            length = width * share / sum(shares)
            svg.append(svg_boxes.rectangle(
                x, y, length, _BAR_HEIGHT, f'np-use{part.kind}', 2))
            is_dark = part.kind is plan_facts.DrawnPurpose.HOST
            white = ' np-white' if is_dark else ''
            if length > 9:
                svg.append(svg_boxes.text(
                    plan_facts.SIGNS[part.kind], x + length / 2, y + 11,
                    f'np-t np-tag{white}', 'middle'))
            x += length
        y += _BAR_HEIGHT
    text = ', '.join(part.text for part in parts) or 'no memory'
    for line in svg_boxes.wrap(host_picture.pieces(text), width, _ROW_SIZE):
        y += 13
        svg.append(svg_boxes.text(line, 0, y, 'np-t np-row'))
    return svg_boxes.SvgBox(width, y + 4, ''.join(svg))


def _row(device_group: plan_facts.DeviceGroup,
         width: float) -> svg_boxes.SvgBox:
    """Devices that are alike, in a frame."""
    room = width - _TAG_WIDTH - 6 - (_BADGE + 4 if device_group.number else 0)
    lines = svg_boxes.wrap(host_picture.pieces(device_group.text), room,
                           _ROW_SIZE)
    height = 13.0 * len(lines) + 7
    svg = [
        svg_boxes.rectangle(0, 0, width, height,
                            'np-sold' if device_group.is_sold else 'np-device',
                            4),
        svg_boxes.text(device_group.kind, 6, 13.5, 'np-t np-tag')]
    svg += [svg_boxes.text(line, _TAG_WIDTH, 13.5 + 13 * number, 'np-t np-row')
            for number, line in enumerate(lines)]
    if device_group.number:
        x = width - _BADGE - 3
        svg.append(svg_boxes.rectangle(
            x, 2.5, _BADGE, _BADGE, 'np-badge', _BADGE / 2))
        svg.append(
            svg_boxes.text(str(device_group.number), x + _BADGE / 2, 13,
                           'np-t np-id np-white', 'middle'))
    return svg_boxes.SvgBox(width, height, ''.join(svg))


def _strangers(
    devices: Sequence[plan_facts.DeviceGroup], width: float,
) -> svg_boxes.SvgBox:
    """Devices that belong to no node."""
    columns = min(_COLUMNS, len(devices))
    each = (width - 2 * host_picture.PADDING - 8 * (columns - 1)) / columns
    head = svg_boxes.SvgBox(0, 14, svg_boxes.text(
        'Devices of no NUMA node', 0, 11, 'np-t np-head'))
    rows = svg_boxes.grid([_row(device, each) for device in devices], columns,
                          8)
    return host_picture.framed([svg_boxes.grid([head, rows], 1, 6)],
                               'np-socket')[0]
