# SPDX-License-Identifier: Apache-2.0
"""What is told of one file of results, on a page, in a terminal, as JSON."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
import functools
import math
import re

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import run_caveats
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import study_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import typed_table

_NAMES_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Part:
    """One file of results.

    :param source: the file's name
    :param comparison: with an earlier run, None if there is none
    :param calibration: what the machine's self-test came to, None if it is
        not given
    """

    source: str
    summary: statistics.RunSummary
    comparison: run_comparison.Comparison | None = None
    calibration: self_test.Calibration | None = None

    @functools.cached_property
    def answer(self) -> answer.ExperimentAnswer:
        """What it says of what it was made for."""
        return answer.answer(self.summary)

    @functools.cached_property
    def claims(self) -> tuple[run_claims.RunClaim, ...]:
        """What it can be held to."""
        return run_claims.claims(self.summary)

    @property
    def widening(self) -> str:
        """By how much intervals are widened, and why."""
        if self.summary.experiment.table == self_test.TABLE:
            return ''
        return answer.calibration_words(self.calibration)

    @functools.cached_property
    def caveats(self) -> tuple[str, ...]:
        """Why not to rely on it, the gravest first."""
        found = self.calibration
        texts = []
        if found is not None:
            other = found.other_machine(self.summary.conditions)
            if other:
                texts.append(
                    f'The self-test in {found.source} is of another machine '
                    f'({other}): what the intervals of this one are worth is '
                    'not known.')
        elif self.summary.experiment.table == self_test.TABLE:
            found = self_test.calibrate(self.summary.results, self.source)
        if found is not None and not found.comparisons:
            texts.append(
                f'In {found.source} no two copies of a self-test were both '
                'measured in two rounds: let bench run self-test come to its '
                'end.')
        return (*texts, *run_caveats.caveats(self.summary))

    @property
    def extent(self) -> str:
        """How much was measured, when, and where it is from."""
        results = self.summary.results
        experiment = results.experiment
        able = [case for case in experiment.cases if not case.skipped]
        text = (f'{words.count(len(able), "case")}, '
                f'{words.count(experiment.repetitions, "repetition")}'
                f' in {words.count(experiment.rounds, "round")}'
                f' after {words.count(experiment.warm_ups, "warm-up")}; '
                f'{words.count(len(results.measurements), "measurement")}')
        started = [one.started for one in results.measurements]
        if started:
            first, last = (datetime.datetime.fromtimestamp(
                seconds, datetime.UTC).strftime('%Y-%m-%d %H:%M')
                for seconds in (min(started), max(started)))
            text += f', {first} to {last} UTC'
        # What was asked for and came out otherwise, 'up to 4' being one.
        sizes = dict.fromkeys(
            (size, tenant.size.vcpus) for case in able
            if (size := case.factors.get('size')) for tenant in case.tenants
            if tenant.role is bench_model.Role.MEASURED
            and size != str(tenant.size.vcpus))
        return ' '.join([f'{text}; seed {experiment.seed}.', *(
            f'Size "{size}" is {words.count(vcpus, "vCPU")} here.'
            for size, vcpus in sizes), f'From {self.source}.'])

    @functools.cached_property
    def tables(self) -> tuple[run_tables.ReportTable, ...]:
        """What was measured."""
        return study_tables.tables(self.summary)

    @property
    def details(self) -> list[run_tables.ReportTable]:
        """What is doubtful, unusual, or not there."""
        return [table for table in (
            run_tables.busy(self.summary), run_tables.mishaps(self.summary))
            if table is not None]

    @functools.cached_property
    def published(self) -> tuple[run_tables.ReportTable, ...]:
        """What others have found; none of it enters a figure of the run."""
        table = self.summary.experiment.table
        figures = [(figure.what, figure.figure or words.NONE,
                    figure.conditions, _source(figure.source))
                   for figure in published.figures(table)]
        return (*(run_tables.ReportTable(
            ('', *map(typed_table.count, found.columns)),
            [(name, *(f'{value:,.6g}' for value in values))
             for name, values in found.rows.items()],
            title=f'Published: {found.workload or table}',
            note=f'{_source(found.source)}; {found.note}.' + (
                ' The source disagrees with itself: '
                f'{found.disagrees}.' if found.disagrees else ''))
            for found in published.tables(
                table, self.summary.results.workloads)),
            *([run_tables.ReportTable(
                ('what', 'figure', 'conditions', 'source'), figures,
                title='Published figures')] if figures else []))

    @property
    def earlier_caveats(self) -> tuple[str, ...]:
        """Caveats of earlier runs that are not the later one's too."""
        if self.comparison is None:
            return ()
        known = run_caveats.caveats(self.summary)
        return tuple(dict.fromkeys(
            text for run in self.comparison.old
            for text in run_caveats.caveats(run) if text not in known))

    @property
    def changed(self) -> str:
        """What came of the comparison, in a sentence or three."""
        if self.comparison is None:
            return ''
        verdicts = [change.verdict for change in self.comparison.changes]
        regressions, improvements, unknown, boots = map(verdicts.count, (
            run_comparison.ChangeVerdict.REGRESSION,
            run_comparison.ChangeVerdict.IMPROVEMENT,
            run_comparison.ChangeVerdict.UNKNOWN,
            run_comparison.ChangeVerdict.BOOTS))
        text = (f'{words.count(len(verdicts), "figure")} compared; '
                f'{words.count(regressions, "regression")}; '
                f'{words.count(improvements, "improvement")}.')
        if unknown:
            text += f' Of {unknown:,} there are too few values to tell.'
        if boots:
            more = max(change.more_boots for change in self.comparison.changes)
            text += (
                f' {words.count(boots, "figure")} changed by more than rounds '
                'differ, but boots may differ by as much: the earlier runs '
                f'are of {words.count(self.comparison.boots, "boot")}; '
                + (f'{more:,} more would tell of all' if
                   math.isfinite(more) else 'more of them need not tell of '
                   'all') + ', each measured into a file and named with '
                '--baseline.')
        for what, names in (
                ('Not compared, for sizes, numbers of instances, parameters '
                 'or commands differ', self.comparison.unlike),
                ('Only in the earlier run', self.comparison.only_old),
                ('Only in the later run', self.comparison.only_new)):
            if names:
                text += f' {what}: {_some(names)}.'
        return text

    @property
    def conditions(self) -> list[dict[str, str]]:
        """What the host was like each time that the run was started."""
        return [{field.name.replace('_', ' '): _text(
            getattr(session, field.name))
            for field in dataclasses.fields(session)}
            for session in self.summary.results.conditions]

    @property
    def commands(self) -> dict[str, str]:
        """Each tenant's; numbers of instances apart they are alike."""
        return {reading.command: re.sub(r'-\d+$', '', reading.instance)
                for measurement in self.summary.results.measurements
                for reading in measurement.readings}

    @property
    def method(self) -> str:
        """How this run's intervals were found."""
        return ' '.join((
            'Intervals have 95% confidence, by Student’s t with the '
            'jackknife’s standard error, on a logarithmic scale for what '
            'cannot be negative.',
            'What counts as independent, and is left out in turn, are whole '
            'rounds: all of a round shares instances and the host as it was '
            'then.',
            'Variation is the coefficient of variation, deviation by average. '
            'Ratios are turned so that above 1 is worse, whether a figure is '
            'better higher or lower. Under neighbours: against the same kind '
            'of instance alone on the host. Nothing is left out: outliers '
            'count like all other values.'))


def names(parts: Sequence[Part]) -> list[str]:
    """What to call each: its experiment, with the file if that repeats."""
    found = [part.summary.experiment.name for part in parts]
    return [name if found.count(name) == 1 else f'{name}, {part.source}'
            for name, part in zip(found, parts)]


def _source(key: str) -> str:
    """A publication, and where it is."""
    found = published.sources()[key]
    return f'{found}{found.url and ": "}{found.url}'


def _some(names: Sequence[str]) -> str:
    further = len(names) - _NAMES_SHOWN
    return '; '.join([*names[:_NAMES_SHOWN],
                      *([f'{further:,} more'] if further > 0 else [])])


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return '; '.join(f'{name}: {text}' for name, text in value.items())
    if isinstance(value, tuple):
        return '; '.join(value)
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    return str(value)
