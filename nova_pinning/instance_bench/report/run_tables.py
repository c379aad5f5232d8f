# SPDX-License-Identifier: Apache-2.0
"""Tables of a run: a row for what was measured of each case."""

import collections
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import strips
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import typed_table


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable(typed_table.Table):
    """A table of texts.

    :param is_detail: that the page need not open it at once
    :param drawn: what the page draws of each row, if anything
    """

    title: str
    note: str = ''
    is_detail: bool = False
    drawn: Sequence[strips.Strip] = ()


#: Columns of figures: the heading, and the cell of a row.
FIGURES: Mapping[str, Callable[[statistics.FigureRow], str]] = {
    'runs': lambda row: f'{row.estimate.count:,}',
    'average': lambda row: words.number(row.estimate.mean),
    'deviation': lambda row: words.number(row.estimate.deviation, 3),
    '95% interval': lambda row: words.interval(row.estimate.interval),
    'variation': lambda row: words.percents(row.estimate.variation),
    'min': lambda row: words.number(row.estimate.minimum),
    'max': lambda row: words.number(row.estimate.maximum),
    'against baseline': lambda row: words.ratio(row.overhead),
    'under neighbours': lambda row: words.ratio(row.slowdown)}

# Columns that a narrow terminal can do without, last to first.
_DISPENSABLE = ('variation', '95% interval', 'deviation', 'max', 'min')

#: One workload's rows of one figure.
Group = tuple[statistics.FigureRow, ...]


