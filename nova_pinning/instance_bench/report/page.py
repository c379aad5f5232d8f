# SPDX-License-Identifier: Apache-2.0
"""Results as one page of HTML that needs nothing else."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
from importlib import resources
import os
import re
from typing import Any

from nova_pinning import extras
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.report import across_hosts
from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import outlier_reasons
from nova_pinning.instance_bench.report import run_caveats
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import strips
from nova_pinning.instance_bench.report import study_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import typed_table

_NAMES_SHOWN = 5
_TEMPLATE = 'page.html.j2'
_TONES = {
    run_claims.ClaimVerdict.HOLDS: 'good',
    run_claims.ClaimVerdict.DOES_NOT_HOLD: 'bad',
    run_claims.ClaimVerdict.INCONCLUSIVE: 'unsure',
    run_comparison.ChangeVerdict.REGRESSION: 'bad',
    run_comparison.ChangeVerdict.IMPROVEMENT: 'good',
    run_comparison.ChangeVerdict.UNKNOWN: 'unsure'}
# The kernel's words, where they are not words.
_SMT = {'notsupported': 'not supported', 'forceoff': 'off, for good',
        'notimplemented': 'not implemented'}
# Experiments by how much they say of what pinning buys.
_TELLING = ('levels', 'neighbours', 'overhead', 'latency')
# So that verdicts can be told apart without colours.
_MARKS = {'good': '✓', 'bad': '✗', 'unsure': '?'}


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What the page shows of one file of results.

    :param source: the file's name
    :param comparison: with an earlier run, None if there is none
    :param calibration: what the machine's self-test came to, None if it is
        not given
    """

    source: str
    summary: statistics.RunSummary
    claims: tuple[run_claims.RunClaim, ...]
    comparison: run_comparison.Comparison | None = None
    calibration: self_test.Calibration | None = None

    @property
    def widening(self) -> str:
        """By how much intervals are widened, and why."""
        if self.summary.experiment.table == self_test.TABLE:
            return ''
        return answer.calibration_words(self.calibration)

    @property
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
            if not found.comparisons:
                texts.append(_cut_off(found.source))
        elif self.summary.experiment.table == self_test.TABLE and (
                not self_test.calibrate(self.summary.results).comparisons):
            texts.append(_cut_off(self.source))
        return (*texts, *run_caveats.caveats(self.summary))


def _cut_off(path: str) -> str:
    return (f'In {path} no two copies of a self-test were both measured in '
            'two rounds: let bench run self-test come to its end.')


def check() -> None:
    """Make sure that a page can be made.

    :raises errors.InputError: if something for it is not installed
    """
    extras.need('a page', 'scipy', 'jinja2')


def render(parts: Sequence[Part], version: str) -> str:
    """The page.

    :param parts: at least one
    :param version: of nova-pinning, for the foot of the page
    :raises errors.InputError: if something for it is not installed
    """
    check()
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined)
    template = environment.from_string(
        resources.files(__package__).joinpath(_TEMPLATE).read_text('utf-8'))
    shown = part_names(parts)
    sections = [_section(part, name, f'part-{number}')
                for number, (part, name) in enumerate(zip(parts, shown), 1)]
    tables = [part.summary.experiment.table for part in parts]
    telling = next((tables.index(table) for table in _TELLING
                    if table in tables), 0)
    text: str = template.render(
        title=shown[0] if len(parts) == 1 else 'CPU pinning, measured',
        headline=sections[telling], sections=sections,
        across=across_hosts.table([part.summary for part in parts]),
        runs=_runs(parts, shown),
        tones={str(name): tone for name, tone in _TONES.items()}, marks=_MARKS,
        draw=strips.draw,
        footer=f'nova-pinning {version}, bench report')
    return text


def part_names(parts: Sequence[Part]) -> list[str]:
    """What to call each: with its platforms or its file, if they repeat."""
    names = [part.summary.experiment.name for part in parts]
    for further in (_platforms, lambda part: os.path.basename(part.source),
                    lambda part: part.source):
        pairs = list(zip(names, map(further, parts)))
        kinds = [name for name, _more in dict.fromkeys(pairs)]
        names = [f'{name}, {more}' if kinds.count(name) > 1 else name
                 for name, more in pairs]
    return names


def _platforms(part: Part) -> str:
    return ' and '.join(dict.fromkeys(
        str(tenant.platform) for case in part.summary.experiment.cases
        for tenant in case.tenants))


