# SPDX-License-Identifier: Apache-2.0


"""What can still be sold of a fleet: flavor by flavor, and host by host."""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import TypeAlias

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.capacity import count
from nova_pinning.capacity import flavor_mix
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import shared_pools
from nova_pinning.capacity import stranded
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass

_ONE_CACHE = l3_layout.GuestCaches(1, 1)
_NO_ROOM = 'not one more fits'
_ONLY_BOUND = 'how many fit is known as a bound only'
_NO_MIX = ('guests with devices, unequal cells, floating vCPUs in NUMA cells, '
           'several page sizes or thread policy isolate are not mixed')

_Guests: TypeAlias = collections.Counter[tuple[shared_pools.SharedDraw, ...]]

#: Is told how much is done, from 0 to 1.
Progress = Callable[[float], None]


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """Further guests of one flavor, on some of the hosts.

    :param fits: that nova will place, one after another
    :param most: that fit at most; None if that was too much to find out
    :param totals: that the hosts' totals of CPUs promise
    :param missing: of these, by what is in the way, the most first
    :param certain: that nova will place for all that is known; less than
        ``fits`` where not all is
    :param doubts: what is not known of hosts that count for ``fits``, with
        how many guests depend on it
    :param caches: L3 caches of the next guest, on each of the hosts
    """

    request: guest_request.GuestRequest
    fits: int
    most: int | None
    totals: int
    missing: Mapping[count.CapacityCause, int]
    certain: int = 0
    doubts: Mapping[outcome.Doubt, int] = dataclasses.field(
        default_factory=dict)
    caches: l3_layout.CacheSum = l3_layout.CacheSum()

    @property
    def is_bound(self) -> bool:
        """Whether less may fit."""
        return self.certain < self.fits


