# SPDX-License-Identifier: Apache-2.0
"""All tables of a run, with those of the studies that experiments repeat."""

from collections.abc import Callable
from collections.abc import Iterator

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import typed_table

# By what a study has them bound.
_BOUND = {bench_model.WorkloadClass.CPU: 'cpu',
          bench_model.WorkloadClass.WEB: 'io',
          bench_model.WorkloadClass.NETWORK: 'io',
          bench_model.WorkloadClass.DISK: 'io',
          bench_model.WorkloadClass.NOSQL: 'very io'}
_Cell = Callable[[statistics.FigureRow], str]
_Tables = Iterator[run_tables.ReportTable]


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
    if summary.experiment.table == 'overhead':
        main += _practices(summary)
    every = run_tables.groups(summary)
    return (*main, *(
        run_tables.of_group(summary, group, bool(main) or not is_main)
        for wanted in (True, False) for group in every
        if (is_main := run_tables.is_main(summary, group)) is wanted))


def _pivots(summary: statistics.RunSummary) -> _Tables:
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


def _practices(summary: statistics.RunSummary) -> _Tables:
    """Published best practices, and whether they would be right here."""
    pairs = [(row, row_pairs.ratio(summary, row, other), _BOUND.get(
        summary.results.workloads[row.tenant.workload].workload_class))
        for row, other in row_pairs.pinning_pairs(summary)]
    containers = bench_model.PlatformName.CONTAINER
    checks = (
        ('avoid small vanilla containers', list(_small(summary)), 1.0),
        ('pin CPU-bound containers',
         [ratio for row, ratio, kind in pairs if kind == 'cpu'
          and row.tenant.platform is containers], 1.0),
        ('pinning CPU-bound guests is not worthwhile',
         [ratio.inverse for row, ratio, kind in pairs if kind == 'cpu'
          and row.tenant.platform is bench_model.PlatformName.GUEST],
         1 / (1 + row_pairs.WORTH)),
        ('pin IO-intensive workloads',
         [ratio for row, ratio, kind in pairs if kind in ('io', 'very io')
          and row.tenant.platform
          is not bench_model.PlatformName.BARE_METAL], 1.0))
    rows = []
    for practice, ratios, bound in checks:
        verdicts = [run_claims.above(ratio, bound) for ratio in ratios]
        counts = [verdicts.count(verdict)
                  for verdict in run_claims.ClaimVerdict]
        rows.append((practice, *map(str, counts), ', '.join(
            f'{ratio.value:.2f}' for ratio in ratios) or words.NONE))
    source = published.sources()['ghatrehsamani-2020']
    if any(row[-1] != words.NONE for row in rows):
        yield run_tables.ReportTable(
            ('published practice', *map(typed_table.count, (
                'right', 'wrong', 'inconclusive')), 'measured ratios'), rows,
            title='Published best practices, checked against the measured',
            note='The first: the smallest floating container by the largest, '
                 'each against its baseline. The others: floating by pinned, '
                 'for guests pinned by floating, where less than '
                 f'{words.percent(row_pairs.WORTH)} is not worthwhile. '
                 f'Published: {source}.')


def _small(summary: statistics.RunSummary) -> Iterator[intervals.Interval]:
    by_workload: dict[str, list[row_pairs.Pair]] = {}
    for row in row_pairs.first_figures(summary):
        base = statistics.baseline_row(row, summary.rows, summary.experiment)
        if (row.tenant.platform is bench_model.PlatformName.CONTAINER
                and not row.is_pinned and base is not None):
            by_workload.setdefault(row.tenant.workload, []).append((row, base))
    for pairs in by_workload.values():
        pairs.sort(key=lambda pair: pair[0].tenant.size.vcpus)
        if len(pairs) > 1:
            yield row_pairs.against_own(summary, pairs[0], pairs[-1])
