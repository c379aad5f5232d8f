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

"""Where nova says a server is: GET /servers/{id}/topology."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning import cpuset


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A NUMA cell of the guest, as nova keeps it.

    :param vcpus: pinned ones and others
    :param pins: host CPU by pinned vCPU
    """

    host_node: int
    vcpus: cpuset.CpuSet
    memory_mib: int
    pins: Mapping[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Topology:
    """What nova keeps of a server.

    :param cells: empty for a server that floats over the whole host
    :param page_size_kib: None if it did not ask for one
    """

    cells: tuple[Cell, ...]
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


def parse(body: Mapping[str, Any]) -> Topology:
    """Read the API's answer, in microversion 2.78 or later."""
    return Topology(
        tuple(Cell(node['host_node'], cpuset.CpuSet(node['vcpu_set']),
                   node['memory_mb'],
                   {int(vcpu): cpu for vcpu, cpu in
                    (node['cpu_pinning'] or {}).items()})
              for node in body['nodes']),
        body['pagesize_kb'])
