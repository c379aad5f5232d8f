# SPDX-License-Identifier: Apache-2.0
"""A host and what its CPUs are for, as a drawing.

A host without a plan is drawn as nova.conf has it set up.
"""

from nova_pinning.host import host_model
from nova_pinning.presentation import drawing
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import plan_facts
from nova_pinning import spelling

_Style = drawing.TileStyle

#: What a CPU can be for: its sign, and what a legend says.
KINDS = {
    _Style.HOST: ('H', 'host CPUs, no guest runs on them'),
    _Style.POLL: ('P', 'poll CPUs of OVS-DPDK'),
    _Style.SHARED: (
        'S', 'shared CPUs, for floating vCPUs and emulator threads'),
    _Style.DEDICATED: ('D', 'dedicated CPUs, for pinned vCPUs'),
    _Style.ANY: ('.', 'not planned, nova would use them for any guest'),
}


def draw(description: host_model.HostDescription) -> drawing.Drawing:
    """Draw a host, with its memory and devices."""
    facts = plan_facts.facts(description)
    name = spelling.printable(description.name)
    host = drawing.DrawnHost(
        name, drawing.sockets(description, above={
            node.id: f'memory of GPU {node.gpu}'
            for node in description.nodes if node.gpu}, below={
            node.id: [_memory(facts, node), *facts.devices_of(node.id)]
            for node in description.nodes}),
        (drawing.DrawnState('', {
            cpu: drawing.Tile(kind, KINDS[kind][0])
            for cpu, kind in facts.kinds.items()}),),
        drawing.about(description), tuple(facts.devices_of(None)))
    legend = []
    for kind, (sign, told) in KINDS.items():
        cpus = facts.cpus_of(kind)
        if cpus:
            legend.append((drawing.Tile(kind, sign),
                           f'{told}: {host_structure.cpus_text(cpus)}'))
    return drawing.Drawing(
        name, tuple(plan_facts.remarks(facts)), (host,), tuple(legend))


def _memory(facts: plan_facts.DrawnFacts,
            node: host_model.NumaNode) -> str:
    parts = plan_facts.memory(facts, node)
    return 'memory: ' + (', '.join(part.text for part in parts) or 'none')
