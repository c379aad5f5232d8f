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

"""The scheduler through the engine alone.

It decides as nova-scheduler does with PinnedTopologyFilter and the weighers
of a configuration, to the last bit of a weight, and claims as nova-compute
does. What was found out about a host is kept until a guest comes or goes
there, and what about a cell, for all cells that are in the same state.
"""

from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple
from typing import TypeAlias

import numpy

from nova_pinning.bridge import standalone
from nova_pinning import fit
from nova_pinning.fit import cell as one_cell
from nova_pinning.fit import cells as fit_cells
from nova_pinning.fit import doubts
from nova_pinning.fit import score
from nova_pinning.fleet import devices
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet.simulate import configuration as configurations
from nova_pinning.fleet.simulate import hosts
from nova_pinning.fleet.simulate import ledger as ledgers
from nova_pinning.fleet.simulate import offers
from nova_pinning.fleet.simulate import settings
from nova_pinning.fleet.simulate import views
from nova_pinning.fleet import standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.scheduler import mix

Floats: TypeAlias = numpy.ndarray
Places: TypeAlias = numpy.ndarray
Flags: TypeAlias = numpy.ndarray

#: As nova.scheduler.weights.pci.MAX_DEVS.
_MAX_DEVICES = 100


class Decision(NamedTuple):
    """What became of a request.

    :param host: place of the host in the ledger, None if no host will do
    :param is_l3_possible: whether some host would have put the guest in as
        few L3 domains as can be; None if that was not looked at
    :param is_l3_met: whether the chosen one does
    """

    host: int | None
    is_l3_possible: bool | None = None
    is_l3_met: bool | None = None


_REFUSED = Decision(None)


class _Spot(NamedTuple):
    """Where a guest would go on a host."""

    cells: tuple[views.View, ...]
    fit: model.Fit


class _Kind:
    """A kind of guest, with what is known about each host for it.

    :ivar may: the hosts of its class
    :ivar seen: version of each host that the rest is about
    :ivar losses: by number of the size, how many CPUs more the guest strands
        on each host
    :ivar l3_cost: what CacheLocalityWeigher counts
    :ivar left: free CPUs that the guest leaves in its cells
    """

    def __init__(self, number: int, wanted: fleet_wanted.Wanted,
                 queries: tuple[offers.Asked, ...],
                 may: Flags) -> None:
        count = len(may)
        self.number = number
        self.wanted = wanted
        self.queries = queries
        self.may = may
        self.is_pinned = (wanted.topology is not None
                          and wanted.topology.is_pinned)
        self.seen = numpy.full(count, -1, dtype=numpy.int64)
        self.fits: Flags = numpy.zeros(count, dtype=bool)
        self.spots: list[_Spot | None] = [None] * count
        self.losses: dict[int, ledgers.Numbers] = {}
        self.l3_cost = numpy.zeros(count, dtype=numpy.int64)
        self.l3_domains = numpy.zeros(count, dtype=numpy.int64)
        self.l3_fewest = numpy.zeros(count, dtype=numpy.int64)
        self.left = numpy.zeros(count, dtype=numpy.int64)