def _runs(parts: Sequence[Part],
          names: Sequence[str]) -> run_tables.ReportTable:
    """Each run with its host, a row for each time that it was started."""
    rows = []
    for part, name in zip(parts, names):
        results = part.summary.results
        for conditions in results.conditions or (None,):
            kinds = dict.fromkeys(
                words.platform(tenant.platform, conditions)
                for case in results.experiment.cases if not case.skipped
                for tenant in case.tenants)
            rows.append((
                name, part.source, _when(results.measurements),
                ', '.join(kinds), *((
                    conditions.cpu_model, f'{conditions.cpus:,}',
                    conditions.kernel, hypervisor(conditions),
                    f'{conditions.load:.2f}') if conditions
                    else (words.NONE,) * 5)))
    return run_tables.ReportTable(
        ('run', 'file', 'when', 'platforms', 'host CPU',
         typed_table.count('CPUs'), 'kernel', 'the host itself runs on',
         typed_table.count('load before')), rows, title='The runs')


def hypervisor(conditions: bench_model.Conditions) -> str:
    """What the host itself runs on."""
    return (f'a hypervisor: {conditions.virtualised}'
            if conditions.virtualised else 'bare metal')


def _section(part: Part, name: str, anchor: str) -> dict[str, Any]:
    summary = part.summary
    results = summary.results
    experiment = summary.experiment
    comparison = part.comparison
    found = answer.answer(summary)
    sources = published_sources(summary)
    return {
        'anchor': anchor,
        'name': name,
        'about': experiment.about,
        'answer': found.sentence,
        'more': found.more,
        'ratios': found.table,
        'widening': part.widening,
        'extent': f'{extent(results)} From {part.source}.',
        'caveats': part.caveats,
        'claims': part.claims,
        'verdicts': run_claims.counted(part.claims),
        'changes': run_tables.changes(comparison) if comparison else None,
        'changed': comparison_sentences(comparison) if comparison else '',
        'differing': comparison.differing if comparison else (),
        'earlier_caveats': earlier_caveats(part),
        'tables': study_tables.tables(summary),
        'published': _published(experiment.table, sources),
        'is_shipped': experiment.name in experiment_file.shipped(),
        'sources': [{
            'text': str(source), 'url': source.url} for source in sources],
        'details': details(summary),
        'conditions': [
            _conditions(condition) for condition in results.conditions],
        'commands': _commands(results),
        'method': method(summary)}


def details(
    summary: statistics.RunSummary
) -> list[run_tables.ReportTable]:
    """What is doubtful, unusual, or not there."""
    return [table for table in (
        run_tables.busy(summary), outlier_reasons.table(summary),
        run_tables.mishaps(summary), outlier_reasons.counters(summary))
        if table is not None]


def published_sources(
    summary: statistics.RunSummary
) -> list[published.Publication]:
    """Of all that stands beside or below the tables."""
    table = summary.experiment.table
    tables = (published.beside(table, name)
              for name in summary.results.workloads)
    return list(dict.fromkeys((
        *(found.source for found in tables if found is not None),
        *(figure.source for figure in published.figures(table)))))


def extent(results: bench_model.Results) -> str:
    """How much was measured, and when."""
    experiment = results.experiment
    able = sum(not case.skipped for case in experiment.cases)
    text = (f'{words.count(able, "case")}, '
            f'{words.count(experiment.repetitions, "repetition")}'
            f' in {words.count(experiment.rounds, "round")}'
            f' after {words.count(experiment.warm_ups, "warm-up")}; '
            f'{words.count(len(results.measurements), "measurement")}')
    if results.measurements:
        text += f', {_when(results.measurements)}'
    return text + f'; seed {experiment.seed}.{_sizes(experiment)}'


def _when(measurements: Sequence[bench_model.Measurement]) -> str:
    if not measurements:
        return words.NONE
    started = [measurement.started for measurement in measurements]
    first, last = (datetime.datetime.fromtimestamp(
        seconds, datetime.UTC).strftime('%Y-%m-%d %H:%M')
        for seconds in (min(started), max(started)))
    return f'{first} to {last} UTC'


def _sizes(experiment: bench_model.Experiment) -> str:
    """What was asked for and came out otherwise, 'up to 4' being one."""
    sizes = dict.fromkeys(
        (size, tenant.size.vcpus) for case in experiment.cases
        if not case.skipped and (size := case.factors.get('size'))
        for tenant in case.tenants if tenant.role is bench_model.Role.MEASURED
        and size != str(tenant.size.vcpus))
    return ''.join(f' Size "{size}" is {words.count(vcpus, "vCPU")} here.'
                   for size, vcpus in sizes)


