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

"""The verdict on each host: what each layer of nova says, and what decides.

Nova stops at the first layer that says no. Here all of them are asked, since
the one that tells most is not always the first: a shared host is no host for
a dedicated guest whether or not it has room.
"""

from collections.abc import Mapping
import dataclasses
import enum
from typing import NamedTuple

from nova_pinning.fleet import devices
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model

_STATUS_TRAIT = 'COMPUTE_STATUS_DISABLED'


class Layer(enum.StrEnum):
    """What refuses a host, the most lasting first."""

    CLASS = 'class'
    AGGREGATES = 'aggregates'
    TRAITS = 'traits'
    DISABLED = 'disabled'
    FIT = 'fit'
    RESOURCES = 'resources'


class Cause(NamedTuple):
    """What hosts are counted together by.

    :param name: for CLASS the host's class, for FIT a ``model.Reason``, for
        AGGREGATES and TRAITS a ``placement.Kind``, for RESOURCES a resource
        class, for DISABLED ''
    :param about: the zone, aggregate or trait
    """

    layer: Layer
    name: str = ''
    about: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What each layer says of a guest on one host.

    :param is_enabled: whether nova-scheduler may choose the host
    :param exclusions: why Placement would not offer the host, () if it would
    :param unknown_traits: traits that Placement is asked about, and nobody
        knows of
    :param class_refusal: HostClassFilter's
    :param outcome: PinnedTopologyFilter's
    """

    host: str
    is_enabled: bool
    exclusions: tuple[placement.Exclusion, ...]
    unknown_traits: frozenset[str]
    class_refusal: model.Refusal | None
    outcome: model.Fit | model.Refusal
    cause: Cause | None

    @property
    def fits(self) -> bool:
        """Whether nova would put the guest there."""
        return self.cause is None

    @property
    def is_eligible(self) -> bool:
        """Whether room is all that could be missing."""
        return self.cause is None or self.cause.layer in (
            Layer.FIT, Layer.RESOURCES)

    @property
    def figures(self) -> str:
        """What lies behind the cause on this host, '' for nothing more."""
        if self.cause is None:
            return ''
        if self.cause.layer is Layer.FIT:
            assert isinstance(self.outcome, model.Refusal)
            return str(self.outcome)
        if self.cause.layer is Layer.CLASS:
            assert self.class_refusal is not None
            return self.class_refusal.detail
        if self.cause.layer is Layer.DISABLED:
            return 'the host is disabled'
        return '; '.join(str(one) for one in self.exclusions
                         if _cause_of(one) == self.cause)


@dataclasses.dataclass(frozen=True, slots=True)
class Judge:
    """Says of any guest whether it fits on hosts of a fleet.

    :param standings: all hosts with their guests, by name
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param foresee: as ``standing.fit_on`` takes it
    """

    standings: Mapping[str, fleet_standing.Standing]
    packs_cells: bool = False
    scope: placement.Scope = placement.Scope()
    foresee: fleet_standing.Foresee | None = None

    def verdict(self, standing: fleet_standing.Standing,
                wanted: fleet_wanted.Wanted) -> Verdict:
        """All that there is to say of one host."""
        host = standing.host
        exclusions = self._exclusions(standing, wanted)
        class_refusal = fleet_standing.class_refusal(host, wanted)
        outcome = fleet_standing.fit_on(
            standing, wanted, self.packs_cells, self.foresee)
        if (isinstance(outcome, model.Refusal)
                and outcome.reason is model.Reason.PCI):
            outcome = _with_devices(outcome, standing, wanted)
        unknown = frozenset(
            trait for query in wanted.queries
            for trait in placement.unknown_traits(host, query)
            if trait != _STATUS_TRAIT)
        return Verdict(
            host=host.name, is_enabled=host.is_enabled,
            exclusions=exclusions, unknown_traits=unknown,
            class_refusal=class_refusal, outcome=outcome,
            cause=_decide(standing, exclusions, class_refusal, outcome))

    def fits(self, standing: fleet_standing.Standing,
             wanted: fleet_wanted.Wanted) -> bool:
        """Whether nova would put a guest on a host, as fast as can be told."""
        return isinstance(
            fleet_standing.verdict(
                standing, wanted, self.packs_cells, self.scope,
                self.foresee), model.Fit)

    def _exclusions(
        self, standing: fleet_standing.Standing,
        wanted: fleet_wanted.Wanted,
    ) -> tuple[placement.Exclusion, ...]:
        """Those of the query that comes closest; any of them will do."""
        return min(
            (tuple(placement.exclusions(standing, query, self.scope))
             for query in wanted.queries), key=len, default=())


def _decide(
    standing: fleet_standing.Standing,
    exclusions: tuple[placement.Exclusion, ...],
    class_refusal: model.Refusal | None,
    outcome: model.Fit | model.Refusal,
) -> Cause | None:
    """The cause that tells most, None if the guest fits."""
    if class_refusal is not None:
        return Cause(Layer.CLASS, str(standing.host.host_class))
    causes = sorted(
        (_cause_of(one) for one in exclusions),
        key=lambda cause: list(Layer).index(cause.layer))
    if not standing.host.is_enabled:
        causes = [one for one in causes if one.about != _STATUS_TRAIT]
    if causes and causes[0].layer in (Layer.AGGREGATES, Layer.TRAITS):
        return causes[0]
    if not standing.host.is_enabled:
        return Cause(Layer.DISABLED)
    if isinstance(outcome, model.Refusal):
        return Cause(Layer.FIT, str(outcome.reason))
    return causes[0] if causes else None


_TRAIT_KINDS = (placement.Kind.REQUIRED_TRAIT, placement.Kind.FORBIDDEN_TRAIT)


def _cause_of(exclusion: placement.Exclusion) -> Cause:
    if exclusion.kind is placement.Kind.RESOURCES:
        return Cause(Layer.RESOURCES, exclusion.name)
    layer = (Layer.TRAITS if exclusion.kind in _TRAIT_KINDS
             else Layer.AGGREGATES)
    return Cause(layer, str(exclusion.kind), exclusion.name)


def _with_devices(
    refusal: model.Refusal, standing: fleet_standing.Standing,
    wanted: fleet_wanted.Wanted,
) -> model.Refusal:
    """The refusal with figures if there are too few devices anywhere."""
    free = devices.free(standing.host.pci_pools, standing.device_uses)
    short = []
    for request in wanted.devices:
        have = sum(pool.total for pool in free if pool.kind in request.kinds)
        if have < request.count:
            short.append(f'{have} free devices with alias {request.alias}, '
                         f'{request.count} needed')
    if not short:
        return refusal
    return dataclasses.replace(refusal, detail='; '.join(short))
