# SPDX-License-Identifier: Apache-2.0
"""Which guests may move where, as far as room has nothing to do with it."""

from collections.abc import Hashable
import dataclasses
import datetime

from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.fleet import migration
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import move_cost
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning import units
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import known_hits
from nova_pinning.upgrade import register


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """How much may be moved.

    :param moves: at most, None for no limit
    :param memory_mib: copied at most, None for no limit
    :param fixed: UUIDs of guests that stay where they are
    """

    moves: int | None = None
    memory_mib: int | None = None
    fixed: frozenset[str] = frozenset()


class MoveRules(migration.MigrationRules):
    """Says of any guest whether and how it may move to a host.

    Guests of one key are alike in all that this says, and so are hosts, but
    for what depends on where guests are: what server groups say, and that no
    guest moves within its host.

    :param dirty_limit_mib: per second; guests that are known to write faster
        do not move live. None for no limit
    :raises errors.InputError: if ages are to be minded, and it is not known
        when the snapshot was taken, or for a release that there is not
    """

    def __init__(
        self, fleet: snapshot.Fleet,
        settings: plan_request.RuleSettings = plan_request.RuleSettings(),
        dirty_limit_mib: float | None = None,
    ) -> None:
        rules = occupied.rules_of(fleet)
        usual = register.shipped().version(
            settings.release, 'release') if settings.release else None
        super().__init__(
            fleet, dataclasses.replace(
                rules, isolates=settings.isolates or rules.isolates,
                default_zone=settings.default_zone or rules.default_zone),
            settings.crosses_zones, settings.assumes,
            usual.release if usual else None)
        self.settings = settings
        self._dirty_limit_mib = dirty_limit_mib
        self._known = known_hits.KnownDefects(usual)
        self._taken_at = _time(fleet.taken_at)
        if self._taken_at is None and (settings.least_age_days is not None
                                       or settings.most_age_days is not None):
            raise errors.InputError(
                'does not say when it was taken, so the ages of guests are '
                'not known', fleet.where, 'give it taken_at, or leave out '
                'the limits of age')
        self._defects: dict[tuple[str, str, defect_model.Operation], str] = {}

    def admission(
        self, bounds: fit.ClaimBounds = fit.ClaimBounds(),
    ) -> judge.AdmissionJudge:
        """What says whether there is room for a guest on a host."""
        return judge.AdmissionJudge(
            self.scheduler, bounds, self.settings.assumes)

    def kind(self, guest: resident_guest.ResidentGuest,
             target: offered_host.OfferedHost) -> plan_model.MigrationKind:
        """How nova would move it there."""
        return (plan_model.MigrationKind.COLD
                if self.cold_reason(guest, target)
                else plan_model.MigrationKind.LIVE)

    def guest_key(self, guest: resident_guest.ResidentGuest) -> Hashable:
        return (super().guest_key(guest), self.live_refusal(guest),
                self.cold_refusal(guest),
                guest.fit and guest.fit.page_size_kib)

    def evacuation_refusal(self, guest: resident_guest.ResidentGuest) -> str:
        """Why nova does not evacuate a guest at all; '' if it does.

        Whether it may be moved while its host is well does not matter.
        """
        return super().evacuation_refusal(guest) or self._defect(
            guest, defect_model.Operation.EVACUATION)

    def dirty_rate_mib(
        self, guest: resident_guest.ResidentGuest,
    ) -> float | None:
        """What a guest writes per second, None if it is not known."""
        return move_cost.dirty_rate(guest, self.extra_specs(guest))

    def _staying(self, guest: resident_guest.ResidentGuest) -> str:
        return super()._staying(guest) or self._chosen(guest)

    def _chosen(self, guest: resident_guest.ResidentGuest) -> str:
        """Why the operator has it stay."""
        settings = self.settings
        tags = sorted(settings.fixed_tags.intersection(guest.tags))
        if tags:
            return f'has the tag {tags[0]}'
        least, most = settings.least_age_days, settings.most_age_days
        if least is None and most is None:
            return ''
        launched = _time(guest.launched_at)
        if launched is None or self._taken_at is None:
            return 'is of unknown age'
        age_seconds = (self._taken_at - launched).total_seconds()
        days = age_seconds / units.SECONDS_PER_DAY
        if least is not None and days < least:
            return f'is {days:,.1f} days old, and {least:g} are asked for'
        if most is not None and days > most:
            return f'is {days:,.1f} days old, and {most:g} are allowed'
        return ''

    def live_refusal(self, guest: resident_guest.ResidentGuest) -> str:
        """Why a guest does not move live at all."""
        return super().live_refusal(guest) or self._too_dirty(
            guest) or self._defect(
                guest, defect_model.Operation.LIVE_MIGRATION)

    def cold_refusal(self, guest: resident_guest.ResidentGuest) -> str:
        """Why a guest does not move cold at all."""
        if not self.settings.allows_cold:
            return 'that is not allowed'
        if guest.devices and not self.settings.moves_devices:
            return 'has PCI devices'
        return super().cold_refusal(guest) or self._defect(
            guest, defect_model.Operation.COLD_MIGRATION)

    def _too_dirty(self, guest: resident_guest.ResidentGuest) -> str:
        limit, rate = self._dirty_limit_mib, self.dirty_rate_mib(guest)
        if limit is None or rate is None or rate < limit:
            return ''
        return (f'writes {rate:,.0f} MiB/s, and no more than {limit:,.0f} '
                'MiB/s can be copied')

    def _defect(self, guest: resident_guest.ResidentGuest,
                operation: defect_model.Operation) -> str:
        """The known defects of nova that it would meet; '' if none.

        Those of its host count, since a live migration is its work; what a
        claim on the target gets wrong the planner finds by predicting it.
        """
        host = self.source(guest)
        if host is None:
            return ''
        key = guest.uuid, guest.host, operation
        if key not in self._defects:
            self._defects[key] = known_hits.told(
                hit for hit in self._known.hitting(
                    operation, hits.GuestOnHost(guest, host))
                if hit.is_sure or not self.settings.is_restarted)
        return self._defects[key]


def _time(text: str) -> datetime.datetime | None:
    """A time of a snapshot, None if it is not known."""
    return datetime.datetime.fromisoformat(text) if text else None
