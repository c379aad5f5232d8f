# SPDX-License-Identifier: Apache-2.0
"""Tables of a run, in the layout in which such figures are published."""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import itertools

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import beside
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

# What is published stands after the last of its like.
_PUBLISHED: tuple[str, _Cell] = (beside.PREFIX, lambda row: '')
_OTHERS = (_RUNS, _MEAN, _INTERVAL, _VARIATION, _MINIMUM, _MAXIMUM, _OVERHEAD,
           _PUBLISHED, _SLOWDOWN)
_MUTEX = (_RUNS, _MEAN, _DEVIATION, _MINIMUM, _MAXIMUM, _PUBLISHED, _INTERVAL,
          _OVERHEAD)

#: Columns that a narrow terminal can do without, first to last.
DISPENSABLE = ('min', 'max', 'its deviation', 'deviation', '95% interval',
               'variation')

#: One workload's rows of one figure.
Group = tuple[statistics.FigureRow, ...]


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

    The name is there only if a case has several tenants, the platform always.
    """
    factors = [name for name in statistics.varying([row.case for row in rows])
               if name != 'platform']
    several = _has_several(rows)
    return [(*(row.case.factors.get(name, '') for name in factors),
             *((row.tenant.name,) if several else ()),
             str(row.tenant.platform)) for row in rows]


def _has_several(rows: Sequence[statistics.FigureRow]) -> bool:
    cases = [row.case.key for row in rows]
    return len(cases) > len(set(cases))


def named(summary: statistics.RunSummary,
          rows: Sequence[statistics.FigureRow],
          figures: Sequence[tuple[str, Sequence[str]]], *, title: str,
          note: str = '', is_detail: bool = False) -> ReportTable:
    """A table with what tells rows apart at their left, and their platform.

    :param figures: headings, each with a cell for each row; what no row has
        is left out
    """
    cases = [row.case for row in rows]
    names = [name for name in statistics.varying(cases)
             if name != 'platform']
    heads = {
        'platform': [platform(summary, row.tenant) for row in rows],
        **{name: [case.factors.get(name, '') for case in cases]
           for name in names}}
    if _has_several(rows):
        heads['tenant'] = [row.tenant.name for row in rows]
    figures = [(name, cells) for name, cells in figures
               if any(cell not in ('', words.NONE) for cell in cells)]
    return ReportTable(
        title=title, columns=(*heads, *(name for name, _cells in figures)),
        rows=tuple(zip(*heads.values(), *(cells for _name, cells in figures))),
        numbers=frozenset(name for name, _cells in figures), note=note,
        is_detail=is_detail)


def platform(summary: statistics.RunSummary,
             tenant: bench_model.Tenant) -> str:
    """'vm (KVM)': what the row ran on, whatever its scenario is called."""
    conditions = summary.results.conditions
    return words.platform(tenant.platform,
                          conditions[-1] if conditions else None)


def of_group(summary: statistics.RunSummary, group: Group,
             is_detail: bool) -> ReportTable:
    """Each row's levels, with what is published beside them."""
    kind = summary.experiment.table
    figures, note = [], ''
    for name, cell in _MUTEX if kind == 'mutex' else _OTHERS:
        if name != beside.PREFIX:
            figures.append((name, [cell(row) for row in group]))
        elif kind in ('levels', 'mutex', 'network') and is_main(summary,
                                                                group):
            more, note = published_columns(kind, group)
            figures += more
    return named(summary, group, figures, title=title(group), note=note,
                 is_detail=is_detail)


def published_columns(
    kind: str, rows: Sequence[statistics.FigureRow]
) -> tuple[list[tuple[str, list[str]]], str]:
    """Columns of published figures beside rows, and where they are from."""
    cells = [beside.columns(kind, row) for row in rows]
    names = dict.fromkeys(name for of_row in cells for name in of_row)
    if not names:
        return [], ''
    return ([(name, [of_row.get(name, words.NONE) for of_row in cells])
             for name in names],
            beside.note(kind, rows[0].tenant.workload).strip())


def series(row: statistics.FigureRow) -> str:
    """'vm pinned'."""
    return f'{row.tenant.platform} {row.tenant.provisioning}'


def overhead_title(row: statistics.FigureRow) -> str:
    return f'{row.tenant.workload}, {row.figure.name}: overhead ratio'


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
