# SPDX-License-Identifier: Apache-2.0
"""The hosts of a plan of moves before and after it, drawn as SVG.

Each cell stands twice in a row, before the plan and after it, with a column
for each core and the threads of a core below each other. CPUs next to each
other that are used alike are one rectangle, with the letter of its guest if
that is one that moves.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
import math
from xml.sax import saxutils

from nova_pinning import cpuset
from nova_pinning.presentation import guest_svg
from nova_pinning.presentation import host_picture
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import rebalance_picture
from nova_pinning.presentation import svg_boxes
from nova_pinning import spelling

_CORE_WIDTH = 13
_THREAD_HEIGHT = 13
# Cores of which there are more go to further lines.
_CORES_A_LINE = 32
# A few hosts stand below each other, many in so many columns at most.
_HOSTS_A_COLUMN = 8
_MOST_COLUMNS = 4
_LABEL_WIDTH = 46
_FREE_WIDTH = 54
_BADGE_WIDTH = 26
_GAP = 14

_STYLE = guest_svg.STYLE + ''.join([
    '.np-cores{fill:url(#np-core-lines)}',
    '.np-letter{font-size:11px;font-weight:700}',
    '.np-state{font-size:11.5px;font-weight:600;fill:#566072}',
])
_DEFINITIONS = guest_svg.DEFINITIONS + (
    f'<pattern id="np-core-lines" width="{_CORE_WIDTH}" height="8" '
    'patternUnits="userSpaceOnUse">'
    '<rect width="0.7" height="8" fill="#1d2430" fill-opacity="0.16"/>'
    '</pattern>')


def render(picture: rebalance_picture.MovePicture, title: str,
           remarks: Sequence[str] = ()) -> str:
    """Draw all hosts of a plan.

    :param title: what the plan is
    :param remarks: sentences below it
    :returns: a whole SVG document
    """
    hosts = host_picture.framed(
        [_host(host) for host in picture.hosts], 'np-socket')
    whole = svg_boxes.SvgBox(640, 0)
    if hosts:
        columns = 1
        if len(hosts) > _HOSTS_A_COLUMN:
            columns = min(_MOST_COLUMNS, svg_boxes.columns_for(hosts, 10, 1))
        whole = svg_boxes.grid(hosts, columns, 10)
    inner = max(whole.width, 640.0)
    parts = [_heading(title, remarks, inner), whole,
             _legend(picture, inner)]
    return host_picture.page(
        svg_boxes.grid(parts, 1, 16), inner, title, remarks, _STYLE,
        _DEFINITIONS)


def _heading(title: str, remarks: Sequence[str],
             width: float) -> svg_boxes.SvgBox:
    y = 0.0
    svg = []
    # Bold letters are wider.
    for line in svg_boxes.wrap(host_picture.pieces(title), width, 24):
        y += 24
        svg.append(svg_boxes.text(line, 0, y - 4, 'np-t np-title'))
    for remark in remarks:
        for line in svg_boxes.wrap(host_picture.pieces(remark), width, 14):
            y += 20
            svg.append(svg_boxes.text(line, 0, y, 'np-t np-guest'))
    return svg_boxes.SvgBox(width, y + 4, ''.join(svg))


def _host(host: rebalance_picture.MovePictureHost) -> svg_boxes.SvgBox:
    head = svg_boxes.text(
        spelling.printable(host.name), 0, 13, 'np-t np-name')
    parts = [svg_boxes.SvgBox(0, 16, head)]
    if host.cells:
        rows: list[svg_boxes.SvgBox] = [svg_boxes.SvgBox(_LABEL_WIDTH, 12)]
        for state in ('before', 'after'):
            rows.append(svg_boxes.SvgBox(
                0, 12, svg_boxes.text(state, 0, 10, 'np-t np-state')))
        for cell in host.cells:
            rows.append(svg_boxes.SvgBox(_LABEL_WIDTH, 0, svg_boxes.text(
                f'cell {cell.id}', 0, 12, 'np-t np-head')))
            rows += (_state(cell, uses) for uses in (cell.before, cell.after))
        parts.append(svg_boxes.grid(rows, 3, 7))
    for what, guests in (('leave', host.leaving), ('come', host.coming)):
        if guests:
            letters = ', '.join(guest.letter for guest in guests)
            parts.append(svg_boxes.SvgBox(0, 14, svg_boxes.text(
                f'without CPUs of their own {what}: {letters}', 0, 11,
                'np-t np-note')))
    return svg_boxes.grid(parts, 1, 5)


def _state(
    cell: rebalance_picture.MovePictureCell,
    uses: Mapping[int, rebalance_picture.CpuOccupant],
) -> svg_boxes.SvgBox:
    """The cores of a cell, and how many CPUs are free."""
    if not cell.cores:
        return svg_boxes.SvgBox(120, 14, svg_boxes.text(
            'no CPUs', 0, 11, 'np-t np-note'))
    count = len(cell.cores)
    # Lines of about one length.
    each = math.ceil(count / math.ceil(count / _CORES_A_LINE))
    lines = [_cores(cell.cores[first:first + each], uses)
             for first in range(0, count, each)]
    drawn = svg_boxes.grid(lines, 1, 4)
    free = svg_boxes.text(
        f'{rebalance_picture.free_count(uses)} free', drawn.width + 6, 12,
        'np-t np-note')
    return svg_boxes.SvgBox(
        drawn.width + _FREE_WIDTH, drawn.height, drawn.svg + free)


def _cores(
    cores: Sequence[tuple[int, ...]],
    uses: Mapping[int, rebalance_picture.CpuOccupant],
) -> svg_boxes.SvgBox:
    threads = max(map(len, cores))
    width, height = len(cores) * _CORE_WIDTH, threads * _THREAD_HEIGHT
    svg = []
    x = 0
    for alike, group in itertools.groupby(
            cores, lambda core: tuple(uses[cpu] for cpu in core)):
        members = tuple(group)
        if len(set(alike)) == 1:
            svg.append(_rectangle(members, alike[0], x, 0, len(alike)))
        else:
            svg += (_rectangle([(core[thread],) for core in members], use, x,
                               thread, 1) for thread, use in enumerate(alike))
        x += len(members) * _CORE_WIDTH
    lines = svg_boxes.rectangle(0, 0, width, height, 'np-cores', 0)
    # It must not keep the pointer from what has a tooltip.
    svg.append(f'<g pointer-events="none">{lines}</g>')
    return svg_boxes.SvgBox(width, height, ''.join(svg))


def _rectangle(
    cores: Sequence[tuple[int, ...]], use: rebalance_picture.CpuOccupant,
    x: float, thread: int, threads: int,
) -> str:
    """CPUs that are used alike.

    :param thread: the first of each core, counted from above
    :param threads: how many of each
    """
    cpus = cpuset.CpuSet(cpu for core in cores for cpu in core)
    style, meaning, letter = f'np-{use.kind}', _purpose(use), ''
    if use.moved is not None:
        style += str(use.moved.number % len(guest_svg.GUEST_COLOURS))
        letter = use.moved.letter
    width, height = len(cores) * _CORE_WIDTH, threads * _THREAD_HEIGHT
    y = thread * _THREAD_HEIGHT
    tip = saxutils.escape(f'{host_structure.cpus_text(cpus)}: {meaning}')
    return ''.join((
        '<g>', f'<title>{tip}</title>',
        svg_boxes.rectangle(x, y, width, height, style, 2),
        svg_boxes.text(letter, x + width / 2, y + height / 2 + 4,
                       'np-t np-letter np-white', 'middle'),
        '</g>'))


def _purpose(use: rebalance_picture.CpuOccupant) -> str:
    if use.moved is not None:
        return f'guest {use.moved.letter}, {_guest(use.moved)}'
    return rebalance_picture.MEANINGS[use.kind]


def _guest(guest: rebalance_picture.MovedGuest) -> str:
    way = (f'from {guest.source} to {guest.target}'
           if guest.source != guest.target
           else f'away from {guest.source} and back')
    vcpus = f'{guest.vcpus} vCPU{"" if guest.vcpus == 1 else "s"}'
    return spelling.printable(f'{guest.title}, {vcpus}, {way}')


def _legend(picture: rebalance_picture.MovePicture,
            width: float) -> svg_boxes.SvgBox:
    kinds = [
        _entry(f'np-{kind}', '', meaning)
        for kind, meaning in rebalance_picture.meanings(picture)]
    guests = [_entry(
        f'np-pinned{guest.number % len(guest_svg.GUEST_COLOURS)}',
        guest.letter, _guest(guest)) for guest in picture.guests]
    parts = [_columns(entries, width) for entries in (guests, kinds)
             if entries]
    notes = ('Each column is a core, with its threads below each other. '
             'A letter is a guest that is moved, before and after.')
    parts.append(svg_boxes.SvgBox(width, 14, ''.join(
        svg_boxes.text(line, 0, 10 + 15 * number, 'np-t np-note')
        for number, line in enumerate(
            svg_boxes.wrap(host_picture.pieces(notes), width, 11.5)))))
    return svg_boxes.grid(parts, 1, 12)


def _entry(style: str, letter: str, meaning: str) -> svg_boxes.SvgBox:
    sample = svg_boxes.rectangle(
        0, 0, _BADGE_WIDTH, 16, style, 3) + svg_boxes.text(
            letter, _BADGE_WIDTH / 2, 12, 'np-t np-letter np-white', 'middle')
    return svg_boxes.SvgBox(
        _BADGE_WIDTH + 8 + svg_boxes.text_width(meaning, 12.5), 18,
        sample + svg_boxes.text(meaning, _BADGE_WIDTH + 8, 12.5,
                                'np-t np-legend'))


def _columns(entries: Sequence[svg_boxes.SvgBox],
             width: float) -> svg_boxes.SvgBox:
    """Entries in as many columns as there is room for."""
    widest = max(entry.width for entry in entries)
    columns = max(1, int((width + _GAP) // (widest + _GAP)))
    return svg_boxes.grid(list(_by_columns(entries, columns)), columns, 5)


def _by_columns(entries: Sequence[svg_boxes.SvgBox],
                columns: int) -> Iterator[svg_boxes.SvgBox]:
    """Row by row, so that they read from above to below."""
    rows = -(-len(entries) // columns)
    widest = max(entry.width for entry in entries)
    for place in range(rows * columns):
        row, column = divmod(place, columns)
        number = column * rows + row
        yield (entries[number] if number < len(entries)
               else svg_boxes.SvgBox(widest, 0))
