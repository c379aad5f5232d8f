# SPDX-License-Identifier: Apache-2.0
"""Which flavors have sold out, which run out next, and when."""

import collections
from collections.abc import Hashable
from collections.abc import Sequence
import dataclasses
import enum
import statistics

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.fleet import occupied
from nova_pinning.model import hostclass

#: Few are left if they are gone in so many days, or if there are so many times
#: as many guests of the flavor.
FEW_DAYS = 30
FEW_SHARE = 10
# A pace is that of a day at least, and holds for so many times as long.
_SECONDS_PER_DAY = 86_400.0
_MOST_SPANS = 10


class SaleStatus(enum.StrEnum):
    """Whether more guests of a flavor can be sold.

    SOLD_OUT is where not one more fits and an empty host would take one,
    NOT_OFFERED where not even that would. LOW is where few are left, and
    UNDECIDED where not all of the hosts is known and maybe none.
    """

    SOLD_OUT = 'sold-out'
    LOW = 'low'
    UNDECIDED = 'undecided'
    ON_SALE = 'on-sale'
    NOT_OFFERED = 'not-offered'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlavorOutlook:
    """What becomes of a flavor.

    :param number: of the flavor, among those that were counted
    :param guests: of the flavor that there are
    :param days_left: until none is left at the pace of the history; None if
        that cannot be told
    """

    number: int
    size: capacity.FlavorCapacity
    guests: int
    status: SaleStatus
    days_left: float | None = None


class OutlookFinder:
    """Looks at what can be sold of some or all hosts of a fleet.

    :param measured: the fleet as it is
    :param earlier: as it was, with the same flavors; the times that are not
        known, or not before that of ``measured``, are left out
    :ivar since: the day on which its history begins; '' if it has none
    """

    def __init__(self, measured: capacity.FleetCapacity,
                 earlier: Sequence[capacity.FleetCapacity] = ()) -> None:
        self.measured = measured
        fleet = measured.fleet
        now = fleet.taken_epoch
        self._times = sorted(
            (epoch / _SECONDS_PER_DAY, number)
            for number, one in enumerate(earlier)
            if (epoch := one.fleet.taken_epoch) is not None
            and now is not None and epoch < now)
        self._today = now and now / _SECONDS_PER_DAY
        self.since = '' if not self._times else (
            earlier[self._times[0][1]].fleet.taken_at[:10])
        admission = judge.AdmissionJudge(occupied.rules_of(fleet))
        self._counters = [count.Counter(request, admission)
                          for request in measured.requests]
        self._numbering = like_hosts.Numbering()
        # By hosts that are alike, and by the identity of each.
        self._empty: dict[Hashable, tuple[int, ...]] = {}
        self._empty_of: dict[int, tuple[int, ...]] = {}
        self._guests: dict[str, collections.Counter[str]] = {}
        for guest in fleet.guests:
            self._guests.setdefault(
                guest.host, collections.Counter())[guest.flavor] += 1

    def outlooks(
        self, hosts: Sequence[capacity.HostCapacity] | None = None,
        earlier: Sequence[Sequence[capacity.HostCapacity]] = (),
    ) -> tuple[FlavorOutlook, ...]:
        """The flavors, the most valuable first.

        :param hosts: of the fleet as it is, None for all
        :param earlier: those hosts as they were, for each earlier fleet
        """
        hosts = self.measured.hosts if hosts is None else hosts
        guests: collections.Counter[str] = collections.Counter()
        for host in hosts:
            guests.update(self._guests.get(host.host.name, ()))
        history = [(day, earlier[number]) for day, number in self._times]
        if self._today is not None:
            history.append((self._today, hosts))
        empty = {self._when_empty(host.host) for host in hosts}
        found = []
        for number, size in enumerate(self.measured.sizes(hosts)):
            days_left = self._days_left(number, size, history)
            there = guests[size.request.name]
            found.append(FlavorOutlook(
                number=number, size=size, guests=there, days_left=days_left,
                status=_status(size, there, days_left, any(
                    counts[number] for counts in empty))))
        return tuple(sorted(found, key=_value, reverse=True))

    def _when_empty(self, host: offered_host.OfferedHost) -> tuple[int, ...]:
        """How many guests of each flavor the host would take, were it empty.
        """
        found = self._empty_of.get(id(host))
        if found is None:
            counted = self._numbering.host(host_occupancy.of_host(host))
            found = self._empty_of[id(host)] = self._empty.setdefault(
                (counted.kind, counted.site, *counted.left), tuple([
                    counter.count(counted).fits
                    for counter in self._counters]))
        return found

    def _days_left(
        self, number: int, size: capacity.FlavorCapacity,
        history: Sequence[tuple[float, Sequence[capacity.HostCapacity]]],
    ) -> float | None:
        """Until none of a flavor is left, as the room for it shrank so far.

        Room is what is used up of that of empty hosts, so that hosts that
        came or went between two times make no difference.
        """
        span = history[-1][0] - history[0][0] if history else 0
        if span < 1 or not size.fits or size.is_bound or any(
                host.counts[number].doubts
                for _day, hosts in history for host in hosts):
            return None
        used = [sum(self._when_empty(host.host)[number]
                    - host.counts[number].fits for host in hosts)
                for _day, hosts in history]
        pace = statistics.linear_regression(
            [day for day, _hosts in history], used).slope
        days_left = size.fits / pace if pace > 0 else None
        return (None if days_left is None or days_left > _MOST_SPANS * span
                else days_left)


def _status(size: capacity.FlavorCapacity, guests: int,
            days_left: float | None, is_offered: bool) -> SaleStatus:
    if not size.fits:
        return (SaleStatus.SOLD_OUT if is_offered
                else SaleStatus.NOT_OFFERED)
    if not size.certain:
        return SaleStatus.UNDECIDED
    if size.fits * FEW_SHARE < guests or (
            days_left is not None and days_left < FEW_DAYS):
        return SaleStatus.LOW
    return SaleStatus.ON_SALE


def _value(outlook: FlavorOutlook) -> tuple[object, ...]:
    """By what a guest of the flavor is worth, as far as its size tells."""
    request = outlook.size.request
    return (request.guest_class is hostclass.HostClass.DEDICATED,
            request.vcpus, request.memory_mib)
