# SPDX-License-Identifier: Apache-2.0
"""The cores and sockets that a guest takes its vCPUs to be.

QEMU numbers them in turn: the threads of the first core, then of the next
core, socket by socket (x86_topo_ids_from_idx in QEMU's topology.h). So vCPUs
that follow each other are one core, whatever NUMA cells they are in.
"""

from collections.abc import Sequence

from nova_pinning import cpuset


def split_by_cells(groups: Sequence[cpuset.CpuSet],
                   each: int) -> cpuset.CpuSet | None:
    """The first core or socket with vCPUs of several NUMA cells.

    :param groups: the vCPUs of each cell
    :param each: how many vCPUs a core, or a socket, has
    :returns: its vCPUs, None if there is no such
    """
    cell_of = {vcpu: number for number, group in enumerate(groups)
               for vcpu in group}
    for first in range(0, len(cell_of), each):
        together = range(first, min(first + each, len(cell_of)))
        if len({cell_of.get(vcpu) for vcpu in together}) > 1:
            return cpuset.CpuSet(together)
    return None


def is_in_whole_cores(vcpus: cpuset.CpuSet, threads: int) -> bool:
    """Whether no core has some of these vCPUs, and others too."""
    return all(
        vcpu // threads * threads + thread in vcpus
        for vcpu in vcpus for thread in range(threads))
