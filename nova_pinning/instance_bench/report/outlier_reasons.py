# SPDX-License-Identifier: Apache-2.0
"""Why a value is out of line, as far as the kernel's counters say."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import statistics as figures

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import typed_table

# A counter is unusual from so many times the others' usual distance from
# their median, and so large a part of it, on.
_USUAL = 4.5
_PART = 0.25
# Seconds, and moves and switches of threads, that are none.
_LEAST_SECONDS = 0.01
_LEAST_TIMES = 10
_HOST = 'host '


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """One instance in one repetition."""

    measurement: bench_model.Measurement
    reading: bench_model.Reading
    value: float

    @property
    def counters(self) -> Mapping[str, float]:
        return {**self.reading.counters, **{
            f'{_HOST}{name}': value
            for name, value in self.measurement.counters.items()}}


def table(summary: statistics.RunSummary) -> run_tables.ReportTable | None:
    """Values beyond Tukey's fences, each with what was unusual."""
    rows = []
    for row, runs in _runs(summary):
        outliers = set(intervals.outliers([run.value for run in runs]))
        usual = [run for run in runs if run.value not in outliers]
        for run in runs:
            if run.value in outliers:
                rows.append((
                    f'{summary.name(row.case)}: {run.reading.instance}, '
                    f'{row.figure.name}',
                    f'{run.measurement.round}, {run.measurement.repetition}',
                    f'{words.number(run.value)} {row.figure.unit}',
                    words.number(figures.median([
                        one.value for one in usual])), _why(run, usual)))
    return run_tables.ReportTable(
        ('case', 'round, repetition', typed_table.count('value'),
         typed_table.count('median of others'), 'what was unusual'), rows,
        title='Outliers, and what was unusual',
        note='Beyond Tukey’s fences; they count like all others. Counters '
             'are compared with the medians of the others of the case.'
    ) if rows else None


def counters(summary: statistics.RunSummary) -> run_tables.ReportTable | None:
    """Medians of what the kernel counted in each case, None for nothing."""
    found = [(row, runs) for row, runs in _runs(summary)
             if any(run.counters for run in runs)]
    names = [name for name in (
        *bench_model.COUNTERS,
        *(f'{_HOST}{name}' for name in bench_model.HOST_COUNTERS))
        if any(name in run.counters for _row, runs in found for run in runs)]
    if not found:
        return None
    return run_tables.named(
        summary, [row for row, _runs in found],
        [{_label(name): _counted(name, runs) for name in names}
         for _row, runs in found], title='What the kernel counted, medians',
        note='Of one instance in one repetition; times in seconds.',
        is_detail=True)


def _runs(
    summary: statistics.RunSummary
) -> Iterator[tuple[statistics.FigureRow, list[_Run]]]:
    by_case = statistics.by_case(summary.results.measurements)
    for row in row_pairs.first_figures(summary):
        yield row, [
            _Run(measurement, reading, reading.figures[row.figure.name])
            for measurement in by_case[row.case.key]
            for reading in measurement.readings
            if reading.tenant == row.tenant.name
            and row.figure.name in reading.figures]


def _why(run: _Run, usual: Sequence[_Run]) -> str:
    """'run delay 2.1 s in place of 0.02 s; steal 0.4 s in place of 0 s'."""
    if not run.counters:
        return 'nothing was counted'
    reasons = []
    for name, value in run.counters.items():
        others = [other.counters[name] for other in usual
                  if name in other.counters]
        if others and _is_unusual(name, value, others):
            unit = ' s' if name.endswith('_seconds') else ''
            reasons.append(
                f'{_label(name)} {words.number(value, 2)}{unit} in place of '
                f'{words.number(figures.median(others), 2)}{unit}')
    return '; '.join(reasons) or 'no counter explains it'


def _is_unusual(name: str, value: float, others: Sequence[float]) -> bool:
    median = figures.median(others)
    distance = abs(value - median)
    if (name.endswith('_seconds') and distance < _LEAST_SECONDS
            or name.endswith(('migrations', 'switches'))
            and distance < _LEAST_TIMES):
        return False
    usual = figures.median([abs(other - median) for other in others])
    return distance > max(_USUAL * usual, _PART * abs(median))


def _label(name: str) -> str:
    return name.removesuffix('_seconds').replace('_', ' ')


def _counted(name: str, runs: Sequence[_Run]) -> str:
    values = [run.counters[name] for run in runs if name in run.counters]
    return words.number(figures.median(values), 3) if values else words.NONE
