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


"""What cannot be true of a host, whatever described it."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host import model


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Something that cannot be.

    :param path: where it stands, as in a host file: ('nodes', 0, 'memory')
    """

    path: tuple[str | int, ...]
    message: str
    advice: str = ''


def problems(description: model.HostDescription) -> Iterator[Problem]:
    """Whatever cannot be true of a host.

    The positions in the paths are those in the description's tuples.
    """
    yield from _node_problems(description.nodes)
    yield from _device_problems(description)
    yield from settings_problems(description)


def _node_problems(nodes: Sequence[model.Node]) -> Iterator[Problem]:
    everything = cpuset.union(node.cpus for node in nodes)
    nodes_by_id: dict[int, int] = {}
    node_of: dict[int, int] = {}
    for place, node in enumerate(nodes):
        path = 'nodes', place
        if node.id in nodes_by_id:
            yield Problem((*path, 'id'), f'there are two nodes {node.id}')
        nodes_by_id[node.id] = place
        yield from _cpu_problems(path, node, node_of)
        yield from _memory_problems(path, node)
        yield from _cache_problems(path, node, everything)
        if node.distances and len(node.distances) != len(nodes):
            yield Problem(
                (*path, 'distances'),
                f'there are {len(node.distances)} distances for '
                f'{len(nodes)} nodes',
                'give one for each node, this one included')
    if not everything:
        yield Problem(('nodes',), 'the host has no CPUs')


def _cpu_problems(
    path: tuple[str, int], node: model.Node, node_of: dict[int, int],
) -> Iterator[Problem]:
    seen = cpuset.CpuSet()
    for core in node.cores:
        twice = seen & cpuset.CpuSet(core)
        if twice:
            yield Problem((*path, 'cores'), f'{_cpus(twice)} in two cores')
        seen |= cpuset.CpuSet(core)
    for cpu in seen:
        other = node_of.setdefault(cpu, node.id)
        if other != node.id:
            yield Problem((*path, 'cpus'),
                          f'CPU {cpu} is in node {other} as well')
            return


def _memory_problems(
    path: tuple[str, int], node: model.Node,
) -> Iterator[Problem]:
    huge_kib = sum(size * pages for size, pages in node.huge_pages.items())
    if huge_kib > node.memory_mib * 1024:
        yield Problem(
            (*path, 'huge_pages'),
            f'the huge pages of node {node.id} are {huge_kib // 1024} MiB, '
            f'but it has {node.memory_mib} MiB of memory')


def _cache_problems(
    path: tuple[str, int], node: model.Node, everything: cpuset.CpuSet,
) -> Iterator[Problem]:
    seen = cpuset.CpuSet()
    for place, domain in enumerate(node.l3_domains):
        here = (*path, 'l3_domains', place)
        unknown = domain - everything
        if unknown:
            yield Problem(here, f'{_cpus(unknown)} not in any node')
        elif domain.isdisjoint(node.cpus):
            yield Problem(here, f'none of these CPUs is in node {node.id}')
        if domain & seen:
            yield Problem(here, f'{_cpus(domain & seen)} in two L3 domains')
        seen |= domain


def _device_problems(
    description: model.HostDescription,
) -> Iterator[Problem]:
    nodes = {node.id for node in description.nodes}
    seen = set()
    for place, device in enumerate(description.pci_devices):
        path = 'pci_devices', place
        if device.address in seen:
            yield Problem(
                (*path, 'address'), f'there are two devices {device.address}')
        seen.add(device.address)
        if device.numa_node is not None and device.numa_node not in nodes:
            yield Problem((*path, 'numa_node'),
                          f'there is no node {device.numa_node}',
                          'leave it out if the device belongs to none')


def settings_problems(
    description: model.HostDescription,
) -> Iterator[Problem]:
    """What cannot be true of nova's settings on this host."""
    nova = description.nova
    dedicated = nova.dedicated_cpus
    shared = nova.shared_cpus
    for key, cpus in (('dedicated_cpus', dedicated), ('shared_cpus', shared)):
        path = 'nova', key
        if cpus is None:
            continue
        if not cpus:
            yield Problem(path, 'there is no CPU in it',
                          'leave it out if nova.conf does not set it')
        unknown = cpus - description.cpus
        if unknown:
            yield Problem(path, f'{_cpus(unknown)} not on this host')
    if dedicated and shared and dedicated & shared:
        yield Problem(
            ('nova', 'shared_cpus'),
            f'{_cpus(dedicated & shared)} among the dedicated CPUs as well')
    memory_mib = sum(node.memory_mib for node in description.nodes)
    if nova.reserved_memory_mib > memory_mib:
        yield Problem(
            ('nova', 'reserved_memory'),
            f'{nova.reserved_memory_mib} MiB are reserved, but the host has '
            f'{memory_mib} MiB of memory')
    yield from _reserved_page_problems(description)


def _reserved_page_problems(
    description: model.HostDescription,
) -> Iterator[Problem]:
    nodes = {node.id: node for node in description.nodes}
    reserved = description.nova.reserved_huge_pages
    for (number, size_kib), pages in reserved.items():
        path = 'nova', 'reserved_huge_pages', str(number)
        if number not in nodes:
            yield Problem(path, f'there is no node {number}')
            continue
        there = nodes[number].huge_pages.get(size_kib, 0)
        if pages > there:
            yield Problem(
                path, f'{pages} pages of {size_kib} KiB are reserved, but '
                f'node {number} has {there}')


def _cpus(cpus: cpuset.CpuSet) -> str:
    return f'CPUs {cpus} are' if len(cpus) > 1 else f'CPU {cpus} is'
