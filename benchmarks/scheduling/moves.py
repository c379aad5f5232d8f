# SPDX-License-Identifier: Apache-2.0
"""Does moving guests pay? CPUs sold with moves and without.

The command: python -m benchmarks.scheduling.moves.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import json
import pathlib
import sys
import textwrap
from typing import NamedTuple

from benchmarks import azure
from benchmarks.scheduling import fleets
from benchmarks.scheduling import study
from benchmarks import tables
from nova_pinning.admission import guest_request
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests
from nova_pinning.simulation import rebalance_policy
from nova_pinning.simulation import simulation_run

AZURE = 'azure-2017'
NAMES = (*fleets.NAMES, AZURE)
WEIGHERS = (study.DEFAULT, study.OURS)

_NO_MOVES = 'none'
#: The mean lifetime is the unit of the study's time: here it is a day, or 30
#: days. Equal moves in equal time: 1% every 6 hours, or 12% every 3 days.
_DAY = 'lifetime a day'
_MONTH = 'lifetime 30 days'
_POLICIES: Mapping[str, rebalance_policy.RebalancePolicy] = {
    _DAY: rebalance_policy.RebalancePolicy(
        every_hours=fleets.LIFETIME_HOURS / 4, moves_share=0.01),
    _MONTH: rebalance_policy.RebalancePolicy(
        every_hours=fleets.LIFETIME_HOURS / 10, moves_share=0.12),
}
_AZURE_POLICY = rebalance_policy.RebalancePolicy(
    every_hours=6.0, moves_share=0.01)
#: Moves begin so long before the limit is reached without them. What was
#: moved before has mostly left by then.
_LEAD_LIFETIMES = 2.0
#: Azure's batches are dealt to so many fleets, each of so many hosts.
_AZURE_PARTS = 8
_AZURE_HOSTS = 95
_SHORT_PARTS, _SHORT_HOSTS = 400, 2


class MoveJob(NamedTuple):
    """A run without moves, and those with them.

    :param seed: or the part of Azure's trace
    """

    scenario: str
    seed: int
    weighers: str
    is_short: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class MovesRun:
    """What came of a run.

    :param moved: the policy
    :param share: of the CPUs sold when refusals reached the limit, None if
        they never did
    """

    scenario: str
    seed: int
    weighers: str
    moved: str
    share: float | None
    made: int = 0
    refused: int = 0
    plans: int = 0


def _azure_fleet(is_short: bool) -> snapshot.Fleet:
    return fleets.two_socket(_SHORT_HOSTS if is_short else _AZURE_HOSTS)


def _azure_arrivals(
    part: int, is_short: bool,
) -> Iterator[arrival_process.Arrival]:
    """The batches of one part."""
    parts = _SHORT_PARTS if is_short else _AZURE_PARTS
    requests: dict[tuple[int, int], guest_request.GuestRequest] = {}
    for machine in azure.read(azure.path_of()):
        if machine.batch % parts != part:
            continue
        size = machine.vcpus, machine.memory_mib
        if size not in requests:
            requests[size] = guests.plain(*size)
        yield arrival_process.Arrival(
            machine.time_seconds, machine.id, requests[size],
            machine.lifetime_seconds)


def perform(job: MoveJob, policies: Sequence[str]) -> Iterator[MovesRun]:
    """Do a job, in this process."""
    weighers = study.CONFIGURATIONS[job.weighers]
    is_azure = job.scenario == AZURE
    scenario = None if is_azure else fleets.scenario(
        job.scenario, job.is_short)
    fleet = _azure_fleet(job.is_short) if scenario is None else scenario.fleet
    first = 0.0

    def run(policy: rebalance_policy.RebalancePolicy | None,
            ) -> simulation_run.Result:
        nonlocal first
        arrivals = (
            _azure_arrivals(job.seed, job.is_short) if scenario is None
            else scenario.arrivals(job.seed))
        arrival = next(arrivals)
        first = arrival.time_seconds
        return simulation_run.run(
            fleet, itertools.chain([arrival], arrivals),
            dataclasses.replace(weighers, rebalance=policy), seed=job.seed,
            plan=simulation_run.RunPlan(
                stay_hours=fleets.LIFETIME_HOURS, stops_at_limit=True,
                refused_share=study.REFUSED_SHARE, window=study.WINDOW))

    still = run(None)
    yield MovesRun(job.scenario, job.seed, job.weighers, _NO_MOVES,
                   still.limit_share)
    if still.limit is None:
        return
    lead = max(0.0, (still.limit.time_seconds - first) / 3600
               - _LEAD_LIFETIMES * fleets.LIFETIME_HOURS)
    todo = {_DAY: _AZURE_POLICY} if is_azure else {
        name: dataclasses.replace(_POLICIES[name], from_hours=lead)
        for name in policies}
    for name, policy in todo.items():
        found = run(policy)
        plans, made, refused, _memory = found.moves or (0, 0, 0, 0)
        yield MovesRun(
            job.scenario, job.seed, job.weighers, name, found.limit_share,
            made, refused, plans)


def title(name: str) -> str:
    """What a scenario is, in words."""
    if name == AZURE:
        return (
            f'{azure.ATTRIBUTION}. Its batches are dealt to {_AZURE_PARTS} '
            f'fleets of {_AZURE_HOSTS} hosts of 2 cells of 38 CPUs; all '
            'guests are pinned; lifetimes are its own')
    return fleets.scenario(name).title


def rst(outcomes: Sequence[MovesRun]) -> Iterator[str]:
    """The tables for the documentation."""
    yield '.. Made by "python -m benchmarks.scheduling.moves --rst", not by '\
          'hand.'
    for name in NAMES:
        rows = list(_rows([outcome for outcome in outcomes
                           if outcome.scenario == name]))
        if not rows:
            continue
        yield ''
        yield from textwrap.wrap(f'``{name}``: {title(name)}.', 79)
        yield ''
        yield from tables.listed((_HEADER, *rows))


_HEADER = ('Weighers', 'moves', 'runs', 'sold without', 'sold with',
           'gain, in points', 'moves a plan')


def _rows(outcomes: Sequence[MovesRun]) -> Iterator[tuple[str, ...]]:
    for weighers, moved in itertools.product(WEIGHERS, _POLICIES):
        of_it = {(outcome.moved, outcome.seed): outcome
                 for outcome in outcomes if outcome.weighers == weighers}
        pairs = [
            (of_it[_NO_MOVES, seed], outcome)
            for (name, seed), outcome in of_it.items()
            if name == moved and outcome.share is not None]
        if not pairs:
            continue
        without, with_moves = [
            [100 * (outcome.share or 0.0) for outcome in side]
            for side in zip(*pairs)]
        plans = sum(outcome.plans for _still, outcome in pairs)
        made = sum(outcome.made for _still, outcome in pairs)
        own = outcomes[0].scenario == AZURE
        yield (weighers, 'every=6h moves=1%' if own else _WORDS[moved],
               str(len(pairs)), _percent(without), _percent(with_moves),
               _percent([after - before for before, after in zip(
                   without, with_moves)], '+', ''),
               f'{made / plans:.0f}' if plans else '0')


_WORDS = {
    _DAY: f'every=6h moves=1%, {_DAY}',
    _MONTH: f'every=3d moves=12%, {_MONTH}',
}


def _percent(values: Sequence[float], sign: str = '', unit: str = '%') -> str:
    estimate = study.estimate(values)
    text = f'{estimate.mean:{sign}.1f}{unit}'
    # Not a number where there is only one seed.
    if estimate.error == estimate.error:
        text += f' ± {estimate.error:.1f}'
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.scheduling.moves', description=__doc__)
    parser.add_argument(
        '--fleet', action='append', choices=NAMES,
        help='which fleet; may be given several times (default: all)')
    parser.add_argument(
        '--seeds', type=int, default=3,
        help="how many; of Azure's trace the parts, of which there are "
             f'{_AZURE_PARTS} (default: %(default)s)')
    parser.add_argument(
        '--lifetime', action='append', choices=('day', 'month'),
        help='of guests; may be given twice (default: both)')
    parser.add_argument('--short', action='store_true',
                        help='few hosts, to see that it works')
    parser.add_argument(
        '--json', type=pathlib.Path, metavar='FILE',
        help='write what each run found, and do not run again what is there')
    parser.add_argument('--rst', type=pathlib.Path, metavar='FILE',
                        help='write the tables for the documentation')
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the study.

    :returns: 2 if it cannot be run
    """
    args = _parser().parse_args(arguments)
    policies = [{'day': _DAY, 'month': _MONTH}[name]
                for name in args.lifetime or ('day', 'month')]
    outcomes: list[MovesRun] = []
    if args.json and args.json.exists():
        outcomes = [MovesRun(**values)
                    for values in json.loads(args.json.read_text())]
    done = set(map(outcome_key, outcomes))
    try:
        for seed, name, weighers in itertools.product(
                range(args.seeds), args.fleet or NAMES, WEIGHERS):
            if name == AZURE and seed >= _AZURE_PARTS:
                continue
            wanted = [_DAY] if name == AZURE else policies
            missing = [policy for policy in wanted
                       if (name, seed, weighers, policy) not in done]
            if not missing:
                continue
            for outcome in perform(MoveJob(name, seed, weighers, args.short),
                                   missing):
                print(outcome, flush=True)
                if outcome_key(outcome) not in done:
                    outcomes.append(outcome)
                    done.add(outcome_key(outcome))
                if args.json:
                    args.json.write_text(json.dumps(
                        list(map(dataclasses.asdict, outcomes)), indent=1))
    except errors.InputError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    if args.rst:
        args.rst.write_text('\n'.join(rst(outcomes)) + '\n')
    return 0


def outcome_key(outcome: MovesRun) -> tuple[str, int, str, str]:
    """What a run was of."""
    return (outcome.scenario, outcome.seed, outcome.weighers, outcome.moved)


if __name__ == '__main__':
    sys.exit(main())
