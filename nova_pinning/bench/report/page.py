#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Results as one page of HTML that needs nothing else."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
from importlib import resources
import importlib.util
import os
import re
from typing import Any

from nova_pinning.bench import compare
from nova_pinning.bench import experiment as experiments
from nova_pinning.bench import intervals
from nova_pinning.bench import model
from nova_pinning.bench import published
from nova_pinning.bench.report import caveats
from nova_pinning.bench.report import charts
from nova_pinning.bench.report import claims
from nova_pinning.bench.report import tables
from nova_pinning.bench.report import words
from nova_pinning.bench import statistics
from nova_pinning import errors

_NAMES_SHOWN = 5
_TEMPLATE = 'page.html.j2'
_TONES = {
    claims.Verdict.HOLDS: 'good', claims.Verdict.DOES_NOT_HOLD: 'bad',
    claims.Verdict.INCONCLUSIVE: 'unsure',
    compare.Verdict.REGRESSION: 'bad', compare.Verdict.IMPROVEMENT: 'good',
    compare.Verdict.UNKNOWN: 'unsure'}
# The kernel's words, where they are no words.
_SMT = {'notsupported': 'not supported', 'forceoff': 'off, for good',
        'notimplemented': 'not implemented'}
# So that verdicts can be told apart without colours.
_MARKS = {'good': '✓', 'bad': '✗', 'unsure': '?'}


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What the page shows of one file of results.

    :param source: the file's name
    :param comparison: with an earlier run, None if there is none
    """

    source: str
    summary: statistics.Summary
    claims: tuple[claims.Claim, ...]
    comparison: compare.Comparison | None = None


def check() -> None:
    """Make sure that a page can be made.

    :raises errors.InputError: if something for it is not installed
    """
    for name in ('jinja2', 'matplotlib'):
        if importlib.util.find_spec(name) is None:
            raise errors.InputError(
                f'a page needs {name}, which is not there',
                errors.Location('--output'), 'install nova-pinning[bench]')


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
    shown = names(parts)
    text: str = template.render(
        title=shown[0] if len(parts) == 1 else 'CPU pinning, measured',
        subtitle=_subtitle(parts),
        sections=[_section(one, name, f'part-{number}')
                  for number, (one, name) in enumerate(zip(parts, shown), 1)],
        tones={str(name): tone for name, tone in _TONES.items()},
        marks=_MARKS,
        footer=f'nova-pinning {version}, bench report')
    return text


def names(parts: Sequence[Part]) -> list[str]:
    """What to call each: with its platforms or its file, if they repeat."""
    found = [one.summary.experiment.name for one in parts]
    for further in (_platforms, lambda part: os.path.basename(part.source),
                    lambda part: part.source):
        pairs = list(zip(found, map(further, parts)))
        kinds = [name for name, _more in dict.fromkeys(pairs)]
        found = [f'{name}, {more}' if kinds.count(name) > 1 else name
                 for name, more in pairs]
    return found


def _platforms(part: Part) -> str:
    return ' and '.join(dict.fromkeys(
        str(tenant.platform) for case in part.summary.experiment.cases
        for tenant in case.tenants))


def _subtitle(parts: Sequence[Part]) -> str:
    hosts = dict.fromkeys(
        f'{one.cpu_model}, {words.count(one.cpus, "CPU")}, {one.kernel}'
        for part in parts for one in part.summary.results.conditions)
    return '; '.join(hosts)


def _section(part: Part, name: str, anchor: str) -> dict[str, Any]:
    summary = part.summary
    results = summary.results
    experiment = summary.experiment
    comparison = part.comparison
    found = published.figures(experiment.table)
    sources = list(dict.fromkeys(one.source for one in found))
    return {
        'anchor': anchor, 'name': name, 'about': experiment.about,
        'extent': f'{extent(results)} From {part.source}.',
        'caveats': caveats.caveats(summary),
        'claims': part.claims, 'verdicts': claims.counted(part.claims),
        'changes': tables.changes(comparison) if comparison else None,
        'changed': told(comparison) if comparison else '',
        'differing': comparison.differing if comparison else (),
        'doubts': doubts(part),
        'tables': tables.tables(summary),
        'charts': charts.draw(summary, anchor),
        'published': _published(found, sources) if found else None,
        'is_shipped': experiment.name in experiments.shipped(),
        'sources': [{'text': str(one), 'url': one.url} for one in sources],
        'flags': tables.flags(results), 'skipped': tables.skipped(summary),
        'conditions': [_conditions(one) for one in results.conditions],
        'commands': _commands(results), 'method': method(summary)}


def extent(results: model.Results) -> str:
    """How much was measured, and when."""
    experiment = results.experiment
    able = sum(not one.skipped for one in experiment.cases)
    text = (f'{words.count(able, "case")}, '
            f'{words.count(experiment.repetitions, "repetition")}'
            f' in {words.count(experiment.rounds, "round")}'
            f' after {words.count(experiment.warm_ups, "warm-up")}; '
            f'{words.count(len(results.measurements), "measurement")}')
    if results.measurements:
        started = [one.started for one in results.measurements]
        first, last = (datetime.datetime.fromtimestamp(
            one, datetime.UTC).strftime('%Y-%m-%d %H:%M')
            for one in (min(started), max(started)))
        text += f', {first} to {last} UTC'
    return text + f'; seed {experiment.seed}.{_sizes(experiment)}'


def _sizes(experiment: model.Experiment) -> str:
    """What was asked for and came out otherwise, 'up to 4' being one."""
    sizes = dict.fromkeys(
        (wanted, tenant.size.vcpus) for case in experiment.cases
        if not case.skipped and (wanted := case.factors.get('size'))
        for tenant in case.tenants if tenant.role is model.Role.MEASURED
        and wanted != str(tenant.size.vcpus))
    return ''.join(f' Size "{wanted}" is {words.count(vcpus, "vCPU")} here.'
                   for wanted, vcpus in sizes)


def doubts(part: Part) -> tuple[str, ...]:
    """Caveats of the earlier run that are not the later one's too."""
    if part.comparison is None:
        return ()
    known = caveats.caveats(part.summary)
    return tuple(text for text in caveats.caveats(part.comparison.old)
                 if text not in known)


