# SPDX-License-Identifier: Apache-2.0
"""A fleet as a snapshot describes it.

Hosts and guests are in the engine's own terms wherever the engine has them:
a host's cells are ``model.HostCell`` as they are without guests, a guest's
topology is a ``model.Guest`` and where it lies a ``model.Fit``. What is used
of a host follows from the guests and is written nowhere.
"""

from collections.abc import Mapping
import dataclasses
import enum
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning import model
from nova_pinning.model import cell_order
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory


# The engine's words for devices, by which a snapshot tells of them too.
DeviceKind = devices.DeviceKind
PciPool = devices.PciPool
PciRequest = devices.PciRequest
PciUse = devices.PciUse


class PciAlias(NamedTuple):
    """A name under which flavors ask for devices ([pci] alias)."""

    kinds: tuple[DeviceKind, ...]
    policy: str = 'legacy'


@dataclasses.dataclass(frozen=True, slots=True)
class FleetAggregate:
    """A host aggregate. Which hosts are in it, the hosts say.

    :param availability_zone: None if it makes none
    :param metadata: without availability_zone
    """

    name: str
    availability_zone: str | None = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostCpuModel:
    """What libvirt takes a host's CPUs for (compute_nodes.cpu_info).

    :param model: in libvirt's words, 'Cascadelake-Server'
    :param features: that the CPUs have beyond that model
    """

    arch: str = ''
    vendor: str = ''
    model: str
    features: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return ' '.join(filter(None, (self.vendor, self.model)))


class GroupPolicy(enum.StrEnum):
    """What a server group is for."""

    AFFINITY = 'affinity'
    ANTI_AFFINITY = 'anti-affinity'
    SOFT_AFFINITY = 'soft-affinity'
    SOFT_ANTI_AFFINITY = 'soft-anti-affinity'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetServerGroup:
    """A server group. Which guests are in it, the guests say.

    :param id: nova's UUID
    :param max_per_host: members that may be on one host under anti-affinity
        (the rule max_server_per_host)
    """

    id: str
    policy: GroupPolicy
    name: str = ''
    max_per_host: int = 1


class GapKind(enum.StrEnum):
    """What may not be known of a host.

    An answer that depends on it is a bound: more cannot be, less can.
    """

    CELLS = 'cells'
    CONTRADICTION = 'contradiction'
    DEVICES = 'devices'
    EMULATOR_CPUS = 'emulator-cpus'
    HELD = 'held'


class HostGap(NamedTuple):
    """Something that is not known of a host.

    :param text: what, for people
    """

    kind: GapKind
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetHost:
    """A host of a fleet, without its guests.

    :param name: as nova calls the compute host; unique
    :param cells: in nova's order, with nothing used; () if nova knows of no
        NUMA topology
    :param l3_domains: the CPUs that share each last-level cache, () if that
        is not known
    :param host_class: None if it cannot be told
    :param traits: of its resource provider, None if they are not known
    :param aggregates: names of those that it is in, sorted
    :param reserved_memory_mib: kept from guests (reserved_host_memory_mb)
    :param disk_gib: all that guests' disks share, None if not known
    :param resources: how much it has of custom resource classes that are
        counted (cache_resources.CLASSES), as far as that is known
    :param is_enabled: whether nova-scheduler may choose it
    :param disabled_reason: as whoever disabled it says; '' for none
    :param nova_release: of its nova-compute, '2025.1' or such; None if it is
        not known, and then it is taken to be the newest
    :param nova_cell: the cell of nova's that it is in, '' if not known
    :param cpu_model: None if not known
    :param hypervisor_version: as nova has it, 7002000 for 7.2; None if not
        known
    :param inventories: that Placement has of it, by resource class; None if
        nobody has asked, and then they are what nova-compute would report of
        the cells
    :param held: what Placement has allocated there, by resource class, beyond
        what the guests of the snapshot are counted with; below 0 where it
        counts them with less
    :param gaps: what is not known of it, each kind once
    """

    name: str
    cells: tuple[model.HostCell, ...]
    l3_domains: tuple[cpuset.CpuSet, ...] = ()
    host_class: hostclass.HostClass | None = None
    traits: frozenset[str] | None = None
    aggregates: tuple[str, ...] = ()
    pci_pools: tuple[PciPool, ...] = ()
    cpu_allocation_ratio: float = 1.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    reserved_memory_mib: int = 0
    disk_gib: int | None = None
    resources: Mapping[str, int] = dataclasses.field(
        default_factory=dict, hash=False)
    is_enabled: bool = True
    disabled_reason: str = ''
    nova_release: str | None = None
    nova_cell: str = ''
    cpu_model: HostCpuModel | None = None
    hypervisor_version: int | None = None
    inventories: Mapping[str, inventory.Inventory] | None = dataclasses.field(
        default=None, hash=False)
    held: Mapping[str, int] = dataclasses.field(
        default_factory=dict, hash=False)
    gaps: tuple[HostGap, ...] = ()

    @property
    def is_opaque(self) -> bool:
        """Whether Placement alone tells what it has."""
        return not self.cells and self.inventories is not None

    @property
    def known_class(self) -> hostclass.HostClass | None:
        """The class that HostClassFilter takes it to be of, if it can tell."""
        return self.host_class or hostclass.class_of_cpus(self.cells)

    @property
    def engine(self) -> model.Host:
        """The host for the engine, with nothing on it."""
        return model.Host(
            self.cells, self.cpu_allocation_ratio, self.ram_allocation_ratio,
            cell_order.of_release(self.nova_release))

    @property
    def dedicated_cpus(self) -> cpuset.CpuSet:
        return cpuset.union(cell.dedicated_cpus for cell in self.cells)

    @property
    def shared_cpus(self) -> cpuset.CpuSet:
        return cpuset.union(cell.shared_cpus for cell in self.cells)

    @property
    def dedicated_count(self) -> int:
        """Dedicated CPUs, or as many as Placement has of an opaque host."""
        return self._total(inventory.PCPU, len(self.dedicated_cpus))

    @property
    def shared_count(self) -> int:
        """Shared CPUs, or as many as Placement has of an opaque host."""
        return self._total(inventory.VCPU, len(self.shared_cpus))

    @property
    def memory_mib(self) -> int:
        return self._total(inventory.MEMORY_MB, sum(
            cell.memory_mib for cell in self.cells))

    def _total(self, name: str, of_cells: int) -> int:
        if self.cells or not self.inventories:
            return of_cells
        has = self.inventories.get(name)
        return has.total if has else 0


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
