# SPDX-License-Identifier: Apache-2.0
"""Which published figures stand beside which rows.

They stand in columns of their own, which say so, and enter nothing else.
"""

from collections.abc import Callable
from collections.abc import Sequence
import re

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import statistics

#: What the headings of such columns begin with.
PREFIX = 'published '
#: Of a study's best ratios of CPUs, which one is for a workload.
CHR = {bench_model.WorkloadClass.CPU: 'cpu',
       bench_model.WorkloadClass.WEB: 'io',
       bench_model.WorkloadClass.NETWORK: 'io',
       bench_model.WorkloadClass.DISK: 'io',
       bench_model.WorkloadClass.NOSQL: 'very io'}
_GUESTS = (bench_model.PlatformName.GUEST, bench_model.PlatformName.NOVA)
_SMP = re.compile(r'\b(smp|up)\b', re.IGNORECASE)


def columns(
    summary: statistics.RunSummary, rows: Sequence[statistics.FigureRow],
) -> tuple[list[dict[str, str]], str]:
    """What is published for rows, of each by the headings, and from where.

    All have the same headings; there may be none.
    """
    table = summary.experiment.table
    cells = [_cells(summary, row) for row in rows]
    names = dict.fromkeys(name for of_row in cells for name in of_row)
    return ([{name: of_row.get(name, words.NONE) for name in names}
             for of_row in cells],
            note(table, rows[0].tenant.workload) if names else '')


def _cells(summary: statistics.RunSummary,
           row: statistics.FigureRow) -> dict[str, str]:
    """What is published for a row, by the heading; may be nothing."""
    table = summary.experiment.table
    found = published.beside(table, row.tenant.workload)
    if found is None:
        return {}
    if table == 'overhead':
        return _best_chr(found, summary, row)
    values = found.rows.get(_PLACES[table](row), ())
    return {f'{PREFIX}{column}': f'{value:,.6g}'
            for column, value in zip(found.columns, values)}


def _best_chr(found: published.PublishedTable,
              summary: statistics.RunSummary,
              row: statistics.FigureRow) -> dict[str, str]:
    """The range that a study calls best, and whether a size is in it."""
    kind = CHR.get(
        summary.results.workloads[row.tenant.workload].workload_class)
    if kind is None or not summary.host_cpus:
        return {}
    low, high = found.rows[kind]
    is_in = low <= row.tenant.size.vcpus / summary.host_cpus <= high
    return {f'{PREFIX}best CHR, {low:g} to {high:g}':
            'in it' if is_in else words.NONE}


def note(table: str, workload: str) -> str:
    """Where the figures beside a table are from, '' if there are none."""
    found = published.beside(table, workload)
    if found is None:
        return ''
    text = (f'Published: {published.sources()[found.source]}; '
            f'{found.note}.')
    if found.disagrees:
        text += f' The source disagrees with itself: {found.disagrees}.'
    return text


def _rung(row: statistics.FigureRow) -> str:
    """Threads, so that hosts of other sizes compare: '1', or '1.5x'."""
    tenant = row.tenant
    threads = run_claims.tenant_threads(tenant)
    return ('1' if threads == 1
            else f'{threads / (tenant.size.vcpus * tenant.count):.2g}x')


def _ladder(row: statistics.FigureRow) -> str:
    """Both booted as usual, as the baseline here is."""
    return _rung(row) if row.tenant.platform in _GUESTS else ''


def _levels(row: statistics.FigureRow) -> str:
    """What stood without load in a guest of its own."""
    if row.has_neighbours or row.tenant.platform not in _GUESTS:
        return ''
    return 'enterprise' if row.is_pinned else 'shared'


def _mutex(row: statistics.FigureRow) -> str:
    kinds = _SMP.findall(' '.join((*row.case.factors.values(),
                                   row.tenant.workload.replace('-', ' '))))
    kind = kinds[0].upper() if kinds else 'UP'
    if row.tenant.platform is bench_model.PlatformName.BARE_METAL:
        return f'host {kind}'
    if row.tenant.platform not in _GUESTS:
        return ''
    return f'guest of {words.count(row.tenant.size.vcpus, "CPU")} {kind}'


_PLACES: dict[str, Callable[[statistics.FigureRow], str]] = {
    'levels': _levels, 'mutex': _mutex, 'priority': _rung, 'ladder': _ladder}
