# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of a host instances get.

With a plan these are the plan's. Without one there is a default, good enough
to compare the classes and no more: the first core is the host's, the others
are halved, and the second half, which may be larger by a core, is dedicated.
A host of two or three cores has its first core for itself and for shared
guests, and a single core is halved if it has several threads. On a single CPU
there is nothing to dedicate.

Pinned instances get their own CPUs, of their class: whole cores first, in
one L3 domain where they fit into one, else in one NUMA node. Instances that
float get all CPUs of their class, however many those are.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import discover
from nova_pinning.host.discover import numa
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.host import words
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import machine_needs
from nova_pinning.instance_bench import platform_interface
from nova_pinning.model import hostclass

_ADVICE = ('take fewer or smaller instances, or a plan with more CPUs of '
           'that class')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CpuLayout:
    """What a host's CPUs are for.

    :param host: for the kernel and for services; may be among ``shared``
    :param cores: the sibling threads of each core
    :param l3_domains: the CPUs that share each last-level cache; may reach
        beyond a node
    :param memory_mib: of the whole host
    :param note: what a reader has to know of it, '' for a plan
    :param planned: the host file with the plan, None without one
    :param lacks: why the machine has not what some experiments need, by what
        they call it
    """

    host: cpuset.CpuSet
    shared: cpuset.CpuSet
    dedicated: cpuset.CpuSet
    cores: tuple[cpuset.CpuSet, ...]
    l3_domains: tuple[cpuset.CpuSet, ...]
    nodes: tuple[cpuset.CpuSet, ...]
    memory_mib: int
    note: str = ''
    planned: host_model.HostDescription | None = None
    lacks: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def cpus(self) -> cpuset.CpuSet:
        """All CPUs that are online."""
        return cpuset.union(self.nodes)

    def of(self, guest_class: hostclass.HostClass) -> cpuset.CpuSet:
        """The CPUs for guests of a class."""
        return (self.dedicated if guest_class is hostclass.HostClass.DEDICATED
                else self.shared)

    def as_mapping(self) -> Mapping[str, cpuset.CpuSet]:
        """As it stands in the conditions of a run."""
        return {'dedicated': self.dedicated, 'shared': self.shared,
                'host': self.host}

    def undivided(self) -> 'CpuLayout':
        """The same host with all its CPUs for guests of either class.

        For what compares the whole host with a guest as large as it.
        """
        return dataclasses.replace(
            self, host=self.cpus, shared=self.cpus, dedicated=self.cpus,
            note='all CPUs of the host are for both classes')

    def in_turn(self) -> 'CpuLayout':
        """The same host with all CPUs but its own for guests of either class.

        For what has guests of one class on it at a time, as if it was a host
        of that class.
        """
        guests = self.shared | self.dedicated
        return dataclasses.replace(
            self, shared=guests, dedicated=guests,
            note='each class has all CPUs for guests, in turn')

    def of_one_cpu(self) -> 'CpuLayout':
        """The same host with its last CPU for guests of either class.

        For what is to compete for it. Over several CPUs the kernel may spread
        instances so that each has some of its own.
        """
        last = cpuset.CpuSet([max(self.cpus)])
        return dataclasses.replace(
            self, shared=last, dedicated=last,
            note='one CPU of the host is for both classes')


def load(path: str = '', root: str = '/') -> CpuLayout:
    """The layout of this machine, with a plan or without.

    :param path: of a host file that ``nova-pinning host plan`` wrote, '' for
        none
    :param root: of the machine that is measured
    :raises nova_pinning.errors.InputError: as of_plan does, or if the file
        cannot be read or has no plan
    """
    tree = machine_files.Tree(root)
    machine = discover.discover_host(tree)
    layout = (of_plan(host_loader.load_plan(path), machine) if path
              else of_host(machine))
    return dataclasses.replace(layout, memory_mib=max(
        layout.memory_mib, numa.all_memory_mib(tree)),
        lacks=machine_needs.lacking(tree))


