# SPDX-License-Identifier: Apache-2.0
"""The tables of the experiments, in the layout of the studies they repeat."""

from collections.abc import Callable
from collections.abc import Iterator
import math

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import beside
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics

_WORSE = 'A ratio above 1 is worse than the baseline.'
# Of pinning a guest's vCPUs, what nobody takes the trouble for.
_WORTHWHILE = 0.05
# Of a study's best ratios of CPUs, which one is for a workload.
_CHR = {bench_model.WorkloadClass.CPU: 'cpu',
        bench_model.WorkloadClass.WEB: 'io',
        bench_model.WorkloadClass.NETWORK: 'io',
        bench_model.WorkloadClass.DISK: 'io',
        bench_model.WorkloadClass.NOSQL: 'very io'}

_Tables = Iterator[run_tables.ReportTable]


def tables(
    summary: statistics.RunSummary
) -> tuple[run_tables.ReportTable, ...]:
    """All of a run, what the experiment is about first."""
    special = _OF_TABLE.get(summary.experiment.table)
    main = tuple(special(summary)) if special and summary.rows else ()
    every = run_tables.groups(summary)
    return (*main, *(
        run_tables.of_group(summary, group, bool(main) or not is_main)
        for wanted in (True, False) for group in every
        if (is_main := run_tables.is_main(summary, group)) is wanted))


def _priority(summary: statistics.RunSummary) -> _Tables:
    finishes = statistics.finishes(summary)
    if not finishes:
        return
    unit = finishes[0].heavy.figure.unit
    rows = [finish.heavy for finish in finishes]
    published_cells, note = beside.columns('priority', rows)
    yield run_tables.named(
        summary, rows, [{
            'weights': f'{finish.heavy.tenant.weight} : '
                       f'{finish.light.tenant.weight}',
            'runs': f'{finish.ratio.count:,}',
            f'heavier done, {unit}': words.number(finish.heavy.estimate.mean),
            f'lighter done, {unit}': words.number(finish.light.estimate.mean),
            'ratio': words.ratio(finish.ratio.interval),
            'by the weights': _by_weights(summary, finish), **theirs}
            for finish, theirs in zip(finishes, published_cells)],
        title='Finish times, and their ratio',
        note='The ratio is of each repetition’s two times. By the weights: '
             'what shares of CPU time in proportion to the weights come to, '
             'for equal work and so many threads on the CPUs that both may '
             f'use. {note}')


def _by_weights(summary: statistics.RunSummary,
                finish: statistics.Finish) -> str:
    cpus = len(row_pairs.given_cpus(summary, finish.case))
    if not cpus:
        return words.NONE
    expected = run_claims.expected_ratio(finish.heavy.tenant,
                                         finish.light.tenant, cpus)
    return f'{expected:.2f}'


def _ladder(summary: statistics.RunSummary) -> _Tables:
    """Baseline and others side by side, a row for each rung."""
    for group in run_tables.main_groups(summary):
        bases = {row.case.name: row for row in group}
        rows = [row for row in group
                if row.overhead is not None and row.baseline in bases]
        if not rows:
            continue
        published_cells, note = beside.columns('ladder', rows)
        figures = run_tables.FIGURES
        yield run_tables.named(
            summary, rows, [{
                'runs': figures['runs'](row),
                'baseline': figures['average'](bases[row.baseline]),
                'its deviation': figures['deviation'](bases[row.baseline]),
                'measured': figures['average'](row),
                'deviation': figures['deviation'](row),
                'ratio': figures['against baseline'](row), **theirs}
                for row, theirs in zip(rows, published_cells)],
            title=run_tables.title(group), note=f'{_WORSE} {note}')


def _overhead(summary: statistics.RunSummary) -> _Tables:
    """Sizes downwards, platforms with their provisioning across."""
    cpus = summary.host_cpus
    for group in run_tables.main_groups(summary):
        rows = [row for row in group if row.overhead is not None]
        if not rows:
            continue
        other = [name for name in statistics.varying(
            [row.case for row in rows]) if name not in (
                'workload', 'platform', 'provisioning', 'size')]
        cells = {(row.tenant.size.vcpus, (
            f'{run_tables.platform(summary, row.tenant)} '
            f'{row.tenant.provisioning}', *(
                row.case.factors.get(name, '') for name in other))):
                words.ratio(row.overhead) for row in rows}
        across = list(dict.fromkeys(name for _size, name in cells))
        sizes = sorted({size for size, _name in cells})
        workload = summary.results.workloads[rows[0].tenant.workload]
        best, note = _best_chr(workload, [size / cpus if cpus else math.nan
                                          for size in sizes])
        columns = ('vCPUs', 'CHR', *map(', '.join, across), *best)
        yield run_tables.ReportTable(
            title=run_tables.overhead_title(rows[0]), columns=columns,
            rows=tuple((
                str(size),
                words.number(size / cpus, 2) if cpus else words.NONE,
                *(cells.get((size, name), words.NONE) for name in across),
                *(column[index] for column in best.values()))
                for index, size in enumerate(sizes)),
            numbers=frozenset(columns),
            note='Against the baseline of the same size, with 95% '
                 'confidence; above 1 is worse. CHR is the ratio of an '
                 f'instance’s CPUs to the host’s. {note}')
    yield from _split(summary)
    yield from _practices(summary)


