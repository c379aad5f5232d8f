# SPDX-License-Identifier: Apache-2.0
"""Tables of a run, in the layout in which such figures are published."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import itertools

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import statistics


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """Text in rows and columns.

    :param numbers: the columns that are aligned at their right
    :param is_detail: that the page need not open it at once
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()
    note: str = ''
    is_detail: bool = False

    def without(self, column: str) -> 'ReportTable':
        index = self.columns.index(column)
        return dataclasses.replace(
            self, columns=self.columns[:index] + self.columns[index + 1:],
            rows=tuple(row[:index] + row[index + 1:] for row in self.rows))


#: Columns of figures: the heading, and the cell of a row.
_Cell = Callable[[statistics.FigureRow], str]
_MEAN: tuple[str, _Cell] = (
    'average', lambda row: words.number(row.estimate.mean))
_DEVIATION: tuple[str, _Cell] = (
    'deviation', lambda row: words.number(row.estimate.deviation, 3))
_MINIMUM: tuple[str, _Cell] = (
    'min', lambda row: words.number(row.estimate.minimum))
_MAXIMUM: tuple[str, _Cell] = (
    'max', lambda row: words.number(row.estimate.maximum))
_RUNS: tuple[str, _Cell] = ('runs', lambda row: f'{row.estimate.count:,}')
_INTERVAL: tuple[str, _Cell] = (
    '95% interval', lambda row: words.interval(row.estimate.interval))
_VARIATION: tuple[str, _Cell] = (
    'variation', lambda row: words.percents(row.estimate.variation))
_OVERHEAD: tuple[str, _Cell] = (
    'against baseline', lambda row: words.ratio(row.overhead))
_SLOWDOWN: tuple[str, _Cell] = (
    'under neighbours', lambda row: words.ratio(row.slowdown))
_OUTLIERS: tuple[str, _Cell] = (
    'outliers', lambda row: _outliers(row.estimate.outliers))
# Outliers that a table lists.
_MOST_OUTLIERS = 3

_LEVELS = (_RUNS, _MEAN, _DEVIATION, _INTERVAL, _VARIATION, _MINIMUM,
           _MAXIMUM, _OVERHEAD, _SLOWDOWN, _OUTLIERS)
_MUTEX = (_RUNS, _MEAN, _DEVIATION, _MINIMUM, _MAXIMUM, _INTERVAL, _OVERHEAD,
          _OUTLIERS)
_OTHERS = (_RUNS, _MEAN, _DEVIATION, _INTERVAL, _VARIATION, _MINIMUM,
           _MAXIMUM, _OVERHEAD, _OUTLIERS)

#: Columns that a narrow terminal can do without, first to last.
DISPENSABLE = ('outliers', 'min', 'max', 'its deviation', 'deviation',
               '95% interval')

#: One workload's rows of one figure.
Group = tuple[statistics.FigureRow, ...]


def _outliers(values: Sequence[float]) -> str:
    """How many, and the first of them."""
    if not values:
        return ''
    listed = [words.number(value) for value in values[:_MOST_OUTLIERS]]
    more = ', ...' if len(values) > _MOST_OUTLIERS else ''
    return f'{len(values)} ({", ".join(listed)}{more})'


def groups(summary: statistics.RunSummary) -> list[Group]:
    """Rows that one table and one chart show: a workload's, of one figure.

    Of mutexes, all workloads' of one figure: they are what is compared.
    """
    is_mutex = summary.experiment.table == 'mutex'
    by_figure: dict[tuple[str, str], list[statistics.FigureRow]] = {}
    for row in summary.rows:
        by_figure.setdefault(('' if is_mutex else row.tenant.workload,
                              row.figure.name), []).append(row)
    return [tuple(rows) for rows in by_figure.values()]


def is_main(summary: statistics.RunSummary, group: Group) -> bool:
    """Whether it is of a workload's first figure, or one of its kind.

    If the first is the time from outside, others only say how it comes about.
    """
    first = summary.results.workloads[group[0].tenant.workload].figures[0]
    figure = group[0].figure
    if first.pattern is None:
        return figure == first
    return (first.unit, first.better) == (figure.unit, figure.better)


