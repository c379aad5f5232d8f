# SPDX-License-Identifier: Apache-2.0
"""How many further guests of a flavor go on a host, and why not more.

Two figures are exact. What nova will place: guests one after another, each
where nova's own order of host cells puts it, until the host is refused. And
what fits at most, were the host cells of each guest chosen at will. They are
the same for guests of one NUMA cell without devices, and for most others; see
:func:`nova_pinning.capacity.search.most`.
"""

from collections.abc import Hashable
from collections.abc import Mapping
import enum
import operator
from typing import NamedTuple

from nova_pinning.admission import device_lacks
from nova_pinning.admission import gaps
from nova_pinning.admission import guest_request
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.admission import providers
from nova_pinning.admission import scheduler_rules
from nova_pinning.admission import shortages
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import provider_limits
from nova_pinning.capacity import search
from nova_pinning.capacity import shared_pools
from nova_pinning import fit
from nova_pinning.fit import counting
from nova_pinning import model
from nova_pinning.placement import cache_resources
from nova_pinning.placement import inventory


class CapacityCause(enum.StrEnum):
    """Why fewer guests fit on a host than its totals say."""

    DISABLED = 'disabled'
    TRAITS = 'traits'
    AGGREGATES = 'aggregates'
    FILTERS = 'filters'
    CLASS = 'class'
    CELL_SIZE = 'cell-size'
    CELLS = 'cells'
    CORES = 'cores'
    STRAY_PINS = 'stray-pins'
    MEMORY = 'memory'
    PAGES = 'pages'
    DISK = 'disk'
    PLACEMENT = 'placement'
    CACHES = 'caches'
    RESOURCES = 'resources'
    DEVICES = 'devices'
    AFFINITY = 'affinity'
    ORDER = 'order'


#: The resources that have a cause of their own.
BY_RESOURCE = {
    inventory.VCPU: CapacityCause.PLACEMENT,
    inventory.PCPU: CapacityCause.PLACEMENT,
    inventory.MEMORY_MB: CapacityCause.MEMORY,
    inventory.DISK_GB: CapacityCause.DISK,
    cache_resources.L3_WAYS: CapacityCause.CACHES,
    cache_resources.RESCTRL_GROUPS: CapacityCause.CACHES,
}


class HostCount(NamedTuple):
    """Further guests of one flavor on one host.

    :param fits: that nova will place, one after another
    :param most: that fit at most; None if that was too much to find out
    :param totals: that the host's totals of CPUs promise
    :param missing: of what the totals promise, by what is in the way
    :param doubts: what is not known, so that ``fits`` is a bound: no more
        will fit
    :param least: that fit for all that is known, where there are doubts
    :param draws: what each of them takes that other hosts share
    """

    fits: int
    most: int | None
    totals: int
    missing: Mapping[CapacityCause, int]
    doubts: tuple[outcome.Doubt, ...] = ()
    least: int = 0
    draws: tuple[shared_pools.SharedDraw, ...] = ()

    @property
    def certain(self) -> int:
        """How many nova will place for all that is known."""
        return self.least if self.doubts else self.fits


#: Guests that are tried one after the other.
_MOST_IN_TURN = 10_000


class SiteGate(NamedTuple):
    """What is said of a flavor on like hosts, room apart.

    :param cause: that keeps the flavor off them
    :param queries: those of nova's queries whose traits they have
    :param doubts: what is not known
    :param is_of_root: whether only the hosts' own providers can give what is
        asked for
    :param most: guests that filters let come, by their number alone
    """

    cause: CapacityCause | None
    queries: tuple[guest_request.CandidatesQuery, ...]
    doubts: tuple[outcome.Doubt, ...]
    is_of_root: bool
    most: int


