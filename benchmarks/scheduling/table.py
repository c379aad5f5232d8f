# SPDX-License-Identifier: Apache-2.0
"""The tables of the study, for the terminal and the documentation."""

from collections.abc import Iterable
from collections.abc import Iterator
import textwrap

from benchmarks.scheduling import study
from benchmarks import tables
from nova_pinning.simulation import statistic

_HEADER = ('Weighers', 'sold', 'over default', 'over packing', 'of bound',
           'L3')


def text(shown: Iterable[study.Table]) -> Iterator[str]:
    """Lines for the terminal, at most 90 columns wide."""
    for table in shown:
        yield from textwrap.wrap(
            f'{table.scenario}: {table.title}; {table.seeds} seeds; bound '
            f'{_plain(table.bound)}', 88)
        yield from tables.FigureTable(
            [_HEADER, *(_cells(row) for row in table.rows)],
            numbers=range(1, len(_HEADER))).as_text()
        yield from _remarks(table)
        yield ''


def rst(shown: Iterable[study.Table], command: str) -> Iterator[str]:
    """The same for the documentation."""
    yield f'.. Made by "{command}", not by hand.'
    for table in shown:
        yield ''
        yield from textwrap.wrap(
            f'``{table.scenario}``: {table.title}. {table.seeds} seeds. No '
            f'scheduler sells more than {_plain(table.bound)}.', 79)
        yield ''
        yield from tables.listed(
            [_HEADER, *(_cells(row) for row in table.rows)])
        remarks = list(_remarks(table))
        if remarks:
            yield ''
            for remark in remarks:
                yield from textwrap.wrap(
                    f'* {remark}', 79, subsequent_indent='  ')


def _remarks(table: study.Table) -> Iterator[str]:
    for words in table.missed:
        yield f'Not reached: {words}.'
    if table.unfinished:
        yield (f'{table.unfinished} runs are not counted: refusals never '
               f'reached the limit.')


def _cells(row: study.Row) -> tuple[str, ...]:
    return (row.configuration, _plain(row.share),
            _signed(row.over_default), _signed(row.over_packing),
            _plain(row.of_bound),
            '-' if row.l3 is None else f'{row.l3:.1%}')


def _plain(estimate: statistic.SeedEstimate) -> str:
    return f'{estimate.mean:.1%}{_error(estimate)}'


def _signed(estimate: statistic.SeedEstimate) -> str:
    return f'{estimate.mean:+.1%}{_error(estimate)}'


def _error(estimate: statistic.SeedEstimate) -> str:
    return '' if estimate.error is None else f' ± {estimate.error:.1%}'