def title(group: Group) -> str:
    """'stream: copy in MB/s, higher is better'."""
    figure = group[0].figure
    workloads = dict.fromkeys(row.tenant.workload for row in group)
    return (f'{" and ".join(workloads)}: {figure.name} in {figure.unit}, '
            f'{figure.better} is better')


def labels(rows: Sequence[statistics.FigureRow]) -> list[tuple[str, ...]]:
    """What tells rows apart: the factors that vary, and the tenant's name.

    The name is there only if a case has several tenants.
    """
    factors = statistics.varying([row.case for row in rows])
    several = _has_several(rows)
    return [(*(row.case.factors.get(name, '') for name in factors),
             *((row.tenant.name,) if several else ())) for row in rows]


def _has_several(rows: Sequence[statistics.FigureRow]) -> bool:
    cases = [statistics.key(row.case.factors) for row in rows]
    return len(cases) > len(set(cases))


def _of_group(group: Group, columns: Iterable[tuple[str, _Cell]],
              is_detail: bool) -> ReportTable:
    factors = statistics.varying([row.case for row in group])
    names = (*factors, *(('tenant',) if _has_several(group) else ()))
    cells = [(name, [cell(row) for row in group]) for name, cell in columns]
    # What no row has is not a column.
    cells = [(name, column) for name, column in cells
             if any(text not in ('', words.NONE) for text in column)]
    return ReportTable(
        title=title(group), columns=(*names, *(name for name, _ in cells)),
        rows=tuple((*label, *figures) for label, figures in zip(
            labels(group), zip(*(column for _name, column in cells)))),
        numbers=frozenset(name for name, _column in cells),
        is_detail=is_detail)


def tables(summary: statistics.RunSummary) -> tuple[ReportTable, ...]:
    """All of a run, what the experiment is about first."""
    kind = summary.experiment.table
    columns = {'levels': _LEVELS, 'mutex': _MUTEX}.get(kind, _OTHERS)
    special = _SPECIAL.get(kind)
    main = special(summary) if special else ()
    every = groups(summary)
    levels = [_of_group(group, columns, bool(main)) for group in every
              if is_main(summary, group)]
    further = [_of_group(group, columns, True) for group in every
               if not is_main(summary, group)]
    return (*main, *levels, *further)


def _priority(summary: statistics.RunSummary) -> tuple[ReportTable, ...]:
    finishes = statistics.finishes(summary)
    if not finishes:
        return ()
    factors = statistics.varying([finish.case for finish in finishes])
    unit = finishes[0].heavy.figure.unit
    rows = []
    for finish in finishes:
        cpus = run_claims.contended_cpus(summary, finish.case)
        rows.append((
            *(finish.case.factors.get(name, '') for name in factors),
            f'{finish.heavy.tenant.weight} : {finish.light.tenant.weight}',
            str(finish.ratio.count),
            words.number(finish.heavy.estimate.mean),
            words.number(finish.light.estimate.mean),
            words.ratio(finish.ratio.interval),
            f'{run_claims.expected_ratio(finish.heavy.tenant, finish.light.tenant, cpus):.2f}'  # noqa: E501
            if cpus else words.NONE))
    columns = (*factors, 'weights', 'runs', f'heavier done, {unit}',
               f'lighter done, {unit}', 'ratio', 'by the weights')
    return (ReportTable(
        title='Finish times, and their ratio', columns=columns,
        rows=tuple(rows), numbers=frozenset(columns[len(factors):]),
        note='The ratio is of each repetition’s two times. By the weights: '
             'what shares of CPU time in proportion to the weights come to, '
             'for equal work and so many threads on the CPUs that both may '
             'use.'),)


def _ladder(summary: statistics.RunSummary) -> tuple[ReportTable, ...]:
    """Baseline and others side by side, a row for each rung."""
    ladders = []
    for group in groups(summary):
        if not is_main(summary, group):
            continue
        rows = [row for row in group if row.overhead is not None]
        bases = {row.case.name: row for row in group}
        pairs = [(row, bases[row.baseline]) for row in rows
                 if row.baseline in bases]
        if not pairs:
            continue
        factors = statistics.varying([row.case for row in rows])
        figures = ('runs', 'baseline', 'its deviation', 'measured',
                   'deviation', 'ratio')
        ladders.append(ReportTable(
            title=title(group), columns=(*factors, *figures),
            rows=tuple((
                *(row.case.factors.get(name, '') for name in factors),
                f'{row.estimate.count:,}',
                words.number(base.estimate.mean),
                words.number(base.estimate.deviation, 3),
                words.number(row.estimate.mean),
                words.number(row.estimate.deviation, 3),
                words.ratio(row.overhead)) for row, base in pairs),
            numbers=frozenset(figures),
            note='A ratio above 1 is worse than the baseline.'))
    return tuple(ladders)


