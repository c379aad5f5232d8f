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
from typing import Any

import yaml

from nova_pinning import cpuset
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.host.check import gathering
from nova_pinning.host.discover import numa
from nova_pinning.host import domain_xml
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning import units

PINNED = {'class': 'dedicated', 'cpu_topology': 'match-host',
          'page_size': 'large', 'nic_multiqueue': True}
VANILLA = {'class': 'shared', 'cpu_topology': 'match-host'}
# Of the L3, for a guest of an experiment that gives them out.
_L3_WAYS = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestShape:
    """A guest's shape.

    :param cells: its NUMA cells, each with the host node that its memory
        has to come from; empty if it is told of none
    :param page_size_kib: of its memory, None for that of any other process
    :param queues: pairs of queues of its network interface
    :param l3_ways: of the cache, that it asks for, 0 for none
    """

    topology: domain_xml.DomainTopology
    cells: tuple[domain_xml.DomainCell, ...] = ()
    page_size_kib: int | None = None
    queues: int = 1
    shares: int | None = None
    l3_ways: int = 0

    @property
    def nodes(self) -> cpuset.CpuSet:
        """Host nodes that its memory comes from."""
        return cpuset.union(cell.host_nodes for cell in self.cells)


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
        if tenant.emulator_threads and tenant.emulator_threads.policy:
            family['emulator_threads'] = tenant.emulator_threads.policy
        if tenant.agent is bench_model.AgentScheme.WAYS:
            family['l3_ways'] = _L3_WAYS
        if tenant.weight != bench_model.USUAL_WEIGHT:
            family['cpu_priority'] = {'per_vcpu': tenant.weight}
    else:
        family = {**VANILLA, 'cpu_priority': {'per_vcpu': tenant.weight}}
    if tenant.queues is not None:
        family['nic_multiqueue'] = (
            tenant.queues is bench_model.NetworkQueues.VCPUS)
    size = {'vcpus': tenant.size.vcpus,
            'memory': f'{tenant.size.memory_mib}MiB'}
    flavor, = catalogue.parse(yaml.safe_dump({
        'version': 2, 'name': 'bench', 'families': {
            'bench': {**family, 'sizes': {'size': size}}}}),
        f'tenant {tenant.name}').flavors
    return flavor


def shape_of(
    flavor: flavor_model.Flavor,
    instance_cpus: platform_interface.InstanceCpus,
    nodes: Mapping[int, cpuset.CpuSet],
    free_pages: Mapping[tuple[int, int], int],
) -> GuestShape:
    """What nova makes of a flavor whose vCPUs are placed already.

    :param nodes: of the host, the CPUs of each; where there are none the
        guest is told of none
    :param free_pages: huge pages that nobody has, by node and size in KiB
    """
    specs = flavor.extra_specs
    cells: tuple[domain_xml.DomainCell, ...] = ()
    page_size_kib = None
    if 'hw:numa_nodes' in specs:
        cells = tuple(_cells(flavor, instance_cpus, nodes))
        if specs.get('hw:mem_page_size') == 'large':
            page_size_kib = _page_size(cells, free_pages)
    shares = specs.get('quota:cpu_shares')
    return GuestShape(
        topology=domain_xml.DomainTopology(*(
            int(specs[f'hw:cpu_{word}'])
            for word in ('sockets', 'cores', 'threads'))),
        cells=cells, page_size_kib=page_size_kib,
        queues=flavor.vcpus
        if specs.get('hw:vif_multiqueue_enabled') == 'true' else 1,
        shares=int(shares) if shares else None,
        l3_ways=int(specs.get(flavor_model.L3_WAYS_KEY, 0)))


def for_tenant(
    tenant: bench_model.Tenant,
    instance_cpus: platform_interface.InstanceCpus,
    tree: machine_files.Tree,
) -> GuestShape:
    """The shape of a guest on a host."""
    nodes = {node: cpus for node in numa.node_numbers(tree)
             if (cpus := numa.node_cpus(tree, node))}
    own = [node for node, cpus in nodes.items()
           if not cpus.isdisjoint(instance_cpus.cpus)]
    return shape_of(
        flavor_of(tenant, cells=max(len(own), 1),
                  has_siblings=_has_siblings(tree, instance_cpus.cpus)),
        instance_cpus, nodes, dict(gathering.free_pages(tree)))


def _cells(
    flavor: flavor_model.Flavor,
    instance_cpus: platform_interface.InstanceCpus,
    nodes: Mapping[int, cpuset.CpuSet],
) -> Iterator[domain_xml.DomainCell]:
    """A cell for each node that vCPUs are on, with memory in proportion."""
    own = {node: cpuset.CpuSet(
        number for number, cpus in enumerate(instance_cpus.vcpus)
        if cpus.issubset(of_node)) for node, of_node in nodes.items()}
    own = {node: vcpus for node, vcpus in own.items() if vcpus}
    left_mib = flavor.memory_mib
    ordered = sorted(own.items(), key=lambda item: min(item[1]))
    for number, (node, vcpus) in enumerate(ordered):
        memory_mib = (left_mib if number == len(ordered) - 1 else
                      flavor.memory_mib * len(vcpus) // flavor.vcpus)
        left_mib -= memory_mib
        yield domain_xml.DomainCell(
            number, vcpus, memory_mib * units.KIB_PER_MIB,
            cpuset.CpuSet([node]), 'strict')


def _page_size(cells: tuple[domain_xml.DomainCell, ...],
               free_pages: Mapping[tuple[int, int], int]) -> int | None:
    """The largest huge pages that all cells can have on their nodes.

    Where there are none, memory is in small pages: nova would not boot the
    guest there at all.
    """
    for size in sorted({size for _node, size in free_pages}, reverse=True):
        if cells and all(
                cell.memory_kib % size == 0
                and free_pages.get((min(cell.host_nodes), size), 0)
                >= cell.memory_kib // size for cell in cells):
            return size
    return None


def _has_siblings(tree: machine_files.Tree, cpus: cpuset.CpuSet) -> bool:
    """Whether CPUs are whole cores of more than one thread each."""
    cores = {tree.cpus(f'/sys/devices/system/cpu/cpu{cpu}/topology/'
                       'thread_siblings_list') for cpu in cpus}
    return bool(cores) and all(
        core and len(core) > 1 and core.issubset(cpus) for core in cores)
