# SPDX-License-Identifier: Apache-2.0
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
from nova_pinning.host import host_model

Core = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CoreGroup:
    """Cores that can take each other's place.

    :param threads: of each core that are online
    :param is_slow: whether the host has faster ones
    :param cores: lowest ids first
    """

    threads: int
    is_slow: bool
    cores: tuple[Core, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CacheDomain:
    """A node's part of an L3 domain, all of it if nothing is known.

    :param reaches_beyond: whether other nodes have parts of it, too
    """

    groups: tuple[CoreGroup, ...]
    reaches_beyond: bool = False

    @property
    def cpu_count(self) -> int:
        return sum(group.threads * len(group.cores) for group in self.groups)


@dataclasses.dataclass(frozen=True, slots=True)
class AllocatableNode:
    """A node with CPUs.

    :param busy_devices: how many devices there are that serve the host and
        are in use
    :param idle_devices: the others that serve the host
    :param has_gpus: whether there are GPUs that guests get
    :param sells: whether pinned guests can have memory here
    :param wide_domain: the L3 domain that has all its CPUs and some of other
        nodes (sub-NUMA clustering), none if there is no such
    :param socket_distances: to other sockets, between those nodes that are
        nearest; () if all sockets are as far from each other
    """

    id: int
    domains: tuple[CacheDomain, ...]
    busy_devices: int
    idle_devices: int
    sells: bool
    has_gpus: bool = False
    socket: int = 0
    wide_domain: cpuset.CpuSet = cpuset.CpuSet()
    socket_distances: tuple[tuple[int, int], ...] = ()

    @property
    def cpu_count(self) -> int:
        return sum(domain.cpu_count for domain in self.domains)

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """How many threads each core has, ascending."""
        return tuple(sorted(
            group.threads for domain in self.domains
            for group in domain.groups for _core in group.cores))


def serves_host(device: host_model.PciDevice) -> bool:
    """Whether it is a NIC or a drive that the host itself makes use of.

    A virtual function counts with its physical one.
    """
    return (not device.alias and not device.physical_function and device.kind
            in (hardware.PciKind.NIC, hardware.PciKind.NVME))


def is_gpu_for_guests(device: host_model.PciDevice) -> bool:
    """Whether it is a whole GPU that guests get, or parts of one."""
    return (device.kind is hardware.PciKind.GPU
            and bool(device.alias or device.mdev_type)
            and not device.physical_function)


def is_in_use(device: host_model.PciDevice) -> bool:
    """Whether it is known that the host works with it now."""
    return bool(device.in_use) or (
        device.kind is hardware.PciKind.NIC and device.speed_mbps > 0)


def slow_cpus(description: host_model.HostDescription) -> cpuset.CpuSet:
    """The CPUs of the slowest cores, none if all are alike."""
    kinds = description.core_kinds
    if len(kinds) < 2:
        return cpuset.CpuSet()
    slowest = min(kinds, key=lambda kind: (
        kind.name != 'efficient', kind.capacity, kind.name))
    return slowest.cpus


def allocatable_nodes(
    description: host_model.HostDescription, full: Collection[int] = ()
) -> tuple[AllocatableNode, ...]:
    """The nodes that have CPUs, by id.

    :param full: nodes that sell nothing because all their memory is taken
    """
    slow = slow_cpus(description)
    devices = collections.Counter(
        (device.numa_node, is_in_use(device))
        for device in description.pci_devices if serves_host(device))
    distances = _socket_distances(description)
    return tuple(
        AllocatableNode(
            id=node.id,
            domains=tuple(_domains(
                node, description.core_kinds, slow, bool(wide))),
            busy_devices=devices[node.id, True],
            idle_devices=devices[node.id, False],
            sells=node.memory_mib > 0 and node.id not in full,
            has_gpus=any(device.numa_node == node.id for device
                         in description.pci_devices
                         if is_gpu_for_guests(device)),
            socket=node.socket,
            wide_domain=wide,
            socket_distances=distances.get(node.socket, ()))
        for node in description.nodes if node.cores
        for wide in (next((domain for domain in node.l3_domains
                           if len(domain) > len(node.cpus)
                           and not node.cpus - domain), cpuset.CpuSet()),))


def _socket_distances(
    description: host_model.HostDescription,
) -> Mapping[int, tuple[tuple[int, int], ...]]:
    """To other sockets, by socket; none if all are as far or not known."""
    if not all(node.distances for node in description.nodes):
        return {}
    nearest: dict[tuple[int, int], int] = {}
    for node in description.nodes:
        for other, distance in zip(description.nodes, node.distances):
            # Nodes without CPUs are of no socket.
            if node.cores and other.cores and other.socket != node.socket:
                pair = node.socket, other.socket
                nearest[pair] = min(distance, nearest.get(pair, distance))
    if len(set(nearest.values())) < 2:
        return {}
    return {socket: tuple((to, distance) for (start, to), distance
                          in nearest.items() if start == socket)
            for socket, _to in nearest}


def _domains(
    node: host_model.NumaNode,
    kinds: Iterable[hardware.CoreKind],
    slow: cpuset.CpuSet,
    reaches_beyond: bool,
) -> Iterable[CacheDomain]:
    domain_of = {cpu: index for index, domain in enumerate(node.l3_domains)
                 for cpu in domain}
    kind_of = {cpu: index for index, kind in enumerate(kinds)
               for cpu in kind.cpus}
    by_domain: dict[int, dict[tuple[int, int], list[Core]]] = {}
    for core in sorted(node.cores):
        groups = by_domain.setdefault(domain_of.get(core[0], -1), {})
        groups.setdefault(
            (kind_of.get(core[0], -1), len(core)), []).append(core)
    for groups in by_domain.values():
        yield CacheDomain(tuple(
            CoreGroup(threads, cores[0][0] in slow, tuple(cores))
            for (_kind, threads), cores in groups.items()), reaches_beyond)
