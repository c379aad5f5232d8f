# SPDX-License-Identifier: Apache-2.0
"""A cloud's hosts and guests through its compute API and Placement.

For those who have no access to nova's database. The API tells which host CPUs
a server is pinned to (microversion 2.78), one server at a time, but nothing of
a host's cells; these come from host files.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math
from typing import Any

from openstack.compute.v2 import hypervisor as sdk_hypervisor

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning.flavors import cloud_requests
from nova_pinning.fleet import cpu_models
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import provider_trees
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning.importers import host_gaps
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.segregation import segregation_cloud
from nova_pinning.segregation import segregation_model
from nova_pinning import units

#: What extra specs and image properties begin with that may give a guest a
#: NUMA topology (nova.virt.hardware.numa_get_constraints), and much besides.
_TOPOLOGY_KEYS = ('hw:', 'hw_cpu_', 'hw_numa_', 'hw_mem_', 'hw_emulator_',
                  'resources')
#: What is kept of a server; nova shows three times as much.
_SHOWN = ('id', 'name', 'status', 'flavor', 'image', 'OS-EXT-SRV-ATTR:host',
          'OS-EXT-STS:task_state', 'OS-EXT-STS:vm_state',
          'OS-SRV-USG:launched_at', 'tenant_id', 'metadata', 'tags',
          'pinned_availability_zone')
#: The last microversion that tells of hosts' CPUs.
_CPU_INFO_MICROVERSION = '2.87'
_METADATA_PREFIX = 'pinning:'
_POLICIES = frozenset(map(str, offered_host.GroupPolicy))
_MOVABLE = ('ACTIVE', 'SHUTOFF', 'PAUSED')


@dataclasses.dataclass(frozen=True, slots=True)
class ListedHypervisor:
    """A compute node.

    :param name: of its compute service
    :param provider: UUID of its resource provider
    :param disabled_reason: why nova-scheduler does not choose it, '' if it
        may
    :param version: of the hypervisor, None if not known
    :param cpu_info: that nova-compute reports of its CPUs, None if not known
    """

    name: str
    provider: str
    disabled_reason: str
    version: int | None = None
    cpu_info: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class ListedServer:
    """A server as nova lists it."""

    id: str
    shown: Mapping[str, Any]

    @property
    def host(self) -> str:
        """Name of the compute service, '' if it is on none."""
        return self.shown.get('OS-EXT-SRV-ATTR:host') or ''

    @property
    def may_have_topology(self) -> bool:
        image = self.shown.get('image') or {}
        properties = image.get('properties')
        if properties is None and image:
            # Not told before microversion 2.98.
            return True
        keys = (*self.shown['flavor']['extra_specs'], *(properties or ()))
        return any(key.startswith(_TOPOLOGY_KEYS) for key in keys)


class ComputeCloud(segregation_cloud.SegregationCloud):
    """What else is asked of a cloud; all of it can be called by threads.

    All methods raise errors.CloudError or one of its kinds.
    """

    def hypervisors(self) -> tuple[ListedHypervisor, ...]:
        """All compute nodes but bare metal ones, by name."""
        with cloud_requests.translated():
            # Nova has ceased to tell; it still does who asks as of old.
            cpu_infos = {
                old.id: old.cpu_info for old in sdk_hypervisor.Hypervisor.list(
                    self._compute, base_path='/os-hypervisors/detail',
                    microversion=_CPU_INFO_MICROVERSION)}
            hypervisors = [_hypervisor(hypervisor, cpu_infos)
                           for hypervisor in self._hypervisors()]
        return tuple(sorted(
            hypervisors, key=lambda hypervisor: hypervisor.name))

    def server_groups(self) -> Iterator[
            tuple[offered_host.ServerGroup, frozenset[str]]]:
        """The server groups of all projects, with the ids of their servers.

        Page by page; openstacksdk knows of no pages here.
        """
        offset = 0
        while page := cloud_requests.got(
                self._compute, '/os-server-groups', params={
                    'all_projects': 'true', 'offset': offset},
                )['server_groups']:
            for shown in page:
                if shown['policy'] in _POLICIES:
                    yield _server_group(shown), frozenset(shown['members'])
            offset += len(page)

    def zones(self) -> dict[str, str]:
        """The availability zone of each host."""
        with cloud_requests.translated():
            return {host: zone.name for zone
                    in self._compute.availability_zones(details=True)
                    for host in zone.hosts or ()}

    def listed_servers(self, host: str = '') -> tuple[ListedServer, ...]:
        """The servers of all projects that are on a host.

        :param host: only those on this compute service
        """
        servers = [
            ListedServer(shown['id'], {
                key: shown[key] for key in _SHOWN if key in shown})
            for shown in self._shown_servers(host)]
        for server in servers:
            segregation_cloud.check_shown(server.shown)
        return tuple(server for server in servers if server.host)


def _server_group(shown: Mapping[str, Any]) -> offered_host.ServerGroup:
    return offered_host.ServerGroup(
        id=shown['id'], policy=offered_host.GroupPolicy(shown['policy']),
        name=shown['name'] or '',
        max_per_host=int((shown.get('rules') or {}).get(
            'max_server_per_host', 1)))


def _hypervisor(shown: Any,
                cpu_infos: Mapping[str, Any]) -> ListedHypervisor:
    reason = ''
    if shown.status == 'disabled':
        reason = shown.service_details.get('disabled_reason') or 'disabled'
    elif shown.state == 'down':
        reason = 'nova-compute is down'
    return ListedHypervisor(
        shown.service_details['host'], shown.id, reason,
        shown.hypervisor_version, cpu_infos.get(shown.id))


def fleet_host(
    hypervisor: ListedHypervisor, tree: provider_trees.HostTree,
    aggregates: Sequence[segregation_model.HostAggregate],
    description: host_model.HostDescription | None,
    note: Callable[[str], None],
) -> offered_host.OfferedHost:
    """A host as a snapshot has it, without what is used of it, and its class.

    :param tree: () if Placement does not have it
    :param aggregates: of the cloud
    :param description: its host file, None if there is none: it then has no
        cells; Placement outweighs what it says
    :param note: is told what is odd
    """
    own = [fleet_aggregate(aggregate) for aggregate in aggregates
           if hypervisor.name in aggregate.hosts]
    inventories = tree[0].inventories if tree else {}
    traits = tree[0].traits if tree else None
    cells, gaps = host_gaps.known_cells(description, tree)
    cpu_model = None
    try:
        cpu_model = cpu_models.of_cpu_info(hypervisor.cpu_info or {})
    except (AttributeError, TypeError, ValueError) as error:
        note(f'host {hypervisor.name}: its cpu_info cannot be read: {error}')
    memory = inventories.get('MEMORY_MB')
    disk = inventories.get('DISK_GB')
    return offered_host.OfferedHost(
        name=hypervisor.name,
        cells=cells,
        l3_domains=host_offer.l3_domains(description) if description else
        (),
        traits=traits,
        aggregates=tuple(sorted(aggregate.name for aggregate in own)),
        cpu_allocation_ratio=_ratio(inventories.get('VCPU')),
        ram_allocation_ratio=_ratio(memory),
        disk_allocation_ratio=_ratio(disk),
        reserved_memory_mib=memory.reserved if memory else 0,
        disk_gib=disk.total if disk else None,
        is_enabled=not hypervisor.disabled_reason,
        disabled_reason=hypervisor.disabled_reason,
        cpu_model=cpu_model, hypervisor_version=hypervisor.version or None,
        inventories=inventories, gaps=gaps)


def _ratio(has: inventory.Inventory | None) -> float:
    return has.allocation_ratio if has else 1.0


def fleet_aggregate(
    aggregate: segregation_model.HostAggregate,
) -> offered_host.Aggregate:
    """An aggregate as a snapshot has it."""
    metadata = dict(aggregate.metadata)
    return offered_host.Aggregate(
        aggregate.name, metadata.pop('availability_zone', None), metadata)


def fleet_guest(
    server: ListedServer, topology: Mapping[str, Any] | None,
    server_group: str = '',
) -> resident_guest.ResidentGuest:
    """A guest as a snapshot has it.

    :param topology: what nova says of its NUMA cells; None if it has none
    :param server_group: id, '' for none
    :raises ValueError: if that makes no sense
    :raises hostclass.UnknownClass: if its flavor names nonsense
    """
    shown = server.shown
    flavor = shown['flavor']
    image = shown.get('image') or {}
    properties = image.get('properties') or {}
    numa_topology = fit = None
    if topology and topology['nodes']:
        claimed, fit = _placed(topology, flavor['extra_specs'])
        numa_topology = moved_guest.asked_topology(
            claimed, flavor['extra_specs'], properties)
    return resident_guest.ResidentGuest(
        uuid=server.id, host=server.host, vcpus=flavor['vcpus'],
        memory_mib=flavor['ram'],
        guest_class=hostclass.class_of_guest(
            flavor['extra_specs'], properties.get('hw_cpu_policy'),
            numa_topology.cpu_policy if numa_topology else None),
        name=shown.get('name') or '', flavor=flavor['original_name'],
        # A server without an image boots from a volume.
        disk_gib=(flavor['disk'] if image else 0) + flavor['ephemeral']
        + math.ceil(flavor['swap'] / units.MIB_PER_GIB),
        topology=numa_topology, fit=fit,
        is_movable=(shown.get('status') in _MOVABLE
                    and not shown.get('OS-EXT-STS:task_state')),
        launched_at=_time(shown.get('OS-SRV-USG:launched_at')),
        vm_state=shown.get('OS-EXT-STS:vm_state') or '',
        project=shown.get('tenant_id') or '',
        # Told from microversion 2.96 on; null for none.
        availability_zone=(shown['pinned_availability_zone'] or ''
                           if 'pinned_availability_zone' in shown else None),
        server_group=server_group,
        metadata={key: value
                  for key, value in (shown.get('metadata') or {}).items()
                  if key.startswith(_METADATA_PREFIX)},
        tags=tuple(sorted(shown.get('tags') or ())))


def _time(shown: str | None) -> str:
    """A time as a snapshot has it; nova shows it in UTC, with microseconds.

    :param shown: such as 2026-05-04T10:11:12.000000; None if it was never
    """
    return f'{shown.partition(".")[0]}Z' if shown else ''


def may_go_back(server: ListedServer) -> bool:
    """Whether it may still hold room on the host that it came from."""
    return server.shown.get('status') in ('VERIFY_RESIZE', 'RESIZE',
                                          'MIGRATING', 'REVERT_RESIZE')


def _placed(topology: Mapping[str, Any],
            extra_specs: Mapping[str, str]) -> tuple[model.Guest, model.Fit]:
    """What nova has claimed for a server, and where it lies."""
    page_size = topology.get('pagesize_kb') or None
    cells, fits = [], []
    for node in topology['nodes']:
        pins = tuple(sorted((int(vcpu), cpu) for vcpu, cpu
                            in node['cpu_pinning'].items()))
        most = max((*(cpu for _vcpu, cpu in pins), *node['vcpu_set']),
                   default=0)
        if most > cpuset.MAX_CPU_ID:
            raise ValueError(f'there is no CPU {most}')
        pinned = {vcpu for vcpu, _cpu in pins}
        cells.append(model.GuestCell(
            tuple(sorted(pinned)),
            tuple(sorted(set(node['vcpu_set']) - pinned)),
            node['memory_mb'], page_size))
        fits.append(model.CellFit(
            node['host_node'], pins, page_size_kib=page_size))
    return model.Guest(
        tuple(cells), _policy(cells),
        _thread_policy(extra_specs),
        extra_specs.get('hw:emulator_threads_policy') == 'isolate',
    ), model.Fit(tuple(fits))


def _policy(cells: Sequence[model.GuestCell]) -> model.CpuPolicy:
    if not any(cell.dedicated_vcpus for cell in cells):
        return model.CpuPolicy.SHARED
    if any(cell.shared_vcpus for cell in cells):
        return model.CpuPolicy.MIXED
    return model.CpuPolicy.DEDICATED


def _thread_policy(extra_specs: Mapping[str, str]) -> model.ThreadPolicy:
    try:
        return model.ThreadPolicy(
            extra_specs.get('hw:cpu_thread_policy', 'prefer'))
    except ValueError:
        return model.ThreadPolicy.PREFER
