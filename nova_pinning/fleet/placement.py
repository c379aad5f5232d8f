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

"""What Placement alone makes of a host, before any filter sees it.

As nova-compute reports its host (update_provider_tree in
nova/virt/libvirt/driver.py) and as Placement compares (get_providers_with_
resource and _get_trees_with_traits there).
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import enum
import typing
from typing import NamedTuple

from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model

if typing.TYPE_CHECKING:
    from nova_pinning.fleet import standing as fleet_standing

VCPU = 'VCPU'
PCPU = 'PCPU'
MEMORY_MB = 'MEMORY_MB'
DISK_GB = 'DISK_GB'

#: Resources of which a snapshot tells how much there is and how much is used.
COUNTED = (VCPU, PCPU, MEMORY_MB, DISK_GB)
_THREADS = 'HW_CPU_HYPERTHREADING'
_TRAIT_KEY = 'trait:'
_TENANT_KEY = 'filter_tenant_id'


class Inventory(NamedTuple):
    """How much of a resource class a host has, as Placement knows it.

    :param total: which one guest may not exceed, either
    """

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> float:
        """What all guests together may have."""
        return (self.total - self.reserved) * self.allocation_ratio


class Kind(enum.StrEnum):
    """What Placement excludes a host for."""

    RESOURCES = 'resources'
    REQUIRED_TRAIT = 'required-trait'
    FORBIDDEN_TRAIT = 'forbidden-trait'
    AVAILABILITY_ZONE = 'availability-zone'
    ISOLATED = 'isolated-aggregate'
    TENANT = 'tenant-aggregate'


@dataclasses.dataclass(frozen=True, slots=True)
class Exclusion:
    """Why Placement would not offer a host.

    :param name: the resource class, the trait, the zone or the aggregate
    :param need: of a resource class
    :param have: what is left of it
    :param total: what there is of it
    """

    kind: Kind
    name: str
    need: int = 0
    have: int = 0
    total: int = 0

    def __str__(self) -> str:
        return _SENTENCES[self.kind].format(self=self)


_SENTENCES = {
    Kind.RESOURCES: '{self.have:,} {self.name} left of {self.total:,}, '
                    '{self.need:,} needed',
    Kind.REQUIRED_TRAIT: 'has no trait {self.name}, which is required',
    Kind.FORBIDDEN_TRAIT: 'has trait {self.name}, which is forbidden',
    Kind.AVAILABILITY_ZONE: 'is not in availability zone {self.name}',
    Kind.ISOLATED: 'is in aggregate {self.name}, which takes only guests '
                   'that require its traits',
    Kind.TENANT: 'is in aggregate {self.name}, which is for other projects',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Where a guest may go at all, by the aggregates of the hosts.

    :param aggregates: of the fleet, by name
    :param availability_zone: that the guest is asked for in, None for any
    :param default_zone: of the hosts that no aggregate puts in one
    :param isolates: whether aggregates with ``trait:NAME=required`` take
        only guests that require the trait ([scheduler]
        enable_isolated_aggregate_filtering)
    :param project: whose guest it is, None if that is not to be asked;
        nova's filter AggregateMultiTenancyIsolation does
    """

    aggregates: Mapping[str, fleet_model.Aggregate] = dataclasses.field(
        default_factory=dict)
    availability_zone: str | None = None
    default_zone: str = 'nova'
    isolates: bool = False
    project: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether aggregates have no say."""
        return (self.availability_zone is None and not self.isolates
                and self.project is None)


def inventories(host: fleet_model.FleetHost) -> Mapping[str, Inventory]:
    """What nova-compute reports of a host, by resource class.

    On a host where pinned and floating vCPUs use the same CPUs it reports
    VCPU only. Of a host without cells no more than the disk is known.
    """
    shared = host.shared_cpus
    found = {}
    if shared:
        found[VCPU] = Inventory(
            len(shared), allocation_ratio=host.cpu_allocation_ratio)
    if _has_pcpus(host):
        found[PCPU] = Inventory(len(host.dedicated_cpus))
    if host.cells:
        found[MEMORY_MB] = Inventory(
            host.memory_mib, host.reserved_memory_mib,
            host.ram_allocation_ratio)
    if host.disk_gib is not None:
        found[DISK_GB] = Inventory(
            host.disk_gib, allocation_ratio=host.disk_allocation_ratio)
    return found


def use(
    host: fleet_model.FleetHost,
    vcpus: int,
    memory_mib: int,
    disk_gib: int,
    topology: model.Guest | None,
) -> Mapping[str, int]:
    """What a guest on a host is counted with, by resource class.

    :param vcpus: all of them
    """
    pcpus = 0
    # On hosts without PCPU guests come by the query with VCPU in its place.
    if topology is not None and topology.is_pinned and _has_pcpus(host):
        for demand in topology.demands:
            vcpus -= demand.dedicated
            pcpus += demand.dedicated + demand.emulator
    return {VCPU: vcpus, PCPU: pcpus, MEMORY_MB: memory_mib,
            DISK_GB: disk_gib}


def _has_pcpus(host: fleet_model.FleetHost) -> bool:
    """Whether CPUs are set aside for pinned vCPUs."""
    return any(cell.dedicated_cpus and cell.dedicated_cpus != cell.shared_cpus
               for cell in host.cells)


def exclusions(
    standing: 'fleet_standing.Standing',
    query: fleet_wanted.Query,
    scope: Scope = Scope(),
) -> list[Exclusion]:
    """Everything that Placement would exclude a host for.

    What a snapshot does not tell excludes nothing: traits, see
    :func:`unknown_traits`, and resource classes of devices.
    """
    return [
        *_scarce(standing, query),
        *_by_traits(standing.host, query),
        *by_aggregates(standing.host, query, scope)]


def _scarce(standing: 'fleet_standing.Standing',
            query: fleet_wanted.Query) -> Iterable[Exclusion]:
    has = standing.inventories
    for name, need in query.resources.items():
        if not need or name not in COUNTED:
            continue
        if not _is_told(standing.host, name):
            continue
        inventory = has.get(name, Inventory(0))
        used = standing.resources_used.get(name, 0)
        if used + need > inventory.capacity or need > inventory.total:
            yield Exclusion(
                Kind.RESOURCES, name, need,
                max(0, int(min(inventory.capacity - used, inventory.total))),
                inventory.total)


def _is_told(host: fleet_model.FleetHost, name: str) -> bool:
    """Whether a snapshot tells how much of a resource class a host has."""
    if name == DISK_GB:
        return host.disk_gib is not None
    return bool(host.cells)


def _by_traits(host: fleet_model.FleetHost,
               query: fleet_wanted.Query) -> Iterable[Exclusion]:
    if not (query.required or query.forbidden):
        return
    traits = host.traits or frozenset()
    if (_THREADS in query.required or _THREADS in query.forbidden) and (
            _has_threads(host)):
        traits |= {_THREADS}
    for trait in sorted(query.required - traits):
        if host.traits is not None or trait == _THREADS:
            yield Exclusion(Kind.REQUIRED_TRAIT, trait)
    for trait in sorted(query.forbidden & traits):
        yield Exclusion(Kind.FORBIDDEN_TRAIT, trait)


def _has_threads(host: fleet_model.FleetHost) -> bool:
    """Whether the CPUs show what nova-compute makes a trait of."""
    return any(size > 1 for cell in host.cells for size in cell.core_sizes)


def unknown_traits(host: fleet_model.FleetHost,
                   query: fleet_wanted.Query) -> frozenset[str]:
    """The traits asked about of which nobody knows if the host has them."""
    if host.traits is not None:
        return frozenset()
    return (query.required | query.forbidden) - {_THREADS}


def by_aggregates(
    host: fleet_model.FleetHost, query: fleet_wanted.Query, scope: Scope,
) -> Iterable[Exclusion]:
    """The aggregates, or the lack of one, that keep the guest off a host."""
    if scope.is_open:
        return
    member_of = [scope.aggregates[name] for name in host.aggregates
                 if name in scope.aggregates]
    if scope.availability_zone is not None:
        zones = {one.availability_zone for one in member_of} - {None}
        if scope.availability_zone not in (zones or {scope.default_zone}):
            yield Exclusion(
                Kind.AVAILABILITY_ZONE, scope.availability_zone)
    if scope.isolates:
        yield from (Exclusion(Kind.ISOLATED, one.name) for one in member_of
                    if not _isolated_by(one) <= query.required)
    if scope.project is not None:
        kept = [one for one in member_of if _tenants(one)]
        if kept and not any(scope.project in _tenants(one) for one in kept):
            yield Exclusion(Kind.TENANT, kept[0].name)


def _isolated_by(aggregate: fleet_model.Aggregate) -> frozenset[str]:
    return frozenset(
        key.removeprefix(_TRAIT_KEY)
        for key, value in aggregate.metadata.items()
        if key.startswith(_TRAIT_KEY) and value == 'required')


def _tenants(aggregate: fleet_model.Aggregate) -> frozenset[str]:
    """The projects that an aggregate is for; none if it is for all."""
    return frozenset(
        name.strip() for key, value in aggregate.metadata.items()
        if key.startswith(_TENANT_KEY) for name in value.split(','))
