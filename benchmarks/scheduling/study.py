# SPDX-License-Identifier: Apache-2.0
"""The runs of the study, and what they say."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import concurrent.futures
import functools
import json
import multiprocessing
import pathlib
import types
from typing import NamedTuple

from benchmarks import judging
from benchmarks import runner
from benchmarks.scheduling import bound
from benchmarks.scheduling import fleets
from benchmarks.scheduling import gpus
from benchmarks.scheduling import waiting
from nova_pinning.model import weighers
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
#: This project's weighers beside nova's, as the install guide has it.
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
                    for name in ('PCIWeigher',
                                 *weighers.OWN_WEIGHERS)}),
            scheduler_configuration.NAMED[OURS],
            waiting.CONFIGURATIONS[waiting.OURS])}

#: What ours has to sell more than nova's defaults, and than nova's packing
#: (all mixes have guests of a quarter of a cell and more), and than the best
#: fit, how close to the bound, and how many guests in the fewest L3 domains:
#: by column.
BARS = {'over default': 0.10, 'over packing': 0.03, 'over best-fit': 0.0,
        'of bound': 0.98, 'L3': 0.95}


class StudyJob(NamedTuple):
    """A run, or the bound of one.

    :param configuration: its name, or BOUND
    :param smaller: as ``fleets.scenario`` has it
    """

    scenario: str
    seed: int
    configuration: str
    is_short: bool = False
    smaller: int = 1


class StudyRun(NamedTuple):
    """What came of a job.

    :param share: of the CPUs sold when refusals reached the limit; None if
        they never did
    :param l3_possible: guests that some host would have put in the fewest
        L3 domains
    :param l3_met: those of them that were
    :param waits: seconds that guests waited in each case, where they wait
    :param stranded: share of the GPUs, where there are some; share is, too
    """

    job: StudyJob
    share: float | None
    l3_possible: int = 0
    l3_met: int = 0
    waits: Sequence[int] = ()
    stranded: float = 0.0


@functools.lru_cache(maxsize=1)
def _scenario(name: str, is_short: bool, smaller: int) -> fleets.Scenario:
    return fleets.scenario(name, is_short, smaller)


def perform(job: StudyJob) -> StudyRun:
    """Do a job, in this process."""
    if job.scenario == waiting.NAME:
        return StudyRun(job, None, waits=waiting.waits(
            job.seed, job.configuration, 10 if job.is_short else job.smaller))
    if job.scenario in gpus.SCENARIOS:
        share, stranded = gpus.sold_and_stranded(
            gpus.SCENARIOS[job.scenario](), job.configuration, job.seed,
            REFUSED_SHARE, WINDOW)
        return StudyRun(job, share, stranded=stranded)
    scenario = _scenario(job.scenario, job.is_short, job.smaller)
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


def perform_all(todo: Sequence[StudyJob], processes: int,
                kept: pathlib.Path | None = None) -> Iterator[StudyRun]:
    """Do jobs, but for those that are done already.

    :param kept: a file with a line for each run, to which others are added
    """
    done = {} if kept is None else _read(kept)
    yield from (done[job] for job in todo if job in done)
    for run in _perform_now([job for job in todo if job not in done],
                            processes):
        if kept is not None:
            with kept.open('a', encoding='utf-8') as file:
                print(json.dumps(run), file=file)
        yield run


def _read(kept: pathlib.Path) -> dict[StudyJob, StudyRun]:
    if not kept.exists():
        return {}
    runs = [StudyRun(StudyJob(*job), *values) for job, *values in map(
        json.loads, kept.read_text(encoding='utf-8').splitlines())]
    return {run.job: run._replace(waits=tuple(run.waits)) for run in runs}


def _perform_now(todo: Sequence[StudyJob],
                 processes: int) -> Iterator[StudyRun]:
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
    if case.name == waiting.NAME:
        waiting.read()
        names: Sequence[str] = tuple(waiting.CONFIGURATIONS)
        seeds = min(fleets.seeds(options), waiting.PARTS)
    elif case.name in gpus.SCENARIOS:
        names, seeds = tuple(gpus.CONFIGURATIONS), fleets.seeds(options)
    else:
        # If there are no data for it, that is told now.
        scenario = _scenario(case.name, options.quick, options.smaller)
        names = names_of(scenario)
        seeds = fleets.seeds(options)
    runs = []
    for run in perform_all([
            StudyJob(case.name, seed, name, options.quick, options.smaller)
            for seed in range(seeds) for name in names],
            options.processes, options.runs):
        runs.append(run)
        step(case.name)
    return list(
        summarise_waits(runs) if case.name == waiting.NAME
        else summarise_gpus(runs) if case.name in gpus.SCENARIOS
        else summarise(scenario, runs))


def names_of(scenario: fleets.Scenario) -> Sequence[str]:
    """The configurations of a scenario, and the bound where it has one."""
    return *CONFIGURATIONS, *[BOUND][:scenario.has_bound]


def summarise_waits(runs: Sequence[StudyRun]) -> Iterator[runner.Outcome]:
    """How long guests wait, by configuration."""
    waits: dict[str, list[Sequence[int]]] = {}
    for run in runs:
        waits.setdefault(run.job.configuration, []).append(run.waits)
    for name, parts in waits.items():
        changes = {other: waiting.change(parts, waits[other])
                   for other in waiting.COMPARED if other != name}
        cases = [wait for part in parts for wait in part]
        yield runner.Outcome(
            name=name,
            cells=(name, f'{waiting.trimmed_mean(cases):,.0f}', *(
                '{:+.0%}, {:+.0%} to {:+.0%}'.format(
                    changes[other][0], *changes[other][1])
                if other in changes else '-' for other in waiting.COMPARED)),
            bars=[judging.below(interval, 0.0, '{:+.0%}'.format)._replace(
                bar=f'less than {other}')
                for other, (_change, interval) in changes.items()
                if name == waiting.OURS],
            details={'cases': len(cases)})


def summarise_gpus(runs: Sequence[StudyRun]) -> Iterator[runner.Outcome]:
    """What is sold and stranded of GPUs, by configuration."""
    title = gpus.SCENARIOS[runs[0].job.scenario]().title
    of_name: dict[str, dict[int, StudyRun]] = {}
    for run in runs:
        of_name.setdefault(run.job.configuration, {})[run.job.seed] = run
    for name, found in of_name.items():
        stranded = estimate([run.stranded for run in found.values()])
        shares = {seed: run.share or 0.0 for seed, run in found.items()}
        error = stranded.error or 0.0
        yield runner.Outcome(
            name=name, cells=(
                name, percent(estimate([*shares.values()])),
                *(percent(estimate([
                    share - (of_name[other][seed].share or 0.0)
                    for seed, share in shares.items()]), '+')
                  for other in gpus.COMPARED), percent(stranded)),
            bars=[judging.below(
                (stranded.mean - error, stranded.mean + error),
                gpus.MOST_STRANDED, '{:.1%}'.format)] * (name == gpus.OURS),
            details={'title': title, 'shares': list(shares),
                     'seeds': len(found)})


def explain_waits(outcomes: Sequence[runner.Outcome],
                  _options: argparse.Namespace) -> str:
    """Say what was measured."""
    return waiting.TITLE.format(outcomes[0].details['cases'])


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

    for name in names_of(scenario):
        of_it = [run_of[name, seed] for seed in seeds]
        shares = [run.share for run in of_it if run.share is not None]
        figures = {
            'over default': compare(name, DEFAULT, 1.0),
            'over packing': compare(name, PACKING, 1.0),
            'over best-fit': compare(name, 'best-fit', 1.0)}
        if scenario.has_bound:
            figures['of bound'] = compare(name, BOUND)
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


GROUPS = [
    *(runner.Group(
        cases=(types.SimpleNamespace(name=name),), measure=measure,
        is_quick=lambda case: case.name not in fleets.NEED_DATA,
        headings=('Weighers', 'sold', *BARS), numbers=range(1, 7),
        explain=explain) for name in fleets.NAMES),
    *(runner.Group(
        cases=(types.SimpleNamespace(name=name),), measure=measure,
        is_quick=lambda _case: False, numbers=range(1, 5),
        headings=('Weighers', 'GPUs sold', 'over default', 'over packing',
                  'stranded'), explain=explain) for name in gpus.SCENARIOS),
    runner.Group(
        cases=(types.SimpleNamespace(name=waiting.NAME),), measure=measure,
        is_quick=lambda _case: False, numbers=range(1, 6),
        headings=('Weighers', 'wait, s', *(
            f'than {name}' for name in waiting.COMPARED)),
        explain=explain_waits)]