def of_plan(planned: host_model.HostDescription,
            machine: host_model.HostDescription) -> CpuLayout:
    """The layout that a plan says.

    :param planned: a host file that ``nova-pinning host plan`` wrote
    :param machine: what ``host.discover`` found on the host to be measured
    :raises nova_pinning.errors.InputError: if it is for CPUs that the host
        does not have online
    """
    assert planned.plan is not None
    missing = planned.cpus - machine.cpus
    if missing:
        raise errors.InputError(
            f'the plan is for another host: {words.cpus(missing)} of it are '
            f'not online here, where {words.cpus(machine.cpus)} are',
            planned.where, 'give the plan of this host, or none')
    return _layout(
        machine, planned.plan.host_cpus,
        planned.nova.shared_cpus or cpuset.CpuSet(),
        planned.nova.dedicated_cpus or cpuset.CpuSet(), planned=planned)


def of_host(machine: host_model.HostDescription) -> CpuLayout:
    """A default for a host without a plan, as the module says.

    :param machine: what ``host.discover`` found
    """
    none = cpuset.CpuSet()
    bare = _layout(machine, none, none, none)
    units = _in_order(bare)
    if len(units) == 1:
        units = [cpuset.CpuSet([cpu]) for cpu in units[0]]
    is_small = len(units) < 4
    first = 0 if is_small else 1
    last = 1 if is_small else (len(units) + 1) // 2
    return dataclasses.replace(
        bare, host=units[0], shared=cpuset.union(units[first:last]),
        dedicated=cpuset.union(units[last:]),
        note='there is no plan for this host, and a default layout was used')


def instance_cpus(
    layout: CpuLayout, tenants: Sequence[bench_model.Tenant]
) -> Mapping[str, tuple[platform_interface.InstanceCpus, ...]]:
    """Where the instances of a case run, by the name of the tenant.

    In the order of the tenants, so that one that is first has the best place.

    :raises bench_errors.BenchError: if there is no room for them
    """
    free = {host_class: layout.of(host_class)
            for host_class in hostclass.HostClass}
    return {tenant.name: tuple(
        _with_network(layout, tenant, _place(layout, free, tenant))
        for _number in range(tenant.count)) for tenant in tenants}


def requests(case: bench_model.Case, layout: CpuLayout,
             workloads: Mapping[str, bench_model.Workload],
             ) -> tuple[platform_interface.InstanceRequest, ...]:
    """The instances of a case.

    :raises bench_errors.BenchError: if there is no room for them
    """
    cpus_of = instance_cpus(layout, [
        tenant for tenant in case.tenants
        if tenant.platform is not bench_model.PlatformName.NOVA])
    return tuple(
        platform_interface.InstanceRequest(
            name=f'{tenant.name}-{number}', tenant=tenant,
            instance_cpus=(cpus_of[tenant.name][number]
                           if tenant.name in cpus_of else None),
            workload=workloads[tenant.workload])
        for tenant in case.tenants for number in range(tenant.count))


def spare(layout: CpuLayout,
          places: Iterable[platform_interface.InstanceCpus]) -> cpuset.CpuSet:
    """Where what is not measured may run without disturbing instances.

    Of the host's own CPUs those that the instances of a case leave, so that
    it is the same for all cases of a divided host, else of all CPUs; empty if
    they leave none.

    :param places: of all instances of the case
    """
    used = cpuset.union(place.all_cpus for place in places)
    return layout.host - used or layout.cpus - used


def network_cpus(layout: CpuLayout,
                 instance_cpus: platform_interface.InstanceCpus,
                 where: bench_model.NetworkCpus) -> cpuset.CpuSet:
    """Where interrupts and vhost threads of an instance go.

    :raises bench_errors.BenchError: if the host has no such CPUs
    """
    own = instance_cpus.cpus
    if where is bench_model.NetworkCpus.VCPUS:
        return own
    near = cpuset.union(domain for domain in layout.l3_domains
                        if not domain.isdisjoint(own))
    cpus = (near - own if where is bench_model.NetworkCpus.SAME_CACHE
            else layout.cpus - near)
    if not cpus:
        raise bench_errors.BenchError(
            f'there are no CPUs for interrupts in {where}: the L3 domains '
            f'that CPUs {own} are in have CPUs {near}, of {layout.cpus}',
            'this needs a host with several L3 domains'
            if where is bench_model.NetworkCpus.OTHER_CACHE
            else 'take a smaller instance')
    return cpus