class Counter:
    """Counts guests of one flavor on hosts, and remembers what it found.

    The hosts have to come from one :class:`like_hosts.Numbering`.

    :ivar demands: of its guest cells, those that differ
    :ivar memory_cause: what is missing where its memory is
    :param admission: says where the flavor may go; it stays to be had
    """

    def __init__(
        self, request: guest_request.GuestRequest,
        admission: judge.AdmissionJudge = judge.AdmissionJudge(),
    ) -> None:
        self.request = request
        self.admission = admission
        self._device_classes = {
            name for query in request.queries for group in query.groups
            if any(group.suffix in asked.groups for asked in request.devices)
            for name, _amount in group.asked}
        guest = request.topology
        demands = guest.demands if guest is not None else ()
        self.demands = tuple(dict.fromkeys(demands))
        self._shares = tuple(demands.count(demand) for demand in self.demands)
        self.is_pinned = guest is not None and guest.is_pinned
        self.thread_policy = (model.ThreadPolicy.PREFER if guest is None
                              else guest.thread_policy)
        self._pinned = sum(
            demand.dedicated + demand.emulator for demand in demands)
        self._floating = request.vcpus - sum(
            demand.dedicated for demand in demands)
        self.memory_cause = CapacityCause.MEMORY
        if any(demand.page_size_kib for demand in demands):
            self.memory_cause = CapacityCause.PAGES
        # Whether what fits cell by cell is what fits.
        self._is_simple = not request.devices and (
            guest is None or len(guest.cells) == 1
            and not guest.physnets and not guest.tunneled)
        # What was found out before, by kind and site of hosts.
        self._limits: dict[int, counting.Counts] = {}
        self._cells: list[dict[int, counting.Counts]] = [
            {} for _demand in self.demands]
        self._gates: dict[int, SiteGate] = {}
        self._uses: dict[bool, Mapping[str, int]] = {}
        self._packs: dict[
            Hashable, tuple[int, int | None, CapacityCause]] = {}
        self._budget = search.SearchBudget()
        self._deviceless: Counter | None = None

    def count(self, host: like_hosts.CountedHost) -> HostCount:
        """How many go on the host, exactly if nothing stands against it."""
        doubts = self.gate(host).doubts
        counted = (self._uncertain(host, doubts) if doubts
                   else self._count(host))
        if counted.fits and host.occupancy.host.children:
            return counted._replace(draws=tuple(shared_pools.draws(
                self.request, host.occupancy)))
        return counted

    def _uncertain(self, host: like_hosts.CountedHost,
                   doubts: tuple[outcome.Doubt, ...]) -> HostCount:
        """How many go on a host of which not all is known."""
        counted = self._bound(host)
        # Where none fits, no less can.
        if not counted.fits:
            return counted
        # One may fit by what is known, while not all is known for more.
        told = host.occupancy.host
        least = bool(told.children or any(
            doubt.about in told.offers for doubt in doubts)) and isinstance(
            self.admission.answer(self.request, host.occupancy),
            outcome.Admitted)
        return counted._replace(doubts=doubts, least=int(least))

    def _bound(self, host: like_hosts.CountedHost) -> HostCount:
        """How many go on a host at most of which not all is known."""
        fleet_host = host.occupancy.host
        known = gaps.without_devices(fleet_host, self.request)
        if known is self.request:
            return (self._by_placement(host) if fleet_host.is_opaque
                    else self._count(host))
        if self._deviceless is None:
            self._deviceless = Counter(known, self.admission)
        counted = self._deviceless._bound(host)
        limit = gaps.device_limit(host.occupancy, self.request)
        if limit is None or limit >= counted.fits:
            return counted
        return HostCount(limit, limit, counted.totals, {
            **counted.missing,
            CapacityCause.DEVICES: counted.fits - limit})

    def _by_placement(self, host: like_hosts.CountedHost) -> HostCount:
        """By what Placement has of a host, and nothing else tells."""
        if self.request.topology is None:
            return self._count(host)
        if self.gate(host).is_of_root:
            fits, _scarce = self._offered(host)
            most = fits
        else:
            fits, _scarce = self._in_turn(host, _MOST_IN_TURN)
            most = fits and provider_limits.most(
                self.gate(host).queries, host.occupancy)
        cause, allowed = self.gate(host).cause, self.gate(host).most
        if cause is not None and fits:
            return HostCount(0, 0, fits, {cause: fits})
        if allowed < fits:
            return HostCount(allowed, allowed, fits, {
                CapacityCause.FILTERS: fits - allowed})
        return HostCount(fits, most, fits, {})

    def _count(self, host: like_hosts.CountedHost) -> HostCount:
        totals = self._by_totals(host)
        if not totals:
            return HostCount(0, 0, 0, {})
        cause = self.gate(host).cause
        if cause is not None:
            return HostCount(0, 0, totals, {cause: totals})
        limits = self.limits(host)
        left, missing = totals, dict[CapacityCause, int]()
        for limit in ((limits.cpus, self._cells_cause(host)),
                      (self._without_stray(host), CapacityCause.STRAY_PINS),
                      (limits.cores, CapacityCause.CORES),
                      (limits.memory, self.memory_cause),
                      (self.gate(host).most, CapacityCause.FILTERS)):
            left = _limited(left, missing, *limit)
        if left:
            left = _limited(left, missing, *self._offered(host))
        if not left or (self._is_simple and self.gate(host).is_of_root
                        and not search.has_page_choice(
                            host.cells, self.request.topology)):
            return HostCount(left, left, totals, missing)
        fits, found, cause = self._packed(host, left)
        most = fits if found is None else found
        if self.request.devices and most < left:
            left = _limited(left, missing, max(most, device_lacks.most(
                self.request, host.occupancy)), CapacityCause.DEVICES)
            left = _limited(left, missing, most, CapacityCause.AFFINITY
                            if cause is CapacityCause.ORDER else cause)
        _limited(left, missing, fits, cause)
        return HostCount(fits, found, totals, missing)

    def _cells_cause(self, host: like_hosts.CountedHost) -> CapacityCause:
        """Why the cells have fewer CPUs than all of them together."""
        if self.is_pinned and any(
                all(demand.dedicated + demand.emulator
                    > len(cell.view.dedicated_cpus) for cell in host.cells)
                for demand in self.demands):
            return CapacityCause.CELL_SIZE
        return CapacityCause.CELLS

    def limits(self, host: like_hosts.CountedHost) -> counting.Counts:
        """By what the host cells have, order and devices overlooked."""
        limits = self._limits.get(host.kind)
        if limits is None:
            limits = self._limits[host.kind] = self._by_cells(host)
        return limits

    def _without_stray(self, host: like_hosts.CountedHost) -> int:
        """By free CPUs of cells where no guest is on other CPUs."""
        limit = counting.UNLIMITED
        if not self.is_pinned or not host.has_stray_pins:
            return limit
        stray = [cell.view.has_stray_pins for cell in host.cells]
        for row, share in zip(self.cell_counts(host), self._shares):
            limit = min(limit, fit.spread(
                tuple([0 if is_stray else counts.cpus
                       for is_stray, counts in zip(stray, row)]), share))
        return limit

    def _by_cells(self, host: like_hosts.CountedHost) -> counting.Counts:
        guest = self.request.topology
        if guest is None:
            return counting.Counts(*[counting.UNLIMITED] * 3)
        if len(host.cells) < len(guest.cells):
            return counting.Counts(0, 0, 0)
        if len(guest.cells) == 1:
            return counting.Counts(*map(sum, zip(*self.cell_counts(host)[0])))
        limits = [counting.UNLIMITED] * 3
        for row, share in zip(self.cell_counts(host), self._shares):
            limit, previous = counting.UNLIMITED, None
            for index, counts in enumerate(zip(*row)):
                # Mostly nothing but CPUs limits what there is.
                if counts != previous:
                    limit = fit.spread(counts, share)
                    previous = counts
                limits[index] = min(limits[index], limit)
        return counting.Counts(*limits)

    def cell_counts(
        self, host: like_hosts.CountedHost,
    ) -> list[list[counting.Counts]]:
        """For each different guest cell what each host cell takes."""
        return [[self.counts_of(index, number, cell)
                 for number, cell in zip(host.numbers, host.cells)]
                for index in range(len(self.demands))]

    def counts_of(self, index: int, number: int,
                  cell: counting.CountedCell) -> counting.Counts:
        """What a host cell takes of one of the different guest cells.

        :param index: in ``demands``
        :param number: of the host cell
        """
        known = self._cells[index]
        counts = known.get(number)
        if counts is None:
            guest = self.request.topology
            assert guest is not None
            counts = known[number] = counting.count(
                cell, guest, self.demands[index])
        return counts

    def _by_totals(self, host: like_hosts.CountedHost) -> int:
        """By what the host as a whole has free of CPUs and of vCPUs."""
        limit = counting.UNLIMITED
        if self._pinned:
            limit = host.free_cpus // self._pinned
        if self._floating:
            free, _total = host.offers.get(inventory.VCPU, (0, 0))
            limit = min(limit, free // self._floating)
        return limit

    def gate(self, host: like_hosts.CountedHost) -> SiteGate:
        """What is said of the host and all like it, room apart."""
        gate = self._gates.get(host.site)
        if gate is None:
            gate = self._gates[host.site] = self._make_gate(host)
        return gate

    def _make_gate(self, host: like_hosts.CountedHost) -> SiteGate:
        """What keeps all guests of the flavor off the host, if anything."""
        occupancy, request = host.occupancy, self.request
        found = self.admission.standing(request, occupancy)
        cause = min(map(self.cause_of, found.refusals),
                    key=list(CapacityCause).index, default=None)
        queries, by_query = [], []
        empty = [dict[str, int]() for _provider in occupancy.providers]
        for query in request.queries:
            refused = [
                refusal for refusal in shortages.shortages(
                    occupancy.host, empty, (query,))
                if refusal.name.endswith('-trait')]
            if refused:
                cause = cause or CapacityCause.TRAITS
            else:
                queries.append(query)
                by_query.append(self.admission.remaining(
                    providers.doubts(occupancy.host, query)))
        if queries and cause is CapacityCause.TRAITS:
            cause = None
        allowed = self.admission.guests_left(request, occupancy)
        # Any query will do, so the one of which most is known.
        return SiteGate(cause, tuple(queries), tuple(dict.fromkeys((
            *found.doubts, *min(by_query, key=len, default=())))),
            all(provider_limits.is_of_root(query, occupancy.host)
                for query in queries),
            counting.UNLIMITED if allowed is None else allowed)

    def _offered(
        self, host: like_hosts.CountedHost,
    ) -> tuple[int, CapacityCause]:
        """How many guests Placement has resources for, and which it lacks.

        A host is offered if any of nova's queries finds it. What several
        providers have is not told here.
        """
        gate = self.gate(host)
        return max([self._offered_to(query, host) for query in gate.queries
                    if gate.is_of_root], key=operator.itemgetter(0),
                   default=(counting.UNLIMITED, CapacityCause.PLACEMENT))

    def _offered_to(self, query: guest_request.CandidatesQuery,
                    host: like_hosts.CountedHost) -> tuple[int, CapacityCause]:
        use = self._use(host)
        scarcest = counting.UNLIMITED, CapacityCause.PLACEMENT
        for name, need in query.resources.items():
            offer = host.offers.get(name)
            if not need:
                continue
            cause = BY_RESOURCE.get(name, CapacityCause.RESOURCES)
            if offer is None:
                if providers.is_told(host.occupancy.host, name):
                    return 0, cause
                continue
            free, has = offer
            times = 0
            if need <= free and has.gives(need, 0):
                used = use.get(name, need)
                times = ((free - need) // used + 1 if used
                         else counting.UNLIMITED)
            if times < scarcest[0]:
                scarcest = times, cause
        return scarcest

    def _use(self, host: like_hosts.CountedHost) -> Mapping[str, int]:
        """What a guest counts in Placement once it is there.

        Of other resources than these as much as it asks for.
        """
        use = self._uses.get(host.has_pcpus)
        if use is None:
            request = self.request
            use = self._uses[host.has_pcpus] = inventory.allocation(
                request.vcpus, request.memory_mib, request.disk_gib,
                request.topology, on_pcpus=host.has_pcpus)
        return use

    def _packed(
        self, host: like_hosts.CountedHost, limit: int,
    ) -> tuple[int, int | None, CapacityCause]:
        """What nova places, what fits at most, and what is in the way."""
        # Else the limit has in it what Placement has left.
        left = () if self.gate(host).is_of_root else host.left
        key = host.kind, host.site, left, limit
        packed = self._packs.get(key)
        if packed is None:
            packed = self._packs[key] = self._pack(host, limit)
        return packed

    def _pack(
        self, host: like_hosts.CountedHost, limit: int,
    ) -> tuple[int, int | None, CapacityCause]:
        request, engine = self.request, host.occupancy.engine
        guest, gate = request.topology, self.gate(host)
        is_reached = guest is not None and gate.is_of_root and (
            search.is_reached(request, guest, engine))
        if is_reached and guest is not None and search.any_order_will_do(
                host.cells, guest, host.pools,
                self.admission.rules.packs_cells):
            return limit, limit, CapacityCause.ORDER
        fits, cause = self._in_turn(host, limit)
        # Nova's order is of no account to the first guest, which is tried on
        # all providers, nor to one without cells.
        if not fits or guest is None and gate.is_of_root:
            return fits, fits, cause
        if not gate.is_of_root:
            limit = min(limit, provider_limits.most(
                gate.queries, host.occupancy))
        if guest is None or is_reached or fits == limit:
            return fits, limit, cause
        return fits, search.most(
            request, host.occupancy, fits, limit, self._budget), cause

    def _in_turn(self, host: like_hosts.CountedHost,
                 limit: int) -> tuple[int, CapacityCause]:
        """Guests as nova places them one after another, and what stops it."""
        occupancy = host.occupancy
        limit = min(limit, _MOST_IN_TURN)
        for count in range(limit):
            found = self.admission.answer(self.request, occupancy)
            if isinstance(found, outcome.NotAdmitted):
                return count, self.cause_of(found.refusals[0])
            occupancy = occupancy.adding(judge.resident(
                self.request, occupancy, found.use))
        return limit, CapacityCause.ORDER

    def cause_of(self, refusal: outcome.AdmissionRefusal) -> CapacityCause:
        """Why no more guests fit though there is room in the cells."""
        if refusal.layer is outcome.RefusalLayer.PLACEMENT:
            return (CapacityCause.DEVICES
                    if refusal.about in self._device_classes else
                    BY_RESOURCE.get(refusal.about, CapacityCause.RESOURCES))
        if refusal.layer is outcome.RefusalLayer.FIT:
            return CapacityCause.ORDER
        return _BY_FILTER.get(refusal.name, CapacityCause.FILTERS)


_BY_FILTER = {'ComputeFilter': CapacityCause.DISABLED,
              scheduler_rules.CLASS_FILTER: CapacityCause.CLASS,
              'availability-zone': CapacityCause.AGGREGATES,
              'isolated-aggregate': CapacityCause.AGGREGATES,
              'tenant-aggregate': CapacityCause.AGGREGATES}


def _limited(left: int, missing: dict[CapacityCause, int], count: int,
             cause: CapacityCause) -> int:
    """The guests left of which so many fit; others are put down as missing."""
    if count < left:
        missing[cause] = missing.get(cause, 0) + left - count
    return min(count, left)
