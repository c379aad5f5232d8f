# SPDX-License-Identifier: Apache-2.0
"""What the runs say, for the terminal, the documentation and programs."""

import collections
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import statistics
import textwrap
from typing import Any
from typing import NamedTuple

from benchmarks.hotspots import model
from benchmarks.hotspots import setups
from benchmarks import machine
from nova_pinning.simulation import statistic

_Figure = Callable[[model.Result], float]


def _share(end: model.End) -> _Figure:
    def figure(result: model.Result) -> float:
        return 100 * statistics.fmean(
            outcome.end is end for outcome in result.outcomes)
    return figure


def _per_hundred(field: str) -> _Figure:
    def figure(result: model.Result) -> float:
        return 100 * statistics.fmean(
            getattr(outcome, field) for outcome in result.outcomes)
    return figure


def _attempts(result: model.Result) -> float:
    """Claims of nova-compute for each guest that was built."""
    tried = [outcome.claim_retries + 1 for outcome in result.outcomes
             if outcome.end is model.End.BUILT]
    return statistics.fmean(tried) if tried else float('nan')


def _seconds(percent: int) -> _Figure:
    def figure(result: model.Result) -> float:
        return statistics.quantiles(
            [outcome.seconds for outcome in result.outcomes], n=100,
            method='inclusive')[percent - 1]
    return figure


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A figure of the table.

    :param digits: after the point
    """

    key: str
    title: str
    figure: _Figure
    digits: int = 1


COLUMNS = (
    Column('placement_retries', 'Placement retries, %',
           _per_hundred('placement_retries')),
    Column('claim_retries', 'claim retries, %', _per_hundred('claim_retries')),
    Column('exhausted', 'failed, %', _share(model.End.EXHAUSTED), 2),
    Column('refused', 'no valid host, %', _share(model.End.REFUSED)),
    Column('attempts', 'attempts', _attempts, 3),
    Column('median_seconds', 'median, s', _seconds(50), 2),
    Column('p95_seconds', 'p95, s', _seconds(95), 2),
    Column('sold', 'sold, %', lambda result: 100 * result.state.sold),
    Column('stranded', 'stranded, %',
           lambda result: 100 * result.state.stranded, 2),
)


class Measured(NamedTuple):
    """A run's figures, by column."""

    setup: setups.Setup
    seed: int
    requests: int
    figures: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Figures by column, over several runs.

    :param count: of requests, or of pairs of runs
    """

    name: str
    count: int
    figures: Mapping[str, statistic.SeedEstimate]


def measured(result: model.Result) -> Measured:
    """The figures of a run."""
    return Measured(
        result.run.setup, result.run.seed, len(result.outcomes),
        {column.key: column.figure(result) for column in COLUMNS})


def rows(runs: Sequence[Measured]) -> list[Row]:
    """The set-ups, in the order in which they are first met."""
    by_setup: dict[str, list[Measured]] = collections.defaultdict(list)
    for run in runs:
        by_setup[run.setup.name].append(run)
    return [Row(name, sum(run.requests for run in mine),
                _estimates([run.figures for run in mine]))
            for name, mine in by_setup.items()]


def changes(runs: Sequence[Measured]) -> list[Row]:
    """What one option changes, all else being equal.

    Over all pairs of runs with the same fleet and requests whose set-ups
    differ in that option only. Each column is a difference.
    """
    figures_of = {(run.setup, run.seed): run.figures for run in runs}
    pairs: dict[str, list[Mapping[str, float]]] = (
        collections.defaultdict(list))
    for run in runs:
        for name, other in _others(run.setup):
            before = figures_of.get((other, run.seed))
            if before is not None:
                pairs[name].append({
                    key: value - before[key]
                    for key, value in run.figures.items()})
    return [Row(name, len(mine), _estimates(mine))
            for name, mine in pairs.items()]


def _others(setup: setups.Setup) -> Iterator[tuple[str, setups.Setup]]:
    """What a set-up is compared with: the name of a row, and that."""
    if setup == setups.OURS:
        yield 'ours, not nova', setups.NOVA
    if setup.subset_size > 1:
        yield f'size {setup.subset_size}, not 1', dataclasses.replace(
            setup, subset_size=1)
    if setup.shuffles:
        yield 'shuffled or not', dataclasses.replace(setup, shuffles=False)


def _estimates(figures: Sequence[Mapping[str, float]],
               ) -> dict[str, statistic.SeedEstimate]:
    estimates = {}
    for column in COLUMNS:
        estimate = statistic.estimate([
            of_run[column.key] for of_run in figures])
        assert estimate is not None
        estimates[column.key] = estimate
    return estimates


def problems(results: Sequence[model.Result]) -> Iterator[str]:
    """What makes the figures worthless, in words."""
    for result in results:
        name = f'{result.run.setup.name}, round {result.run.seed}'
        missing = result.run.scene.requests - len(result.outcomes)
        if missing:
            yield f'{name}: {missing} requests are not accounted for'
        for what in (*result.state.wrong, *result.errors):
            yield f'{name}: {what}'


def _cell(column: Column, estimate: statistic.SeedEstimate, sign: str) -> str:
    text = f'{estimate.mean:{sign}.{column.digits}f}'
    if estimate.error is not None:
        text += f' ± {estimate.error:.{column.digits}f}'
    return text


def _grid(rows: Sequence[Row], are_changes: bool) -> list[list[str]]:
    first = ['option', 'pairs'] if are_changes else ['set-up', 'requests']
    sign = '+' if are_changes else ''
    return [
        [*first, *(column.title for column in COLUMNS)],
        *([row.name, f'{row.count:,}',
           *(_cell(column, row.figures[column.key], sign)
             for column in COLUMNS)]
          for row in rows)]


def text(runs: Sequence[Measured]) -> Iterator[str]:
    """Lines for the terminal: a block of columns below another."""
    for grid in (_grid(rows(runs), False), _grid(changes(runs), True)):
        half = len(grid[0]) // 2 + 1
        for columns in (range(half), (0, *range(half, len(grid[0])))):
            widths = [max(len(line[column]) for line in grid)
                      for column in columns]
            for line in grid:
                yield '  '.join(
                    line[column].rjust(width) if column else
                    line[column].ljust(width)
                    for column, width in zip(columns, widths))
            yield ''


def explain(scene: setups.Scene, rounds: int) -> str:
    """Say what the figures of the table are."""
    return (
        f'{scene.hosts} hosts, {scene.filled:.0%} of whose CPUs guests have; '
        f'{scene.processes} schedulers with {scene.threads} requests each '
        f'under way at any moment; {rounds} rounds of {scene.requests} '
        'requests a set-up. Means over the rounds with 95% confidence '
        'intervals.')


def rst(runs: Sequence[Measured], scene: setups.Scene, rounds: int,
        facts: Mapping[str, Any]) -> Iterator[str]:
    """The tables for the documentation."""
    yield '.. Made by "python -m benchmarks.hotspots --rst", not by hand.'
    yield ''
    yield from _list_table(_grid(rows(runs), False))
    yield from textwrap.wrap(explain(scene, rounds), 79)
    yield ''
    yield from textwrap.wrap(
        'What an option changes, over all pairs of runs that differ in it '
        'alone (same fleet, same requests):', 79)
    yield ''
    yield from _list_table(_grid(changes(runs), True))
    yield from machine.as_rst(dict(facts))


def _list_table(grid: Sequence[Sequence[str]]) -> Iterator[str]:
    yield '.. list-table::'
    yield '   :header-rows: 1'
    for line in grid:
        yield ''
        for number, cell in enumerate(line):
            yield f'   {" " if number else "*"} - {cell}'
    yield ''


def as_json(results: Sequence[model.Result], facts: Mapping[str, Any],
            ) -> dict[str, Any]:
    """All there is to know about the runs."""
    return {
        'version': 1,
        'machine': facts,
        'scene': dataclasses.asdict(results[0].run.scene),
        'guests': [guest._asdict() for guest in setups.GUESTS],
        'runs': [{
            'setup': dataclasses.asdict(result.run.setup),
            'round': result.run.seed,
            'figures': measured(result).figures,
            'requests': [outcome._asdict() for outcome in result.outcomes],
        } for result in results]}
