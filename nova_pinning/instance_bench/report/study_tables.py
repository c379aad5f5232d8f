# SPDX-License-Identifier: Apache-2.0
"""All tables of a run, with those of the studies that experiments repeat."""

from collections.abc import Callable
from collections.abc import Iterator

from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import statistics

_Cell = Callable[[statistics.FigureRow], str]


def _level(row: statistics.FigureRow) -> str:
    return words.number(row.estimate.maximum if row.figure.name == 'max'
                        else row.estimate.mean)


#: By the experiment's table, what one more of each workload has in its
#: columns and in its cells, its title, and what there is to say of it.
_PIVOTS: dict[str, tuple[tuple[str, ...], _Cell, str, str]] = {
    'overhead': (
        ('platform', 'provisioning'), lambda row: words.ratio(row.overhead),
        'overhead ratio', 'Against the baseline of the same size, with 95% '
        'confidence; above 1 is worse. CHR is the ratio of an instance’s CPUs '
        'to the host’s.'),
    'neighbours': (
        (answer.NEIGHBOUR,), lambda row: words.ratio(answer.slowdown(row)),
        'slowdown by its neighbour',
        'Against the same without a neighbour; above 1 is worse.'),
    'latency': (
        ('figure',), _level, 'latency',
        'Percentiles are averages of the runs’; max is the largest of all '
        'runs. A percentile that fewer than ten of a run’s samples are beyond '
        'is left out: it would be little but the largest.')}


def tables(
    summary: statistics.RunSummary
) -> tuple[run_tables.ReportTable, ...]:
    """All of a run, what the experiment is about first."""
    main = [*_pivots(summary)]
    every = run_tables.groups(summary)
    return (*main, *(
        run_tables.of_group(summary, group, bool(main) or not is_main)
        for wanted in (True, False) for group in every
        if (is_main := run_tables.is_main(summary, group)) is wanted))


def _pivots(
    summary: statistics.RunSummary,
) -> Iterator[run_tables.ReportTable]:
    if summary.experiment.table not in _PIVOTS:
        return
    across, cell, title, note = _PIVOTS[summary.experiment.table]
    rows: dict[str, list[statistics.FigureRow]] = {}
    for group in run_tables.main_groups(summary):
        for row in group:
            if row.is_measured and cell(row) != words.NONE:
                rows.setdefault(row.tenant.workload, []).append(row)
    for workload, of_workload in rows.items():
        unit = of_workload[0].figure.unit
        yield run_tables.pivoted(
            summary, of_workload, across, cell, note=note,
            title=f'{workload}: {title}' + (
                f' in {unit}' if cell is _level else ''))
