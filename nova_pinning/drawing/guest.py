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

"""A host with a guest on it, drawn for the terminal."""

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.drawing import plan as plan_lib
from nova_pinning.drawing import terminal
from nova_pinning.drawing import topology
from nova_pinning.host import model

_TILES = {
    plan_lib.Kind.EMULATOR: terminal.Tile('E', 'emulator'),
    plan_lib.Kind.FLOATING: terminal.Tile('~', 'floating'),
    plan_lib.Kind.TAKEN: terminal.Tile('x', 'taken'),
    plan_lib.Kind.FREE: terminal.FREE,
    plan_lib.Kind.SHARED: terminal.Tile(':', 'shared'),
    plan_lib.Kind.KEPT: terminal.KEPT,
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
    description: model.HostDescription,
    used: cpuset.CpuSet = cpuset.CpuSet(),
    placement: plan_lib.Placement | None = None,
    width: int = 80,
) -> list[terminal.Line]:
    """Draw a host with a guest on it.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    :param width: columns of the terminal, at least 40; no line is longer
    """
    found = plan_lib.plan(description, used, placement)
    cells = [_cell(found, node, width) for node in description.nodes]
    size = max((len(_tile(use).symbol) for use in found.uses.values()),
               default=1)
    tiles = {cpu: _tile(use, size) for cpu, use in found.uses.items()}
    meanings = [(tiles[cpu], meaning)
                for _, cpu, meaning in plan_lib.legend(found)]
    title = f'{plan_lib.title(found)}: {topology.summary(description)}'
    return [
        *terminal.heading(title, plan_lib.remarks(found), width),
        *terminal.draw_cells(cells, tiles, width),
        *terminal.legend(
            meanings + terminal.between_caches(cells, size), width),
    ]


def _cell(
    found: plan_lib.Plan, node: model.Node, width: int,
) -> terminal.Cell:
    parts = [f'node {node.id} (socket {node.socket}, '
             f'{quantities.shown_memory(node.memory_mib)})']
    guest = found.guest_on(node)
    if guest:
        parts.append(guest)
    return terminal.cell('  '.join(parts), (
        cores for _, cores in found.domains(node)), width)


def _tile(use: plan_lib.Use, size: int = 0) -> terminal.Tile:
    if use.kind is plan_lib.Kind.PINNED:
        symbol = ','.join(map(str, use.vcpus))
        mark = f'guest:{use.guest_cell or 0}'
    else:
        symbol, mark = _TILES[use.kind].symbol, _TILES[use.kind].mark
    return terminal.Tile(symbol.rjust(size), mark)