def _best_chr(workload: bench_model.Workload,
              ratios: list[float]) -> tuple[dict[str, list[str]], str]:
    """Whether sizes are in the range that a study calls best."""
    found = published.beside('overhead', workload.name)
    kind = _CHR.get(workload.workload_class)
    if found is None or kind is None:
        return {}, ''
    low, high = (end or 0.0 for end in found.rows[kind])
    return ({f'{beside.PREFIX}best CHR, {low:g} to {high:g}': [
        'in it' if low <= ratio <= high else words.NONE
        for ratio in ratios]}, beside.note('overhead', workload.name))


def _split(summary: statistics.RunSummary) -> _Tables:
    splits = statistics.split(summary)
    if splits:
        columns = ('workload', 'platform', 'provisioning', 'with the platform',
                   'with size, at 1 vCPU', 'largest residual')
        yield run_tables.ReportTable(
            title='Overhead that comes with the platform, and that shrinks '
                  'with size', columns=columns,
            numbers=frozenset(columns[3:]),
            rows=tuple((
                *split.name, words.percents(split.platform),
                words.percents(split.by_size), words.percent(split.residual))
                for split in splits),
            note='A straight line over 1 / vCPUs by least squares: overhead = '
                 'platform + size / vCPUs. This is our reading of the '
                 'published distinction between platform-type overhead (PTO) '
                 'and platform-size overhead (PSO). A residual as large as '
                 'the parts themselves says that no such line fits.')


def _practices(summary: statistics.RunSummary) -> _Tables:
    """Published best practices, and whether they would be right here."""
    pairs = [(row, ratio, _CHR.get(summary.results.workloads[
        row.tenant.workload].workload_class)) for row, ratio
        in answer.floating_by_pinned(summary)]
    containers = bench_model.PlatformName.CONTAINER
    checks = (
        ('avoid small vanilla containers', list(_small(summary)), 1.0),
        ('pin CPU-bound containers',
         [ratio for row, ratio, kind in pairs if kind == 'cpu'
          and row.tenant.platform is containers], 1.0),
        ('pinning CPU-bound guests is not worthwhile',
         [ratio.inverse for row, ratio, kind in pairs if kind == 'cpu'
          and row.tenant.platform is bench_model.PlatformName.GUEST],
         1 / (1 + _WORTHWHILE)),
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
            title='Published best practices, checked against the measured',
            columns=('published practice', 'right', 'wrong', 'inconclusive',
                     'measured ratios'), rows=tuple(rows),
            numbers=frozenset(('right', 'wrong', 'inconclusive')),
            note='The first: the smallest floating container by the largest, '
                 'each against its baseline. The others: floating by pinned, '
                 'for guests pinned by floating, where less than '
                 f'{words.percent(_WORTHWHILE)} is not worthwhile. '
                 f'Published: {source}.')


def _small(summary: statistics.RunSummary) -> Iterator[intervals.Interval]:
    by_workload: dict[str, list[statistics.FigureRow]] = {}
    for row in row_pairs.first_figures(summary):
        if (row.tenant.platform is bench_model.PlatformName.CONTAINER
                and not row.is_pinned and row.overhead is not None):
            by_workload.setdefault(row.tenant.workload, []).append(row)
    for rows in by_workload.values():
        rows.sort(key=lambda row: row.tenant.size.vcpus)
        small, large = rows[0].overhead, rows[-1].overhead
        if len(rows) > 1 and small is not None and large is not None:
            # Ends against ends: too wide rather than too narrow.
            yield intervals.Interval(
                value=small.value / large.value, low=small.low / large.high,
                high=small.high / large.low, method=small.method)


def _multitask(summary: statistics.RunSummary) -> _Tables:
    """The times that jobs took, workloads across."""
    first = row_pairs.first_figures(summary)
    jobs = tuple(dict.fromkeys(row.tenant.workload for row in first))
    if len(jobs) < 2:
        return
    factors = [name for name in statistics.varying([row.case for row in first])
               if name != 'platform' and not _tells_jobs(name, first)]
    by_factors: dict[tuple[str, ...], dict[str, statistics.FigureRow]] = {}
    for row in first:
        by_factors.setdefault((
            run_tables.platform(summary, row.tenant),
            *(row.case.factors.get(name, '') for name in factors)),
            {})[row.tenant.workload] = row
    figures: dict[str, list[str]] = {}
    for job in jobs:
        there = [of_jobs.get(job) for of_jobs in by_factors.values()]
        figures[job] = [_level(row) for row in there]
        ratios = [words.ratio(row.overhead if row else None) for row in there]
        if set(ratios) != {words.NONE}:
            figures[f'{job} against baseline'] = ratios
    yield run_tables.ReportTable(
        title='One large job against many small ones',
        columns=('platform', *factors, *figures), rows=tuple(
            (*values, *cells) for values, cells in zip(
                by_factors, zip(*figures.values()))),
        numbers=frozenset(figures),
        note=f'{_WORSE} The study that this repeats shows it as a picture, '
             'without figures.')


