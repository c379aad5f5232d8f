# SPDX-License-Identifier: Apache-2.0
"""A described host as nova-compute would report it, for the engine.

The rules are those of nova 34's LibvirtDriver (``_get_vcpu_available``,
``_get_pcpu_available`` and ``_get_host_numa_topology`` in
nova/virt/libvirt/driver.py), without the options that nova has for hosts
set up before Train.
"""

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning.model import core_order


def shared_cpus(description: host_model.HostDescription) -> cpuset.CpuSet:
    """The CPUs that floating vCPUs may run on."""
    nova = description.nova
    if nova.shared_cpus:
        return nova.shared_cpus
    return cpuset.CpuSet() if nova.dedicated_cpus else description.cpus


def dedicated_cpus(description: host_model.HostDescription) -> cpuset.CpuSet:
    """The CPUs that vCPUs may be pinned to, taken ones included.

    Where nova.conf names neither dedicated nor shared CPUs, nova lets any
    CPU be used for both.
    """
    nova = description.nova
    if nova.dedicated_cpus or nova.shared_cpus:
        return nova.dedicated_cpus or cpuset.CpuSet()
    return description.cpus


def page_pools(
    node: host_model.NumaNode, page_size_kib: int,
    nova: host_model.NovaSettings = host_model.NovaSettings(),
) -> tuple[model.PagePool, ...]:
    """The memory pages of a node, smallest first, as libvirt counts them.

    :param page_size_kib: of those that the huge pages leave memory for
    """
    huge_kib = sum(size * count for size, count in node.huge_pages.items())
    counts = {
        page_size_kib: (node.memory_mib * 1024 - huge_kib) // page_size_kib,
        **node.huge_pages}
    return tuple(
        model.PagePool(
            size_kib=size, total=total,
            reserved=nova.reserved_huge_pages.get((node.id, size), 0))
        for size, total in sorted(counts.items()))


def engine_cells(
    description: host_model.HostDescription,
) -> tuple[model.HostCell, ...]:
    """The host's cells as nova-compute would report them."""
    shared = shared_cpus(description)
    dedicated = dedicated_cpus(description)
    usable = shared | dedicated
    return tuple(model.HostCell(
        id=node.id,
        shared_cpus=node.cpus & shared,
        dedicated_cpus=node.cpus & dedicated,
        pinned_cpus=cpuset.CpuSet(),
        cores=tuple(filter(None, (
            tuple(cpu for cpu in core if cpu in usable)
            for core in core_order.as_reported(node.cores)))),
        memory_mib=node.memory_mib,
        pages=page_pools(
            node, description.system.page_size_kib, description.nova),
        # Nova knows none of cells with CPUs of several sockets, or without.
        socket=sockets[0] if len(sockets) == 1 else None)
        for node in description.nodes
        for sockets in (description.sockets(node.cpus),))
