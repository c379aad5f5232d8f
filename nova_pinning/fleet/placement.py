# SPDX-License-Identifier: Apache-2.0
"""What Placement alone makes of a host, before any filter sees it.

Resources and traits are compared as in placement.inventory.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import enum
from typing import Protocol

from nova_pinning.admission import guest_request
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory

_TRAIT_KEY = 'trait:'
_TENANT_KEY = 'filter_tenant_id'


class ExclusionKind(enum.StrEnum):
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

    kind: ExclusionKind
    name: str
    need: int = 0
    have: int = 0
    total: int = 0

    def __str__(self) -> str:
        return _SENTENCES[self.kind].format(self=self)


_SENTENCES = {
    ExclusionKind.RESOURCES:
        '{self.have:,} {self.name} left of {self.total:,}, {self.need:,} '
        'needed',
    ExclusionKind.REQUIRED_TRAIT:
        'has no trait {self.name}, which is required',
    ExclusionKind.FORBIDDEN_TRAIT:
        'has trait {self.name}, which is forbidden',
    ExclusionKind.AVAILABILITY_ZONE:
        'is not in availability zone {self.name}',
    ExclusionKind.ISOLATED:
        'is in aggregate {self.name}, which takes only guests that require '
        'its traits',
    ExclusionKind.TENANT:
        'is in aggregate {self.name}, which is for other projects',
}


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementScope:
    """Where a guest may go at all, by the aggregates of the hosts.

    :param aggregates: of the fleet, by name
    :param availability_zone: that the guest is asked for in, None for any
    :param default_zone: of the hosts that no aggregate puts in one
    :param isolates: whether aggregates with ``trait:NAME=required`` take
        only guests that require the trait ([scheduler]
        enable_isolated_aggregate_filtering)
    :param project: whose guest it is, None if that is not to be asked;
        nova's filter AggregateMultiTenancyIsolation does
    :param keeps_classes: whether HostClassFilter keeps guests off hosts of
        the other class
    """

    aggregates: Mapping[str, snapshot.FleetAggregate] = dataclasses.field(
        default_factory=dict)
    availability_zone: str | None = None
    default_zone: str = 'nova'
    isolates: bool = False
    project: str | None = None
    keeps_classes: bool = True

    @property
    def is_open(self) -> bool:
        """Whether aggregates have no say."""
        return (self.availability_zone is None and not self.isolates
                and self.project is None)


class Provider(Protocol):
    """A host as Placement knows it.

    :ivar inventories: of its own provider
    :ivar resources_used: by its guests, by resource class
    """

    @property
    def host(self) -> snapshot.FleetHost: ...

    @property
    def inventories(self) -> Mapping[str, inventory.Inventory]: ...

    @property
    def resources_used(self) -> Mapping[str, int]: ...


def exclusions(
    provider: Provider,
    query: guest_request.CandidatesQuery,
    scope: PlacementScope = PlacementScope(),
) -> list[Exclusion]:
    """Everything that Placement would exclude a host for.

    What a snapshot does not tell excludes nothing: traits, see
    :func:`unknown_traits`, and resource classes of devices.
    """
    host = provider.host
    lacking = inventory.resource_shortages(
        provider.inventories, provider.resources_used, {
            name: need for name, need in query.resources.items()
            if _is_told(host, name)})
    return [
        *(Exclusion(ExclusionKind.RESOURCES, *lack) for lack in lacking),
        *by_traits(host, query),
        *by_aggregates(host, query, scope)]


def _is_told(host: snapshot.FleetHost, name: str) -> bool:
    """Whether a snapshot tells how much of a resource class a host has."""
    if host.inventories is not None and name in host.inventories:
        return True
    if name == inventory.DISK_GB:
        # Another provider may share its disk with the host.
        return host.disk_gib is not None
    if name in host.resources:
        return True
    return name in inventory.COUNTED and (
        bool(host.cells) or host.inventories is not None)


def by_traits(host: snapshot.FleetHost,
              query: guest_request.CandidatesQuery) -> Iterable[Exclusion]:
    """The traits, or the lack of them, that keep the guest off a host."""
    if not (query.required or query.forbidden):
        return
    asks_for_threads = inventory.THREADS in query.required | query.forbidden
    for mismatch in inventory.trait_mismatches(
            query.required, query.forbidden, host.traits or frozenset(),
            asks_for_threads and has_threads(host),
            lambda trait: host.traits is not None):
        yield Exclusion(
            ExclusionKind.REQUIRED_TRAIT if mismatch.is_required
            else ExclusionKind.FORBIDDEN_TRAIT, mismatch.name)


def has_threads(host: snapshot.FleetHost) -> bool:
    """Whether the CPUs show what nova-compute makes a trait of."""
    return any(size > 1 for cell in host.cells for size in cell.core_sizes)


def unknown_traits(host: snapshot.FleetHost,
                   query: guest_request.CandidatesQuery) -> frozenset[str]:
    """The traits asked about of which nobody knows if the host has them."""
    if host.traits is not None:
        return frozenset()
    return (query.required | query.forbidden) - {inventory.THREADS}


def by_aggregates(
    host: snapshot.FleetHost,
    query: guest_request.CandidatesQuery,
    scope: PlacementScope,
) -> Iterable[Exclusion]:
    """The aggregates, or the lack of one, that keep the guest off a host."""
    if scope.is_open:
        return
    member_of = [scope.aggregates[name] for name in host.aggregates
                 if name in scope.aggregates]
    if scope.availability_zone is not None:
        if scope.availability_zone not in _zones(host, scope):
            yield Exclusion(
                ExclusionKind.AVAILABILITY_ZONE, scope.availability_zone)
    if scope.isolates:
        yield from (Exclusion(ExclusionKind.ISOLATED, aggregate.name)
                    for aggregate in member_of
                    if not _isolated_by(aggregate) <= query.required)
    if scope.project is not None:
        kept = [aggregate for aggregate in member_of if _tenants(aggregate)]
        if kept and not any(scope.project in _tenants(aggregate)
                            for aggregate in kept):
            yield Exclusion(ExclusionKind.TENANT, kept[0].name)


def availability_zone(host: snapshot.FleetHost,
                      scope: PlacementScope) -> str:
    """The zone of a host; nova lets it be in one only."""
    return min(_zones(host, scope))


def _zones(host: snapshot.FleetHost, scope: PlacementScope) -> set[str]:
    zones = {
        aggregate.availability_zone for aggregate in (
            scope.aggregates.get(name) for name in host.aggregates)
        if aggregate is not None and aggregate.availability_zone is not None}
    return zones or {scope.default_zone}


def _isolated_by(aggregate: snapshot.FleetAggregate) -> frozenset[str]:
    return frozenset(
        key.removeprefix(_TRAIT_KEY)
        for key, value in aggregate.metadata.items()
        if key.startswith(_TRAIT_KEY) and value == 'required')


def _tenants(aggregate: snapshot.FleetAggregate) -> frozenset[str]:
    """The projects that an aggregate is for; none if it is for all."""
    return frozenset(
        name.strip() for key, value in aggregate.metadata.items()
        if key.startswith(_TENANT_KEY) for name in value.split(','))
