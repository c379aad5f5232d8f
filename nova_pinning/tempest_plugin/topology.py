# SPDX-License-Identifier: Apache-2.0
"""Where nova says a server is: GET /servers/{id}/topology."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning import cpuset


@dataclasses.dataclass(frozen=True, slots=True)
class ServerCell:
    """A NUMA cell of the guest, as nova keeps it.

    :param vcpus: pinned ones and others
    :param pins: host CPU by pinned vCPU
    """

    host_node: int
    vcpus: cpuset.CpuSet
    memory_mib: int
    pins: Mapping[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class ServerTopology:
    """What nova keeps of a server.

    :param cells: empty for a server that floats over the whole host
    :param page_size_kib: None if it did not ask for one
    """

    cells: tuple[ServerCell, ...]
    page_size_kib: int | None

    @property
    def pins(self) -> dict[int, int]:
        """Host CPU by pinned vCPU, of all cells."""
        return {vcpu: cpu for cell in self.cells
                for vcpu, cpu in cell.pins.items()}

    @property
    def pinned_cpus(self) -> cpuset.CpuSet:
        return cpuset.CpuSet(self.pins.values())

    @property
    def nodes(self) -> cpuset.CpuSet:
        """Host NUMA nodes of all cells."""
        return cpuset.CpuSet(cell.host_node for cell in self.cells)


def parse(body: Mapping[str, Any]) -> ServerTopology:
    """Read the API's answer, in microversion 2.78 or later."""
    return ServerTopology(
        tuple(ServerCell(node['host_node'], cpuset.CpuSet(node['vcpu_set']),
                         node['memory_mb'],
                         {int(vcpu): cpu for vcpu, cpu in
                          (node['cpu_pinning'] or {}).items()})
              for node in body['nodes']),
        body['pagesize_kb'])