def _overhead(summary: statistics.RunSummary) -> tuple[ReportTable, ...]:
    """Sizes downwards, platforms with their provisioning across."""
    cpus = host_cpus(summary)
    overheads = []
    for group in groups(summary):
        if not is_main(summary, group):
            continue
        rows = [row for row in group if row.overhead is not None]
        if not rows:
            continue
        across = tuple(dict.fromkeys(map(series, rows)))
        sizes = sorted({row.tenant.size.vcpus for row in rows})
        cells = {(row.tenant.size.vcpus, series(row)): words.ratio(
            row.overhead) for row in rows}
        columns = ('vCPUs', 'CHR', *across)
        overheads.append(ReportTable(
            title=overhead_title(group[0]), columns=columns,
            rows=tuple((str(size),
                        words.number(size / cpus, 2) if cpus else words.NONE,
                        *(cells.get((size, name), words.NONE)
                          for name in across)) for size in sizes),
            numbers=frozenset(columns),
            note='Against the baseline of the same size, with 95% '
                 'confidence; above 1 is worse. CHR is the ratio of an '
                 'instance’s CPUs to the host’s.'))
    return (*overheads, *_split(summary, cpus))


def overhead_title(row: statistics.FigureRow) -> str:
    return f'{row.tenant.workload}, {row.figure.name}: overhead ratio'


def _split(summary: statistics.RunSummary,
           cpus: int) -> tuple[ReportTable, ...]:
    splits = statistics.split(summary, cpus) if cpus else ()
    if not splits:
        return ()
    columns = ('workload', 'platform', 'provisioning', 'with the platform',
               'with size, at 1 vCPU', 'largest residual')
    return (ReportTable(
        title='Overhead that comes with the platform, and that shrinks with '
              'size', columns=columns, numbers=frozenset(columns[3:]),
        rows=tuple((
            *split.name, words.percents(split.platform),
            words.percents(split.by_size), words.percent(split.residual))
            for split in splits),
        note='A straight line over 1 / vCPUs by least squares: overhead = '
             'platform + size / vCPUs. This is our reading of the published '
             'distinction between platform-type overhead (PTO) and '
             'platform-size overhead (PSO). A residual as large as the parts '
             'themselves says that no such line fits.'),)


def _multitask(summary: statistics.RunSummary) -> tuple[ReportTable, ...]:
    """The times that jobs took, workloads across."""
    first = [row for group in groups(summary)
             if group[0].figure == summary.results.workloads[
                 group[0].tenant.workload].figures[0] for row in group]
    jobs = tuple(dict.fromkeys(row.tenant.workload for row in first))
    if len(jobs) < 2:
        return ()
    factors = [name for name in statistics.varying([row.case for row in first])
               if not _tells_jobs(name, first)]
    by_factors: dict[tuple[str, ...], dict[str, statistics.FigureRow]] = {}
    for row in first:
        by_factors.setdefault(tuple(row.case.factors.get(
            name, '') for name in factors), {})[row.tenant.workload] = row
    figures: dict[str, list[str]] = {}
    for job in jobs:
        there = [of_jobs.get(job) for of_jobs in by_factors.values()]
        figures[job] = [_level(row) for row in there]
        ratios = [words.ratio(row.overhead if row else None) for row in there]
        if set(ratios) != {words.NONE}:
            figures[f'{job} against baseline'] = ratios
    return (ReportTable(
        title='One large job against many small ones',
        columns=(*factors, *figures), rows=tuple(
            (*values, *cells) for values, cells in zip(
                by_factors, zip(*figures.values()))),
        numbers=frozenset(figures),
        note='A ratio above 1 is worse than the baseline.'),)


