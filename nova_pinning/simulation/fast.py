# SPDX-License-Identifier: Apache-2.0
"""The scheduler through the engine.

It decides as nova-scheduler does with PinnedTopologyFilter and the weighers
of a configuration, to the last bit of a weight, and claims as nova-compute
does. What was found out about a host is kept until a guest comes or goes
there, and what about a cell, for all cells that are in the same state.
"""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
import enum
import math
from typing import Any
from typing import TypeAlias

import numpy

from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import providers
from nova_pinning import fit
from nova_pinning.fit import score
from nova_pinning import model
from nova_pinning.model import weighers
from nova_pinning.scheduler import mix
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import cell_state
from nova_pinning.simulation import column_scheduler
from nova_pinning.simulation import device_stock
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import settings

Floats: TypeAlias = numpy.ndarray
Indices: TypeAlias = numpy.ndarray

#: As nova.scheduler.weights.pci.MAX_DEVS.
_MAX_DEVICES = 100


#: [scheduler] max_attempts, as nova has it where nobody says otherwise.
_MAX_ATTEMPTS = 3


class _HostTier(enum.IntEnum):
    """How good a host is for a kind of guest, as PinnedTopologyFilter has it.

    Of a lower tier hosts are taken where none of a higher one is left.
    """

    NONE = 0
    FIRST = 1
    SECOND = 2
    LAST = 3
    #: It takes long to find out whether the guest fits.
    UNKNOWN = 4


class _FastKind:
    """A kind of guest, with what is known about each host for it.

    :ivar columns: what Placement and the other filters say
    :ivar seen: version of each host that the rest is about
    :ivar candidates: by host, of Placement; where None, the first
    :ivar picks_pages: whether nova's claim picks the size of its pages, which
        can hang on other cells than the one that they are in
    :ivar losses: by number of the size, how many CPUs more the guest strands
        on each host
    :ivar l3_weight: what CacheLocalityWeigher gives each host
    :ivar few_l3: 1 where the guest lies on as few L3 caches as can be, 0
        where not, -1 where that is not known
    :ivar left: free CPUs that the guest leaves in its cells
    """

    def __init__(self, number: int, columns: admission_columns.KindColumns,
                 count: int) -> None:
        self.number = number
        self.columns = columns
        self.request = request = columns.request
        self.demands = device_stock.demands(request.devices)
        self.is_pinned = (request.topology is not None
                          and request.topology.is_pinned)
        self.picks_pages = (request.topology is not None
                            and fit.has_open_pages(request.topology))
        self.seen = numpy.full(count, -1, dtype=numpy.int64)
        self.tier = numpy.zeros(count, dtype=numpy.int8)
        self.decisions: list[fit.Decision | None] = [None] * count
        self.candidates: list[providers.Candidate | None] = [None] * count
        self.losses: dict[int, Indices] = {}
        self.l3_weight: Floats = numpy.zeros(count)
        self.few_l3 = numpy.zeros(count, dtype=numpy.int8)
        self.left = numpy.zeros(count, dtype=numpy.int64)