@dataclasses.dataclass(frozen=True, slots=True)
class HostCapacity:
    """What one host can still be sold for.

    :param counts: of each flavor
    :param stranded_cpus: how many of each host cell's, in their order
    :param caches: L3 caches of the next guest of each flavor
    """

    host: offered_host.OfferedHost
    counts: tuple[count.HostCount, ...]
    stranded: stranded.StrandedResources
    stranded_cpus: tuple[int, ...] = ()
    caches: tuple[l3_layout.GuestCaches | None, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SoldMix:
    """A mix of flavors of one class.

    :param weights: of each flavor
    """

    requests: tuple[guest_request.GuestRequest, ...]
    weights: tuple[int, ...]
    mix: flavor_mix.Mix


@dataclasses.dataclass(frozen=True, slots=True)
class FleetCapacity:
    """What a fleet can still be sold for.

    :param requests: one guest of each flavor on sale
    :param mixes: one of pinned guests and one of guests that float freely,
        as far as there are flavors for it
    :param left_out: flavors with a weight that are in no mix, by name, and
        why
    """

    fleet: snapshot.Fleet
    requests: tuple[guest_request.GuestRequest, ...]
    hosts: tuple[HostCapacity, ...]
    mixes: tuple[SoldMix, ...] = ()
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def sizes(
        self, hosts: Sequence[HostCapacity] | None = None,
    ) -> tuple[FlavorCapacity, ...]:
        """The flavors, summed over hosts.

        :param hosts: all by default
        """
        rows = self.hosts if hosts is None else hosts
        return tuple([
            dataclasses.replace(
                _size(request, [host.counts[number] for host in rows]),
                caches=l3_layout.total(host.caches[number] for host in rows))
            for number, request in enumerate(self.requests)])

    def by_class(self) -> dict[hostclass.HostClass | None, list[HostCapacity]]:
        """The hosts of each class, None for those of which it is unknown."""
        by_class: dict[hostclass.HostClass | None, list[HostCapacity]] = {
            host_class: [] for host_class in (*hostclass.HostClass, None)}
        for host in self.hosts:
            by_class[host.host.host_class].append(host)
        return {host_class: hosts for host_class, hosts in by_class.items()
                if hosts}


def measure(
    fleet: snapshot.Fleet, requests: Sequence[guest_request.GuestRequest],
    weights: Mapping[str, int] | None = None,
    admission: judge.AdmissionJudge | None = None,
    progress: Progress = lambda done: None,
) -> FleetCapacity:
    """Count further guests of each flavor on each host.

    :param requests: one guest of each flavor on sale
    :param admission: says where guests may go; None for one with the rules
        that the snapshot tells, and nova's claims
    :param weights: by flavor, for mixes of those that have one and of which
        at least one more fits; None for no mix
    """
    requests = ranked(requests)
    admission = admission or judge.AdmissionJudge(
        occupied.rules_of(fleet), deferred_claim.BOUNDS)
    counters = [count.Counter(request, admission) for request in requests]
    counted, hosts = [], []
    finder = stranded.StrandedFinder(counters)
    layouts = l3_layout.L3Layouts(admission.rules.aggregates)
    number = max(1, len(fleet.hosts))
    numbering = like_hosts.Numbering(admission.rules.counts_guests)
    for counted_host in map(numbering.host,
                            occupied.of_fleet(fleet).values()):
        counts = tuple([counter.count(counted_host) for counter in counters])
        on_cells = tuple(finder.on_cells(counted_host, counts))
        hosts.append(HostCapacity(
            counted_host.occupancy.host, counts, stranded.total((
                *on_cells, finder.devices(counted_host))),
            tuple([here.stranded_cpus for here in on_cells]),
            tuple([_next_caches(
                request, counted_host.occupancy, admission, layouts)
                if here.certain else None
                for request, here in zip(requests, counts)])))
        counted.append(counted_host)
        if not len(hosts) % 100:
            progress(len(hosts) / number)
    capacity = FleetCapacity(fleet, requests, tuple(hosts))
    if weights is None:
        return capacity
    left_out = {
        size.request.name: reason
        for counter, size in zip(counters, capacity.sizes())
        if weights.get(size.request.name)
        and (reason := _not_mixed(counter, size))}
    return dataclasses.replace(capacity, left_out=left_out, mixes=_mixes(
        counters, counted, hosts, {
            name: weight for name, weight in weights.items()
            if weight and name not in left_out}))


def _next_caches(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy, admission: judge.AdmissionJudge,
    layouts: l3_layout.L3Layouts,
) -> l3_layout.GuestCaches | None:
    """The L3 caches of the next guest on a host, None if not known."""
    guest, layout = request.topology, layouts.of_host(occupancy.host)
    if guest is None or not guest.is_pinned or layout is None:
        return None
    if layout.is_one_a_cell and len(guest.cells) == 1:
        return _ONE_CACHE
    found = admission.answer(request, occupancy)
    return layout.caches(guest, found.use.fit) if isinstance(
        found, outcome.Admitted) else None


def _not_mixed(counter: count.Counter, size: FlavorCapacity) -> str:
    """Why a flavor is in no mix, '' if it can be."""
    if not size.fits:
        return _NO_ROOM
    if size.is_bound:
        return _ONLY_BOUND
    return '' if flavor_mix.can_mix(counter) else _NO_MIX


def is_spread(sizes: Iterable[FlavorCapacity]) -> bool:
    """Whether the next guest of any lies on more L3 caches than it has to."""
    return any(size.caches.caches > size.caches.fewest for size in sizes)


def guests_by_flavor(fleet: snapshot.Fleet) -> dict[str, int]:
    """How many guests of each flavor the fleet has."""
    return dict(collections.Counter(
        guest.flavor for guest in fleet.guests if guest.flavor))


def ranked(
    requests: Iterable[guest_request.GuestRequest],
) -> tuple[guest_request.GuestRequest, ...]:
    """Flavors in the order in which they are shown: class, then size."""
    return tuple(sorted(requests, key=_rank))


def _rank(request: guest_request.GuestRequest) -> tuple[object, ...]:
    return (request.guest_class, request.vcpus, request.memory_mib,
            request.name)


class FlavorSum:
    """Sums up what was counted of one flavor, host by host."""

    def __init__(self) -> None:
        # By what guests take that hosts share.
        self._fits: _Guests = collections.Counter()
        self._certain: _Guests = collections.Counter()
        self._most: _Guests = collections.Counter()
        self._unknown = self._totals = 0
        self._missing: collections.Counter[count.CapacityCause] = (
            collections.Counter())
        self._doubts: collections.Counter[outcome.Doubt] = (
            collections.Counter())

    def add(self, counted: count.HostCount, sign: int = 1) -> None:
        """Add what was counted of a host, or with -1 take it away."""
        if not counted.totals and not counted.fits:
            return
        self._totals += sign * counted.totals
        if counted.most is None:
            self._unknown += sign
        for guests, number in (
                (self._fits, counted.fits), (self._certain, counted.certain),
                (self._most, counted.most or 0)):
            if number:
                guests[counted.draws] = left = (
                    guests[counted.draws] + sign * number)
                if not left:
                    # What was free once says nothing of what is.
                    del guests[counted.draws]
        for cause, missing in counted.missing.items():
            self._missing[cause] += sign * missing
        for doubt in counted.doubts:
            self._doubts[doubt] += sign * counted.fits

    def size(self, request: guest_request.GuestRequest) -> FlavorCapacity:
        """The sum; what hosts share is there once."""
        fits = shared_pools.capped(self._fits)
        missing = +self._missing
        for draws, guests in fits.items():
            if guests < self._fits[draws]:
                missing[count.BY_RESOURCE.get(
                    draws[0].resource_class, count.CapacityCause.RESOURCES)
                ] += self._fits[draws] - guests
        return FlavorCapacity(
            request, sum(fits.values()),
            None if self._unknown else sum(
                shared_pools.capped(self._most).values()),
            self._totals, dict(missing.most_common()),
            sum(shared_pools.capped(self._certain).values()),
            dict(+self._doubts))


def _size(request: guest_request.GuestRequest,
          counts: Iterable[count.HostCount]) -> FlavorCapacity:
    total = FlavorSum()
    for counted in counts:
        total.add(counted)
    return total.size(request)


def _mixes(
    counters: Sequence[count.Counter], hosts: Sequence[like_hosts.CountedHost],
    capacities: Sequence[HostCapacity], weights: Mapping[str, int],
) -> tuple[SoldMix, ...]:
    """A mix for pinned guests, and one for those that float."""
    mixes = []
    for is_pinned in (True, False):
        chosen = [number for number, counter in enumerate(counters)
                  if counter.is_pinned is is_pinned
                  and counter.request.name in weights]
        if chosen:
            among = [counters[number] for number in chosen]
            shares = tuple(weights[size.request.name] for size in among)
            mixes.append(SoldMix(
                tuple(size.request for size in among), shares,
                flavor_mix.mix(hosts, among,
                               [[host.counts[number] for host in capacities]
                                for number in chosen], shares)))
    return tuple(mixes)