class Engine:
    """Schedules guests on the hosts of a ledger.

    :param looks_at_l3: whether decisions tell about L3 domains
    """

    def __init__(
        self,
        ledger: ledgers.Ledger,
        configuration: configurations.Configuration,
        aggregates: Mapping[str, fleet_model.Aggregate] | None = None,
        looks_at_l3: bool = False,
    ) -> None:
        self.ledger = ledger
        self._settings = settings.read(configuration)
        self._packs_cells = configuration.packs_cells
        self._looks_at_l3 = looks_at_l3
        self._recent = mix.RecentMix(self._settings.recent_requests)
        #: Sizes that stranded CPUs were ever reckoned for, numbered.
        self._sizes: dict[score.Size, int] = {}
        #: Shares of sizes, these by number.
        self._mix: list[tuple[int, float]] = []
        self._kinds: dict[int, _Kind] = {}
        self._l3_cpus = [hosts.l3_cpus(host, aggregates or {})
                         for host in ledger.hosts]
        self._l3_domains: dict[tuple[int, int | None], dict[int, int]] = {}
        self._placement = offers.Placement(ledger)
        self._cpu_ratio: Floats = numpy.array(
            [host.cpu_allocation_ratio for host in ledger.hosts], dtype=float)
        self._weighers = [
            (name, _multipliers(name, multiplier, ledger, aggregates or {}))
            for name, multiplier in configuration.weighers]
        self._needs_losses = any(
            name == configurations.FRAGMENTATION
            for name, _multiplier in self._weighers)
        self._needs_l3 = looks_at_l3 or any(
            name == configurations.CACHE_LOCALITY
            for name, _multiplier in self._weighers)

    def place(self, uuid: str, wanted: fleet_wanted.Wanted,
              known: Decision | None = None) -> Decision:
        """Put a guest where the scheduler would, if there is a place.

        :param known: the decision, if it was made in an earlier run
        """
        kind = self._kinds.get(id(wanted)) or self._new_kind(wanted)
        offered = self._placement.offers(kind.queries)
        if not offered.any.any():
            # No filter ever sees such a request.
            return _REFUSED
        if kind.is_pinned:
            self._note_request(kind)
        if known is not None and known.host is None:
            return known
        if known is None:
            places = numpy.flatnonzero(offered.any & kind.may)
        else:
            places = numpy.array([known.host])
        if wanted.topology is not None or wanted.devices:
            self._look(kind, places)
            places = places[kind.fits[places]]
        if not len(places):
            return _REFUSED
        place = int(self._choose(kind, places))
        spot = kind.spots[place]
        self.ledger.take(uuid, self.ledger.lodger(
            place, wanted, spot.fit if spot else None,
            offered.resources(place)))
        return known or self._decision(kind, places, place)

    def _decision(self, kind: _Kind, places: Places, place: int) -> Decision:
        if not (self._looks_at_l3 and kind.is_pinned):
            return Decision(place)
        met = kind.l3_domains[places] <= kind.l3_fewest[places]
        return Decision(
            place, bool(met.any()),
            bool(kind.l3_domains[place] <= kind.l3_fewest[place]))

    def remove(self, uuid: str) -> None:
        """Take a guest off its host."""
        self.ledger.release(uuid)

    def close(self) -> None:
        """There is nothing to give back."""

    def _new_kind(self, wanted: fleet_wanted.Wanted) -> _Kind:
        kind = _Kind(
            len(self._kinds), wanted, self._placement.asked(wanted),
            offers.allowed(self.ledger, wanted,
                           self._settings.unknown_host_class))
        self._kinds[id(wanted)] = kind
        return kind

    def _note_request(self, kind: _Kind) -> None:
        """See to the mix of sizes that the stranded CPUs are reckoned for."""
        if not self._needs_losses:
            return
        assert kind.wanted.topology is not None
        sizes: mix.Mix = self._settings.mix
        if not sizes:
            self._recent.add(kind.wanted.topology)
            sizes = self._recent.mix()
        elif self._mix:
            return
        for size, _share in sizes:
            if size not in self._sizes:
                self._sizes[size] = len(self._sizes)
                for other in self._kinds.values():
                    other.seen[:] = -1
        self._mix = [(self._sizes[size], share) for size, share in sizes]

    # What fits.

    def _look(self, kind: _Kind, places: Places) -> None:
        """Bring up to date what is known about some hosts."""
        version = self.ledger.version
        for place in places[kind.seen[places] != version[places]].tolist():
            kind.seen[place] = version[place]
            spot = self._spot(kind, place)
            kind.spots[place] = spot
            kind.fits[place] = spot is not None
            if spot is not None and kind.is_pinned:
                self._note(kind, place, spot)

    def _spot(self, kind: _Kind, place: int) -> _Spot | None:
        """Where a guest would go on a host, None if it does not fit."""
        ledger, wanted = self.ledger, kind.wanted
        pools, uses = ledger.hosts[place].pci_pools, ledger.uses[place]
        host = ledger.engine_host(place)
        guest = wanted.topology
        if guest is None:
            taken = devices.take(pools, uses, wanted.devices, (), host.cells)
            return None if taken is None else _Spot((), standing.FLOATING)
        check = None
        if wanted.devices or pools:
            check = devices.check(pools, uses, wanted.devices, host.cells)
        elif len(guest.cells) == 1 and not (guest.physnets or guest.tunneled):
            return self._simple_spot(kind, host, guest)
        limit = self._settings.nova_limit
        choice = fit.choose_cells(
            host, guest, pack=self._packs_cells, pci=check, max_sets=limit)
        if isinstance(choice, model.Refusal):
            return None
        cells, found = choice.cells, None
        if limit is not None and not choice.is_first:
            foreseen = self._foresee(place, host, guest, choice, check, limit)
            if isinstance(foreseen, model.Refusal):
                return None
            if foreseen is not None:
                by_id = {cell.id: cell for cell in host.cells}
                cells = tuple(by_id[one.host_cell] for one in foreseen.cells)
                found = foreseen
        return _Spot(cells,  # type: ignore[arg-type]
                     found or fit.pin(guest, cells))

    def _foresee(
        self, place: int, host: model.Host, guest: model.Guest,
        choice: fit.Choice, check: fit.PciCheck | None, limit: int,
    ) -> model.Fit | model.Refusal | None:
        """As PinnedTopologyFilter asks about nova-compute's own claim.

        Nova is asked about guests of the kinds that it is known to get wrong,
        and only then imported.
        """
        before = doubts.permutations_before(
            [cell.id for cell in choice.order],
            [cell.id for cell in choice.cells])
        if before >= limit:
            return model.Refusal(model.Reason.NOVA_SLOW)
        if not doubts.is_doubtful(doubts.Attempt(host, guest, check)):
            return None
        standalone.prepare()
        from nova_pinning.bridge import foresight
        return foresight.foresee(
            self.ledger.engine(place), guest, choice, check,
            devices.free(self.ledger.hosts[place].pci_pools,
                         self.ledger.uses[place]), limit, self._packs_cells)

    def _simple_spot(self, kind: _Kind, host: model.Host,
                     guest: model.Guest) -> _Spot | None:
        """The same for a guest of one cell, when nothing else matters.

        Whether it fits is asked once for each state that a cell can be in.
        """
        cells = host.cells
        if len(cells) > 1:
            cells = fit_cells.order_cells(
                cells, guest, self._packs_cells, None)
        key = 'spot', kind.number, host[1:]
        for cell in cells:
            assert isinstance(cell, views.View)
            try:
                spot: _Spot | None = cell.notes[key]
            except KeyError:
                spot = None
                if one_cell.shortage(
                        cell, host, guest, guest.demands[0]) is None:
                    spot = _Spot((cell,), fit.pin(guest, (cell,)))
                cell.notes[key] = spot
            if spot is not None:
                return spot
        return None

    def _note(self, kind: _Kind, place: int, spot: _Spot) -> None:
        """Remember what the weighers ask about a place."""
        guest = kind.wanted.topology
        assert guest is not None
        if self._needs_losses:
            for size, number in self._sizes.items():
                known = kind.losses.get(number)
                if known is None:
                    known = kind.losses[number] = numpy.zeros(
                        len(kind.may), dtype=numpy.int64)
                known[place] = self._loss(kind, place, spot, size, number)
        if self._needs_l3:
            self._note_l3(kind, place, spot)
        kind.left[place] = score.left_over(spot.cells, spot.fit)

    def _loss(self, kind: _Kind, place: int, spot: _Spot, size: score.Size,
              number: int) -> int:
        """CPUs more that a host strands with a guest on it."""
        cells = spot.cells
        if size.cells == 1 and len(cells) == 1:
            # The same wherever the cell is in this state.
            notes, key = cells[0].notes, ('loss', kind.number, number)
            loss: int | None = notes.get(key)
            if loss is None:
                loss = notes[key] = score.loss(
                    *self._stocks(kind, spot), (), size)
            return loss
        others: list[int] = []
        if size.cells > 1:
            others = [_room(cell, size, number)
                      for cell in self.ledger.cells[place]
                      if cell not in cells]
        return score.loss(*self._stocks(kind, spot), others, size)

    @staticmethod
    def _stocks(kind: _Kind, spot: _Spot,
                ) -> tuple[list[score.Stock], list[score.Stock]]:
        """What the cells of a guest have to sell without and with it."""
        guest = kind.wanted.topology
        assert guest is not None
        before, after = [], []
        for index, cell in enumerate(spot.cells):
            key = 'stocks', kind.number, index
            known = cell.notes.get(key)
            if known is None:
                known = cell.notes[key] = (
                    score.stock(cell),
                    score.stock(
                        cell, spot.fit.cells[index],
                        guest.demands[index].memory_mib,
                        guest.thread_policy is model.ThreadPolicy.ISOLATE))
            before.append(known[0])
            after.append(known[1])
        return before, after

    def _note_l3(self, kind: _Kind, place: int, spot: _Spot) -> None:
        l3_cpus = self._l3_cpus[place]
        cost = domains = fewest = 0
        for cell, cell_fit in zip(spot.cells, spot.fit.cells):
            key = id(cell.cores), l3_cpus
            domain_of = self._l3_domains.get(key)
            if domain_of is None:
                domain_of = self._l3_domains[key] = score.l3_domains(
                    cell.cores, l3_cpus)
            count, its_cost = score.l3_use(
                domain_of, cell, cell_fit, self._settings.exclusive_l3)
            domains += count
            cost += its_cost
            fewest += -(-len(cell_fit.pins) // (l3_cpus or len(domain_of)
                                                or 1))
        kind.l3_cost[place] = cost
        kind.l3_domains[place] = domains
        kind.l3_fewest[place] = fewest

    # Which is best.

    def _choose(self, kind: _Kind, places: Places) -> int:
        """As nova.weights.BaseWeightHandler, and the first of the best."""
        if len(places) == 1:
            return int(places[0])
        score_of = numpy.zeros(len(places))
        for name, multipliers in self._weighers:
            raw, least = _RAW[name](self, kind, places)
            weights = _normalized(raw, least, _LEAST_RANGES.get(name, 0.0))
            if weights is not None:
                score_of += multipliers[places] * weights
        return int(places[numpy.argmax(score_of)])

    def _cpu(self, _kind: _Kind, places: Places) -> tuple[Floats, float]:
        free = (self.ledger.total_vcpus[places] * self._cpu_ratio[places]
                - self.ledger.used_vcpus[places])
        return numpy.maximum(free, 0.0), 0.0

    def _disk(self, _kind: _Kind, places: Places) -> tuple[Floats, float]:
        free = self.ledger.free_disk_gib[places] * 1024
        return numpy.maximum(free, 0).astype(float), 0.0

    def _ram(self, _kind: _Kind, places: Places) -> tuple[Floats, float]:
        free = self.ledger.free_memory_mib[places]
        return numpy.maximum(free, 0).astype(float), 0.0

    def _guests(self, _kind: _Kind, places: Places,
                ) -> tuple[Floats, None]:
        return self.ledger.guests[places].astype(float), None

    def _pci(self, _kind: _Kind, places: Places) -> tuple[Floats, None]:
        free = self.ledger.free_devices[places]
        return (_MAX_DEVICES - numpy.minimum(free, _MAX_DEVICES - 1)
                ).astype(float), None

    def _fragmentation(self, kind: _Kind, places: Places,
                       ) -> tuple[Floats, None]:
        growth = numpy.zeros(len(places))
        if kind.is_pinned:
            # In the order in which fit.score adds them up.
            for number, share in self._mix:
                growth += share * kind.losses[number][places]
            growth += score.COST_OF_FREE_CPU * kind.left[places]
        return -growth, None

    def _cache_locality(self, kind: _Kind, places: Places,
                        ) -> tuple[Floats, None]:
        if not kind.is_pinned:
            return numpy.zeros(len(places)), None
        return -kind.l3_cost[places].astype(float), None

    def _best_fit(self, kind: _Kind, places: Places) -> tuple[Floats, None]:
        if not kind.is_pinned:
            return numpy.zeros(len(places)), None
        return -kind.left[places].astype(float), None


