# SPDX-License-Identifier: Apache-2.0
"""How good plans of moves are: ``python -m benchmarks.rebalance``."""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import pathlib
import sys
import tempfile
import time

from benchmarks import bytedance
from benchmarks import runner
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
from nova_pinning import units

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


def measure(cases: Sequence[Case], options: argparse.Namespace,
            step: runner.Step) -> list[runner.Outcome]:
    """Make the plans, each from a snapshot's file.

    :raises runner.BenchmarkError: if all of them are for the real snapshot
        and its data are not there
    """
    if not has_snapshot() and any(not case.hosts for case in cases):
        missing = ('the real snapshot is not there: set NOVA_PINNING_DATA to '
                   'the directory that has bytedance/clusters.json')
        cases = [case for case in cases if case.hosts]
        if not cases:
            raise runner.BenchmarkError(missing)
        print(missing, file=sys.stderr)
    made: dict[tuple[int, str], pathlib.Path] = {}
    outcomes = []
    with tempfile.TemporaryDirectory() as directory:
        for case in cases:
            key = case.hosts, case.shape
            if key not in made:
                made[key] = pathlib.Path(directory, f'{len(made)}.json')
                document.write(made[key], _fleet(case))
            limit_s = case.seconds * options.slack
            start, cpu_start = time.monotonic(), time.process_time()
            fleet = document.read(made[key])
            plan = _plan(case, fleet, limit_s)
            outcomes.append(summarise(
                case, len(fleet.hosts), plan,
                runner.Figure(time.monotonic() - start, limit=limit_s),
                runner.Figure(time.process_time() - cpu_start)))
            step(case.name)
    return outcomes


def summarise(case: Case, hosts: int, plan: plan_model.RebalancePlan,
              seconds: runner.Figure,
              cpu_seconds: runner.Figure) -> runner.Outcome:
    """What came of a case.

    :param seconds: from the snapshot's file to the plan
    :param cpu_seconds: of all threads meanwhile
    """
    slots = {
        f'slots_{name}': runner.Figure(value or 0, '{:.0f}')
        for gain in plan.gains for name, value in (
            ('before', gain.before), ('after', gain.after),
            ('at_most', gain.bound))
    } or dict.fromkeys(('slots_before', 'slots_after', 'slots_at_most'),
                       runner.Figure(None, ''))
    return runner.outcome(
        case.name, case.name, {
            'hosts': runner.Figure(hosts, '{:.0f}'),
            'moved': runner.Figure(len(plan.moves), '{:.0f}'), **slots,
            'gib': runner.Figure(
                plan.memory_mib / units.MIB_PER_GIB, '{:,.0f}'),
            'seconds': seconds, 'cpu_seconds': cpu_seconds},
        list(_problems(case, plan)))


def _problems(case: Case, plan: plan_model.RebalancePlan) -> Iterator[str]:
    """What the plan falls short of."""
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


GROUP = runner.Group(
    key='plans', cases=(*SNAPSHOT, *LARGE, *QUICK), measure=measure,
    is_quick=QUICK.__contains__,
    numbers=range(1, 9),
    headings=('case', 'hosts', 'guests moved', 'slots before', 'after',
              'at most', 'GiB', 'seconds', 'CPU seconds', 'bar'))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = runner.parser(
        'python -m benchmarks.rebalance',
        'How much room plans of moves make on a real snapshot and on '
        'generated fleets, beside what is proved to be the most, and how '
        'long they take to make.')
    parser.add_argument('--slack', type=float, default=1.0, metavar='FACTOR',
                        help='let everything take so many times as long, on '
                             'a machine that has other work')
    options = runner.parse(parser, [GROUP], argv)
    if not options.slack > 0:
        parser.error('--slack must be more than 0')
    return runner.run(options, [GROUP], parser.prog)


if __name__ == '__main__':
    sys.exit(main())