def earlier_caveats(part: Part) -> tuple[str, ...]:
    """Caveats of the earlier run that are not the later one's too."""
    if part.comparison is None:
        return ()
    known = run_caveats.caveats(part.summary)
    return tuple(text for text in run_caveats.caveats(part.comparison.old)
                 if text not in known)


def comparison_sentences(comparison: run_comparison.Comparison) -> str:
    """What came of a comparison, in a sentence or three."""
    verdicts = [change.verdict for change in comparison.changes]
    text = '; '.join((
        f'{words.count(len(verdicts), "figure")} compared',
        words.count(verdicts.count(run_comparison.ChangeVerdict.REGRESSION),
                    'regression'),
        words.count(verdicts.count(run_comparison.ChangeVerdict.IMPROVEMENT),
                    'improvement'))) + '.'
    unknown = verdicts.count(run_comparison.ChangeVerdict.UNKNOWN)
    if unknown:
        text += f' Of {unknown:,} there are too few values to tell.'
    if comparison.unlike:
        text += (' Not compared, for sizes, numbers of instances, parameters '
                 f'or commands differ: {_some(comparison.unlike)}.')
    for where, names in (('earlier', comparison.only_old),
                         ('later', comparison.only_new)):
        if names:
            text += f' Only in the {where} run: {_some(names)}.'
    return text


def _some(names: Sequence[str]) -> str:
    further = len(names) - _NAMES_SHOWN
    return '; '.join([*names[:_NAMES_SHOWN],
                      *([f'{further:,} more'] if further > 0 else [])])


def _published(
        table: str, sources: Sequence[published.Publication]
) -> run_tables.ReportTable | None:
    """What has no row to stand beside."""
    rows = tuple((figure.what, figure.figure or words.NONE, figure.conditions,
                  f'[{sources.index(figure.source) + 1}]')
                 for figure in published.figures(table))
    return run_tables.ReportTable(
        ('what', 'figure', 'conditions', 'source'), rows,
        title='Published figures without a row above') if rows else None


def _conditions(conditions: bench_model.Conditions) -> list[tuple[str, str]]:
    rows = [('CPU', conditions.cpu_model), ('topology', conditions.topology),
            ('memory', f'{conditions.memory_mib:,} MiB'),
            ('kernel', conditions.kernel),
            ('governor', conditions.governor or 'the kernel has none'),
            ('SMT', _SMT.get(conditions.smt, conditions.smt)),
            ('load before', f'{conditions.load:.2f}'),
            ('the host itself runs on', hypervisor(conditions)),
            ('guests emulated', 'yes' if conditions.emulated else 'no'),
            *((f'CPUs, {name}', str(cpus) or 'none')
              for name, cpus in conditions.layout.items()),
            ('versions', _listed(conditions.versions)),
            ('mitigations', _listed(conditions.mitigations)),
            *(('host check', finding) for finding in conditions.findings)]
    return [(name, value) for name, value in rows if value]


def _listed(pairs: Mapping[str, str]) -> str:
    return '; '.join(f'{name}: {value}' for name, value in pairs.items())


def _commands(results: bench_model.Results) -> list[tuple[str, str]]:
    """Each tenant's, once; numbers of instances apart they are alike."""
    names: dict[str, str] = {}
    for measurement in results.measurements:
        for reading in measurement.readings:
            name = re.sub(r'-\d+$', '', reading.instance)
            names.setdefault(reading.command, name)
    return [(name, command) for command, name in names.items()]


def method(summary: statistics.RunSummary) -> str:
    """How this run's intervals were found."""
    methods = dict.fromkeys(
        row.estimate.interval.method for row in summary.rows)
    return ' '.join((
        'Intervals have 95% confidence, by: ' + (
            ', '.join(methods) or 'none') + '.',
        'Student’s t is with the jackknife’s standard error, on a logarithmic '
        'scale for what cannot be negative.',
        'What counts as independent, and is left out in turn, are whole '
        'rounds: all of a round shares instances and the host as it was then.',
        'Variation is the coefficient of variation, deviation by average. '
        'Ratios are turned so that above 1 is worse, whether a figure is '
        'better higher or lower. Under neighbours: against the same kind '
        'of instance alone on the host. Nothing is left out: outliers count '
        'like all other values.'))
