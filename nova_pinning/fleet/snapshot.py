# SPDX-License-Identifier: Apache-2.0
"""A fleet as a snapshot describes it.

Hosts and guests are in the engine's own terms wherever the engine has them:
a host's cells are ``model.HostCell`` as they are without guests, a guest's
topology is a ``model.Guest`` and where it lies a ``model.Fit``. What is used
of a host follows from the guests and is written nowhere.
"""

from collections.abc import Mapping
import dataclasses
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning import model
from nova_pinning.model import hostclass


# The engine's words for devices, by which a snapshot tells of them too.
DeviceKind = devices.DeviceKind
PciPool = devices.PciPool
PciRequest = devices.PciRequest
PciUse = devices.PciUse


class PciAlias(NamedTuple):
    """A name under which flavors ask for devices ([pci] alias)."""

    kinds: tuple[DeviceKind, ...]
    policy: str = 'legacy'


# What hosts are is told in admission, which judges guests on them.
FleetAggregate = offered_host.HostAggregate
FleetHost = offered_host.OfferedHost
FleetServerGroup = offered_host.ServerGroup
GapKind = outcome.DoubtKind
GroupPolicy = offered_host.GroupPolicy
HostCpuModel = offered_host.HostCpuModel
HostGap = outcome.Doubt


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetGuest:
    """A guest that holds room on a host, whether it runs or not.

    :param uuid: unique; that of the server
    :param flavor: its flavor's name, '' if not known
    :param host: name of its host
    :param disk_gib: on the host's own disks
    :param resources: what it has of custom resource classes that are counted
    :param topology: what it asked for, None if it has no NUMA topology: its
        vCPUs then float over all shared CPUs of the host
    :param fit: where that lies; given exactly if topology is
    :param is_movable: whether nova would migrate it now
    :param launched_at: when nova last built it: made it, resized it, rebuilt
        or unshelved it; a reboot does not count. ISO 8601, UTC; '' if not
        known
    :param vm_state: nova's, 'active', 'stopped' and so on; '' if not known
    :param project: UUID, '' if not known
    :param availability_zone: that it was asked for in; '' if in none, None
        if not known
    :param server_group: id of the one that it is in, '' for none
    :param cpu_model: that nova-compute gave it by name ([libvirt]
        cpu_models); '' if it has that of its host, or it is not known
    :param metadata: those of the server whose keys begin with ``pinning:``
    :param tags: of the server, sorted
    """

    uuid: str
    host: str
    vcpus: int
    memory_mib: int
    guest_class: hostclass.HostClass
    name: str = ''
    flavor: str = ''
    disk_gib: int = 0
    resources: Mapping[str, int] = dataclasses.field(
        default_factory=dict, hash=False)
    topology: model.Guest | None = None
    fit: model.Fit | None = None
    devices: tuple[PciUse, ...] = ()
    is_movable: bool = True
    launched_at: str = ''
    vm_state: str = ''
    project: str = ''
    availability_zone: str | None = None
    server_group: str = ''
    cpu_model: str = ''
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tags: tuple[str, ...] = ()

    @property
    def shape(self) -> str:
        """What stands for a flavor that nobody has: '2 vCPUs x 4 GiB ...'."""
        policy = self.topology.cpu_policy if self.topology else 'shared'
        return (f'{self.vcpus} vCPU{"" if self.vcpus == 1 else "s"} x '
                f'{quantities.shown_memory(self.memory_mib)} {policy}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A snapshot.

    :param guests: in any order; each on one of the hosts, unless something
        is wrong, which nova_pinning.fleet.problems finds
    :param flavors: those of the cloud, as far as they are known
    :param server_groups: as far as they are known
    :param pci_aliases: by name
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param enabled_filters: of nova-scheduler, () if not known
    :param taken_at: ISO 8601, UTC; '' if not known
    :param source: where it is from, for people
    :param where: the file it was read from
    """

    hosts: tuple[FleetHost, ...]
    guests: tuple[FleetGuest, ...] = ()
    flavors: tuple[flavor_model.Flavor, ...] = ()
    aggregates: tuple[FleetAggregate, ...] = ()
    server_groups: tuple[FleetServerGroup, ...] = ()
    pci_aliases: Mapping[str, PciAlias] = dataclasses.field(
        default_factory=dict)
    packs_cells: bool = False
    enabled_filters: tuple[str, ...] = ()
    taken_at: str = ''
    source: str = ''
    where: errors.Location = dataclasses.field(
        default=errors.Location(''), compare=False)
