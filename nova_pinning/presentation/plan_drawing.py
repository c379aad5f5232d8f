# SPDX-License-Identifier: Apache-2.0
"""A host and what its CPUs are for, drawn for the terminal and as SVG.

A host without a plan is drawn as nova.conf has it set up.
"""

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import plan_facts
from nova_pinning.presentation import plan_svg
from nova_pinning.presentation import terminal_drawing

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


def svg(description: host_model.HostDescription) -> str:
    """Draw a host as SVG.

    :returns: a whole SVG document
    """
    return plan_svg.render(description)


def draw(
    description: host_model.HostDescription, width: int = 80,
) -> list[terminal_drawing.Line]:
    """Draw a host for the terminal.

    :param width: columns of the terminal, at least 40; no line is longer
    :returns: lines whose marks :func:`style` knows
    """
    drawn = plan_facts.facts(description)
    numbers = host_structure.l3_numbers(description)
    dies = host_structure.dies(description)
    cells = [
        terminal_drawing.cell(
            _title(description, node, dies),
            (cores for _, cores in host_structure.domains(node, numbers)),
            width, _notes(drawn, node))
        for node in description.nodes]
    tiles = {cpu: _tile(kind) for cpu, kind in drawn.kinds.items()}
    title = f'{plan_facts.title(drawn)}: {host_structure.summary(description)}'
    return [
        *terminal_drawing.heading(title, plan_facts.remarks(drawn), width),
        *terminal_drawing.draw_cells(cells, tiles, width),
        *_strangers(drawn, width),
        *terminal_drawing.legend([
            *((_tile(kind), text) for kind, text in plan_facts.legend(drawn)),
            *terminal_drawing.between_caches(cells, 1)], width)]


def _title(description: host_model.HostDescription, node: host_model.NumaNode,
           dies: dict[int, int]) -> str:
    where = [host_structure.socket_text(
        description, host_structure.sockets(description, node.cpus)
        or [node.socket])]
    own = cpuset.CpuSet(dies[cpu] for cpu in node.cpus if cpu in dies)
    if own:
        where.append(host_structure.numbered('die', own))
    where.append(host_structure.memory(node.memory_mib))
    return f'node {node.id} ({", ".join(where)})'


def _tile(kind: plan_facts.DrawnPurpose) -> terminal_drawing.TextTile:
    return terminal_drawing.TextTile(plan_facts.SIGNS[kind], kind.value)


def _notes(drawn: plan_facts.DrawnFacts,
           node: host_model.NumaNode) -> list[str]:
    """The memory and the devices of a node."""
    memory = ', '.join(part.text for part in plan_facts.memory(drawn, node))
    notes = [f'memory: {memory or "none"}']
    return notes + [f'{part.kind}: {part.text}'
                    for part in drawn.devices_of(node.id)]


def _strangers(
    drawn: plan_facts.DrawnFacts, width: int,
) -> list[terminal_drawing.Line]:
    """The devices of no node."""
    notes = [f'{part.kind}: {part.text}' for part in drawn.devices_of(None)]
    return list(terminal_drawing.heading('no node', notes,
                                         width)) if notes else []
