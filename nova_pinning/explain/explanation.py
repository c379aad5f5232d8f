# SPDX-License-Identifier: Apache-2.0
"""The whole explanation: verdicts, their sum, and what would help."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import scheduler_rules
from nova_pinning.explain import flavor_alternatives
from nova_pinning.explain import host_verdicts
from nova_pinning.explain import verdict_summary
from nova_pinning import fit
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot

#: Told how much is done, from 0 to 1.
Progress = Callable[[float], None]

# How much is done after each part of the work, roughly.
_AFTER_VERDICTS = 0.2
_AFTER_PROPERTIES = 0.6

_STATUS_TRAIT = frozenset({'COMPUTE_STATUS_DISABLED'})


@dataclasses.dataclass(frozen=True, slots=True)
class Remediation:
    """What would make a guest fit that fits nowhere, cheapest first.

    :param properties: other extra specs or image properties
    :param smaller: flavors of the fleet, and the largest size that fits
    :param disabled: hosts on which it would fit if they were enabled
    :param lacks_room: hosts on which it would fit if they were empty, which
        moves of guests may make; see :mod:`nova_pinning.rebalance`
    """

    properties: tuple[flavor_alternatives.FlavorAlternative, ...] = ()
    smaller: tuple[flavor_alternatives.FlavorAlternative, ...] = ()
    disabled: tuple[offered_host.OfferedHost, ...] = ()
    lacks_room: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.properties or self.smaller or self.disabled)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a guest fits, or not, on the hosts that were asked about.

    :param flavor: what is asked for, as a flavor
    :param request: the same
    :param verdicts: on each of these, in the fleet's order
    :param groups: those that refuse, by cause
    :param placement_groups: what Placement alone would exclude hosts for
    :param sentence: the sum in words
    :param remediation: what would make it fit; empty if it fits
    """

    flavor: flavor_model.Flavor
    request: guest_request.GuestRequest
    verdicts: tuple[host_verdicts.HostVerdict, ...]
    groups: tuple[verdict_summary.RefusalGroup, ...]
    placement_groups: tuple[verdict_summary.PlacementGroup, ...]
    sentence: str
    remediation: Remediation

    @property
    def fitting(self) -> tuple[str, ...]:
        """The hosts on which it fits."""
        return tuple(verdict.host for verdict in self.verdicts if verdict.fits)

    @property
    def is_certain(self) -> bool:
        """Whether it is certain that it fits somewhere, or nowhere."""
        fitting = [verdict for verdict in self.verdicts if verdict.fits]
        return not fitting or any(not verdict.doubts for verdict in fitting)

    @property
    def excluded(self) -> int:
        """Hosts that Placement alone would exclude."""
        return sum(bool(verdict.by_placement) for verdict in self.verdicts)


def explain_guest(
    fleet: snapshot.Fleet,
    judge: host_verdicts.HostJudge,
    order: flavor_alternatives.OrderedFlavor,
    read: flavor_alternatives.Reader,
    hosts: Sequence[str] = (),
    progress: Progress = lambda part: None,
) -> Explanation:
    """Explain why a guest fits or not.

    :param judge: of the fleet's hosts
    :param order: what is asked for
    :param read: what makes a wanted guest of an order's parts
    :param hosts: names of those that are asked about; () for all
    :raises errors.InputError: if nova would not accept the order
    """
    request = read(order.flavor, order.image)
    occupancies = [judge.occupancies[name]
                   for name in hosts or judge.occupancies]
    verdicts = []
    for number, occupancy in enumerate(occupancies):
        verdicts.append(judge.verdict(occupancy, request))
        progress(_AFTER_VERDICTS * (number + 1) / len(occupancies))
    groups = verdict_summary.groups(verdicts, request)
    helper = _RemediationFinder(fleet, judge, order, read, request, progress)
    remediation = Remediation()
    if not any(verdict.fits for verdict in verdicts):
        remediation = helper.remediation(verdicts)
    return Explanation(
        flavor=order.flavor,
        request=request,
        verdicts=tuple(verdicts),
        groups=groups,
        placement_groups=verdict_summary.placement_groups(verdicts),
        sentence=verdict_summary.sentence(
            len(verdicts), groups,
            sum(bool(verdict.doubts) for verdict in verdicts)),
        remediation=remediation)


@dataclasses.dataclass(frozen=True, slots=True)
class _RemediationFinder:
    fleet: snapshot.Fleet
    judge: host_verdicts.HostJudge
    order: flavor_alternatives.OrderedFlavor
    read: flavor_alternatives.Reader
    request: guest_request.GuestRequest
    progress: Progress

    def remediation(
            self,
            verdicts: Sequence[host_verdicts.HostVerdict]) -> Remediation:
        # What traits are asked for can change with the thread policy.
        maybe = [
            self._occupancy(verdict)
            for verdict in verdicts
            if verdict.is_eligible or (
                verdict.cause is not None and verdict.cause.rank is
                host_verdicts.RefusalRank.TRAITS and verdict.is_enabled)]
        finder = self._alternatives(maybe)
        properties = tuple(finder.properties())
        self.progress(_AFTER_PROPERTIES)
        smaller = tuple(finder.smaller(self.fleet.flavors))
        disabled = tuple(
            host for host in self._disabled(verdicts)
            if self.judge.fits(self._enabled(host), self.request))
        return Remediation(properties, smaller, disabled, tuple(
            verdict.host for verdict in verdicts if verdict.is_eligible
            # Moves make no devices, and no CPUs for the guest's class.
            and self.judge.fits(host_occupancy.of_host(
                self._occupancy(verdict).host), self.request)))

    def _occupancy(
        self, verdict: host_verdicts.HostVerdict,
    ) -> host_occupancy.HostOccupancy:
        return self.judge.occupancies[verdict.host]

    def _alternatives(
        self, occupancies: Sequence[host_occupancy.HostOccupancy],
    ) -> flavor_alternatives.AlternativeFinder:
        return flavor_alternatives.AlternativeFinder(
            self.judge, self.read, self.order, self.request, occupancies)

    def _disabled(
        self, verdicts: Sequence[host_verdicts.HostVerdict],
    ) -> Iterator[offered_host.OfferedHost]:
        return (self._occupancy(verdict).host for verdict in verdicts
                if not verdict.is_enabled)

    def _enabled(
        self, host: offered_host.OfferedHost,
    ) -> host_occupancy.HostOccupancy:
        """How a host would stand if it were enabled."""
        traits = host.traits
        return dataclasses.replace(
            self.judge.occupancies[host.name], host=dataclasses.replace(
                host, is_enabled=True,
                traits=None if traits is None else traits - _STATUS_TRAIT))


def judge_of(
    fleet: snapshot.Fleet,
    rules: scheduler_rules.SchedulerRules | None = None,
    wishes: guest_request.GuestWishes = guest_request.GuestWishes(),
    bounds: fit.ClaimBounds = fit.ClaimBounds(),
    assumes: frozenset[outcome.DoubtKind] = frozenset(),
) -> host_verdicts.HostJudge:
    """A judge of all hosts of a fleet.

    :param rules: None for those that the snapshot tells
    :param bounds: as AdmissionJudge takes them, and assumes
    """
    rules = rules or occupied.rules_of(fleet)
    return host_verdicts.HostJudge(
        occupied.of_fleet(fleet),
        judge.AdmissionJudge(rules, bounds, assumes), wishes,
        l3_layout.L3Layouts(rules.aggregates))
