# SPDX-License-Identifier: Apache-2.0
"""The runs of the study, and what they say."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import concurrent.futures
import functools
import multiprocessing
import types
from typing import NamedTuple

from benchmarks import judging
from benchmarks import runner
from benchmarks.scheduling import bound
from benchmarks.scheduling import fleets
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run
from nova_pinning.simulation import statistic

#: Refusals of the last WINDOW arrivals, as a share of them.
REFUSED_SHARE = 0.01
WINDOW = 1000

BOUND = 'bound'
DEFAULT = 'nova-default'
PACKING = 'nova-packing'
OURS = 'pinning'
#: This project's weighers beside nova's, with nothing else changed.
AS_INSTALLED = 'pinning-as-installed'

#: By name, in the order of the table.
CONFIGURATIONS: Mapping[
    str, scheduler_configuration.SchedulerConfiguration] = {
        named.name: named
        for named in (
            scheduler_configuration.NAMED[DEFAULT],
            scheduler_configuration.NAMED[PACKING],
            scheduler_configuration.NAMED['best-fit'],
            scheduler_configuration.SchedulerConfiguration(
                name=AS_INSTALLED,
                multipliers={
                    name: scheduler_configuration.NAMED[OURS].multipliers[name]
                    for name in scheduler_configuration.OWN_WEIGHERS
                }), scheduler_configuration.NAMED[OURS])}

#: What ours has to sell more than nova's defaults, and than nova's packing
#: (all mixes have guests of a quarter of a cell and more), how close to the
#: bound, and how many guests in the fewest L3 domains: by column.
BARS = {'over default': 0.10, 'over packing': 0.03, 'of bound': 0.98,
        'L3': 0.95}


class StudyJob(NamedTuple):
    """A run, or the bound of one.

    :param configuration: its name, or BOUND
    """

    scenario: str
    seed: int
    configuration: str
    is_short: bool = False


class StudyRun(NamedTuple):
    """What came of a job.

    :param share: of the CPUs sold when refusals reached the limit; None if
        they never did
    :param l3_possible: guests that some host would have put in the fewest
        L3 domains
    :param l3_met: those of them that were
    """

    job: StudyJob
    share: float | None
    l3_possible: int = 0
    l3_met: int = 0


@functools.lru_cache(maxsize=1)
def _scenario(name: str, is_short: bool) -> fleets.Scenario:
    return fleets.scenario(name, is_short)


def perform(job: StudyJob) -> StudyRun:
    """Do a job, in this process."""
    scenario = _scenario(job.scenario, job.is_short)
    if job.configuration == BOUND:
        return StudyRun(job, bound.bound(
            scenario.fleet, list(scenario.arrivals(job.seed)),
            stays_seconds=simulation_run.own_stays(
                (guest.uuid for guest in scenario.fleet.guests), job.seed,
                fleets.LIFETIME_HOURS),
            refused_share=REFUSED_SHARE, window=WINDOW) / scenario.cpus)
    result = simulation_run.run(
        scenario.fleet, scenario.arrivals(job.seed),
        CONFIGURATIONS[job.configuration], seed=job.seed,
        plan=simulation_run.RunPlan(
            stay_hours=fleets.LIFETIME_HOURS, refused_share=REFUSED_SHARE,
            window=WINDOW, stops_at_limit=True, looks_at_l3=True))
    return StudyRun(job, result.limit_share, result.l3_possible or 0,
                    result.l3_met or 0)


def perform_all(todo: Sequence[StudyJob],
                processes: int) -> Iterator[StudyRun]:
    """Do jobs, in order."""
    if processes < 2:
        yield from map(perform, todo)
        return
    with concurrent.futures.ProcessPoolExecutor(
            processes, multiprocessing.get_context('spawn')) as pool:
        yield from pool.map(perform, todo)


def measure(cases: Sequence[types.SimpleNamespace],
            options: argparse.Namespace,
            step: runner.Step) -> list[runner.Outcome]:
    """Do all runs of one scenario, which is the only case."""
    (case,) = cases
    # If there are no data for it, that is told now.
    scenario = _scenario(case.name, options.quick)
    runs = []
    for run in perform_all([
            StudyJob(case.name, seed, name, options.quick)
            for seed in range(fleets.seeds(options))
            for name in (*CONFIGURATIONS, BOUND)], options.processes):
        runs.append(run)
        step(case.name)
    return list(summarise(scenario, runs))


def summarise(scenario: fleets.Scenario,
              runs: Sequence[StudyRun]) -> Iterator[runner.Outcome]:
    """What the runs of one scenario say, by configuration."""
    run_of = {(run.job.configuration, run.job.seed): run for run in runs}
    seeds = sorted({run.job.seed for run in runs})

    def compare(name: str, other: str,
                offset: float = 0.0) -> statistic.SeedEstimate:
        """How much is sold, as a share of what another has sold."""
        return estimate([
            share / share_of_other - offset for seed in seeds
            if (share := run_of[name, seed].share) is not None and
            (share_of_other := run_of[other, seed].share) is not None])

    for name in (*CONFIGURATIONS, BOUND):
        of_it = [run_of[name, seed] for seed in seeds]
        shares = [run.share for run in of_it if run.share is not None]
        figures = {
            'over default': compare(name, DEFAULT, 1.0),
            'over packing': compare(name, PACKING, 1.0),
            'of bound': compare(name, BOUND)}
        possible = sum(run.l3_possible for run in of_it)
        if possible and _has_small_domains(scenario):
            figures['L3'] = statistic.SeedEstimate(
                sum(run.l3_met for run in of_it) / possible, None, len(of_it))
        yield runner.Outcome(
            name=name,
            cells=(name, percent(estimate(shares)), *(
                percent(figures[what], '+' if what.startswith('over') else '')
                if what in figures else '-' for what in BARS)),
            bars=[_judged(what, figure) for what, figure in figures.items()
                  if name == OURS],
            details={'title': scenario.title, 'shares': shares,
                     'seeds': len(seeds)})


def _judged(what: str, figure: statistic.SeedEstimate) -> judging.JudgedBar:
    error = figure.error or 0.0
    bar = judging.at_least((figure.mean - error, figure.mean + error),
                           BARS[what], '{:.1%}'.format)
    return bar._replace(bar=f'{bar.bar} {what}')


def _has_small_domains(scenario: fleets.Scenario) -> bool:
    return any(
        len(host.l3_domains) > len(host.cells)
        for host in scenario.fleet.hosts)


def estimate(values: Sequence[float]) -> statistic.SeedEstimate:
    """The mean of what is there."""
    return statistic.estimate(values) or (
        statistic.SeedEstimate(float('nan'), None, 0))


def percent(figure: statistic.SeedEstimate, sign: str = '') -> str:
    """A mean with its error, as a table has it."""
    text = f'{figure.mean:{sign}.1%}'
    return text if figure.error is None else f'{text} ± {figure.error:.1%}'


def explain(outcomes: Sequence[runner.Outcome],
            _options: argparse.Namespace) -> str:
    """Say what was measured, and what is not counted."""
    details = outcomes[0].details
    unfinished = sum(outcome.details['seeds'] - len(outcome.details['shares'])
                     for outcome in outcomes)
    text = f'{details["title"]}; {details["seeds"]} seeds.'
    return text if not unfinished else (
        f'{text} {unfinished} runs are not counted: refusals never reached '
        'the limit.')


GROUPS = [runner.Group(
    cases=(types.SimpleNamespace(name=name),), measure=measure,
    is_quick=lambda case: case.name != fleets.SNAPSHOT,
    headings=('Weighers', 'sold', *BARS), numbers=range(1, 6),
    explain=explain) for name in fleets.NAMES]
