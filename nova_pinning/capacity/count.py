# SPDX-License-Identifier: Apache-2.0


"""How many further guests of a flavor go on a host, and why not more.

Two figures are exact. What nova will place: guests one after another, each
where nova's own order of host cells puts it, until the host is refused. And
what fits at most, were the host cells of each guest chosen at will. They are
the same for guests of one NUMA cell without devices, and for most others; see
:func:`nova_pinning.capacity.search.most`.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import enum
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.capacity import search
from nova_pinning.fit import capacity
from nova_pinning.fit import counting
from nova_pinning.fleet import gaps
from nova_pinning.fleet import host_occupancy
from nova_pinning.fleet import placement
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.placement import cache_resources
from nova_pinning.placement import inventory


class CapacityCause(enum.StrEnum):
    """Why fewer guests fit on a host than its totals say."""

    DISABLED = 'disabled'
    TRAITS = 'traits'
    AGGREGATES = 'aggregates'
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
    DEVICES = 'devices'
    ORDER = 'order'


_BY_KIND = {
    placement.ExclusionKind.REQUIRED_TRAIT: CapacityCause.TRAITS,
    placement.ExclusionKind.FORBIDDEN_TRAIT: CapacityCause.TRAITS,
    placement.ExclusionKind.AVAILABILITY_ZONE: CapacityCause.AGGREGATES,
    placement.ExclusionKind.ISOLATED: CapacityCause.AGGREGATES,
    placement.ExclusionKind.TENANT: CapacityCause.AGGREGATES,
}
#: The resources of which a snapshot says how much there is.
_BY_RESOURCE = {
    inventory.VCPU: CapacityCause.PLACEMENT,
    inventory.PCPU: CapacityCause.PLACEMENT,
    inventory.MEMORY_MB: CapacityCause.MEMORY,
    inventory.DISK_GB: CapacityCause.DISK,
    cache_resources.L3_WAYS: CapacityCause.CACHES,
    cache_resources.RESCTRL_GROUPS: CapacityCause.CACHES,
}
# Those of which a snapshot need not say anything.
_NOT_ALWAYS_TOLD = (inventory.DISK_GB, *cache_resources.CLASSES)


class HostCount(NamedTuple):
    """Further guests of one flavor on one host.

    :param fits: that nova will place, one after another
    :param most: that fit at most; None if that was too much to find out
    :param totals: that the host's totals of CPUs promise
    :param missing: of what the totals promise, by what is in the way
    :param gaps: what is not known of the host, so that ``fits`` is a bound:
        no more will fit
    """

    fits: int
    most: int | None
    totals: int
    missing: Mapping[CapacityCause, int]
    gaps: tuple[snapshot.GapKind, ...] = ()


_NOTHING = HostCount(0, 0, 0, {})


class CountedHost(NamedTuple):
    """A host with what counts of it, looked at once for all flavors.

    :param numbers: of the cells, equal for those that are alike
    :param kind: equal for hosts whose cells and free devices are alike
    :param site: equal for hosts of which Placement knows the same but for
        resources
    :param free_cpus: free dedicated CPUs, but for as many as guests have
        elsewhere that should have them
    :param offers: what Placement has left of each resource, and the most
        that it gives at once
    :param has_pcpus: whether pinned vCPUs count as PCPU
    :param has_stray_pins: whether any cell has
    """

    occupancy: host_occupancy.HostOccupancy
    cells: tuple[counting.CountedCell, ...]
    numbers: tuple[int, ...]
    pools: tuple[snapshot.PciPool, ...]
    kind: int
    site: int
    free_cpus: int
    offers: Mapping[str, tuple[int, int]]
    has_pcpus: bool
    has_stray_pins: bool


class Numbering:
    """Numbers what is alike of hosts: cells, kinds and sites.

    Counters remember what they found by these numbers, so hosts that are
    looked at later, for the same counters, need the same numbering.
    """

    def __init__(self) -> None:
        self.alike: dict[Hashable, int] = {}
        self.kinds: dict[Hashable, int] = {}
        self.sites: dict[Hashable, int] = {}


def counted_hosts(
    occupancies: Iterable[host_occupancy.HostOccupancy],
    numbering: Numbering | None = None,
) -> Iterator[CountedHost]:
    """Look at hosts with their guests.

    :param numbering: of hosts that were looked at before, if any were
    """
    numbering = numbering or Numbering()
    alike, kinds, sites = numbering.alike, numbering.kinds, numbering.sites
    for occupancy in occupancies:
        host = occupancy.host
        cells = counting.cells(occupancy.engine)
        pools = devices.free(host.pci_pools, occupancy.device_uses)
        has_threads = any(max(cell.threads, default=1) > 1 for cell in cells)
        numbers = tuple([alike.setdefault(cell.key, len(alike))
                         for cell in cells])
        # Devices are near cells by their ids.
        kind = numbers, tuple([cell.view.id for cell in cells]), pools
        site = host.traits, host.aggregates, has_threads
        yield CountedHost(
            occupancy, cells, numbers, pools,
            kinds.setdefault(kind, len(kinds)),
            sites.setdefault(site, len(sites)),
            sum(map(_free_cpus, cells)),
            {name: (int(has.capacity) - occupancy.resources_used.get(name, 0),
                    has.total)
             for name, has in occupancy.inventories.items()},
            inventory.PCPU in occupancy.inventories,
            any([cell.view.has_stray_pins for cell in cells]))


def _free_cpus(cell: counting.CountedCell) -> int:
    view = cell.view
    if not view.has_stray_pins:
        return cell.free_cpus
    return max(0, cell.free_cpus - len(view.pinned_cpus - view.dedicated_cpus))


class _Gate(NamedTuple):
    """What Placement makes of a flavor on like hosts, but for resources.

    :param cause: that keeps the flavor off them
    :param queries: those of nova's queries that find them: amounts by
        resource, of those of which a snapshot says how much there is
    """

    cause: CapacityCause | None
    queries: tuple[Mapping[str, int], ...]


class Counter:
    """Counts guests of one flavor on hosts, and remembers what it found.

    The hosts have to come from :func:`counted_hosts` with one numbering.

    :ivar demands: of its guest cells, those that differ
    :ivar memory_cause: what is missing where its memory is
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    """

    def __init__(
        self, request: guest_request.GuestRequest, packs_cells: bool = False,
        scope: placement.PlacementScope = placement.PlacementScope(),
    ) -> None:
        self.request = request
        self._packs_cells = packs_cells
        self._scope = scope
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
        self._gates: dict[int, _Gate] = {}
        self._uses: dict[bool, Mapping[str, int]] = {}
        self._packs: dict[tuple[int, int], search.GuestPacking] = {}
        self._budget = search.SearchBudget()
        self._deviceless: Counter | None = None

    def count(self, host: CountedHost) -> HostCount:
        """How many go on the host, exactly if nothing stands against it."""
        unknown = (gaps.relevant(host.occupancy.host, self.request)
                   if host.occupancy.host.gaps else ())
        if not unknown:
            return self._count(host)
        counted = self._bound(host)
        if not counted.fits:
            # No less can fit.
            return counted
        return counted._replace(gaps=tuple(gap.kind for gap in unknown))

    def _bound(self, host: CountedHost) -> HostCount:
        """How many go on a host at most of which not all is known."""
        fleet_host = host.occupancy.host
        known = gaps.without_devices(fleet_host, self.request)
        if known is self.request:
            return (self._by_placement(host) if fleet_host.is_opaque
                    else self._count(host))
        if self._deviceless is None:
            self._deviceless = Counter(known, self._packs_cells, self._scope)
        counted = self._deviceless._bound(host)
        limit = gaps.device_limit(host.occupancy, self.request)
        if limit is None or limit >= counted.fits:
            return counted
        return HostCount(limit, limit, counted.totals, {
            **counted.missing,
            CapacityCause.DEVICES: counted.fits - limit})

    def _by_placement(self, host: CountedHost) -> HostCount:
        """By what Placement has of a host, and nothing else tells."""
        if self.request.topology is None:
            return self._count(host)
        fits, _scarce = self._offered(host, counting.UNLIMITED)
        cause = self._barred(host)
        if cause is not None and fits:
            return HostCount(0, 0, fits, {cause: fits})
        return HostCount(fits, fits, fits, {})

    def _count(self, host: CountedHost) -> HostCount:
        totals = self._by_totals(host)
        if not totals:
            return _NOTHING
        cause = self._barred(host)
        if cause is not None:
            return HostCount(0, 0, totals, {cause: totals})
        limits = self.limits(host)
        left, missing = totals, dict[CapacityCause, int]()
        if limits.cpus < left:
            missing[self._cells_cause(host)] = left - limits.cpus
            left = limits.cpus
        for count, cause in ((self._without_stray(host),
                              CapacityCause.STRAY_PINS), (limits.cores,
                                                          CapacityCause.CORES),
                             (limits.memory, self.memory_cause)):
            if count < left:
                missing[cause] = left - count
                left = count
        if left:
            count, cause = self._offered(host, left)
            if count < left:
                missing[cause] = missing.get(cause, 0) + left - count
                left = count
        if not left or self._is_simple:
            return HostCount(left, left, totals, missing)
        packing = self._packed(host, left)
        most = packing.fits if packing.most is None else packing.most
        if self.request.devices and most < left:
            missing[CapacityCause.DEVICES] = left - most
            left = most
        if packing.fits < left:
            missing[CapacityCause.ORDER] = left - packing.fits
        return HostCount(*packing, totals, missing)

    def _cells_cause(self, host: CountedHost) -> CapacityCause:
        """Why the cells have fewer CPUs than all of them together."""
        largest = max([len(cell.view.dedicated_cpus) for cell in host.cells],
                      default=0)
        if self.is_pinned and any(
                demand.dedicated + demand.emulator > largest
                for demand in self.demands):
            return CapacityCause.CELL_SIZE
        return CapacityCause.CELLS

    def limits(self, host: CountedHost) -> counting.Counts:
        """By what the host cells have, order and devices overlooked."""
        limits = self._limits.get(host.kind)
        if limits is None:
            limits = self._limits[host.kind] = self._by_cells(host)
        return limits

    def _without_stray(self, host: CountedHost) -> int:
        """By free CPUs of cells where no guest is on other CPUs."""
        limit = counting.UNLIMITED
        if not self.is_pinned or not host.has_stray_pins:
            return limit
        stray = [cell.view.has_stray_pins for cell in host.cells]
        for row, share in zip(self.cell_counts(host), self._shares):
            limit = min(limit, capacity.spread(
                tuple([0 if is_stray else counts.cpus
                       for is_stray, counts in zip(stray, row)]), share))
        return limit

    def _by_cells(self, host: CountedHost) -> counting.Counts:
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
                    limit = capacity.spread(counts, share)
                    previous = counts
                limits[index] = min(limits[index], limit)
        return counting.Counts(*limits)

    def cell_counts(self, host: CountedHost) -> list[list[counting.Counts]]:
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

    def _by_totals(self, host: CountedHost) -> int:
        """By what the host as a whole has free of CPUs and of vCPUs."""
        limit = counting.UNLIMITED
        if self._pinned:
            limit = host.free_cpus // self._pinned
        if self._floating:
            free, _total = host.offers.get(inventory.VCPU, (0, 0))
            limit = min(limit, max(0, free) // self._floating)
        return limit

    def _barred(self, host: CountedHost) -> CapacityCause | None:
        """What keeps all guests of the flavor off the host, if anything."""
        if not host.occupancy.host.is_enabled:
            return CapacityCause.DISABLED
        cause = self._gate(host).cause
        if cause is not None:
            return cause
        refusal = host_occupancy.class_refusal(
            host.occupancy, self.request, self._scope)
        return None if refusal is None else CapacityCause.CLASS

    def _gate(self, host: CountedHost) -> _Gate:
        gate = self._gates.get(host.site)
        if gate is None:
            gate = self._gates[host.site] = self._make_gate(host)
        return gate

    def _make_gate(self, host: CountedHost) -> _Gate:
        cause = None
        queries = []
        for query in self.request.queries:
            causes = [
                _BY_KIND[exclusion.kind]
                for exclusion in placement.exclusions(host.occupancy, query,
                                                      self._scope)
                if exclusion.kind in _BY_KIND]
            if causes:
                cause = cause or causes[0]
            else:
                queries.append({
                    name: need for name, need in query.resources.items()
                    if need and name in _BY_RESOURCE})
        return _Gate(None if queries else cause, tuple(queries))

    def _offered(self, host: CountedHost,
                 count: int) -> tuple[int, CapacityCause]:
        """How many guests Placement has resources for, and which it lacks.

        A host is offered if any of nova's queries finds it.

        :param count: how many guests at most the caller asks about
        """
        best = None
        for query in self._gate(host).queries:
            offer = self._offered_to(query, host)
            if offer[0] >= count:
                return offer
            if best is None or offer[0] > best[0]:
                best = offer
        return best or (counting.UNLIMITED, CapacityCause.PLACEMENT)

    def _offered_to(self, query: Mapping[str, int],
                    host: CountedHost) -> tuple[int, CapacityCause]:
        use = self._use(host)
        scarcest = counting.UNLIMITED, CapacityCause.PLACEMENT
        for name, need in query.items():
            offer = host.offers.get(name)
            if offer is None:
                if name in _NOT_ALWAYS_TOLD:
                    continue
                return 0, CapacityCause.PLACEMENT
            free, total = offer
            times = 0
            if need <= total and need <= free:
                used = use[name]
                times = ((free - need) // used + 1 if used
                         else counting.UNLIMITED)
            if times < scarcest[0]:
                scarcest = times, _BY_RESOURCE[name]
        return scarcest

    def _use(self, host: CountedHost) -> Mapping[str, int]:
        """What a guest counts in Placement once it is there."""
        use = self._uses.get(host.has_pcpus)
        if use is None:
            request = self.request
            use = self._uses[host.has_pcpus] = {
                **dict.fromkeys(cache_resources.CLASSES, 0),
                **inventory.allocation(
                    request.vcpus, request.memory_mib, request.disk_gib,
                    request.topology, on_pcpus=host.has_pcpus),
                **cache_resources.asked(dict(request.extra_specs))}
        return use

    def _packed(self, host: CountedHost, limit: int) -> search.GuestPacking:
        """What nova places, and what fits at most, by doing it."""
        key = host.kind, limit
        packed = self._packs.get(key)
        if packed is None:
            packed = self._packs[key] = search.pack(
                self.request, host.occupancy.engine, host.cells, host.pools,
                limit, self._packs_cells, self._budget)
        return packed
