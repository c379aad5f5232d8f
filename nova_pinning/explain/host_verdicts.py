# SPDX-License-Identifier: Apache-2.0
"""The verdict on each host: what each layer of nova says, and what decides.

Nova stops at the first layer that says no. Here all of them are asked, since
the one that tells most is not always the first: a shared host is no host for
a dedicated guest whether or not it has room.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import enum
from typing import NamedTuple

from nova_pinning.admission import device_lacks
from nova_pinning.admission import device_room
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.fleet import migration
from nova_pinning import model

_STATUS_TRAIT = 'COMPUTE_STATUS_DISABLED'


class RefusalRank(enum.StrEnum):
    """What refuses a host, the most lasting first."""

    CLASS = 'class'
    AGGREGATES = 'aggregates'
    TRAITS = 'traits'
    DISABLED = 'disabled'
    FIT = 'fit'
    DEVICES = 'devices'
    RESOURCES = 'resources'


class RefusalCause(NamedTuple):
    """What hosts are counted together by.

    :param name: for CLASS the host's class or ``migration.MIXED``, for FIT a
        ``model.Reason``, for DEVICES as in ``DeviceLack``, for AGGREGATES the
        filter, for TRAITS 'required-trait' or 'forbidden-trait', for
        RESOURCES the class, for DISABLED ''
    :param about: the zone, aggregate, trait or alias
    :param text: a clause about any of the hosts, '' where each has its own
    """

    rank: RefusalRank
    name: str = ''
    about: str = ''
    text: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostVerdict:
    """What each layer says of a guest on one host.

    :param is_enabled: whether nova-scheduler may choose the host
    :param refusals: what Placement and the filters say against it
    :param fit: what PinnedTopologyFilter finds; a fit without cells where
        only Placement tells what the host has
    :param cause: the one that decides, None if nothing refuses the guest
    :param doubts: what is not known, so that it may not fit there though
        nothing known refuses it; () if it is refused
    :param caches: the L3 caches that it gets, None if it is not certain that
        it fits, or they are not known
    :param devices: what it asks for by aliases, where it does not fit for
        certain
    :param lack: what of these keeps it from the host
    """

    host: str
    is_enabled: bool
    refusals: tuple[outcome.AdmissionRefusal, ...]
    fit: model.Fit | model.Refusal
    cause: RefusalCause | None
    doubts: tuple[outcome.Doubt, ...] = ()
    caches: l3_layout.GuestCaches | None = None
    devices: tuple[device_lacks.AliasDevices, ...] = ()
    lack: device_lacks.DeviceLack | None = None

    @property
    def fits(self) -> bool:
        """Whether nova would put the guest there, as far as is known."""
        return self.cause is None

    @property
    def doubt(self) -> str:
        """Why it is not certain that it fits, '' if it is or does not fit."""
        return '; '.join(doubt.text for doubt in self.doubts)

    @property
    def is_eligible(self) -> bool:
        """Whether room is all that could be missing."""
        return self.cause is None or self.cause.rank in (
            RefusalRank.FIT, RefusalRank.DEVICES, RefusalRank.RESOURCES)

    @property
    def by_placement(self) -> tuple[outcome.AdmissionRefusal, ...]:
        """Why Placement would not offer the host, () if it would."""
        return tuple(refusal for refusal in self.refusals
                     if refusal.layer is outcome.RefusalLayer.PLACEMENT)

    @property
    def class_refusal(self) -> str:
        """What HostClassFilter says against it, '' for nothing."""
        return next((refusal.text for refusal in self.refusals if
                     refusal.layer is outcome.RefusalLayer.CLASS), '')

    @property
    def figures(self) -> str:
        """What lies behind the cause on this host, '' for nothing more."""
        if self.cause is None:
            return ''
        if self.cause.rank is RefusalRank.FIT:
            return str(self.fit)
        if self.cause.rank is RefusalRank.DEVICES and self.lack:
            return self.lack.text
        if self.cause.rank is RefusalRank.CLASS:
            return self.class_refusal
        return '; '.join(refusal.text for refusal in self.refusals
                         if cause_of(refusal) == self.cause)


@dataclasses.dataclass(frozen=True, slots=True)
class HostJudge:
    """Says of any guest whether it fits on hosts of a fleet.

    :param occupancies: all hosts with their guests, by name
    :param wishes: of the guest
    :param layouts: of the hosts' L3 caches; None not to tell any
    """

    occupancies: Mapping[str, host_occupancy.HostOccupancy]
    judge: judge.AdmissionJudge
    wishes: guest_request.GuestWishes = guest_request.GuestWishes()
    layouts: l3_layout.L3Layouts | None = None

    def verdict(self, occupancy: host_occupancy.HostOccupancy,
                request: guest_request.GuestRequest) -> HostVerdict:
        """All that there is to say of one host."""
        host = occupancy.host
        found = self.judge.verdicts(request, occupancy, self.wishes)
        refusals = _told(host, found.refusals)
        cause = _decide(refusals)
        lack = device_lacks.find(
            request, occupancy, self.judge, found) if cause else None
        if lack:
            others = self.judge.verdicts(
                device_room.part(request, ()), occupancy, self.wishes)
            cause = _decide(_told(host, others.refusals), [RefusalCause(
                RefusalRank.DEVICES, lack.name, lack.aliases)])
        caches = None
        if (self.layouts and isinstance(found.fit, model.Fit)
                and not cause and not found.doubts):
            caches = self.layouts.caches(host, request.topology, found.fit)
        return HostVerdict(
            host=host.name, is_enabled=host.is_enabled, refusals=refusals,
            fit=found.fit, cause=cause, doubts=() if cause else found.doubts,
            caches=caches, lack=lack, devices=tuple(
                device_lacks.by_alias(request, occupancy)
                if cause or found.doubts else ()))

    def fits(self, occupancy: host_occupancy.HostOccupancy,
             request: guest_request.GuestRequest) -> bool:
        """Whether nova would put a guest on a host, as fast as can be told.

        So it may, as far as is known, where the host's cells are.
        """
        if occupancy.host.is_opaque and request.topology is not None:
            return False
        return not isinstance(
            self.judge.answer(request, occupancy, self.wishes),
            outcome.NotAdmitted)


def _told(
    host: offered_host.OfferedHost,
    refusals: tuple[outcome.AdmissionRefusal, ...],
) -> tuple[outcome.AdmissionRefusal, ...]:
    """Those that say more than that the host is disabled."""
    return refusals if host.is_enabled else tuple(
        refusal for refusal in refusals if refusal.about != _STATUS_TRAIT)


def _decide(
    refusals: Iterable[outcome.AdmissionRefusal],
    more: Iterable[RefusalCause] = (),
) -> RefusalCause | None:
    """The cause that tells most, None if the guest fits."""
    causes = [*map(cause_of, refusals), *more]
    return min(causes, key=lambda cause: list(RefusalRank).index(cause.rank),
               default=None)


def cause_of(refusal: outcome.AdmissionRefusal) -> RefusalCause:
    """What a host is counted by that is refused so."""
    layer = refusal.layer
    if layer is outcome.RefusalLayer.CLASS:
        return RefusalCause(
            RefusalRank.CLASS, refusal.about or migration.MIXED)
    if layer is outcome.RefusalLayer.FIT:
        return RefusalCause(RefusalRank.FIT, refusal.name)
    if refusal.name == 'resources':
        return RefusalCause(RefusalRank.RESOURCES, refusal.about)
    if refusal.name == 'ComputeFilter':
        return RefusalCause(RefusalRank.DISABLED)
    rank = (RefusalRank.TRAITS if refusal.name.endswith('-trait')
            else RefusalRank.AGGREGATES)
    return RefusalCause(rank, refusal.name, refusal.about, refusal.text)
