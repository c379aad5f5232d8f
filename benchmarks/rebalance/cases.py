# SPDX-License-Identifier: Apache-2.0
"""The fleets that plans are made for, and what has to come of it."""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import pathlib
import tempfile
import time

from benchmarks import bytedance
from benchmarks.scheduling import fleets
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import defragment
from nova_pinning.rebalance import drain
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings

#: Slots of 16 CPUs that the real snapshot has after so many moves, at most.
SNAPSHOT_SLOTS = {10: 13, 25: 24, 50: 37, 63: 44, 100: 62}
_SLOT = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plan to be made.

    :param hosts: of a generated fleet, 0 for the real snapshot
    :param moves: at most; of a drain the number of hosts that are drained
    :param seconds: that reading the snapshot and making the plan may take
    :param slots: that there have to be, proved to be the most; None if being
        close to the bound is enough
    :param gap: what part of the bound may be missing
    """

    name: str
    hosts: int = 0
    shape: str = ''
    moves: int
    is_drain: bool = False
    seconds: float
    slots: int | None = None
    gap: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a case.

    :param seconds: from the snapshot's file to the plan
    :param cpu_seconds: of all threads meanwhile
    :param slack: by how much longer it may take than the case says
    """

    case: Case
    plan: plan_model.RebalancePlan
    seconds: float
    cpu_seconds: float
    slack: float = 1.0

    @property
    def problems(self) -> Iterator[str]:
        """What does not meet the bar."""
        case, plan = self.case, self.plan
        limit = case.seconds * self.slack
        if self.seconds > limit:
            yield f'took {self.seconds:.1f} s, may take {limit:g} s'
        if case.is_drain:
            if plan.stuck or not plan.is_optimal:
                yield 'not drained, or with more moves than needed'
            return
        (gain,) = plan.gains
        if case.slots is not None and (
                gain.after != case.slots or not plan.is_optimal):
            yield (f'{gain.after} slots, of which at most {gain.bound} are '
                   f'proved; {case.slots} have to be proved')
        if gain.bound is None or gain.after < gain.bound * (1 - case.gap):
            yield (f'{gain.after} slots are more than {case.gap:.0%} below '
                   f'the bound of {gain.bound}')


SNAPSHOT = tuple(
    Case(name=f'snapshot-{moves}', moves=moves, seconds=5.0, slots=slots)
    for moves, slots in SNAPSHOT_SLOTS.items())
LARGE = (
    Case(name='generated-800', hosts=800, shape='two-socket-88', moves=50,
         seconds=5.0, gap=0.02),
    Case(name='threads-800', hosts=800, shape='two-socket-80', moves=50,
         seconds=5.0, gap=0.02),
    Case(name='generated-3000', hosts=3000, shape='two-socket-88', moves=100,
         seconds=30.0, gap=0.02),
    Case(name='drain-800', hosts=800, shape='two-socket-88', moves=4,
         is_drain=True, seconds=5.0))
#: With few hosts, to see that it works.
QUICK = (
    Case(name='generated-60', hosts=60, shape='two-socket-88', moves=10,
         seconds=5.0, gap=0.02),
    Case(name='drain-60', hosts=60, shape='two-socket-88', moves=1,
         is_drain=True, seconds=5.0))


def has_snapshot() -> bool:
    """Whether the data of the real snapshot are there."""
    return fleets.snapshot_path().exists()


def measure(cases: tuple[Case, ...], tell: Callable[[str], None],
            slack: float = 1.0) -> Iterator[Outcome]:
    """Make the plans, each from a snapshot's file."""
    made: dict[tuple[int, str], pathlib.Path] = {}
    with tempfile.TemporaryDirectory() as directory:
        for case in cases:
            tell(case.name)
            key = case.hosts, case.shape
            if key not in made:
                made[key] = pathlib.Path(directory, f'{len(made)}.json')
                document.write(made[key], _fleet(case))
            start, cpu_start = time.monotonic(), time.process_time()
            fleet = document.read(made[key])
            plan = _plan(case, fleet, case.seconds * slack)
            yield Outcome(case=case, plan=plan, slack=slack,
                          seconds=time.monotonic() - start,
                          cpu_seconds=time.process_time() - cpu_start)


def _fleet(case: Case) -> snapshot.Fleet:
    if not case.hosts:
        return bytedance.read(fleets.snapshot_path())
    return generate.generate_fleet(
        case.hosts, case.shape, seed=1, filled=0.85)


def _plan(case: Case, fleet: snapshot.Fleet,
          seconds: float) -> plan_model.RebalancePlan:
    # Where the time runs out there still has to be a plan in time.
    settings = solver_settings.SolverSettings(seconds=seconds * 0.9)
    if case.is_drain:
        return drain.plan_drain(
            fleet, [host.name for host in fleet.hosts[:case.moves]],
            move_rules.MoveLimits(), settings=settings)
    return defragment.plan_defragmentation(
        fleet, [slot_size.dedicated_slot(_SLOT, guests=fleet.guests)],
        move_rules.MoveLimits(moves=case.moves), settings=settings)
