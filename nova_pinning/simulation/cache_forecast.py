# SPDX-License-Identifier: Apache-2.0
"""On how many L3 caches guests will lie on hosts of one kind, and what sells.

Nova knows nothing of caches. Which CPUs of a host cell a guest gets follows
from the order in which nova-compute reports cores, and what a cell is from the
firmware. So hosts are simulated with what can be changed of either, with the
same guests.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import math
import statistics
from typing import Any
from typing import NamedTuple

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.fit import known_defects
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning.host import numa_layouts
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import fast
from nova_pinning.simulation import guests
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run

#: Shares of the CPUs that are sold of hosts that count as 90% sold, from and
#: to; from less on where refusals reach their limit before that.
_FULL = 0.85, 0.95
_FULL_OF_LIMIT = 0.9
#: Offered load, as shares of the CPUs, rising over so many mean lifetimes.
_FIRST_LOAD, _LAST_LOAD, _TURNOVERS = 0.8, 1.3, 5.0
_MOST_HOSTS = 40
#: Of each cell, more than guests of 1 MiB a vCPU can use.
_MEMORY_MIB = 1024
#: What a setting has to reach to be proposed: guests on the fewest caches,
#: caches in relation to the fewest, and CPUs sold in relation to the host as
#: it is.
LEAST_ON_FEWEST, MOST_CACHES, LEAST_SOLD = 0.95, 1.05, 0.98
#: How long a claim may take at worst, on the few hosts that are left when no
#: other is.
MOST_CLAIM_SECONDS = 3.0
_OURS = scheduler_configuration.NAMED['pinning']
_NOVAS = scheduler_configuration.NAMED['nova-default']
_DEDICATED = hostclass.HostClass.DEDICATED


@dataclasses.dataclass(frozen=True, slots=True)
class CacheSetting:
    """What can be set in the firmware and in nova.

    :param change: what to do, '' for nothing
    :param nodes_per_socket: NUMA nodes; 0 for those that there are, None for
        one for each L3 cache
    :param is_in_order: whether nova-compute gives out cores in the order of
        their numbers, which it does with a change only
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    """

    name: str
    change: str = ''
    nodes_per_socket: int | None = 0
    is_in_order: bool = False
    packs_cells: bool = True


_NPS4 = 'have the firmware make 4 NUMA nodes of a socket (NPS4)'
_L3 = ('have the firmware make a NUMA node of each L3 cache ("ACPI SRAT L3 '
       'Cache as NUMA Domain")')
_IN_ORDER = 'apply cores-in-order.patch to nova-compute'
#: Those first that are the least change. With a node for each cache nothing
#: hangs on the order, and where the claims of large guests are slow because
#: the fullest nodes come first, they are not where the emptiest do.
SETTINGS = (
    CacheSetting('as found'), CacheSetting('NPS4', _NPS4, 4),
    CacheSetting('L3', _L3, None),
    CacheSetting(
        'L3, spread', f'{_L3} and leave packing_host_numa_cells_allocation_'
        'strategy of nova off', None, packs_cells=False),
    CacheSetting('in order', _IN_ORDER, is_in_order=True),
    CacheSetting('NPS4, in order', f'{_NPS4} and {_IN_ORDER}', 4,
                 is_in_order=True))


@dataclasses.dataclass(frozen=True, slots=True)
class SizeCaches:
    """On how many L3 caches the guests of a size lie.

    :param size: in the cells that the setting needs
    :param empty: of a guest on a host without others
    :param full: of those that came to hosts that were 90% sold
    """

    size: plan_model.GuestSize
    empty: l3_layout.GuestCaches
    full: l3_layout.CacheSum


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CacheForecast:
    """What comes of a setting.

    :param host_cells: that a host has
    :param guests: of the mix that an empty host holds at most
    :param full: the L3 caches of all guests that came to hosts that were 90%
        sold
    :param limits: share of the CPUs that were sold when 1% of the guests were
        refused, or in the end, for each seed, with the weighers as the study
        of them says to set them
    :param nova_limits: the same with nova's own weighers as nova has them
    :param slow_claims: share of the guests for which there were no hosts but
        those where nova-compute's claim takes longer than the configured time
    """

    setting: CacheSetting
    host_cells: int
    guests: int
    sizes: tuple[SizeCaches, ...]
    full: l3_layout.CacheSum
    limits: Sequence[float]
    nova_limits: Sequence[float]
    slow_claims: float

    @property
    def sold(self) -> float:
        """The mean of the limits."""
        return statistics.fmean(self.limits)

    @property
    def sold_by_nova(self) -> float:
        """The same with nova's own weighers."""
        return statistics.fmean(self.nova_limits)

    @property
    def on_fewest(self) -> float:
        """Share of the guests on as few L3 caches as can be."""
        return self.full.on_fewest / max(1, self.full.guests)

    @property
    def ratio(self) -> float:
        """L3 caches in relation to the fewest, infinite without guests."""
        return (self.full.caches / self.full.fewest if self.full.guests
                else math.inf)

    @property
    def worst_claim_seconds(self) -> float:
        """How long nova-compute looks for cells at worst, for any guest."""
        return max(math.perm(self.host_cells, size.size.cells)
                   for size in self.sizes
                   ) / known_defects.PERMUTATIONS_PER_SECOND

    @property
    def hangs(self) -> bool:
        """Whether claims hold up nova-compute longer than anybody waits."""
        return (self.slow_claims > 0
                and self.worst_claim_seconds > MOST_CLAIM_SECONDS)

    @property
    def is_good(self) -> bool:
        """Whether guests are on as few caches as is asked for, and at once."""
        return (self.on_fewest >= LEAST_ON_FEWEST
                and self.ratio <= MOST_CACHES and not self.hangs)


