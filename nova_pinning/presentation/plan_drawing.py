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

#: What a CPU can be for: its sign, what a tooltip says, and what a legend.
KINDS = {
    _Style.HOST: (
        'H', 'for the host', 'host CPUs, no guest runs on them'),
    _Style.POLL: (
        'P', 'for OVS-DPDK, which polls', 'poll CPUs of OVS-DPDK'),
    _Style.SHARED: (
        'S', 'shared by floating vCPUs and emulator threads',
        'shared CPUs, for floating vCPUs and emulator threads'),
    _Style.DEDICATED: (
        'D', 'dedicated to pinned vCPUs', 'dedicated CPUs, for pinned vCPUs'),
    _Style.ANY: (
        '.', 'not planned, open to any guest',
        'not planned, nova would use them for any guest'),
}


def draw(description: host_model.HostDescription) -> drawing.Drawing:
    """Draw a host, with its memory and devices."""
    facts = plan_facts.facts(description)
    name = spelling.printable(description.name)
    host = drawing.DrawnHost(
        name, drawing.sockets(description, below={
            node.id: [_memory(facts, node), *facts.devices_of(node.id)]
            for node in description.nodes}),
        (drawing.DrawnState('', {cpu: _tile(cpu, facts)
                                 for cpu in facts.kinds}),),
        drawing.about(description), tuple(facts.devices_of(None)))
    legend = []
    for kind, (sign, _meaning, told) in KINDS.items():
        cpus = facts.cpus_of(kind)
        if cpus:
            legend.append((drawing.Tile(kind, sign),
                           f'{told}: {host_structure.cpus_text(cpus)}'))
    return drawing.Drawing(
        name, tuple(plan_facts.remarks(facts)), (host,), tuple(legend),
        ('The numbers in the corners of CPUs are those of the devices whose '
         'interrupts they serve.',) if facts.served else ())


def _tile(cpu: int, facts: plan_facts.DrawnFacts) -> drawing.Tile:
    kind = facts.kinds[cpu]
    sign, meaning, _told = KINDS[kind]
    served = facts.served.get(cpu)
    if served is None:
        return drawing.Tile(kind, sign, meaning)
    devices = '; '.join(
        f'{device.label} {device.text}'.partition('; interrupts')[0]
        for _node, device in facts.devices if device.number in served)
    return drawing.Tile(kind, sign, f'{meaning}; interrupts of {devices}',
                        str(served))


def _memory(facts: plan_facts.DrawnFacts,
            node: host_model.NumaNode) -> drawing.Note:
    parts = plan_facts.memory(facts, node)
    return drawing.Note(
        ', '.join(part.text for part in parts) or 'none', 'memory',
        parts=tuple((part.kind, part.mib) for part in parts))
