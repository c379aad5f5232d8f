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

"""What fits on a host, as far as its CPUs and memory go when it is empty."""

from collections.abc import Mapping
import dataclasses
import math

from nova_pinning.bench.advise import model
from nova_pinning.fit import capacity
from nova_pinning.flavors import model as flavor_model
from nova_pinning.host import engine
from nova_pinning.host import model as host_model
from nova_pinning.model import hostclass

# Above rounding: 0.14 of 50 CPUs is 7, not a bit more.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a NUMA node offers to pinned guests.

    :param pages_mib: memory in pages for guests by page size in KiB
    """

    cpus: int
    memory_mib: int
    pages_mib: Mapping[int, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A host as the advisor sees it.

    :param cpus: that are online, which CHR goes by
    :param nodes: by NUMA node
    :param l3_cpus: dedicated CPUs of the largest L3 domain, 0 if not known
    :param shared_cpus: how many CPUs floating vCPUs may use
    :param has_shared_set: whether nova.conf names shared CPUs
    """

    name: str
    cpus: int
    nodes: tuple[Node, ...]
    l3_cpus: int
    shared_cpus: int
    memory_mib: int
    has_shared_set: bool

    @property
    def node_cpus(self) -> int:
        """Dedicated CPUs of the NUMA node that has the most."""
        return max((node.cpus for node in self.nodes), default=0)

    def of(self, guest_class: hostclass.HostClass) -> int:
        """How many CPUs there are for guests of a class."""
        if guest_class is hostclass.HostClass.SHARED:
            return self.shared_cpus
        return sum(node.cpus for node in self.nodes)

    def fits(self, flavor: flavor_model.Flavor,
             guest_class: hostclass.HostClass) -> bool:
        """Whether a guest of a flavor fits on the empty host.

        A floating guest with more vCPUs than there are CPUs for it would run,
        but wait for itself.
        """
        if guest_class is hostclass.HostClass.SHARED:
            return (flavor.vcpus <= self.shared_cpus
                    and flavor.memory_mib <= self.memory_mib)
        cells = _cells(flavor)
        size = flavor.extra_specs.get('hw:mem_page_size', '')
        return bool(capacity.guests(
            [capacity.Room(node.cpus, _memory_mib(node, size))
             for node in self.nodes],
            capacity.Size(-(-flavor.vcpus // cells) * cells, cells,
                          flavor.memory_mib)))

    def vcpus(self, value: model.Value) -> tuple[int, int]:
        """The sizes in a range of CHR, at least one vCPU.

        :returns: the smallest and the largest; the latter is less if no whole
            number of vCPUs is in the range
        """
        assert value.low is not None and value.high is not None
        return (max(1, math.ceil(value.low * self.cpus - _ROUNDING)),
                math.floor(value.high * self.cpus + _ROUNDING))


def room(description: host_model.HostDescription) -> Room:
    """What there is of a host that a file describes."""
    dedicated = engine.dedicated_cpus(description)
    reserved = description.nova.reserved_memory_mib
    return Room(
        name=description.name,
        cpus=len(description.cpus),
        nodes=tuple(
            Node(cpus=len(node.cpus & dedicated), memory_mib=node.memory_mib,
                 pages_mib={
                     pool.size_kib:
                     (pool.total - pool.reserved) * pool.size_kib // 1024
                     for pool in engine.page_pools(node, description.nova)})
            for node in description.nodes),
        l3_cpus=max((len(domain & dedicated) for node in description.nodes
                     for domain in node.l3_domains), default=0),
        shared_cpus=len(engine.shared_cpus(description)),
        memory_mib=max(0, sum(
            node.memory_mib for node in description.nodes) - reserved),
        has_shared_set=bool(description.nova.shared_cpus))


def _memory_mib(node: Node, page_size: str) -> int:
    """Memory of a node for guests with such an extra spec, '' for none."""
    if page_size == 'large':
        return sum(mib for size, mib in node.pages_mib.items()
                   if size > engine.SMALL_PAGE_KIB)
    if page_size == 'small':
        return node.pages_mib.get(engine.SMALL_PAGE_KIB, 0)
    if page_size.isdecimal():
        return node.pages_mib.get(int(page_size), 0)
    return node.memory_mib


def _cells(flavor: flavor_model.Flavor) -> int:
    """NUMA cells of its guests; nova's own checks are for the cloud."""
    text = flavor.extra_specs.get('hw:numa_nodes', '1')
    return max(1, int(text)) if text.isdecimal() else 1