@dataclasses.dataclass(frozen=True, slots=True)
class CacheStudy:
    """What comes of each setting that the host can have.

    :param forecasts: the first for the host as it is; that one alone if no
        cell of the host has several L3 caches
    :param impossible: why the host cannot be planned with a setting, by name
    """

    forecasts: Sequence[CacheForecast]
    impossible: Mapping[str, str]

    @property
    def proposed(self) -> CacheForecast:
        """The setting that fits the mix.

        The least change that is good and sells little less; where there is
        none, the one with the fewest caches that sells so much, and does not
        hang if there is one.
        """
        least = LEAST_SOLD * self.forecasts[0].sold
        selling = [forecast for forecast in self.forecasts
                   if forecast.sold >= least]
        good = [forecast for forecast in selling if forecast.is_good]
        return good[0] if good else min(selling, key=lambda forecast: (
            forecast.hangs, forecast.ratio))


def study(
    planned: host_model.HostDescription, options: plan_request.PlanOptions, *,
    guests_at_full: int = 300, seeds: Sequence[int] = (0,),
    tell: Callable[[float], None] = lambda _part: None,
) -> CacheStudy:
    """Simulate a host with each setting.

    :param planned: the host with its plan
    :param options: that it was planned with; it is planned anew for other
        NUMA nodes
    :param guests_at_full: guests that the simulated hosts have room for,
        which says how many hosts these are
    :param tell: told how much is done, from 0 to 1
    :raises errors.InputError: if the host has no plan for pinned guests, or
        its L3 caches are not known
    """
    if planned.plan is None or not planned.plan.sizes:
        raise errors.InputError(
            'has no plan for pinned guests', planned.where)
    hosts: dict[int | None, host_model.HostDescription] = {0: planned}
    impossible: dict[str, str] = {}
    found: list[CacheForecast] = []
    for number, setting in enumerate(SETTINGS):
        tell(number / len(SETTINGS))
        count = setting.nodes_per_socket
        if count not in hosts and not setting.is_in_order and (
                other := numa_layouts.divided(planned, count)):
            try:
                hosts[count] = planner.plan(
                    other, dataclasses.replace(options, choice=1))
            except errors.InputError as error:
                impossible[setting.name] = error.message
        host = hosts.get(count)
        if host is not None and (
                setting.packs_cells or found[-1].hangs) and (
                not setting.is_in_order or any(
                    len(node.l3_domains) > 1 for node in host.nodes)):
            found.append(_Forecaster(host, setting, guests_at_full).forecast(
                seeds))
    return CacheStudy(found, impossible)


class _Placed(NamedTuple):
    """A guest that found a host.

    :param sold: share of all CPUs, before it came
    """

    size: str
    caches: l3_layout.GuestCaches
    sold: float
    is_slow: bool


class _WatchedScheduler(fast.FastScheduler):
    """Notes on how many L3 caches guests come to lie.

    :param layout: of each host
    :param placed: what is noted
    """

    def __init__(
        self, columns: admission_columns.AdmissionColumns,
        configuration: scheduler_configuration.SchedulerConfiguration,
        layout: l3_layout.L3Layout, placed: list[_Placed],
    ) -> None:
        super().__init__(columns, configuration)
        self._layout, self._placed = layout, placed

    def take(self, uuid: str, asked: Any,
             kind: admission_columns.KindColumns, index: int) -> None:
        """Note it, too."""
        decision, ledger = asked.decisions[index], self.ledger
        drawback = decision.drawback
        self._placed.append(_Placed(
            kind.request.name,
            _caches(self._layout, kind.request, decision.fit),
            ledger.sold_vcpus[_DEDICATED] / ledger.dedicated_cpus,
            drawback is not None
            and drawback.reason is model.Reason.NOVA_SLOW))
        super().take(uuid, asked, kind, index)


