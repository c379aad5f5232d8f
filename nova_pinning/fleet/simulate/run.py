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

"""One run: arrivals and departures on a fleet under one configuration."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import dataclasses
import heapq
import math
import random
import time
from typing import Protocol

from nova_pinning import errors
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet.simulate import arrivals as arrivals_module
from nova_pinning.fleet.simulate import configuration as configurations
from nova_pinning.fleet.simulate import fast
from nova_pinning.fleet.simulate import ledger as ledgers
from nova_pinning.fleet.simulate import meter
from nova_pinning.fleet import wanted as fleet_wanted

Result = meter.Result

#: Decisions are handed over this often.
_BATCH_SECONDS = 0.2


class Scheduler(Protocol):
    """What decides: the engine alone, or nova's own classes."""

    def place(
        self, uuid: str, wanted: fleet_wanted.Wanted,
        known: fast.Decision | None = None,
    ) -> fast.Decision:
        """Put a guest where nova would.

        :param known: the decision, if it was made in an earlier run
        """

    def remove(self, uuid: str) -> None:
        """Take a guest off its host."""

    def close(self) -> None:
        """Give back what it had for itself."""


#: Makes a scheduler of a ledger, a configuration and the fleet.
Factory = Callable[
    [ledgers.Ledger, configurations.Configuration, fleet_model.Fleet],
    Scheduler]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is the same for all runs that are compared.

    :param is_empty: whether the fleet's own guests are left out
    :param stay_hours: mean lifetime of the fleet's own guests (exponential),
        None if they stay
    :param max_events: arrivals and departures, None for all
    :param refused_share: the limit of refusals that is looked for, of the
        last so many (window) arrivals, or of all while they are fewer; from
        100 arrivals on
    :param stops_at_limit: whether a run ends there
    :param looks_at_l3: whether to count guests in the fewest L3 domains
    """

    is_empty: bool = False
    stay_hours: float | None = None
    max_events: int | None = None
    refused_share: float = 0.01
    window: int = 1000
    stops_at_limit: bool = False
    looks_at_l3: bool = False


def run(
    fleet: fleet_model.Fleet,
    arrivals: Iterable[arrivals_module.Arrival],
    configuration: configurations.Configuration,
    *,
    seed: int = 0,
    plan: Plan = Plan(),
    factory: Factory | None = None,
    known: Iterable[int] = (),
    decided: Callable[[list[int]], None] | None = None,
) -> Result:
    """Run a simulation to its end.

    The same arguments give the same result anywhere, but for the times that
    decisions take.

    :param arrivals: in the order of their times
    :param seed: the order in which nova meets the hosts is drawn by it, which
        decides among equals, as are the lifetimes of the fleet's own guests
    :param factory: None for the engine alone
    :param known: decisions of a run that was broken off, from the first on,
        as handed to ``decided``; they are not made again
    :param decided: called with all decisions, some at a time
    :raises InputError: if known decisions cannot be those of this run
    """
    simulation = _Simulation(fleet, configuration, seed, plan, factory)
    with contextlib.closing(simulation.scheduler):
        return simulation.run(arrivals, iter(known), decided or _ignore)


def _ignore(_decisions: list[int]) -> None:
    pass


def encoded(decision: fast.Decision) -> int:
    """A decision as one number: -1 for a refusal."""
    if decision.host is None:
        return -1
    return (decision.host * 8 + bool(decision.is_l3_met) * 4
            + bool(decision.is_l3_possible) * 2
            + (decision.is_l3_possible is not None))


def decoded(number: int) -> fast.Decision:
    """The reverse of :func:`encoded`."""
    if number < 0:
        return fast.Decision(None)
    host, flags = divmod(number, 8)
    if not flags & 1:
        return fast.Decision(host)
    return fast.Decision(host, bool(flags & 2), bool(flags & 4))


class _Simulation:

    def __init__(
        self, fleet: fleet_model.Fleet,
        configuration: configurations.Configuration, seed: int, plan: Plan,
        factory: Factory | None,
    ) -> None:
        self._configuration = configuration
        self._seed = seed
        self._plan = plan
        order = list(range(len(fleet.hosts)))
        random.Random(f'hosts-{seed}').shuffle(order)
        self._ledger = ledgers.of_fleet(fleet, order, plan.is_empty)
        self._meter = meter.Meter(
            self._ledger, plan.refused_share, plan.window)
        if factory is None:
            self.scheduler: Scheduler = fast.Engine(
                self._ledger, configuration,
                {one.name: one for one in fleet.aggregates},
                plan.looks_at_l3)
        else:
            self.scheduler = factory(self._ledger, configuration, fleet)
        # Departures by time; the number tells equal times apart.
        self._leaving: list[tuple[float, int, str]] = []
        self._number = 0
        self._events = 0
        self._draw_stays()

    def _draw_stays(self) -> None:
        if self._plan.stay_hours is None:
            return
        draws = random.Random(f'own-{self._seed}')
        for uuid in sorted(self._ledger.lodgers):
            stay = -math.log(1.0 - draws.random())
            self._leaves(round(stay * self._plan.stay_hours * 3600, 3), uuid)

    def _leaves(self, time_seconds: float, uuid: str) -> None:
        self._number += 1
        heapq.heappush(self._leaving, (time_seconds, self._number, uuid))

    @property
    def _is_over(self) -> bool:
        plan = self._plan
        if plan.max_events is not None and self._events >= plan.max_events:
            return True
        return plan.stops_at_limit and self._meter.limit is not None

    def run(self, arrivals: Iterable[arrivals_module.Arrival],
            known: Iterator[int], decided: Callable[[list[int]], None],
            ) -> Result:
        batch: list[int] = []
        handed = time.monotonic()
        for arrival in arrivals:
            self._depart(arrival.time_seconds)
            if self._is_over:
                break
            batch.append(self._arrive(arrival, next(known, None)))
            now = time.monotonic()
            if now - handed >= _BATCH_SECONDS:
                decided(batch)
                batch, handed = [], now
        decided(batch)
        return self._meter.result(self._configuration.name, self._seed)

    def _depart(self, time_seconds: float) -> None:
        """Let everybody go whose time has come."""
        while (self._leaving and self._leaving[0][0] <= time_seconds
                and not self._is_over):
            _time, _number, uuid = heapq.heappop(self._leaving)
            self.scheduler.remove(uuid)
            self._meter.departures += 1
            self._events += 1

    def _arrive(self, arrival: arrivals_module.Arrival,
                known: int | None) -> int:
        # A guest of the fleet may have the same name, but no line break.
        uuid = f'\n{arrival.id}'
        begun = time.perf_counter()
        decision = self.scheduler.place(
            uuid, arrival.wanted, None if known is None else decoded(known))
        if known is not None and encoded(decision) != known:
            raise errors.InputError(
                f'guest {arrival.id} does not fit where it was put before',
                None, 'begin anew, without the checkpoint')
        micros = None
        if known is None:
            micros = (time.perf_counter() - begun) * 1e6
        self._events += 1
        if decision.host is not None and arrival.lifetime_seconds is not None:
            self._leaves(
                arrival.time_seconds + arrival.lifetime_seconds, uuid)
        self._meter.arrived(
            arrival.time_seconds, arrival.wanted, decision.host,
            decision.is_l3_possible, decision.is_l3_met, micros)
        return encoded(decision)