class FastScheduler(column_scheduler.ColumnScheduler[_FastKind]):
    """Schedules guests on the hosts of a ledger.

    :param looks_at_l3: whether decisions tell about L3 domains
    """

    def __init__(
        self, columns: admission_columns.AdmissionColumns,
        configuration: scheduler_configuration.SchedulerConfiguration,
        looks_at_l3: bool = False,
    ) -> None:
        super().__init__(columns)
        self._judge = columns.judge
        self._patient_judge = judge.AdmissionJudge(
            self._judge.rules, self._judge.bounds._replace(is_patient=True))
        options = settings.read(configuration)
        self._prefers_exclusive_l3 = options.prefer_exclusive_l3
        #: () for that of the recent requests
        self._configured_mix = mix.configured_mix(options.fragmentation_mix)
        self._looks_at_l3 = looks_at_l3
        self._recent = mix.RecentMix(mix.RECENT_INSTANCES)
        #: Sizes that stranded CPUs were ever calculated for, numbered.
        self._sizes: dict[fit.Size, int] = {}
        #: Shares of sizes, these by number.
        self._mix: list[tuple[int, float]] = []
        self._kinds: dict[int, _FastKind] = {}
        aggregates = self._judge.rules.aggregates
        #: Those that are kept from all do not come as far as here.
        self._is_kept = [self._judge.rules.reserve_of(host) is not None
                         for host in self.ledger.hosts]
        self._l3_cpus = [l3_layout.l3_cpus(host, aggregates)
                         for host in self.ledger.hosts]
        layouts = l3_layout.L3Layouts(aggregates)
        self._l3_layouts = [layouts.of_host(host)
                            for host in self.ledger.hosts]
        #: By number of CPUs, and where in memory lie the lists of cores of
        #: the cell and the others.
        self._l3_domains: dict[tuple[int | None, ...], dict[int, int]] = {}
        self._cpu_ratio: Floats = numpy.array(
            [host.cpu_allocation_ratio for host in self.ledger.hosts],
            dtype=float)
        self._weighers = [
            (name, numpy.array([
                weighers.multiplier_on(name, multiplier, [
                    aggregates[one].metadata for one in host.aggregates
                    if one in aggregates])
                for host in self.ledger.hosts]))
            for name, multiplier in configuration.weighers]
        self._needs_losses = any(
            name == weighers.FRAGMENTATION
            for name, _multiplier in self._weighers)
        self._needs_l3 = looks_at_l3 or any(
            name == weighers.CACHE_LOCALITY
            for name, _multiplier in self._weighers)

    def recall(self, asked: Iterable[tuple[str, model.Guest]]) -> None:
        """Begin anew, as if these instances had been asked for lately."""
        self._recent = mix.RecentMix(mix.RECENT_INSTANCES)
        for uuid, guest in asked:
            self._recent.add(uuid, guest)

    def ask(self, uuid: str,
            kind: admission_columns.KindColumns) -> _FastKind:
        """What is known of guests of the kind."""
        known = self._kinds.get(id(kind.request))
        if known is None:
            known = self._kinds[id(kind.request)] = _FastKind(
                len(self._kinds), kind, len(self.ledger.hosts))
        if known.is_pinned:
            self._note_request(uuid, known)
        return known

    def choose(
        self, asked: _FastKind, kind: admission_columns.KindColumns,
        indices: Indices,
    ) -> column_scheduler.SchedulingDecision:
        """As PinnedTopologyFilter and the weighers do."""
        passing = self._passing(asked, indices)
        if not len(passing):
            return column_scheduler.REFUSED
        index = int(self._choose(asked, passing))
        if not (self._looks_at_l3 and asked.is_pinned):
            return column_scheduler.SchedulingDecision(index)
        few = int(asked.few_l3[index])
        if few < 0:
            return column_scheduler.SchedulingDecision(index)
        return column_scheduler.SchedulingDecision(
            index, bool((asked.few_l3[passing] > 0).any()), bool(few))

    def _passing(self, kind: _FastKind, indices: Indices) -> Indices:
        """Of some hosts those that PinnedTopologyFilter lets pass."""
        if kind.request.topology is None and not kind.request.devices:
            return indices
        self._look(kind, indices)
        return self._best_tier(kind, indices)

    def take(self, uuid: str, asked: _FastKind,
             kind: admission_columns.KindColumns, index: int) -> None:
        """Enter a guest into the ledger, where the last look put it."""
        decision = asked.decisions[index]
        occupancy = self.ledger.occupancies[index]
        use = judge.use_of(
            kind.request, occupancy,
            judge.FLOATING if decision is None else decision.fit,
            asked.candidates[index] or kind.candidates(index)[0])
        if uuid in self.ledger.placed_guests:
            self.ledger.release(uuid)
        self.ledger.take(index, judge.resident(
            kind.request, occupancy, use, uuid))

    def _note_request(self, uuid: str, kind: _FastKind) -> None:
        """Note the sizes that stranded CPUs are calculated for."""
        if not self._needs_losses:
            return
        assert kind.request.topology is not None
        sizes = self._configured_mix
        if not sizes:
            self._recent.add(uuid, kind.request.topology, kind.demands)
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

    def _look(self, kind: _FastKind, indices: Indices) -> None:
        """Bring up to date what is known about some hosts."""
        version = (self.ledger.allocated if kind.request.minds_candidates
                   else self.ledger.version)
        for index in indices[kind.seen[indices] != version[indices]].tolist():
            kind.seen[index] = version[index]
            self._keep(kind, index, self._decide(kind, index))

    def _best_tier(self, kind: _FastKind, indices: Indices) -> Indices:
        """The hosts of the best tier that there is."""
        tiers = kind.tier[indices]
        first = indices[tiers == _HostTier.FIRST]
        if len(first):
            return first
        found = int((tiers == _HostTier.SECOND).sum())
        for index in indices[tiers == _HostTier.UNKNOWN].tolist():
            if found >= _MAX_ATTEMPTS:
                break
            self._keep(kind, index, self._decide(kind, index, is_patient=True))
            found += kind.tier[index] == _HostTier.SECOND
        tiers = kind.tier[indices]
        second = indices[tiers == _HostTier.SECOND]
        return second if len(second) else indices[tiers == _HostTier.LAST][:1]

    def _keep(self, kind: _FastKind, index: int,
              outcome: fit.Decision | model.Refusal | None) -> None:
        tier = _tier(outcome)
        kind.tier[index] = _HostTier.SECOND if (
            tier is _HostTier.FIRST and self._is_kept[index]) else tier
        kind.decisions[index] = None
        if isinstance(outcome, fit.Decision):
            kind.decisions[index] = outcome
            if kind.is_pinned:
                self._note(kind, index, outcome)

    def _decide(self, kind: _FastKind, index: int, is_patient: bool = False,
                ) -> fit.Decision | model.Refusal | None:
        """Where a guest would go on a host, None for anywhere."""
        admission = self._patient_judge if is_patient else self._judge
        occupancy = self.ledger.occupancies[index]
        if not kind.request.minds_candidates:
            return admission.decide(kind.request, occupancy)
        outcome: fit.Decision | model.Refusal | None = None
        for candidate in kind.columns.candidates(index):
            kind.candidates[index] = candidate
            outcome = admission.decide(kind.request, occupancy, candidate)
            if not isinstance(outcome, model.Refusal):
                break
        return outcome

    def _note(self, kind: _FastKind, index: int,
              decision: fit.Decision) -> None:
        """Remember what the weighers ask about a place."""
        if self._needs_losses:
            stock = None
            if any(size.devices for size in self._sizes):
                stock = device_stock.stock(
                    self.ledger.occupancies[index], kind.request, decision,
                    kind.candidates[index])
            for size, number in self._sizes.items():
                known = kind.losses.get(number)
                if known is None:
                    known = kind.losses[number] = numpy.zeros(
                        len(kind.seen), dtype=numpy.int64)
                known[index] = self._loss(
                    kind, index, decision, size, number, stock)
        if self._needs_l3:
            self._note_l3(kind, index, decision)
        kind.left[index] = score.left_over(decision.guest, decision.cells)

    def _loss(self, kind: _FastKind, index: int, decision: fit.Decision,
              size: fit.Size, number: int,
              stock: score.DeviceStock | None) -> int:
        """CPUs more that a host strands with a guest on it."""
        cells = decision.cells
        if size.cells == 1 and len(cells) == 1 and not (
                size.devices and stock):
            # The same wherever the cell is in this state.
            notes = _notes(cells[0])
            key = ('loss', kind.number, number,
                   kind.picks_pages and decision.fit.cells[0].page_size_kib)
            loss: int | None = notes.get(key)
            if loss is None:
                loss = notes[key] = score.loss(
                    *self._rooms(kind, decision), (), size)
            return loss
        others: list[int] = []
        if size.cells > 1 or size.devices and stock:
            others = [_takes(cell, size, number)
                      for cell in self.ledger.occupancies[index].engine.cells
                      if cell not in cells]
        return score.loss(
            *self._rooms(kind, decision), others, size, stock)

    @staticmethod
    def _rooms(kind: _FastKind, decision: fit.Decision,
               ) -> tuple[list[fit.Room], list[fit.Room]]:
        """What the cells of a guest have left without and with it."""
        guest = decision.guest
        before, after = [], []
        for index, cell in enumerate(decision.cells):
            notes = _notes(cell)
            key = ('rooms', kind.number, index, kind.picks_pages
                   and decision.fit.cells[index].page_size_kib)
            known = notes.get(key)
            if known is None:
                known = notes[key] = (
                    fit.Room.of(cell),
                    fit.Room.of(
                        cell, decision.fit.cells[index],
                        guest.demands[index].memory_mib,
                        guest.thread_policy is model.ThreadPolicy.ISOLATE))
            before.append(known[0])
            after.append(known[1])
        return before, after

    def _note_l3(
        self, kind: _FastKind, host_index: int, decision: fit.Decision,
    ) -> None:
        l3_cpus, known_layout = (
            self._l3_cpus[host_index], self._l3_layouts[host_index])
        caches = known_layout and known_layout.caches(
            decision.guest, decision.fit)
        kind.few_l3[host_index] = (
            caches.caches == caches.fewest if caches else -1)
        if l3_cpus is None:
            kind.l3_weight[host_index] = score.UNKNOWN
            return
        cost = 0
        for index, cell in enumerate(decision.cells):
            others = [other.cores
                      for other in self.ledger.occupancies[
                          host_index].engine.cells
                      if other.id != cell.id]
            layout = l3_cpus, id(cell.cores), *map(id, others)
            notes, key = _notes(cell), ('l3', kind.number, index, layout)
            known: int | None = notes.get(key)
            if known is None:
                domain_of = self._l3_domains.get(layout)
                if domain_of is None:
                    domain_of = self._l3_domains[layout] = score.l3_domains(
                        cell.cores, l3_cpus, others)
                known = notes[key] = score.l3_cost(
                    domain_of, cell, decision.fit.cells[index],
                    self._prefers_exclusive_l3)
            cost += known
        kind.l3_weight[host_index] = -cost

    # Which is best.

    def _choose(self, kind: _FastKind, indices: Indices) -> int:
        """As nova.weights.BaseWeightHandler, and the first of the best."""
        if len(indices) == 1:
            return int(indices[0])
        score_of = numpy.zeros(len(indices))
        for name, multipliers in self._weighers:
            raw, least = _RAW[name](self, kind, indices)
            weights = _normalized(raw, least, _LEAST_RANGES.get(name, 0.0))
            if weights is not None:
                score_of += multipliers[indices] * weights
        return int(indices[numpy.argmax(score_of)])

    def _cpu(self, _kind: _FastKind, indices: Indices) -> tuple[Floats, float]:
        free = (self.ledger.total_vcpus[indices] * self._cpu_ratio[indices]
                - self.ledger.used_vcpus[indices])
        return numpy.maximum(free, 0.0), 0.0

    def _disk(
            self, _kind: _FastKind, indices: Indices) -> tuple[Floats, float]:
        free = self.ledger.free_disk_gib[indices] * 1024
        return numpy.maximum(free, 0).astype(float), 0.0

    def _ram(self, _kind: _FastKind, indices: Indices) -> tuple[Floats, float]:
        free = self.ledger.free_memory_mib[indices]
        return numpy.maximum(free, 0).astype(float), 0.0

    def _guests(self, _kind: _FastKind, indices: Indices,
                ) -> tuple[Floats, None]:
        return self.ledger.guests[indices].astype(float), None

    def _pci(self, _kind: _FastKind, indices: Indices) -> tuple[Floats, None]:
        free = self.ledger.free_devices[indices]
        return (_MAX_DEVICES - numpy.minimum(free, _MAX_DEVICES - 1)
                ).astype(float), None

    def _fragmentation(self, kind: _FastKind, indices: Indices,
                       ) -> tuple[Floats, None]:
        growth = numpy.zeros(len(indices))
        if kind.is_pinned:
            # In the order in which fit.score adds them up.
            for number, share in self._mix:
                growth += share * kind.losses[number][indices]
            growth += score.COST_OF_FREE_CPU * kind.left[indices]
        return -growth, None

    def _cache_locality(self, kind: _FastKind, indices: Indices,
                        ) -> tuple[Floats, None]:
        if not kind.is_pinned:
            return numpy.zeros(len(indices)), None
        return kind.l3_weight[indices], None

    def _best_fit(self, kind: _FastKind,
                  indices: Indices) -> tuple[Floats, None]:
        if not kind.is_pinned:
            return numpy.zeros(len(indices)), None
        return -kind.left[indices].astype(float), None