class _Forecaster:
    """Simulates hosts with a setting."""

    def __init__(self, planned: host_model.HostDescription,
                 setting: CacheSetting, guests_at_full: int) -> None:
        assert planned.plan is not None
        self._plan, self._setting = planned.plan, setting
        self._host = _host(planned, setting.is_in_order)
        layout = l3_layout.L3Layouts({}).of_host(self._host)
        if layout is None:
            raise errors.InputError(
                'does not tell which CPUs share an L3 cache', planned.where,
                'say so with cores_per_l3, or use host discover')
        self._layout = layout
        self._mix = [
            (guests.plain(size.vcpus, size.vcpus, cells=size.cells),
             float(size.weight)) for size in planned.plan.sizes]
        mean = sum(request.vcpus * weight for request, weight in self._mix
                   ) / sum(weight for _request, weight in self._mix)
        cpus = len(self._host.dedicated_cpus)
        count = min(_MOST_HOSTS, math.ceil(guests_at_full * mean / cpus))
        self._fleet = snapshot.Fleet(hosts=tuple(
            dataclasses.replace(self._host, name=f'host-{number}')
            for number in range(count)))
        self._load = arrival_process.rising_load(
            self._mix, cpus * count, first=_FIRST_LOAD, last=_LAST_LOAD,
            turnovers=_TURNOVERS)

    def forecast(self, seeds: Sequence[int]) -> CacheForecast:
        """What comes of the setting, of all seeds together."""
        full: dict[str, list[l3_layout.GuestCaches]] = {
            request.name: [] for request, _weight in self._mix}
        limits, slow, count = [], 0, 0
        for seed in seeds:
            limit, placed = self._run(seed, dataclasses.replace(
                _OURS, packs_cells=self._setting.packs_cells))
            limits.append(limit)
            least = min(_FULL[0], _FULL_OF_LIMIT * limit)
            for guest in placed:
                if least <= guest.sold < _FULL[1]:
                    full[guest.size].append(guest.caches)
            slow += sum(guest.is_slow for guest in placed)
            count += len(placed)
        return CacheForecast(
            setting=self._setting, host_cells=len(self._host.cells),
            guests=self._plan.offer.figures[0], sizes=tuple([
                SizeCaches(size, self._alone(request),
                           l3_layout.total(full[request.name]))
                for size, (request, _weight)
                in zip(self._plan.sizes, self._mix)]),
            full=l3_layout.total(itertools.chain.from_iterable(full.values())),
            limits=limits, slow_claims=slow / max(1, count),
            nova_limits=[self._run(seed, _NOVAS)[0] for seed in seeds])

    def _run(
        self, seed: int,
        configuration: scheduler_configuration.SchedulerConfiguration,
    ) -> tuple[float, list[_Placed]]:
        """What was sold at the limit, and who found a host."""
        placed: list[_Placed] = []
        result = simulation_run.run(
            self._fleet, self._load.arrivals(seed), configuration, seed=seed,
            plan=simulation_run.RunPlan(stops_at_limit=True),
            factory=lambda columns, chosen: _WatchedScheduler(
                columns, chosen, self._layout, placed))
        return (result.limit_share or result.final_vcpus
                / result.dedicated_cpus), placed

    def _alone(
        self, request: guest_request.GuestRequest,
    ) -> l3_layout.GuestCaches:
        """The caches of the first guest of a host."""
        assert request.topology is not None
        placed = fit.fit_guest(
            host_occupancy.of_host(self._host).engine, request.topology,
            pack=self._setting.packs_cells)
        assert isinstance(placed, model.Fit)
        return _caches(self._layout, request, placed)


def _host(planned: host_model.HostDescription,
          is_in_order: bool) -> offered_host.OfferedHost:
    """The host with its CPUs for guests and memory in plenty, no devices."""
    offered = host_offer.offered(planned)
    return dataclasses.replace(
        offered, gaps=(), host_class=_DEDICATED, pci_pools=(),
        reserved_memory_mib=0, traits=frozenset(), cells=tuple(
            dataclasses.replace(
                cell, memory_mib=_MEMORY_MIB,
                pages=(model.PagePool(4, _MEMORY_MIB * 256),),
                shared_cpus=cpuset.CpuSet(), cores=tuple(
                    sorted(cell.cores) if is_in_order else cell.cores))
            for cell in offered.cells))


def _caches(layout: l3_layout.L3Layout, request: guest_request.GuestRequest,
            placed: model.Fit) -> l3_layout.GuestCaches:
    assert request.topology is not None
    caches = layout.caches(request.topology, placed)
    assert caches is not None
    return caches
