# SPDX-License-Identifier: Apache-2.0
"""What hosts offer, and what nova knows them by.

A host's cells are ``model.HostCell`` as they are without guests. What is used
of a host follows from the guests and is written nowhere.
"""

from collections.abc import Mapping
import dataclasses
import enum
from typing import Annotated

from nova_pinning.admission import devices
from nova_pinning.admission import outcome
from nova_pinning.admission import written_forms
from nova_pinning import cpuset
from nova_pinning.document import codec
from nova_pinning.document import terms
from nova_pinning import model
from nova_pinning.model import cell_order
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """A host aggregate. Which hosts are in it, the hosts say.

    :param availability_zone: None if it makes none
    :param metadata: without availability_zone
    """

    name: terms.Word
    availability_zone: terms.Word | None = None
    metadata: written_forms.Texts = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostCpuModel:
    """What libvirt takes a host's CPUs for (compute_nodes.cpu_info).

    :param model: in libvirt's words, 'Cascadelake-Server'
    :param features: that the CPUs have beyond that model
    """

    arch: terms.Line = ''
    vendor: terms.Line = ''
    model: terms.Word
    features: frozenset[terms.Word] = frozenset()

    def __str__(self) -> str:
        return ' '.join(filter(None, (self.vendor, self.model)))


class GroupPolicy(enum.StrEnum):
    """What a server group is for."""

    AFFINITY = 'affinity'
    ANTI_AFFINITY = 'anti-affinity'
    SOFT_AFFINITY = 'soft-affinity'
    SOFT_ANTI_AFFINITY = 'soft-anti-affinity'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerGroup:
    """A server group. Which guests are in it, the guests say.

    :param id: nova's UUID
    :param max_per_host: members that may be on one host under anti-affinity
        (the rule max_server_per_host)
    """

    id: terms.Word
    policy: GroupPolicy
    name: terms.ShownLine = ''
    max_per_host: Annotated[int, codec.Limit(
        title='a number of servers from 1 to 65536', minimum=1,
        maximum=65536)] = 1


@dataclasses.dataclass(frozen=True, slots=True)
class OfferedProvider:
    """A resource provider of Placement's.

    :param parent: index in ``OfferedHost.providers`` of the one that it is
        below; None for the host's own and for those that share
    :param inventories: by resource class, sorted
    :param traits: None if they are not known
    :param is_shared: whether it shares with the host through an aggregate
        (MISC_SHARES_VIA_AGGREGATE)
    :param held: what is allocated of it beyond what the guests of the host
        have, as ``OfferedHost.held`` tells it of the host's own
    """

    parent: terms.Amount | None
    inventories: written_forms.InventoryPairs = ()
    traits: written_forms.Traits | None = frozenset()
    is_shared: bool = False
    held: written_forms.Differences = ()
    uuid: str = dataclasses.field(default='', compare=False)
    name: str = dataclasses.field(default='', compare=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OfferedHost:
    """A host without its guests.

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
    :param held: what Placement has allocated of its own provider, by resource
        class, beyond what the guests of the snapshot are counted with; below
        0 where it counts them with less
    :param children: the other providers of its tree, parents before their
        children, and those that share with it
    :param gaps: what is not known of it, each kind once; that of traits is
        about the prefix of those that are known all the same
    :ivar offers: what is known of ``providers`` turned about: the inventories
        of a resource class, each with the index of its provider
    """

    name: terms.HostName
    cells: written_forms.Cells
    l3_domains: Annotated[
        tuple[cpuset.CpuSet, ...], codec.Shared('l3_domains')] = ()
    host_class: hostclass.HostClass | None = None
    traits: written_forms.Traits | None = None
    aggregates: tuple[terms.Word, ...] = ()
    pci_pools: Annotated[
        tuple[devices.PciPool, ...], codec.Shared('pci_pools')] = ()
    cpu_allocation_ratio: terms.Ratio = 1.0
    ram_allocation_ratio: terms.Ratio = 1.0
    disk_allocation_ratio: terms.Ratio = 1.0
    reserved_memory_mib: terms.Amount = 0
    disk_gib: terms.Amount | None = None
    resources: Mapping[written_forms.ResourceClass, terms.Amount] = (
        dataclasses.field(default_factory=dict, hash=False))
    is_enabled: bool = True
    disabled_reason: terms.ShownProse = ''
    nova_release: written_forms.Release | None = None
    nova_cell: terms.ShownLine = ''
    cpu_model: Annotated[
        HostCpuModel, codec.Shared('cpu_models')] | None = None
    hypervisor_version: terms.Amount | None = None
    inventories: written_forms.Inventories | None = dataclasses.field(
        default=None, hash=False)
    held: Mapping[written_forms.ResourceClass, terms.Difference] = (
        dataclasses.field(default_factory=dict, hash=False))
    children: tuple[Annotated[OfferedProvider, codec.Fields(
        uuid=terms.ShownLine, name=terms.ShownLine)], ...] = ()
    gaps: tuple[outcome.Doubt, ...] = ()
    offers: Mapping[str, tuple[tuple[int, inventory.Inventory], ...]] = (
        dataclasses.field(init=False, compare=False, repr=False))

    def __post_init__(self) -> None:
        # Asked for with each guest, and what follows from the cells takes
        # long to work out.
        offers = {name: ((0, has),)
                  for name, has in self.root_inventories.items()}
        for index, provider in enumerate(self.children, 1):
            for name, has in provider.inventories:
                offers[name] = (*offers.get(name, ()), (index, has))
        object.__setattr__(self, 'offers', offers)

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

    @property
    def providers(self) -> tuple[OfferedProvider, ...]:
        """Its own resource provider, and after it those in ``children``."""
        return (OfferedProvider(
            None, tuple(sorted(self.root_inventories.items())), self.traits,
            name=self.name), *self.children)

    @property
    def root_inventories(self) -> Mapping[str, inventory.Inventory]:
        """What Placement has of its own provider, by resource class.

        That is what nova-compute would report, if Placement was not asked.
        """
        if self.inventories is not None:
            return self.inventories
        inventories = inventory.host_inventories(
            self.engine, self.reserved_memory_mib)
        if self.disk_gib is not None:
            inventories[inventory.DISK_GB] = inventory.Inventory(
                self.disk_gib, allocation_ratio=self.disk_allocation_ratio)
        for name, total in self.resources.items():
            inventories[name] = inventory.Inventory(total)
        return inventories

    def _total(self, name: str, of_cells: int) -> int:
        if self.cells or not self.inventories:
            return of_cells
        has = self.inventories.get(name)
        return has.total if has else 0