def _tier(outcome: fit.Decision | model.Refusal | None) -> _HostTier:
    if isinstance(outcome, model.Refusal):
        return (_HostTier.UNKNOWN if outcome.reason is model.Reason.NOVA_SLOW
                else _HostTier.NONE)
    if outcome is None or outcome.drawback is None:
        return _HostTier.FIRST
    return _HostTier.LAST if fit.comes_alone(
        outcome.drawback) else _HostTier.SECOND


def _notes(cell: model.CellView) -> dict[Hashable, Any]:
    assert isinstance(cell, cell_state.CellState)
    return cell.notes


def _takes(cell: model.CellView, size: fit.Size, number: int) -> int:
    """How many guest cells of a size, given with its number, a cell takes."""
    notes, key = _notes(cell), ('takes', number)
    count: int | None = notes.get(key)
    if count is None:
        count = notes[key] = score.other_room(cell, size)
    return count


#: Raw weights by weigher, and the least one if the weigher sets that.
_RAW: Mapping[str, Callable[[FastScheduler, _FastKind, Indices],
                            tuple[Floats, float | None]]] = {
    'CPUWeigher': FastScheduler._cpu,
    'DiskWeigher': FastScheduler._disk,
    'NumInstancesWeigher': FastScheduler._guests,
    'PCIWeigher': FastScheduler._pci,
    'RAMWeigher': FastScheduler._ram,
    weighers.FRAGMENTATION: FastScheduler._fragmentation,
    weighers.CACHE_LOCALITY: FastScheduler._cache_locality,
    scheduler_configuration.BEST_FIT: FastScheduler._best_fit,
}


#: As nova_pinning.scheduler.weights has them.
_LEAST_RANGES = {weighers.FRAGMENTATION: score.COST_RANGE}


def _normalized(raw: Floats, least: float | None,
                least_range: float) -> Floats | None:
    """As nova.weights.normalize, and score.normalized for our own weighers.

    :returns: None where all weigh nothing
    """
    low = float(raw.min()) if least is None else least
    if math.isnan(low):
        # Some are unknown, which takes longer.
        return numpy.array(score.normalized(raw.tolist(), least_range))
    span = score.span(low, float(raw.max()), least_range)
    if not span:
        return None
    result: Floats = (raw - low) / span
    return result
