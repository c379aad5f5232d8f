# SPDX-License-Identifier: Apache-2.0
"""One run: arrivals and departures on a fleet under one configuration."""

from collections.abc import Callable
from collections.abc import Iterable
import contextlib
import dataclasses
import heapq
import math
import random
import time
from typing import Any

from nova_pinning.admission import outcome
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import column_scheduler
from nova_pinning.simulation import fast
from nova_pinning.simulation import meter
from nova_pinning.simulation import rebalancing
from nova_pinning.simulation import scheduler_configuration

Result = meter.RunResult

#: It is told this often how far a run is.
_TOLD_SECONDS = 0.2


#: Makes a scheduler.
Factory = Callable[[
    admission_columns.AdmissionColumns, scheduler_configuration.
    SchedulerConfiguration], column_scheduler.ColumnScheduler[Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What is the same for all runs that are compared.

    :param is_empty: whether the fleet's own guests are left out
    :param stay_hours: mean lifetime of the fleet's own guests (exponential),
        None if they stay
    :param refused_share: the limit of refusals that is looked for, of the
        last so many (window) arrivals, or of all while they are fewer; from
        100 arrivals on
    :param stops_at_limit: whether a run ends there
    :param looks_at_l3: whether to count guests in the fewest L3 domains
    :param assumes: kinds of doubts of which it is taken that all is well
    """

    is_empty: bool = False
    stay_hours: float | None = None
    refused_share: float = 0.01
    window: int = 1000
    stops_at_limit: bool = False
    looks_at_l3: bool = False
    assumes: frozenset[outcome.DoubtKind] = frozenset()


def run(
    fleet: snapshot.Fleet, arrivals: Iterable[arrival_process.Arrival],
    configuration: scheduler_configuration.SchedulerConfiguration, *,
    seed: int = 0, plan: RunPlan = RunPlan(), factory: Factory | None = None,
    tell: Callable[[int], None] = lambda arrivals: None,
    planner: rebalancing.Planner | None = None,
) -> Result:
    """Run a simulation to its end.

    The same arguments give the same result anywhere.

    :param arrivals: in the order of their times
    :param seed: the order in which nova meets the hosts is drawn by it, which
        decides among equals, as are the lifetimes of the fleet's own guests
    :param factory: None for the engine
    :param tell: called now and then with how many more guests have arrived
    :param planner: of moves, where the configuration has guests moved; None
        for that of ``nova-pinning rebalance``
    """
    simulation = _Simulation(
        fleet, configuration, seed, plan, factory, planner)
    with contextlib.closing(simulation.scheduler):
        return simulation.run(arrivals, tell)


def own_stays(uuids: Iterable[str], seed: int,
              hours: float) -> dict[str, float]:
    """When the fleet's own guests leave in the run of a seed, in seconds.

    :param hours: their mean lifetime
    """
    draws = random.Random(f'own-{seed}')
    return {uuid: round(-math.log(1.0 - draws.random()) * hours * 3600, 3)
            for uuid in sorted(uuids)}


class _Simulation:

    def __init__(
        self, fleet: snapshot.Fleet,
        configuration: scheduler_configuration.SchedulerConfiguration,
        seed: int, plan: RunPlan, factory: Factory | None,
        planner: rebalancing.Planner | None,
    ) -> None:
        self._plan = plan
        if not configuration.keeps_reserve:
            fleet = occupied.without_reserve(fleet)
        order = list(range(len(fleet.hosts)))
        random.Random(f'hosts-{seed}').shuffle(order)
        self._columns = admission_columns.of_fleet(
            fleet, configuration, order, plan.is_empty, plan.assumes)
        self._ledger = self._columns.ledger
        self._meter = meter.RunMeter(self._ledger, meter.RunResult(
            configuration=configuration.name, seed=seed,
            hosts=len(fleet.hosts),
            dedicated_cpus=self._ledger.dedicated_cpus),
            plan.refused_share, plan.window)
        if factory is None:
            self.scheduler: column_scheduler.ColumnScheduler[
                Any] = fast.FastScheduler(
                self._columns, configuration, plan.looks_at_l3)
        else:
            self.scheduler = factory(self._columns, configuration)
        self._rebalancing = None
        if configuration.rebalance is not None:
            self._rebalancing = rebalancing.Rebalancing(
                fleet, self._ledger, configuration.rebalance,
                configuration.packs_cells, planner or rebalancing.plan,
                self.scheduler.move)
        # Departures by time; the number tells equal times apart.
        self._leaving: list[tuple[float, int, str]] = []
        self._number = 0
        if plan.stay_hours is not None:
            for uuid, end in own_stays(
                    self._ledger.placed_guests, seed, plan.stay_hours).items():
                self._leaves(end, uuid)

    def _leaves(self, time_seconds: float, uuid: str) -> None:
        self._number += 1
        heapq.heappush(self._leaving, (time_seconds, self._number, uuid))

    @property
    def _is_over(self) -> bool:
        return (self._plan.stops_at_limit
                and self._meter.found.limit is not None)

    def run(self, arrivals: Iterable[arrival_process.Arrival],
            tell: Callable[[int], None]) -> Result:
        count, told = 0, time.monotonic()
        for arrival in arrivals:
            count += 1
            if not self._columns.could_hold(arrival.request):
                self._meter.left_out(arrival.request)
                continue
            self._advance(arrival.time_seconds)
            if self._is_over:
                break
            self._arrive(arrival)
            now = time.monotonic()
            if now - told >= _TOLD_SECONDS:
                tell(count)
                count, told = 0, now
        tell(count)
        return self._meter.result(self._columns.doubts)

    def _advance(self, time_seconds: float) -> None:
        """Let everything happen that comes before a moment."""
        if self._rebalancing is not None:
            for moment in self._rebalancing.moments(time_seconds):
                self._depart(moment)
                if self._is_over:
                    return
                moved = self._rebalancing.rebalance()
                if moved is not None:
                    self._meter.rebalanced(*moved)
        self._depart(time_seconds)

    def _depart(self, time_seconds: float) -> None:
        """Let everybody go whose time has come."""
        while (self._leaving and self._leaving[0][0] <= time_seconds
                and not self._is_over):
            _time, _number, uuid = heapq.heappop(self._leaving)
            self.scheduler.remove(uuid)
            if self._rebalancing is not None:
                self._rebalancing.left(uuid)
            self._meter.found.departures += 1

    def _arrive(self, arrival: arrival_process.Arrival) -> None:
        # A guest of the fleet may have the same name, but no line break.
        uuid = f'\n{arrival.id}'
        decision = self.scheduler.place(uuid, arrival.request)
        if decision.host is not None and arrival.lifetime_seconds is not None:
            self._leaves(arrival.time_seconds + arrival.lifetime_seconds, uuid)
        if self._rebalancing is not None:
            self._rebalancing.arrived(uuid, arrival.request,
                                      decision.host is not None)
        self._meter.arrived(
            arrival.time_seconds, arrival.request, decision.host,
            decision.is_l3_possible, decision.is_l3_met)
