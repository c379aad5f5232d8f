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

"""What a host is made of, as far as the choice of its CPUs goes.

Cores that lie in the same node and L3 domain, are of the same kind and have
as many threads can take each other's place.
"""

import collections
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import model

Core = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Cores that can take each other's place.

    :param threads: of each core that are online
    :param is_slow: whether the host has faster ones
    :param cores: lowest ids first
    """

    threads: int
    is_slow: bool
    cores: tuple[Core, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """A node's part of an L3 domain, all of it if nothing is known."""

    groups: tuple[Group, ...]

    @property
    def cpu_count(self) -> int:
        return sum(group.threads * len(group.cores) for group in self.groups)


@dataclasses.dataclass(frozen=True, slots=True)
class Ground:
    """A node with CPUs.

    :param busy_devices: how many devices there are that serve the host and
        are in use
    :param idle_devices: the others that serve the host
    :param sells: whether pinned guests can have memory here
    """

    id: int
    domains: tuple[Domain, ...]
    busy_devices: int
    idle_devices: int
    sells: bool

    @property
    def cpu_count(self) -> int:
        return sum(domain.cpu_count for domain in self.domains)

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """How many threads each core has, ascending."""
        return tuple(sorted(
            group.threads for domain in self.domains
            for group in domain.groups for _core in group.cores))


def serves_host(device: model.PciDevice) -> bool:
    """Whether it is a NIC or a drive that the host itself makes use of.

    A virtual function counts with its physical one.
    """
    return (not device.alias and not device.physical_function and device.kind
            in (hardware.PciKind.NIC, hardware.PciKind.NVME))


def is_in_use(device: model.PciDevice) -> bool:
    """Whether it is known that the host works with it now."""
    return bool(device.in_use) or (
        device.kind is hardware.PciKind.NIC and device.speed_mbps > 0)


def slow_cpus(description: model.HostDescription) -> cpuset.CpuSet:
    """The CPUs of the slowest cores, none if all are alike."""
    kinds = description.core_kinds
    if len(kinds) < 2:
        return cpuset.CpuSet()
    slowest = min(kinds, key=lambda kind: (
        kind.name != 'efficient', kind.capacity, kind.name))
    return slowest.cpus


def grounds(description: model.HostDescription,
            full: Collection[int] = ()) -> tuple[Ground, ...]:
    """The nodes that have CPUs, by id.

    :param full: nodes that sell nothing because all their memory is taken
    """
    slow = slow_cpus(description)
    devices = collections.Counter(
        (device.numa_node, is_in_use(device))
        for device in description.pci_devices if serves_host(device))
    return tuple(
        Ground(
            id=node.id,
            domains=tuple(_domains(node, description.core_kinds, slow)),
            busy_devices=devices[node.id, True],
            idle_devices=devices[node.id, False],
            sells=node.memory_mib > 0 and node.id not in full)
        for node in description.nodes if node.cores)


def _domains(
    node: model.Node, kinds: Iterable[hardware.CoreKind], slow: cpuset.CpuSet,
) -> Iterable[Domain]:
    domain_of = {cpu: place for place, domain in enumerate(node.l3_domains)
                 for cpu in domain}
    kind_of = {cpu: place for place, kind in enumerate(kinds)
               for cpu in kind.cpus}
    found: dict[int, dict[tuple[int, int], list[Core]]] = {}
    for core in sorted(node.cores):
        groups = found.setdefault(domain_of.get(core[0], -1), {})
        groups.setdefault(
            (kind_of.get(core[0], -1), len(core)), []).append(core)
    for groups in found.values():
        yield Domain(tuple(_groups(groups, slow)))


def _groups(found: Mapping[tuple[int, int], list[Core]],
            slow: cpuset.CpuSet) -> Iterable[Group]:
    for (_kind, threads), cores in found.items():
        yield Group(threads, cores[0][0] in slow, tuple(cores))