def _place(
    layout: CpuLayout, free: dict[hostclass.HostClass, cpuset.CpuSet],
    tenant: bench_model.Tenant,
) -> platform_interface.InstanceCpus:
    guest_class = tenant.guest_class
    vcpus = tenant.size.vcpus
    if tenant.provisioning is bench_model.Provisioning.VANILLA:
        cpus = layout.of(guest_class)
        if not cpus:
            raise bench_errors.BenchError(
                f'{tenant.name} needs {guest_class} CPUs and there are none',
                _ADVICE)
        return platform_interface.InstanceCpus(vcpus=(cpus, ) * vcpus,
                                               emulator=_emulator(
                                                   layout, tenant, cpus))
    isolate = tenant.emulator_threads is bench_model.EmulatorThreads.ISOLATE
    count = vcpus + isolate
    if len(free[guest_class]) < count:
        raise bench_errors.BenchError(
            f'{tenant.name} needs {count} more {guest_class} CPUs for each '
            f'instance, and {len(free[guest_class])} of '
            f'{len(layout.of(guest_class))} are left', _ADVICE)
    chosen = _choose(layout, free[guest_class], count)
    taken = cpuset.CpuSet(chosen)
    # In a layout that is not divided the classes have the same CPUs.
    for host_class in free:
        free[host_class] -= taken
    pins = tuple(cpuset.CpuSet([cpu]) for cpu in chosen)
    return platform_interface.InstanceCpus(
        vcpus=pins[:vcpus],
        emulator=pins[vcpus] if isolate else _emulator(layout, tenant, taken))


def _with_network(
    layout: CpuLayout, tenant: bench_model.Tenant,
    instance_cpus: platform_interface.InstanceCpus
) -> platform_interface.InstanceCpus:
    if tenant.network_cpus is None:
        return instance_cpus
    return dataclasses.replace(instance_cpus, network=network_cpus(
        layout, instance_cpus, tenant.network_cpus))


def _emulator(layout: CpuLayout, tenant: bench_model.Tenant,
              own: cpuset.CpuSet) -> cpuset.CpuSet:
    """Where emulator threads run that have no CPU of their own.

    Nova leaves them on the guest's CPUs unless a policy says otherwise.
    """
    if tenant.emulator_threads is bench_model.EmulatorThreads.SHARE:
        return layout.shared or layout.host
    return own


def _choose(layout: CpuLayout, free: cpuset.CpuSet,
            count: int) -> tuple[int, ...]:
    """CPUs for one instance, those of a core one after the other.

    From the fullest L3 domain that has room, so that others stay whole; else
    from such a node; else from anywhere. Cores with all threads free first,
    but an odd last CPU from a core that is broken up already, if there is
    one.
    """
    for groups in (layout.l3_domains, layout.nodes, (free,)):
        fitting = [group & free for group in groups
                   if len(group & free) >= count]
        if fitting:
            return _of_cores(layout, min(fitting, key=len), count)
    raise AssertionError('the caller has counted them')


def _of_cores(layout: CpuLayout, free: cpuset.CpuSet,
              count: int) -> tuple[int, ...]:
    whole: list[cpuset.CpuSet] = []
    broken: list[cpuset.CpuSet] = []
    for core in layout.cores:
        there = core & free
        if there:
            (whole if there == core else broken).append(there)
    chosen: list[int] = []
    for core in whole:
        if len(core) <= count - len(chosen):
            chosen += core
    for core in (*broken, *whole):
        chosen += [cpu for cpu in core if cpu not in chosen][
            :count - len(chosen)]
    return tuple(chosen)


def _in_order(layout: CpuLayout) -> list[cpuset.CpuSet]:
    """Cores, those of an L3 domain one after the other."""
    return sorted(layout.cores, key=lambda core: (next(
        number for number, domain in enumerate(layout.l3_domains)
        if not domain.isdisjoint(core)), core))


def _layout(
    machine: host_model.HostDescription, host: cpuset.CpuSet,
    shared: cpuset.CpuSet, dedicated: cpuset.CpuSet,
    planned: host_model.HostDescription | None = None,
) -> CpuLayout:
    domains = [domain & machine.cpus for node in machine.nodes
               for domain in node.l3_domains]
    # Of a node whose caches are not known the CPUs are taken to share one.
    domains += [node.cpus - cpuset.union(domains) for node in machine.nodes]
    return CpuLayout(
        host=host, shared=shared, dedicated=dedicated,
        cores=tuple(cpuset.CpuSet(core)
                    for node in machine.nodes for core in node.cores),
        l3_domains=tuple(filter(None, dict.fromkeys(domains))),
        nodes=tuple(node.cpus for node in machine.nodes if node.cpus),
        memory_mib=sum(node.memory_mib for node in machine.nodes),
        planned=planned)