def groups(summary: statistics.RunSummary) -> list[Group]:
    """Rows that one table shows: a workload's, of one figure.

    All workloads' of one figure, where they are what is compared.
    """
    is_one = summary.experiment.table in statistics.COMPARES_WORKLOADS
    by_figure: dict[tuple[str, str], list[statistics.FigureRow]] = {}
    for row in summary.rows:
        by_figure.setdefault(('' if is_one else row.tenant.workload,
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


def main_groups(summary: statistics.RunSummary) -> list[Group]:
    """Those that :func:`is_main` is true of."""
    return [group for group in groups(summary) if is_main(summary, group)]


def title(group: Sequence[statistics.FigureRow]) -> str:
    """'stream: copy in MB/s, higher is better'."""
    figure = group[0].figure
    workloads = dict.fromkeys(row.tenant.workload for row in group)
    return (f'{" and ".join(workloads)}: {figure.name} in {figure.unit}, '
            f'{figure.better} is better')


def heads(summary: statistics.RunSummary,
          rows: Sequence[statistics.FigureRow]) -> dict[str, list[str]]:
    """What tells rows apart, by the heading.

    Their platform, the factors that vary, the tenant's name if a case has
    several, and the figure if there are several.
    """
    cases = [row.case for row in rows]
    found = {'platform': [platform(summary, row.tenant) for row in rows], **{
        name: [case.factors.get(name, '') for case in cases]
        for name in statistics.varying(cases) if name != 'platform'}}
    if summary.experiment.table == 'overhead' and summary.host_cpus:
        found['CHR'] = [words.number(
            row.tenant.size.vcpus / summary.host_cpus, 2) for row in rows]
    figures = [row.figure.name for row in rows]
    if len({(row.case.key, row.figure.name) for row in rows}) < len(rows):
        found['tenant'] = [row.tenant.name for row in rows]
    if len(set(figures)) > 1:
        found['figure'] = figures
    return found


def pivoted(summary: statistics.RunSummary,
            rows: Sequence[statistics.FigureRow], across: Collection[str],
            cell: Callable[[statistics.FigureRow], str], *, title: str,
            note: str) -> ReportTable:
    """A table with some of what tells rows apart in its columns.

    :param across: of what :func:`heads` has
    """
    names = heads(summary, rows)
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row, *of_row in zip(rows, *names.values()):
        down = dict(zip(names, of_row))
        column = ', '.join(down.pop(name) for name in across if name in down)
        cells.setdefault(tuple(down.values()), {})[
            column or row.figure.name] = cell(row)
    columns = dict.fromkeys(name for of_row in cells.values()
                            for name in of_row)
    return ReportTable(
        (*(name for name in names if name not in across),
         *map(typed_table.count, columns)),
        tuple((*down, *(of_row.get(name, words.NONE) for name in columns))
              for down, of_row in cells.items()), title=title, note=note)


def platform(summary: statistics.RunSummary,
             tenant: bench_model.Tenant) -> str:
    """'vm (KVM)': what the row ran on, whatever its scenario is called."""
    return words.platform(tenant.platform, summary.conditions)


def of_group(summary: statistics.RunSummary, group: Group,
             is_detail: bool) -> ReportTable:
    """Each row's levels; a column that no row has anything in is left out."""
    names = heads(summary, group)
    cells = {name: [cell(row) for row in group]
             for name, cell in FIGURES.items()}
    figures = [name for name, of_rows in cells.items()
               if not {*of_rows} <= {'', words.NONE}]
    columns = [typed_table.Column(
        title=name, kind=typed_table.ColumnKind.COUNT,
        rank=1 + _DISPENSABLE.index(name) if name in _DISPENSABLE else 0)
        for name in figures]
    return ReportTable(
        (*names, *columns), tuple(zip(
            *names.values(), *(cells[name] for name in figures))),
        title=title(group), is_detail=is_detail, drawn=[
            strips.Strip(row.estimate.interval, row.estimate.values,
                         row.estimate.outliers) for row in group])


def busy(summary: statistics.RunSummary) -> ReportTable | None:
    """How busy CPUs were in the last measurement of each case.

    A mean of all would hide the one that does the work.
    """
    layout = {
        f'{name} CPUs {cpus}': cpus
        for name, cpus in (summary.conditions.layout.items()
                           if summary.conditions else ()) if cpus}
    samples = {measurement.key: measurement.utilisation
               for measurement in summary.results.measurements
               if measurement.utilisation}
    rows = [(summary.name(case), *(_busy(samples[case.key], cpus)
                                   for cpus in layout.values()))
            for case in summary.experiment.cases if case.key in samples]
    return ReportTable(
        ('case', *map(typed_table.count, layout)), rows,
        title='How busy CPUs were',
        note='In the last measurement of each case: the mean of the CPUs, '
             'and in parentheses the least and the most busy one.',
        is_detail=summary.experiment.table != 'levels',
    ) if rows and layout else None


def _busy(samples: Sequence[bench_model.UtilisationSample],
          cpus: Iterable[int]) -> str:
    parts = [sum(sample.busy.get(str(cpu), 0.0) for sample in samples)
             / len(samples) for cpu in cpus]
    return (f'{words.percent(sum(parts) / len(parts))} '
            f'({words.percent(min(parts))} to {words.percent(max(parts))})')


def changes(comparison: run_comparison.Comparison,
            has_all: bool = True) -> ReportTable:
    """What two runs have in common, what got worst first.

    :param has_all: and not only what changed
    """
    rows = sorted((row for row in comparison.changes
                   if has_all or row.is_notable), key=lambda row: (
        row.verdict is run_comparison.ChangeVerdict.UNKNOWN, -row.ratio.value))
    return ReportTable(
        ('case', 'tenant', 'figure', *map(typed_table.count, (
            'was', 'is', 'change for the worse')), 'verdict'),
        tuple((
            row.new.case.name, row.new.tenant.name, row.new.figure.name,
            words.number(row.old.estimate.mean),
            words.number(row.new.estimate.mean), _change(row),
            str(row.verdict)) for row in rows),
        title='Against earlier runs', note=_chance(comparison))


def _change(change: run_comparison.FigureChange) -> str:
    text = f'{100 * (change.ratio.value - 1):+.1f}%'
    if change.verdict is not run_comparison.ChangeVerdict.UNKNOWN:
        text += (f' ({100 * (change.ratio.low - 1):+.1f}% to '
                 f'{100 * (change.ratio.high - 1):+.1f}%)')
    return text


def _chance(comparison: run_comparison.Comparison) -> str:
    number = len(comparison.changes)
    return (f'Shown are intervals of {100 * comparison.confidence:.4g}% '
            'confidence, which decide: so, of '
            f'{words.count(number, "comparison")}, chance makes any one look '
            'changed in one of 20 runs. They have in them what boots differ '
            'by, as far as the earlier runs are of several; no more than '
            f'{words.percent(run_comparison.BOOTS)} is assumed. A regression '
            'is a change for the worse of more than '
            f'{words.percent(run_comparison.TOLERANCE)} whose interval does '
            'not reach 0.')


def mishaps(summary: statistics.RunSummary) -> ReportTable | None:
    """What makes measurements doubtful, and what was not measured."""
    found: dict[str, collections.Counter[str]] = {}
    for what, factors in (
            *((flag, measurement.factors)
              for measurement in summary.results.measurements
              for flag in measurement.flags),
            *((f'failed: {failure.message}', failure.factors)
              for failure in summary.results.failures),
            *((f'skipped: {case.skipped}', case.factors)
              for case in summary.experiment.cases if case.skipped)):
        found.setdefault(what, collections.Counter())[
            ' / '.join(factors.values())] += 1
    return ReportTable(
        ('what', 'cases'), tuple((what, '; '.join(
            name if times == 1 else f'{name} ({times:,} times)'
            for name, times in cases.items()))
            for what, cases in found.items()),
        title='Flags, failures, and what was skipped') if found else None
