# SPDX-License-Identifier: Apache-2.0
"""A host with a guest on it, drawn for the terminal."""

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_model
from nova_pinning.presentation import cpu_use
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import terminal_drawing

_TILES = {
    cpu_use.CpuUseKind.EMULATOR: terminal_drawing.TextTile('E', 'emulator'),
    cpu_use.CpuUseKind.FLOATING: terminal_drawing.TextTile('~', 'floating'),
    cpu_use.CpuUseKind.TAKEN: terminal_drawing.TextTile('x', 'taken'),
    cpu_use.CpuUseKind.FREE: terminal_drawing.FREE,
    cpu_use.CpuUseKind.SHARED: terminal_drawing.TextTile(':', 'shared'),
    cpu_use.CpuUseKind.KEPT: terminal_drawing.KEPT,
}

#: What rich, or another that knows these words, shows each mark as.
#: 'guest:N' marks the vCPUs of guest cell N, see :func:`style`.
STYLES = {
    'title': 'bold',
    'label': 'dim',
    'emulator': 'black on color(221)',
    'floating': 'black on color(117)',
    'taken': 'color(173)',
    'free': 'bold',
    'shared': 'cyan',
    'kept': 'dim',
}
# Backgrounds that black letters can be read on; neighbours differ much.
_GUEST_STYLES = tuple(f'black on color({number})' for number in (
    114, 215, 111, 183, 180, 80, 210, 150))


def style(mark: str) -> str:
    """What rich shows a mark as, '' for plain text."""
    kind, _, number = mark.partition(':')
    if kind == 'guest':
        return _GUEST_STYLES[int(number) % len(_GUEST_STYLES)]
    return STYLES.get(kind, '')


def draw(
    description: host_model.HostDescription,
    used: cpuset.CpuSet = cpuset.CpuSet(),
    placement: guest_affinity.GuestAffinity | None = None,
    width: int = 80,
) -> list[terminal_drawing.Line]:
    """Draw a host with a guest on it.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    :param width: columns of the terminal, at least 40; no line is longer
    """
    cpu_uses = cpu_use.cpu_use_of(description, used, placement)
    cells = [_cell(cpu_uses, node, width) for node in description.nodes]
    size = max((len(_tile(use).symbol) for use in cpu_uses.uses.values()),
               default=1)
    tiles = {cpu: _tile(use, size) for cpu, use in cpu_uses.uses.items()}
    meanings = [(tiles[cpu], meaning)
                for _, cpu, meaning in cpu_use.legend(cpu_uses)]
    title = f'{cpu_use.title(cpu_uses)}: {host_structure.summary(description)}'
    return [
        *terminal_drawing.heading(title, cpu_use.remarks(cpu_uses), width),
        *terminal_drawing.draw_cells(cells, tiles, width),
        *terminal_drawing.legend(
            meanings + terminal_drawing.between_caches(cells, size), width)]


def _cell(
    host_use: cpu_use.HostCpuUse, node: host_model.NumaNode, width: int,
) -> terminal_drawing.DrawnCell:
    socket = host_structure.socket_text(host_use.description, [node.socket])
    parts = [f'node {node.id} ({socket}, '
             f'{quantities.shown_memory(node.memory_mib)})']
    guest = host_use.guest_on(node)
    if guest:
        parts.append(guest)
    return terminal_drawing.cell('  '.join(parts), (
        cores for _, cores in host_use.domains(node)), width)


def _tile(use: cpu_use.CpuUse, size: int = 0) -> terminal_drawing.TextTile:
    if use.kind is cpu_use.CpuUseKind.PINNED:
        symbol = ','.join(map(str, use.vcpus))
        mark = f'guest:{use.guest_cell or 0}'
    else:
        symbol, mark = _TILES[use.kind].symbol, _TILES[use.kind].mark
    return terminal_drawing.TextTile(symbol.rjust(size), mark)