def _tells_jobs(factor: str, rows: Sequence[statistics.FigureRow]) -> bool:
    """Whether a factor's value says which workload it is."""
    pairs = {(row.case.factors.get(factor), row.tenant.workload)
             for row in rows}
    return len(pairs) == len({value for value, _workload in pairs})


def _level(row: statistics.FigureRow | None) -> str:
    if row is None:
        return words.NONE
    text = f'{words.number(row.estimate.mean)} {row.figure.unit}'
    if row.estimate.interval.is_known:
        text += f' ({words.interval(row.estimate.interval)})'
    return text


_SPECIAL: dict[str, Callable[[statistics.RunSummary],
                             tuple[ReportTable, ...]]] = {
                                 'priority': _priority,
                                 'ladder': _ladder,
                                 'overhead': _overhead,
                                 'multitask': _multitask}


def series(row: statistics.FigureRow) -> str:
    """'vm pinned'."""
    return f'{row.tenant.platform} {row.tenant.provisioning}'


def host_cpus(summary: statistics.RunSummary) -> int:
    """Of the host that was measured, 0 if nobody knows."""
    conditions = summary.results.conditions
    return conditions[-1].cpus if conditions else 0


def changes(comparison: run_comparison.Comparison,
            has_all: bool = True) -> ReportTable:
    """What two runs have in common, what got worst first.

    :param has_all: and not only what changed
    """
    rows = sorted((row for row in comparison.changes
                   if has_all or row.is_notable), key=lambda row: (
        row.verdict is run_comparison.ChangeVerdict.UNKNOWN, -row.ratio.value))
    columns = ('case', 'tenant', 'figure', 'was', 'is', 'change for the worse',
               'verdict')
    return ReportTable(
        title='Against the earlier run', columns=columns,
        numbers=frozenset(columns[3:6]),
        rows=tuple((
            row.new.case.name, row.new.tenant.name, row.new.figure.name,
            words.number(row.old.estimate.mean),
            words.number(row.new.estimate.mean), _change(row),
            str(row.verdict)) for row in rows),
        note=_chance(comparison))


def _change(change: run_comparison.FigureChange) -> str:
    text = f'{100 * change.change:+.1f}%'
    if change.verdict is not run_comparison.ChangeVerdict.UNKNOWN:
        text += (f' ({100 * (change.ratio.low - 1):+.1f}% to '
                 f'{100 * (change.ratio.high - 1):+.1f}%)')
    return text


def _chance(comparison: run_comparison.Comparison) -> str:
    number = len(comparison.changes)
    return (f'Shown are intervals of {100 * comparison.confidence:.4g}% '
            'confidence, which decide: so, of '
            f'{words.count(number, "comparison")}, chance makes any one look '
            'changed in one of 20 pairs of runs. A regression is a change for '
            f'the worse of more than {words.percent(comparison.tolerance)} '
            'whose interval does not reach 0. What differs between one '
            'start of an instance and the next is noise that only several '
            'rounds show.')


def skipped(summary: statistics.RunSummary) -> ReportTable | None:
    """Cases that do not fit on the host, those of one reason together."""
    cases = [case for case in summary.experiment.cases if case.skipped]
    if not cases:
        return None
    cases.sort(key=lambda case: case.skipped)
    return ReportTable(
        title='Skipped', columns=('reason', 'cases'),
        rows=tuple((reason, '; '.join(case.name for case in group))
                   for reason, group in itertools.groupby(
                       cases, lambda case: case.skipped)))


def flags(results: bench_model.Results) -> ReportTable | None:
    """What makes measurements doubtful, and what could not be measured."""
    times_of: dict[tuple[str, str], int] = {}
    for measurement in results.measurements:
        name = ' / '.join(measurement.factors.values())
        for flag in measurement.flags:
            times_of[flag, name] = times_of.get((flag, name), 0) + 1
    for failure in results.failures:
        key = (f'failed: {failure.message}',
               ' / '.join(failure.factors.values()))
        times_of[key] = times_of.get(key, 0) + 1
    if not times_of:
        return None
    return ReportTable(
        title='Flags and failures', columns=('what', 'case', 'times'),
        rows=tuple((flag, name, f'{times:,}')
                   for (flag, name), times in times_of.items()),
        numbers=frozenset(['times']))
