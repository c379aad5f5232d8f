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


"""How many further guests of a flavor go on a host, and why not more.

Two figures are exact. What nova will place: guests one after another, each
where nova's own order of host cells puts it, until the host is refused. And
what fits at most, were the host cells of each guest chosen at will. They are
the same for guests of one NUMA cell without devices, and for most others; see
:func:`nova_pinning.fleet.capacity.search.most`.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum
from typing import NamedTuple

from nova_pinning.fit import capacity
from nova_pinning.fit import room
from nova_pinning.fleet.capacity import search
from nova_pinning.fleet import devices
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model


class Cause(enum.StrEnum):
    """Why fewer guests fit on a host than its totals say."""

    DISABLED = 'disabled'
    TRAITS = 'traits'
    AGGREGATES = 'aggregates'
    CLASS = 'class'
    CELLS = 'cells'
    CORES = 'cores'
    STRAY_PINS = 'stray-pins'
    MEMORY = 'memory'
    PAGES = 'pages'
    DISK = 'disk'
    PLACEMENT = 'placement'
    DEVICES = 'devices'
    ORDER = 'order'


_BY_KIND = {
    placement.Kind.REQUIRED_TRAIT: Cause.TRAITS,
    placement.Kind.FORBIDDEN_TRAIT: Cause.TRAITS,
    placement.Kind.AVAILABILITY_ZONE: Cause.AGGREGATES,
    placement.Kind.ISOLATED: Cause.AGGREGATES,
    placement.Kind.TENANT: Cause.AGGREGATES,
}
#: The resources of which a snapshot says how much there is.
_BY_RESOURCE = {
    placement.VCPU: Cause.PLACEMENT,
    placement.PCPU: Cause.PLACEMENT,
    placement.MEMORY_MB: Cause.MEMORY,
    placement.DISK_GB: Cause.DISK,
}


class HostCount(NamedTuple):
    """Further guests of one flavor on one host.

    :param fits: that nova will place, one after another
    :param most: that fit at most; None if that was too much to find out
    :param totals: that the host's totals of CPUs promise
    :param missing: of what the totals promise, by what is in the way
    """

    fits: int
    most: int | None
    totals: int
    missing: Mapping[Cause, int]


_NOTHING = HostCount(0, 0, 0, {})


class Place(NamedTuple):
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

    standing: fleet_standing.Standing
    cells: tuple[room.Cell, ...]
    numbers: tuple[int, ...]
    pools: tuple[fleet_model.PciPool, ...]
    kind: int
    site: int
    free_cpus: int
    offers: Mapping[str, tuple[int, int]]
    has_pcpus: bool
    has_stray_pins: bool


def places(
    standings: Iterable[fleet_standing.Standing],
) -> Iterator[Place]:
    """Look at hosts with their guests."""
    alike: dict[Hashable, int] = {}
    kinds: dict[Hashable, int] = {}
    sites: dict[Hashable, int] = {}
    for standing in standings:
        host = standing.host
        cells = room.cells(standing.engine)
        pools = devices.free(host.pci_pools, standing.device_uses)
        has_threads = any(max(cell.threads, default=1) > 1 for cell in cells)
        numbers = tuple([alike.setdefault(cell.key, len(alike))
                         for cell in cells])
        # Devices are near cells by their ids.
        kind = numbers, tuple([cell.view.id for cell in cells]), pools
        site = host.traits, host.aggregates, has_threads
        yield Place(
            standing, cells, numbers, pools,
            kinds.setdefault(kind, len(kinds)),
            sites.setdefault(site, len(sites)),
            sum(map(_free_cpus, cells)),
            {name: (int(inventory.capacity)
                    - standing.resources_used.get(name, 0), inventory.total)
             for name, inventory in standing.inventories.items()},
            placement.PCPU in standing.inventories,
            any([cell.view.has_stray_pins for cell in cells]))


def _free_cpus(cell: room.Cell) -> int:
    view = cell.view
    if not view.has_stray_pins:
        return cell.free_cpus
    return max(0, cell.free_cpus - len(
        view.pinned_cpus - view.dedicated_cpus))


class _Gate(NamedTuple):
    """What Placement makes of a flavor on like hosts, but for resources.

    :param cause: that keeps the flavor off them
    :param queries: those of nova's queries that find them: amounts by
        resource, of those of which a snapshot says how much there is
    """

    cause: Cause | None
    queries: tuple[Mapping[str, int], ...]


class Counter:
    """Counts guests of one flavor on hosts, and remembers what it found.

    The hosts have to come from one call of :func:`places`, which numbers what
    is alike.

    :ivar demands: of its guest cells, those that differ
    :ivar memory_cause: what is missing where its memory is
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    """

    def __init__(
        self,
        wanted: fleet_wanted.Wanted,
        packs_cells: bool = False,
        scope: placement.Scope = placement.Scope(),
    ) -> None:
        self.wanted = wanted
        self._packs_cells = packs_cells
        self._scope = scope
        guest = wanted.topology
        demands = guest.demands if guest is not None else ()
        self.demands = tuple(dict.fromkeys(demands))
        self._shares = tuple(demands.count(one) for one in self.demands)
        self.is_pinned = guest is not None and guest.is_pinned
        self.thread_policy = (model.ThreadPolicy.PREFER if guest is None
                              else guest.thread_policy)
        self._pinned = sum(one.dedicated + one.emulator for one in demands)
        self._floating = wanted.flavor.vcpus - sum(
            one.dedicated for one in demands)
        pages = any(one.page_size_kib for one in demands)
        self.memory_cause = Cause.PAGES if pages else Cause.MEMORY
        # Whether what fits cell by cell is what fits.
        self._is_simple = not wanted.devices and (
            guest is None or len(guest.cells) == 1
            and not guest.physnets and not guest.tunneled)
        # What was found out before, by kind and site of hosts.
        self._limits: dict[int, room.Counts] = {}
        self._cells: list[dict[int, room.Counts]] = [
            {} for _demand in self.demands]
        self._gates: dict[int, _Gate] = {}
        self._uses: dict[bool, Mapping[str, int]] = {}
        self._packs: dict[tuple[int, int], search.Packing] = {}
        self._budget = search.Budget()

    def count(self, host: Place) -> HostCount:
        """How many go on the host, exactly."""
        totals = self._by_totals(host)
        if not totals:
            return _NOTHING
        cause = self._barred(host)
        if cause is not None:
            return HostCount(0, 0, totals, {cause: totals})
        limits = self.limits(host)
        left, missing = totals, dict[Cause, int]()
        for count, cause in ((limits.cpus, Cause.CELLS),
                             (self._without_stray(host), Cause.STRAY_PINS),
                             (limits.cores, Cause.CORES),
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
        if self.wanted.devices and most < left:
            missing[Cause.DEVICES] = left - most
            left = most
        if packing.fits < left:
            missing[Cause.ORDER] = left - packing.fits
        return HostCount(*packing, totals, missing)

    def limits(self, host: Place) -> room.Counts:
        """By what the host cells have, order and devices overlooked."""
        found = self._limits.get(host.kind)
        if found is None:
            found = self._limits[host.kind] = self._by_cells(host)
        return found

    def _without_stray(self, host: Place) -> int:
        """By free CPUs of cells where no guest is on other CPUs."""
        found = room.UNLIMITED
        if not self.is_pinned or not host.has_stray_pins:
            return found
        stray = [cell.view.has_stray_pins for cell in host.cells]
        for row, share in zip(self.cell_counts(host), self._shares):
            found = min(found, capacity.spread(
                tuple([0 if is_stray else counts.cpus
                       for is_stray, counts in zip(stray, row)]), share))
        return found

    def _by_cells(self, host: Place) -> room.Counts:
        guest = self.wanted.topology
        if guest is None:
            return room.Counts(*[room.UNLIMITED] * 3)
        if len(host.cells) < len(guest.cells):
            return room.Counts(0, 0, 0)
        if len(guest.cells) == 1:
            return room.Counts(*map(sum, zip(*self.cell_counts(host)[0])))
        found = [room.UNLIMITED] * 3
        for row, share in zip(self.cell_counts(host), self._shares):
            limit, previous = room.UNLIMITED, None
            for place, counts in enumerate(zip(*row)):
                # Mostly nothing but CPUs limits what there is.
                if counts != previous:
                    limit = capacity.spread(counts, share)
                    previous = counts
                found[place] = min(found[place], limit)
        return room.Counts(*found)

    def cell_counts(self, host: Place) -> list[list[room.Counts]]:
        """For each different guest cell what each host cell takes."""
        return [[self.counts_of(index, number, cell)
                 for number, cell in zip(host.numbers, host.cells)]
                for index in range(len(self.demands))]

    def counts_of(self, index: int, number: int,
                  cell: room.Cell) -> room.Counts:
        """What a host cell takes of one of the different guest cells.

        :param index: in ``demands``
        :param number: of the host cell
        """
        known = self._cells[index]
        counts = known.get(number)
        if counts is None:
            guest = self.wanted.topology
            assert guest is not None
            counts = known[number] = room.count(
                cell, guest, self.demands[index])
        return counts

    def _by_totals(self, host: Place) -> int:
        """By what the host as a whole has free of CPUs and of vCPUs."""
        found = room.UNLIMITED
        if self._pinned:
            found = host.free_cpus // self._pinned
        if self._floating:
            free, _total = host.offers.get(placement.VCPU, (0, 0))
            found = min(found, max(0, free) // self._floating)
        return found

    def _barred(self, host: Place) -> Cause | None:
        """What keeps all guests of the flavor off the host, if anything."""
        if not host.standing.host.is_enabled:
            return Cause.DISABLED
        cause = self._gate(host).cause
        if cause is not None:
            return cause
        refusal = fleet_standing.class_refusal(
            host.standing.host, self.wanted)
        return None if refusal is None else Cause.CLASS

    def _gate(self, host: Place) -> _Gate:
        found = self._gates.get(host.site)
        if found is None:
            found = self._gates[host.site] = self._make_gate(host)
        return found

    def _make_gate(self, host: Place) -> _Gate:
        cause = None
        queries = []
        for query in self.wanted.queries:
            causes = [_BY_KIND[one.kind] for one in placement.exclusions(
                host.standing, query, self._scope) if one.kind in _BY_KIND]
            if causes:
                cause = cause or causes[0]
            else:
                queries.append({
                    name: need for name, need in query.resources.items()
                    if need and name in _BY_RESOURCE})
        return _Gate(None if queries else cause, tuple(queries))

    def _offered(self, host: Place, wanted: int) -> tuple[int, Cause]:
        """How many guests Placement has resources for, and which it lacks.

        A host is offered if any of nova's queries finds it.

        :param wanted: the least number that nobody asks beyond
        """
        found = None
        for query in self._gate(host).queries:
            offer = self._offered_to(query, host)
            if offer[0] >= wanted:
                return offer
            if found is None or offer[0] > found[0]:
                found = offer
        return found or (room.UNLIMITED, Cause.PLACEMENT)

    def _offered_to(self, query: Mapping[str, int],
                    host: Place) -> tuple[int, Cause]:
        use = self._use(host)
        found = room.UNLIMITED, Cause.PLACEMENT
        for name, need in query.items():
            offer = host.offers.get(name)
            if offer is None:
                if name == placement.DISK_GB:
                    continue
                return 0, Cause.PLACEMENT
            free, total = offer
            times = 0
            if need <= total and need <= free:
                used = use[name]
                times = ((free - need) // used + 1 if used
                         else room.UNLIMITED)
            if times < found[0]:
                found = times, _BY_RESOURCE[name]
        return found

    def _use(self, host: Place) -> Mapping[str, int]:
        """What a guest counts in Placement once it is there."""
        found = self._uses.get(host.has_pcpus)
        if found is None:
            guest = fleet_standing.guest_of(
                dataclasses.replace(self.wanted, devices=()), host.standing,
                fleet_standing.FLOATING)
            found = self._uses[host.has_pcpus] = placement.use(
                host.standing.host, guest.vcpus, guest.memory_mib,
                guest.disk_gib, guest.topology)
        return found

    def _packed(self, host: Place, limit: int) -> search.Packing:
        """What nova places, and what fits at most, by doing it."""
        key = host.kind, limit
        found = self._packs.get(key)
        if found is None:
            found = self._packs[key] = search.pack(
                self.wanted, host.standing.engine, host.cells, host.pools,
                limit, self._packs_cells, self._budget)
        return found
