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
import sys
import types
from typing import NamedTuple

from benchmarks import azure
from benchmarks import runner
from benchmarks.scheduling import fleets
from benchmarks.scheduling import study
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests
from nova_pinning.simulation import rebalance_policy
from nova_pinning.simulation import simulation_run

AZURE = 'azure-2017'
NAMES = (*fleets.NAMES, AZURE)
WEIGHERS = (study.DEFAULT, study.OURS)

#: The mean lifetime is the unit of the study's time: here it is a day, or 30
#: days. Equal moves in equal time: 1% every 6 hours, or 12% every 3 days.
_DAY = 'every=6h moves=1%, lifetime a day'
_MONTH = 'every=3d moves=12%, lifetime 30 days'
POLICIES: Mapping[str, rebalance_policy.RebalancePolicy] = {
    _DAY: rebalance_policy.RebalancePolicy(
        every_hours=fleets.LIFETIME_HOURS / 4, moves_share=0.01),
    _MONTH: rebalance_policy.RebalancePolicy(
        every_hours=fleets.LIFETIME_HOURS / 10, moves_share=0.12),
}
#: Lifetimes are its own there.
_AZURE_POLICIES = {'every=6h moves=1%': rebalance_policy.RebalancePolicy(
    every_hours=6.0, moves_share=0.01)}
#: Moves begin so long before the limit is reached without them. What was
#: moved before has mostly left by then.
_LEAD_LIFETIMES = 2.0
#: Azure's batches are dealt to so many fleets, each of so many hosts.
_AZURE_PARTS = 8
_AZURE_HOSTS = 95
_SHORT_PARTS, _SHORT_HOSTS = 400, 2


class MovesRun(NamedTuple):
    """What came of the runs of a seed, without moves and with them.

    :param moved: the policy
    :param still: the share of the CPUs that was sold when refusals reached
        the limit, without moves
    :param share: the same with them
    :param made: moves
    """

    weighers: str
    moved: str
    still: float
    share: float
    made: int
    refused: int
    plans: int


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


def _scenario(name: str, is_short: bool) -> fleets.Scenario:
    if name != AZURE:
        return fleets.scenario(name, is_short)
    return _AzureScenario(
        mix=(), parts=_SHORT_PARTS if is_short else _AZURE_PARTS,
        fleet=fleets.two_socket(_SHORT_HOSTS if is_short else _AZURE_HOSTS),
        title=f'{azure.ATTRIBUTION}. Its batches are dealt to {_AZURE_PARTS} '
              f'fleets of {_AZURE_HOSTS} hosts of 2 cells of 38 CPUs; all '
              'guests are pinned; lifetimes are its own')


def perform(job: study.StudyJob) -> list[MovesRun]:
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
    if still.limit is None or still.limit_share is None:
        return []
    first = next(scenario.arrivals(job.seed)).time_seconds
    lead = max(0.0, (still.limit.time_seconds - first) / 3600
               - _LEAD_LIFETIMES * fleets.LIFETIME_HOURS)
    policies = _AZURE_POLICIES if job.scenario == AZURE else {
        name: dataclasses.replace(policy, from_hours=lead)
        for name, policy in POLICIES.items()
        # The other takes minutes, however few the hosts.
        if name == _DAY or not job.is_short}
    runs = []
    for name, policy in policies.items():
        found = run(policy)
        if found.limit_share is not None:
            plans, made, refused, _memory = found.moves or (0, 0, 0, 0)
            runs.append(MovesRun(
                job.configuration, name, still.limit_share, found.limit_share,
                made, refused, plans))
    return runs


def measure(cases: Sequence[types.SimpleNamespace],
            options: argparse.Namespace,
            step: runner.Step) -> list[runner.Outcome]:
    """Do all runs of one scenario, which is the only case."""
    (case,) = cases
    title = _scenario(case.name, options.quick).title
    count = fleets.seeds(options)
    if case.name == AZURE:
        count = min(count, _AZURE_PARTS)
    runs: list[MovesRun] = []
    for found in study.perform_all(perform, [
            study.StudyJob(case.name, seed, name, options.quick)
            for seed in range(count) for name in WEIGHERS],
            options.processes):
        runs += found
        step(case.name)
    return list(summarise(title, runs))


def summarise(title: str,
              runs: Sequence[MovesRun]) -> Iterator[runner.Outcome]:
    """What the runs of one scenario say, by weighers and policy."""
    for weighers, moved in itertools.product(
            WEIGHERS, (*POLICIES, *_AZURE_POLICIES)):
        of_it = [run for run in runs
                 if (run.weighers, run.moved) == (weighers, moved)]
        if not of_it:
            continue
        plans = sum(run.plans for run in of_it)
        moves = sum(run.made for run in of_it) / plans if plans else 0.0
        shares = [study.percent(study.estimate(values), sign)
                  for values, sign in (
                      ([run.still for run in of_it], ''),
                      ([run.share for run in of_it], ''),
                      ([run.share - run.still for run in of_it], '+'))]
        yield runner.Outcome(
            name=f'{weighers}, {moved}',
            cells=(weighers, moved, str(len(of_it)), *shares, f'{moves:.0f}'),
            details={'title': title,
                     'runs': [run._asdict() for run in of_it]})


GROUPS = [runner.Group(
    key=name, cases=(types.SimpleNamespace(name=name),), measure=measure,
    is_quick=lambda case: case.name not in (fleets.SNAPSHOT, AZURE),
    steps=lambda options: fleets.seeds(options) * len(WEIGHERS),
    headings=('Weighers', 'moves', 'runs', 'sold without', 'sold with',
              'gain, in points', 'moves a plan'), numbers=range(2, 7),
    explain=lambda outcomes, _options: next(
        (f'{outcome.details["title"]}.' for outcome in outcomes), ''))
    for name in NAMES]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, and return the exit status."""
    parser = runner.parser('python -m benchmarks.scheduling.moves',
                           'Does moving guests pay?')
    fleets.add_options(parser, 3)
    return runner.run(runner.parse(parser, GROUPS, argv), GROUPS, parser.prog)


if __name__ == '__main__':
    sys.exit(main())
