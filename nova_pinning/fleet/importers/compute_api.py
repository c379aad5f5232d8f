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

"""A cloud's hosts and guests through its compute API and Placement.

For those who have no access to nova's database. The API tells which host CPUs
a server is pinned to (microversion 2.78), one server at a time, but nothing of
a host's cells; these come from host files.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math
from typing import Any
import urllib.parse

from openstack import exceptions as sdk_exceptions

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.flavors import guest_class as flavor_class
from nova_pinning.fleet.importers import classes
from nova_pinning.fleet.importers import hostfiles
from nova_pinning.fleet import model as fleet_model
from nova_pinning.host import model as host_model
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.segregation import cloud
from nova_pinning.segregation import model as segregation_model

#: What extra specs and image properties begin with that may give a guest a
#: NUMA topology (nova.virt.hardware.numa_get_constraints), and much besides.
_TOPOLOGY_KEYS = ('hw:', 'hw_cpu_', 'hw_numa_', 'hw_mem_', 'hw_emulator_',
                  'resources')
#: What is kept of a server; nova shows three times as much.
_SHOWN = ('name', 'status', 'flavor', 'image', 'OS-EXT-SRV-ATTR:host',
          'OS-EXT-STS:task_state')
_MOVABLE = ('ACTIVE', 'SHUTOFF', 'PAUSED')
_MIB_PER_GIB = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Hypervisor:
    """A compute node.

    :param name: of its compute service
    :param provider: UUID of its resource provider
    :param disabled_reason: why nova-scheduler does not choose it, '' if it
        may
    """

    name: str
    provider: str
    disabled_reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Provided:
    """What Placement has of a host; traits are None if it has no provider."""

    traits: frozenset[str] | None
    inventories: Mapping[str, client.Inventory]


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
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


class _Listing(cloud.Servers):
    """Lists servers as they are shown."""

    @classmethod
    def existing(cls, connection: Any = None, **shown: Any) -> Any:
        return Listed(shown['id'], {
            key: shown[key] for key in _SHOWN if key in shown})


class Cloud(cloud.Cloud):
    """What else is asked of a cloud; all of it can be called by threads.

    All methods raise errors.CloudError or one of its kinds.
    """

    def hypervisors(self) -> tuple[Hypervisor, ...]:
        """All compute nodes but bare metal ones, by name."""
        with cloud.translated():
            found = [_hypervisor(one) for one
                     in self._compute.hypervisors(details=True)
                     if one.hypervisor_type != 'ironic']
        return tuple(sorted(found, key=lambda one: one.name))

    def provided(self, provider: str) -> Provided:
        """What Placement has of a host.

        :param provider: its UUID
        """
        try:
            return Provided(self.placement.traits(provider).names,
                            self.placement.inventories(provider))
        except errors.RefusedError:
            # Placement has no such provider (404).
            return Provided(None, {})

    def listed_servers(self) -> tuple[Listed, ...]:
        """The servers of all projects that are on a host."""
        found = tuple(self._listed(_Listing, {}))
        for one in found:
            _check_shown(one)
        return tuple(one for one in found if one.host)

    def topology(self, server: str) -> Mapping[str, Any] | None:
        """Where a server's NUMA cells are; None if it is gone.

        :param server: its id
        """
        try:
            with cloud.translated():
                response = self._compute.get(
                    f'/servers/{urllib.parse.quote(server, safe="")}/topology')
                sdk_exceptions.raise_from_response(response)
                found: Mapping[str, Any] = response.json()
        except errors.UnsettledError:
            return None
        if any('host_node' not in node or 'cpu_pinning' not in node
               for node in found['nodes']):
            raise errors.CloudError(
                'the cloud does not show to this user which host CPUs a '
                'server is pinned to (policy '
                'compute:server:topology:host:index)')
        return found


def _check_shown(server: Listed) -> None:
    shown = server.shown
    if 'flavor' not in shown:
        raise errors.CloudError(
            f'the cell of server {server.id} does not answer')
    if 'OS-EXT-SRV-ATTR:host' not in shown:
        raise errors.CloudError(
            'the cloud does not show to this user which hosts servers are on '
            '(policy os_compute_api:os-extended-server-attributes)')
    if 'extra_specs' not in shown['flavor']:
        raise errors.CloudError(
            'the cloud does not show to this user the extra specs of the '
            'flavors of servers (policy '
            'os_compute_api:os-flavor-extra-specs:index)')


def _hypervisor(shown: Any) -> Hypervisor:
    reason = ''
    if shown.status == 'disabled':
        reason = shown.service_details.get('disabled_reason') or 'disabled'
    elif shown.state == 'down':
        reason = 'nova-compute is down'
    return Hypervisor(shown.service_details['host'], shown.id, reason)


def host(
    hypervisor: Hypervisor, provided: Provided,
    aggregates: Sequence[segregation_model.Aggregate],
    description: host_model.HostDescription | None,
    note: Callable[[str], None],
) -> fleet_model.FleetHost:
    """A host as a snapshot has it.

    :param aggregates: of the cloud
    :param description: its host file, None if there is none: it then has no
        cells
    :param note: is told what is odd
    """
    own = [aggregate(one) for one in aggregates
           if hypervisor.name in one.hosts]
    cells = hostfiles.cells(description) if description else ()
    inventories = provided.inventories
    host_class = None
    try:
        host_class = classes.host_class(own, provided.traits, cells)
    except hostclass.UnknownClass as error:
        note(f'host {hypervisor.name} is of no class: {error}')
    memory = inventories.get('MEMORY_MB')
    disk = inventories.get('DISK_GB')
    return fleet_model.FleetHost(
        name=hypervisor.name, cells=cells,
        l3_domains=hostfiles.l3_domains(description) if description else (),
        host_class=host_class,
        traits=provided.traits,
        aggregates=tuple(sorted(one.name for one in own)),
        cpu_allocation_ratio=_ratio(inventories.get('VCPU')),
        ram_allocation_ratio=_ratio(memory),
        disk_allocation_ratio=_ratio(disk),
        reserved_memory_mib=memory.reserved if memory else 0,
        disk_gib=disk.total if disk else None,
        is_enabled=not hypervisor.disabled_reason,
        disabled_reason=hypervisor.disabled_reason)


def _ratio(inventory: client.Inventory | None) -> float:
    return inventory.allocation_ratio if inventory else 1.0


def aggregate(
    found: segregation_model.Aggregate,
) -> fleet_model.Aggregate:
    """An aggregate as a snapshot has it."""
    metadata = dict(found.metadata)
    return fleet_model.Aggregate(
        found.name, metadata.pop('availability_zone', None), metadata)


def guest(
    server: Listed, topology: Mapping[str, Any] | None,
) -> fleet_model.FleetGuest:
    """A guest as a snapshot has it.

    :param topology: what nova says of its NUMA cells; None if it has none
    :raises ValueError: if that makes no sense
    :raises hostclass.UnknownClass: if its flavor names nonsense
    """
    shown = server.shown
    flavor = shown['flavor']
    wanted = fit = None
    if topology and topology['nodes']:
        wanted, fit = _placed(topology, flavor['extra_specs'])
    image = shown.get('image') or {}
    properties = image.get('properties') or {}
    return fleet_model.FleetGuest(
        uuid=server.id, host=server.host, vcpus=flavor['vcpus'],
        memory_mib=flavor['ram'],
        guest_class=flavor_class.guest_class(
            flavor['extra_specs'], properties.get('hw_cpu_policy'),
            wanted.cpu_policy if wanted else None),
        name=shown.get('name') or '', flavor=flavor['original_name'],
        # A server without an image boots from a volume.
        disk_gib=(flavor['disk'] if image else 0) + flavor['ephemeral']
        + math.ceil(flavor['swap'] / _MIB_PER_GIB),
        topology=wanted, fit=fit,
        is_movable=(shown.get('status') in _MOVABLE
                    and not shown.get('OS-EXT-STS:task_state')))


def has_hidden_cpus(found: fleet_model.FleetGuest) -> bool:
    """Whether it has a CPU for its emulator threads that nobody tells of."""
    return bool(found.topology and found.topology.emulator_isolated)


def may_go_back(server: Listed) -> bool:
    """Whether it may still hold room on the host that it came from."""
    return server.shown.get('status') in ('VERIFY_RESIZE', 'RESIZE',
                                          'MIGRATING', 'REVERT_RESIZE')


def _placed(topology: Mapping[str, Any],
            extra_specs: Mapping[str, str]) -> tuple[model.Guest, model.Fit]:
    """What a server asked for and where it lies."""
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