def _room(cell: views.View, size: score.Size, number: int) -> int:
    """How many guest cells of a size, given with its number, a cell takes."""
    key = 'room', number
    room: int | None = cell.notes.get(key)
    if room is None:
        room = cell.notes[key] = score.other_room(cell, size)
    return room


#: Raw weights by weigher, and the least one if the weigher sets that.
_RAW: Mapping[str, Callable[[Engine, _Kind, Places],
                            tuple[Floats, float | None]]] = {
    'CPUWeigher': Engine._cpu,
    'DiskWeigher': Engine._disk,
    'NumInstancesWeigher': Engine._guests,
    'PCIWeigher': Engine._pci,
    'RAMWeigher': Engine._ram,
    configurations.FRAGMENTATION: Engine._fragmentation,
    configurations.CACHE_LOCALITY: Engine._cache_locality,
    configurations.BEST_FIT: Engine._best_fit,
}


#: As nova_pinning.scheduler.weights has them.
_LEAST_RANGES = {configurations.FRAGMENTATION: score.COST_RANGE}


def _normalized(raw: Floats, least: float | None,
                least_range: float) -> Floats | None:
    """As nova.weights.normalize; None where all weigh nothing."""
    low = float(raw.min()) if least is None else least
    high = max(float(raw.max()), low + least_range)
    if low == high:
        return None
    result: Floats = (raw - low) / (high - low)
    return result


def _multipliers(
    name: str, multiplier: float, ledger: ledgers.Ledger,
    aggregates: Mapping[str, fleet_model.Aggregate],
) -> Floats:
    """The multiplier of a weigher on each host.

    Aggregates outweigh the configuration: the least of what they say.
    """
    key = configurations.MULTIPLIER_OPTIONS.get(name, '')
    found = numpy.full(len(ledger.hosts), multiplier)
    for place, host in enumerate(ledger.hosts):
        said = {aggregates[one].metadata[key] for one in host.aggregates
                if one in aggregates and key in aggregates[one].metadata}
        try:
            found[place] = min(map(float, said), default=multiplier)
        except ValueError:
            # Nova logs it and goes by its configuration.
            continue
    return found