def told(comparison: compare.Comparison) -> str:
    """What came of a comparison, in a sentence or three."""
    verdicts = [one.verdict for one in comparison.changes]
    text = '; '.join((
        f'{words.count(len(verdicts), "figure")} compared',
        words.count(verdicts.count(compare.Verdict.REGRESSION),
                    'regression'),
        words.count(verdicts.count(compare.Verdict.IMPROVEMENT),
                    'improvement'))) + '.'
    unknown = verdicts.count(compare.Verdict.UNKNOWN)
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


def _published(found: Sequence[published.Published],
               sources: Sequence[published.Source]) -> tables.Table:
    columns = {
        'what': [one.what for one in found],
        'figure': [one.amount for one in found],
        'workload': [one.workload for one in found],
        'platform': [f'{one.platform} {one.provisioning}'.strip()
                     for one in found],
        'size': [one.size for one in found],
        'conditions': [one.conditions for one in found],
        'basis': [f'{one.basis}{"" if one.is_checked else ", as cited"}'
                  for one in found],
        'source': [f'[{sources.index(one.source) + 1}]' for one in found]}
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    return tables.Table(title='Published figures', columns=tuple(columns),
                        rows=tuple(zip(*columns.values())))


def _conditions(one: model.Conditions) -> list[tuple[str, str]]:
    found = [
        ('CPU', one.cpu_model), ('topology', one.topology),
        ('memory', f'{one.memory_mib:,} MiB'), ('kernel', one.kernel),
        ('governor', one.governor or 'the kernel has none'),
        ('SMT', _SMT.get(one.smt, one.smt)),
        ('load before', f'{one.load:.2f}'),
        ('virtualised', one.virtualised or 'no'),
        ('guests emulated', 'yes' if one.emulated else 'no'),
        *((f'CPUs, {name}', str(cpus) or 'none')
          for name, cpus in one.layout.items()),
        ('versions', _listed(one.versions)),
        ('mitigations', _listed(one.mitigations)),
        *(('host check', finding) for finding in one.findings)]
    return [(name, value) for name, value in found if value]


def _listed(pairs: Mapping[str, str]) -> str:
    return '; '.join(f'{name}: {value}' for name, value in pairs.items())


def _commands(results: model.Results) -> list[tuple[str, str]]:
    """Each tenant's, once; numbers of instances apart they are alike."""
    found: dict[str, str] = {}
    for one in results.measurements:
        for reading in one.readings:
            name = re.sub(r'-\d+$', '', reading.instance)
            found.setdefault(reading.command, name)
    return [(name, command) for command, name in found.items()]


def method(summary: statistics.Summary) -> str:
    """How this run's intervals were found."""
    units = dict.fromkeys(row.estimate.sample.unit for row in summary.rows)
    methods = dict.fromkeys(row.estimate.method for row in summary.rows)
    by_unit = {
        intervals.Unit.ROUNDS: 'whole rounds, since all of a round shares '
        'instances and the host as it was then',
        intervals.Unit.REPETITIONS: 'whole repetitions with all instances, '
        'taken for independent of each other, since there was one round'}
    return ' '.join((
        'Intervals have 95% confidence, by: ' + (
            ', '.join(methods) or 'none') + '.',
        f'With {intervals.LEAST_RESAMPLED} and more independent values '
        f'({intervals.LEAST_RESAMPLED_SPREAD} for a spread) it is the BCa '
        'bootstrap; with fewer the jackknife’s standard error and '
        'Student’s t.',
        'What counts as independent, and is resampled: '
        + ('; '.join(by_unit[one] for one in units) or 'nothing') + '.',
        'Variation is the coefficient of variation, deviation by average. '
        'Ratios are turned so that above 1 is worse, whether a figure is '
        'better higher or lower. Under neighbours: against the same kind '
        'of instance alone on the host. Nothing is left out: outliers count '
        'like all other values.'))
