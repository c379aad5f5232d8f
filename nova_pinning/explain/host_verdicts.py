# SPDX-License-Identifier: Apache-2.0
"""The verdict on each host: what each layer of nova says, and what decides.

Nova stops at the first layer that says no. Here all of them are asked, since
the one that tells most is not always the first: a shared host is no host for
a dedicated guest whether or not it has room.
"""

from collections.abc import Mapping
import dataclasses
import enum
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning import fit
from nova_pinning.fleet import gaps
from nova_pinning.fleet import host_occupancy
from nova_pinning.fleet import migration
from nova_pinning.fleet import placement
from nova_pinning.fleet import snapshot
from nova_pinning import model

_STATUS_TRAIT = 'COMPUTE_STATUS_DISABLED'


class RefusalLayer(enum.StrEnum):
    """What refuses a host, the most lasting first."""

    CLASS = 'class'
    AGGREGATES = 'aggregates'
    TRAITS = 'traits'
    DISABLED = 'disabled'
    FIT = 'fit'
    RESOURCES = 'resources'


class RefusalCause(NamedTuple):
    """What hosts are counted together by.

    :param name: for CLASS the host's class or ``migration.MIXED``, for FIT a
        ``model.Reason``, for AGGREGATES and TRAITS a ``placement.Kind``, for
        RESOURCES a resource class, for DISABLED ''
    :param about: the zone, aggregate or trait
    """

    layer: RefusalLayer
    name: str = ''
    about: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostVerdict:
    """What each layer says of a guest on one host.

    :param is_enabled: whether nova-scheduler may choose the host
    :param exclusions: why Placement would not offer the host, () if it would
    :param unknown_traits: traits that Placement is asked about, and nobody
        knows of
    :param class_refusal: HostClassFilter's
    :param outcome: PinnedTopologyFilter's; a fit without cells where only
        Placement tells what the host has
    :param gaps: what is not known of the host, so that it may not fit there
        though nothing known refuses it; () if that is certain
    """

    host: str
    is_enabled: bool
    exclusions: tuple[placement.Exclusion, ...]
    unknown_traits: frozenset[str]
    class_refusal: model.Refusal | None
    outcome: model.Fit | model.Refusal
    cause: RefusalCause | None
    gaps: tuple[snapshot.HostGap, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether nova would put the guest there, as far as is known."""
        return self.cause is None

    @property
    def doubt(self) -> str:
        """Why it is not certain that it fits, '' if it is or does not fit."""
        return '; '.join(gap.text for gap in self.gaps)

    @property
    def is_eligible(self) -> bool:
        """Whether room is all that could be missing."""
        return self.cause is None or self.cause.layer in (
            RefusalLayer.FIT, RefusalLayer.RESOURCES)

    @property
    def figures(self) -> str:
        """What lies behind the cause on this host, '' for nothing more."""
        if self.cause is None:
            return ''
        if self.cause.layer is RefusalLayer.FIT:
            assert isinstance(self.outcome, model.Refusal)
            return str(self.outcome)
        if self.cause.layer is RefusalLayer.CLASS:
            assert self.class_refusal is not None
            return self.class_refusal.detail
        if self.cause.layer is RefusalLayer.DISABLED:
            return 'the host is disabled'
        return '; '.join(str(exclusion) for exclusion in self.exclusions
                         if _cause_of(exclusion) == self.cause)


@dataclasses.dataclass(frozen=True, slots=True)
class HostJudge:
    """Says of any guest whether it fits on hosts of a fleet.

    :param occupancies: all hosts with their guests, by name
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param bounds: as ``host_occupancy.fit_on`` takes them
    """

    occupancies: Mapping[str, host_occupancy.HostOccupancy]
    packs_cells: bool = False
    scope: placement.PlacementScope = placement.PlacementScope()
    bounds: fit.ClaimBounds = fit.ClaimBounds()

    def verdict(self, occupancy: host_occupancy.HostOccupancy,
                request: guest_request.GuestRequest) -> HostVerdict:
        """All that there is to say of one host."""
        host = occupancy.host
        exclusions = self._exclusions(occupancy, request)
        class_refusal = host_occupancy.class_refusal(
            occupancy, request, self.scope)
        outcome = self._outcome(occupancy, request)
        if (isinstance(outcome, model.Refusal)
                and outcome.reason is model.Reason.PCI):
            outcome = _with_devices(outcome, occupancy, request)
        unknown = frozenset(
            trait for query in request.queries
            for trait in placement.unknown_traits(host, query)
            if trait != _STATUS_TRAIT)
        cause = _decide(occupancy, request, exclusions, class_refusal, outcome)
        return HostVerdict(
            host=host.name, is_enabled=host.is_enabled,
            exclusions=exclusions, unknown_traits=unknown,
            class_refusal=class_refusal, outcome=outcome,
            cause=cause,
            gaps=() if cause else gaps.relevant(host, request))

    def _outcome(
        self, occupancy: host_occupancy.HostOccupancy,
        request: guest_request.GuestRequest,
    ) -> model.Fit | model.Refusal:
        """What PinnedTopologyFilter finds, as far as that can be told."""
        known = gaps.without_devices(occupancy.host, request)
        if known is not request and gaps.device_limit(
                occupancy, request) == 0:
            return model.Refusal(model.Reason.PCI)
        if occupancy.host.is_opaque and known.topology is not None:
            return host_occupancy.FLOATING
        return host_occupancy.fit_on(
            occupancy, known, self.packs_cells, self.bounds)

    def fits(self, occupancy: host_occupancy.HostOccupancy,
             request: guest_request.GuestRequest) -> bool:
        """Whether nova would put a guest on a host, as fast as can be told.

        Where not enough is known of the host, it would not.
        """
        return isinstance(
            host_occupancy.verdict(
                occupancy, request, self.packs_cells, self.scope,
                self.bounds), model.Fit)

    def _exclusions(
        self, occupancy: host_occupancy.HostOccupancy,
        request: guest_request.GuestRequest,
    ) -> tuple[placement.Exclusion, ...]:
        """Those of the query that comes closest; any of them will do."""
        return min(
            (tuple(placement.exclusions(occupancy, query, self.scope))
             for query in request.queries), key=len, default=())


def _decide(
    occupancy: host_occupancy.HostOccupancy,
    request: guest_request.GuestRequest,
    exclusions: tuple[placement.Exclusion, ...],
    class_refusal: model.Refusal | None,
    outcome: model.Fit | model.Refusal,
) -> RefusalCause | None:
    """The cause that tells most, None if the guest fits."""
    if class_refusal is not None:
        is_known = class_refusal.reason is model.Reason.HOST_CLASS
        return RefusalCause(
            RefusalLayer.CLASS,
            str(request.guest_class.other) if is_known else migration.MIXED)
    causes = sorted(
        (_cause_of(exclusion) for exclusion in exclusions),
        key=lambda cause: list(RefusalLayer).index(cause.layer))
    if not occupancy.host.is_enabled:
        causes = [cause for cause in causes if cause.about != _STATUS_TRAIT]
    if causes and causes[0].layer in (RefusalLayer.AGGREGATES,
                                      RefusalLayer.TRAITS):
        return causes[0]
    if not occupancy.host.is_enabled:
        return RefusalCause(RefusalLayer.DISABLED)
    if isinstance(outcome, model.Refusal):
        return RefusalCause(RefusalLayer.FIT, str(outcome.reason))
    return causes[0] if causes else None


_TRAIT_KINDS = (placement.ExclusionKind.REQUIRED_TRAIT,
                placement.ExclusionKind.FORBIDDEN_TRAIT)


def _cause_of(exclusion: placement.Exclusion) -> RefusalCause:
    if exclusion.kind is placement.ExclusionKind.RESOURCES:
        return RefusalCause(RefusalLayer.RESOURCES, exclusion.name)
    layer = (RefusalLayer.TRAITS if exclusion.kind in _TRAIT_KINDS
             else RefusalLayer.AGGREGATES)
    return RefusalCause(layer, str(exclusion.kind), exclusion.name)


def _with_devices(
    refusal: model.Refusal, occupancy: host_occupancy.HostOccupancy,
    other_request: guest_request.GuestRequest,
) -> model.Refusal:
    """The refusal with figures if there are too few devices anywhere."""
    free = devices.free(occupancy.host.pci_pools, occupancy.device_uses)
    short = '; '.join(devices.device_shortages(free, other_request.devices))
    return dataclasses.replace(refusal, detail=short) if short else refusal
