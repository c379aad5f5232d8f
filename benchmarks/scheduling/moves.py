# SPDX-License-Identifier: Apache-2.0
"""Does moving guests pay? CPUs sold with moves and without.

The command: python -m benchmarks.scheduling.moves.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import itertools
import json
import sys
import textwrap

from benchmarks import azure
from benchmarks.scheduling import fleets
from benchmarks.scheduling import study
from benchmarks import tables
from nova_pinning import errors
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
_SEEDS = 3


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

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What it was a run of."""
        return self.scenario, self.seed, self.weighers, self.moved


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _AzureScenario(fleets.Scenario):
    """One of several fleets that Azure's batches are dealt to; a seed each."""

    parts: int

    def arrivals(self, seed: int) -> Iterator[arrival_process.Arrival]:
        plain = functools.cache(guests.plain)
        for machine in azure.read(azure.path_of()):
            if machine.batch % self.parts == seed:
                yield arrival_process.Arrival(
                    machine.time_seconds, machine.id,
                    plain(machine.vcpus, machine.memory_mib),
                    machine.lifetime_seconds)


def _scenario(name: str, is_short: bool = False) -> fleets.Scenario:
    if name != AZURE:
        return fleets.scenario(name, is_short)
    return _AzureScenario(
        name=AZURE, mix=(), parts=_SHORT_PARTS if is_short else _AZURE_PARTS,
        fleet=fleets.two_socket(_SHORT_HOSTS if is_short else _AZURE_HOSTS),
        title=f'{azure.ATTRIBUTION}. Its batches are dealt to {_AZURE_PARTS} '
              f'fleets of {_AZURE_HOSTS} hosts of 2 cells of 38 CPUs; all '
              'guests are pinned; lifetimes are its own')


def perform(job: study.Job, policies: Sequence[str]) -> Iterator[MovesRun]:
    """A run without moves, and those with them, in this process."""
    weighers = study.CONFIGURATIONS[job.configuration]
    scenario = _scenario(job.scenario, job.is_short)

    def run(policy: rebalance_policy.RebalancePolicy | None,
            ) -> simulation_run.Result:
        return simulation_run.run(
            scenario.fleet, scenario.arrivals(job.seed),
            dataclasses.replace(weighers, rebalance=policy), seed=job.seed,
            plan=simulation_run.RunPlan(
                stay_hours=fleets.LIFETIME_HOURS, stops_at_limit=True,
                refused_share=study.REFUSED_SHARE, window=study.WINDOW))

    still = run(None)
    yield MovesRun(*job[:3], _NO_MOVES, still.limit_share)
    if still.limit is None:
        return
    first = next(scenario.arrivals(job.seed)).time_seconds
    lead = max(0.0, (still.limit.time_seconds - first) / 3600
               - _LEAD_LIFETIMES * fleets.LIFETIME_HOURS)
    todo = {_DAY: _AZURE_POLICY} if job.scenario == AZURE else {
        name: dataclasses.replace(_POLICIES[name], from_hours=lead)
        for name in policies}
    for name, policy in todo.items():
        found = run(policy)
        plans, made, refused, _memory = found.moves or (0, 0, 0, 0)
        yield MovesRun(
            *job[:3], name, found.limit_share, made, refused, plans)


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
        yield from textwrap.wrap(
            f'``{name}``: {_scenario(name).title}.', 79)
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
    if estimate.error is not None:
        text += f' ± {estimate.error:.1f}'
    return text


def _parser() -> argparse.ArgumentParser:
    parser = fleets.parser(
        'python -m benchmarks.scheduling.moves', __doc__, NAMES,
        seeds="how many; of Azure's trace the parts, of which there are "
              f'{_AZURE_PARTS} (default: {_SEEDS})',
        short='few hosts, to see that it works',
        json='write what each run found, and do not run again what is there')
    parser.add_argument(
        '--lifetime', action='append', choices=('day', 'month'),
        help='of guests; may be given twice (default: both)')
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the study.

    :returns: 2 if it cannot be run
    """
    args = _parser().parse_args(arguments)
    policies = [{'day': _DAY, 'month': _MONTH}[name]
                for name in args.lifetime or ('day', 'month')]
    outcomes: dict[tuple[str, int, str, str], MovesRun] = {}
    if args.json and args.json.exists():
        for values in json.loads(args.json.read_text()):
            known = MovesRun(**values)
            outcomes[known.key] = known
    try:
        for seed, name, weighers in itertools.product(
                range(args.seeds or _SEEDS), args.fleet or NAMES, WEIGHERS):
            if name == AZURE and seed >= _AZURE_PARTS:
                continue
            missing = [
                policy for policy in ([_DAY] if name == AZURE else policies)
                if (name, seed, weighers, policy) not in outcomes]
            job = study.Job(name, seed, weighers, args.short)
            for outcome in perform(job, missing) if missing else ():
                print(outcome, flush=True)
                outcomes.setdefault(outcome.key, outcome)
                if args.json:
                    args.json.write_text(json.dumps(list(map(
                        dataclasses.asdict, outcomes.values())), indent=1))
    except errors.InputError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    if args.rst:
        args.rst.write_text('\n'.join(rst(list(outcomes.values()))) + '\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())