def _tells_jobs(factor: str, rows: list[statistics.FigureRow]) -> bool:
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


def _latency(summary: statistics.RunSummary) -> _Tables:
    """Percentiles across: means of the runs', but for the largest of all."""
    for workload in dict.fromkeys(row.tenant.workload for row in summary.rows):
        rows = [row for row in summary.rows
                if row.tenant.workload == workload]
        unit = summary.results.workloads[workload].figures[0].unit
        figures = sorted(dict.fromkeys(
            row.figure.name for row in rows if row.figure.unit == unit),
            key=_percentile)
        first = [row for row in rows if row.figure.name == figures[0]]
        by_name = {(row.case.name, row.tenant.name, row.figure.name): row
                   for row in rows}

        def cell(row: statistics.FigureRow, figure: str) -> str:
            found = by_name.get((row.case.name, row.tenant.name, figure))
            return words.NONE if found is None else words.number(
                found.estimate.maximum if figure == 'max'
                else found.estimate.mean)

        yield run_tables.named(
            summary, first, [{
                'runs': run_tables.FIGURES['runs'](row),
                'samples': cell(row, 'samples'),
                **{figure: cell(row, figure) for figure in figures}}
                for row in first],
            title=f'{workload}: latency in {unit}',
            note='Percentiles are averages of the runs’; max is the largest '
                 'of all runs. A percentile that fewer than ten of a run’s '
                 'samples are beyond is left out: it would be little but the '
                 'largest.')


def _percentile(figure: str) -> float:
    """'p99_9' is 99.9; the largest comes last."""
    if figure == 'max':
        return 100.0
    try:
        return float(figure.removeprefix('p').replace('_', '.'))
    except ValueError:
        return 0.0


def _neighbours(summary: statistics.RunSummary) -> _Tables:
    """Victims downwards, aggressors across."""
    rows = [(row, ratio) for row in row_pairs.first_figures(summary)
            if (ratio := answer.slowdown(row)) is not None]
    if not rows:
        return
    cases = [row.case for row, _ratio in rows]
    others = [name for name in statistics.varying(cases) if name not in (
        'workload', answer.NEIGHBOUR, 'platform',
        'provisioning')]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row, ratio in rows:
        cells.setdefault((
            row.tenant.workload, run_tables.platform(summary, row.tenant),
            str(row.tenant.provisioning),
            *(row.case.factors.get(name, '') for name in others)), {})[
                row.case.factors.get(answer.NEIGHBOUR, '')] = (
                    words.ratio(ratio))
    across = tuple(dict.fromkeys(
        name for of_row in cells.values() for name in of_row))
    yield run_tables.ReportTable(
        title='Slowdown of a victim by its neighbour',
        columns=('victim', 'platform', 'provisioning', *others, *across),
        rows=tuple((*name, *(of_row.get(one, words.NONE) for one in across))
                   for name, of_row in cells.items()),
        numbers=frozenset(across),
        note='Against the same without a neighbour; above 1 is worse.')


def _self_test(summary: statistics.RunSummary) -> _Tables:
    found = self_test.calibrate(summary.results)
    if not found.comparisons:
        return
    columns = ('comparisons', 'include 1.0', 'share', 'largest ratio',
               'intervals stretched by')
    yield run_tables.ReportTable(
        title='Identical cases against each other', columns=columns,
        rows=((f'{len(found.comparisons):,}', f'{found.including_one:,}',
               words.percent(found.including_one
                             / len(found.comparisons)),
               f'{found.largest:.2f}',
               f'{found.stretch:.2f}'),),
        numbers=frozenset(columns),
        note='95% should include 1.0. Where fewer do, the intervals of other '
             'runs on this machine are too narrow by so much; --self-test '
             'widens them. No stretch will do for copies that differ without '
             'any spread (inf).')
    yield run_tables.ReportTable(
        title='The comparisons, furthest first', is_detail=True,
        columns=('case', 'figure', 'ratio'), numbers=frozenset(['ratio']),
        rows=tuple((one.name, one.figure, words.ratio(one.ratio))
                   for one in sorted(found.comparisons, reverse=True,
                                     key=lambda one: one.reach)))


_OF_TABLE: dict[str, Callable[[statistics.RunSummary], _Tables]] = {
    'priority': _priority, 'ladder': _ladder, 'overhead': _overhead,
    'multitask': _multitask, 'latency': _latency, 'neighbours': _neighbours,
    'self-test': _self_test}
