# SPDX-License-Identifier: Apache-2.0
"""A host as it would be with other NUMA nodes, as its firmware can make them.

AMD's firmware makes one, two or four nodes of a socket (NPS1, NPS2, NPS4), or
one of each L3 cache ("ACPI SRAT L3 Cache as NUMA Domain").
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host import host_model


def divided(
    description: host_model.HostDescription, nodes_per_socket: int | None,
) -> host_model.HostDescription | None:
    """The host with more NUMA nodes, of whole L3 caches each.

    Memory is shared out evenly, what a node has left of whole MiB and pages
    apart. Distances between the nodes are not known. Devices go to the first
    node of those that theirs becomes.

    :param nodes_per_socket: that have several L3 caches each; None for one
        for each cache
    :returns: None if it has as many nodes already, or its caches are not
        known or cannot be shared out so
    """
    if not all(node.cores and node.l3_domains for node in description.nodes):
        return None
    nodes: list[host_model.NumaNode] = []
    new_id: dict[int | None, int] = {}
    for socket in sorted({node.socket for node in description.nodes}):
        own = [node for node in description.nodes if node.socket == socket]
        domains = sorted(
            {domain for node in own for domain in node.l3_domains}, key=min)
        count = nodes_per_socket or len(domains)
        # What lies in one node now stays apart from what lies in others.
        if (len(domains) % count or count % len(own) or count == len(own)
                or nodes_per_socket == len(domains)):
            return None
        for node in own:
            new_id[node.id] = len(nodes) + own.index(node) * count // len(own)
        nodes += _nodes(own, domains, count, len(nodes))
    return dataclasses.replace(
        description, nodes=tuple(nodes), plan=None, pci_devices=tuple(
            dataclasses.replace(device, numa_node=new_id.get(device.numa_node))
            for device in description.pci_devices))


def _nodes(
    own: Sequence[host_model.NumaNode], domains: Sequence[cpuset.CpuSet],
    count: int, first_id: int,
) -> Iterator[host_model.NumaNode]:
    """The nodes that those of a socket become.

    :param domains: of the socket, by their lowest CPUs
    """
    of_each = len(domains) // count
    memory_mib = sum(node.memory_mib for node in own)
    page_sizes = {size for node in own for size in node.huge_pages}
    for number in range(count):
        members = tuple(domains[number * of_each:(number + 1) * of_each])
        yield host_model.NumaNode(
            id=first_id + number, socket=own[0].socket,
            cores=tuple(core for node in own for core in node.cores
                        if any(core[0] in domain for domain in members)),
            memory_mib=memory_mib // count,
            huge_pages={
                size: sum(node.huge_pages.get(size, 0)
                          for node in own) // count
                for size in sorted(page_sizes)},
            l3_domains=members)
