# SPDX-License-Identifier: Apache-2.0
"""What a guest is besides its CPUs and its memory: as the catalogue sells it.

The words are those that the shipped catalogue has for its families enterprise
and shared, and the catalogue makes extra specs of them; what nova makes of
these is made of them here, without nova. A pinned tenant is of the one, a
vanilla one of the other.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import math
from typing import Any

import yaml

from nova_pinning import cpuset
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.host import domain_xml
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import cgroups

PINNED = {'class': 'dedicated', 'cpu_topology': 'match-host',
          'page_size': 'large', 'nic_multiqueue': True}
VANILLA = {'class': 'shared', 'cpu_topology': 'match-host'}
#: Nova's policies, by the catalogue's words for them.
_EMULATOR = {bench_model.EmulatorThreads.SHARE: 'share',
             bench_model.EmulatorThreads.ISOLATE: 'isolate'}
_NODES = '/sys/devices/system/node'
_KIB_PER_MIB = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestShape:
    """A guest's shape.

    :param cells: its NUMA cells, each with the host node that its memory
        has to come from; empty if it is told of none
    :param page_size_kib: of its memory, None for that of any other process
    :param queues: pairs of queues of its network interface
    """

    topology: domain_xml.DomainTopology
    cells: tuple[domain_xml.DomainCell, ...] = ()
    page_size_kib: int | None = None
    queues: int = 1
    shares: int | None = None

    @property
    def nodes(self) -> cpuset.CpuSet:
        """Host nodes that its memory comes from."""
        return cpuset.union(cell.host_nodes for cell in self.cells)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostNode:
    """A NUMA node of the host.

    :param free_pages: huge pages that nobody has, by their size in KiB
    """

    id: int
    cpus: cpuset.CpuSet
    free_pages: Mapping[int, int]


def host_nodes(tree: machine_files.Tree) -> tuple[HostNode, ...]:
    """The nodes of a host; none if its kernel knows of none."""
    return tuple(
        HostNode(id=int(name[4:]), cpus=cpus, free_pages=dict(
            _free_pages(tree, f'{_NODES}/{name}/hugepages')))
        for name in tree.names(_NODES)
        if name.startswith('node') and name[4:].isdecimal()
        and (cpus := tree.cpus(f'{_NODES}/{name}/cpulist')))


def flavor_of(tenant: bench_model.Tenant, *, cells: int,
              has_siblings: bool) -> flavor_model.Flavor:
    """What the catalogue would sell to a tenant.

    :param cells: NUMA cells that its CPUs are in
    :param has_siblings: whether its CPUs are whole cores of several threads,
        which the family demands where hosts have such
    """
    family: dict[str, Any]
    if tenant.provisioning is bench_model.Provisioning.PINNED:
        family = {**PINNED, 'numa_nodes': cells}
        if has_siblings:
            family['thread_policy'] = 'require'
        if tenant.emulator_threads in _EMULATOR:
            family['emulator_threads'] = _EMULATOR[tenant.emulator_threads]
        if tenant.weight != cgroups.USUAL_WEIGHT:
            family['cpu_priority'] = f'{tenant.weight}*vcpus'
    else:
        family = {**VANILLA, 'cpu_priority': f'{tenant.weight}*vcpus'}
    size = {'vcpus': tenant.size.vcpus,
            'memory': f'{tenant.size.memory_mib}MiB'}
    flavor, = catalogue.parse(yaml.safe_dump({
        'version': 1, 'name': 'bench', 'families': {
            'bench': {**family, 'sizes': {'size': size}}}}),
        f'tenant {tenant.name}').flavors
    return flavor


def shape_of(
    flavor: flavor_model.Flavor,
    instance_cpus: platform_interface.InstanceCpus,
    nodes: tuple[HostNode, ...],
) -> GuestShape:
    """What nova makes of a flavor whose vCPUs are placed already.

    :param nodes: of the host; where there are none the guest is told of none
    """
    specs = flavor.extra_specs
    cells: tuple[domain_xml.DomainCell, ...] = ()
    page_size_kib = None
    if 'hw:numa_nodes' in specs:
        cells = tuple(_cells(flavor, instance_cpus, nodes))
        if specs.get('hw:mem_page_size') == 'large':
            page_size_kib = _page_size(cells, nodes)
    shares = specs.get('quota:cpu_shares')
    return GuestShape(
        topology=domain_xml.DomainTopology(*(
            int(specs[f'hw:cpu_{word}'])
            for word in ('sockets', 'cores', 'threads'))),
        cells=cells, page_size_kib=page_size_kib,
        queues=flavor.vcpus
        if specs.get('hw:vif_multiqueue_enabled') == 'true' else 1,
        shares=int(shares) if shares else None)


def for_tenant(
    tenant: bench_model.Tenant,
    instance_cpus: platform_interface.InstanceCpus,
    tree: machine_files.Tree,
) -> GuestShape:
    """The shape of a guest on a host."""
    nodes = host_nodes(tree)
    own = [node for node in nodes
           if not node.cpus.isdisjoint(instance_cpus.cpus)]
    return shape_of(
        flavor_of(tenant, cells=max(len(own), 1),
                  has_siblings=_has_siblings(tree, instance_cpus.cpus)),
        instance_cpus, nodes)


def _cells(
    flavor: flavor_model.Flavor,
    instance_cpus: platform_interface.InstanceCpus,
    nodes: tuple[HostNode, ...],
) -> Iterator[domain_xml.DomainCell]:
    """A cell for each node that vCPUs are on, with memory in proportion."""
    own = {node.id: cpuset.CpuSet(
        number for number, cpus in enumerate(instance_cpus.vcpus)
        if cpus.issubset(node.cpus)) for node in nodes}
    own = {node: vcpus for node, vcpus in own.items() if vcpus}
    left_mib = flavor.memory_mib
    ordered = sorted(own.items(), key=lambda item: min(item[1]))
    for number, (node, vcpus) in enumerate(ordered):
        memory_mib = (left_mib if number == len(ordered) - 1 else
                      flavor.memory_mib * len(vcpus) // flavor.vcpus)
        left_mib -= memory_mib
        yield domain_xml.DomainCell(
            number, vcpus, memory_mib * _KIB_PER_MIB,
            cpuset.CpuSet([node]), 'strict')


def _page_size(cells: tuple[domain_xml.DomainCell, ...],
               nodes: tuple[HostNode, ...]) -> int | None:
    """The largest huge pages that all cells can have on their nodes.

    Where there are none, memory is in small pages: nova would not boot the
    guest there at all.
    """
    by_id = {node.id: node for node in nodes}
    sizes = {size for node in nodes for size in node.free_pages}
    for size in sorted(sizes, reverse=True):
        if cells and all(
                cell.memory_kib % size == 0
                and by_id[min(cell.host_nodes)].free_pages.get(size, 0)
                >= math.ceil(cell.memory_kib / size) for cell in cells):
            return size
    return None


def _free_pages(tree: machine_files.Tree,
                path: str) -> Iterator[tuple[int, int]]:
    for name in tree.names(path):
        size = name.removeprefix('hugepages-').removesuffix('kB')
        if size.isdecimal():
            yield int(size), tree.number(f'{path}/{name}/free_hugepages') or 0


def _has_siblings(tree: machine_files.Tree, cpus: cpuset.CpuSet) -> bool:
    """Whether CPUs are whole cores of more than one thread each."""
    cores = {tree.cpus(f'/sys/devices/system/cpu/cpu{cpu}/topology/'
                       'thread_siblings_list') for cpu in cpus}
    return bool(cores) and all(
        core and len(core) > 1 and core.issubset(cpus) for core in cores)
