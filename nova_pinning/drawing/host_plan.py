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

"""A host and what its CPUs are for, drawn for the terminal and as SVG.

A host without a plan is drawn as nova.conf has it set up.
"""

from nova_pinning import cpuset
from nova_pinning.drawing import host_plan_facts as facts_lib
from nova_pinning.drawing import host_plan_svg
from nova_pinning.drawing import terminal
from nova_pinning.drawing import topology
from nova_pinning.host import model

_STYLES = {
    'title': 'bold',
    'label': 'dim',
    'host': 'bold white on color(240)',
    'poll': 'black on color(221)',
    'shared': 'black on color(117)',
    'dedicated': 'black on color(114)',
    'any': 'bold',
}


def style(mark: str) -> str:
    """What rich shows a mark of the drawing as, '' for plain text."""
    return _STYLES.get(mark, '')


def svg(description: model.HostDescription) -> str:
    """Draw a host as SVG.

    :returns: a whole SVG document
    """
    return host_plan_svg.render(description)


def draw(
    description: model.HostDescription, width: int = 80,
) -> list[terminal.Line]:
    """Draw a host for the terminal.

    :param width: columns of the terminal, at least 40; no line is longer
    :returns: lines whose marks :func:`style` knows
    """
    found = facts_lib.facts(description)
    numbers = topology.l3_numbers(description)
    dies = topology.dies(description)
    cells = [
        terminal.cell(
            _title(description, node, dies),
            (cores for _, cores in topology.domains(node, numbers)),
            width, _notes(found, node))
        for node in description.nodes]
    tiles = {cpu: _tile(kind) for cpu, kind in found.kinds.items()}
    title = f'{facts_lib.title(found)}: {topology.summary(description)}'
    return [
        *terminal.heading(title, facts_lib.remarks(found), width),
        *terminal.draw_cells(cells, tiles, width),
        *_strangers(found, width),
        *terminal.legend([
            *((_tile(kind), text) for kind, text in facts_lib.legend(found)),
            *terminal.between_caches(cells, 1)], width),
    ]


def _title(description: model.HostDescription, node: model.Node,
           dies: dict[int, int]) -> str:
    sockets = topology.sockets(description, node.cpus)
    where = [topology.numbered('socket', sockets) if sockets
             else f'socket {node.socket}']
    own = cpuset.CpuSet(dies[cpu] for cpu in node.cpus if cpu in dies)
    if own:
        where.append(topology.numbered('die', own))
    where.append(topology.memory(node.memory_mib))
    return f'node {node.id} ({", ".join(where)})'


def _tile(kind: facts_lib.Kind) -> terminal.Tile:
    return terminal.Tile(facts_lib.SIGNS[kind], kind.value)


def _notes(found: facts_lib.Facts, node: model.Node) -> list[str]:
    """The memory and the devices of a node."""
    memory = ', '.join(part.text for part in facts_lib.memory(found, node))
    notes = [f'memory: {memory or "none"}']
    return notes + [f'{one.kind}: {one.text}'
                    for one in found.devices_of(node.id)]


def _strangers(
    found: facts_lib.Facts, width: int,
) -> list[terminal.Line]:
    """The devices of no node."""
    notes = [f'{one.kind}: {one.text}' for one in found.devices_of(None)]
    return list(terminal.heading('no node', notes, width)) if notes else []
