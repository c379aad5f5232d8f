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

"""The results of a simulation on a console."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console

from nova_pinning.cli import printing
from nova_pinning.fleet.simulate import compare
from nova_pinning.fleet.simulate import report
from nova_pinning.fleet.simulate import run
from nova_pinning.fleet.simulate import statistic
from nova_pinning.host import words

Tell = Callable[[int], None]


def show(results: Sequence[run.Result], names: Sequence[str],
         study: compare.Study, console: rich.console.Console) -> None:
    """Print what was found."""
    first = results[0]
    seeds = len(study.seeds)
    printing.say(
        f'{first.hosts:,} hosts with {first.dedicated_cpus:,} dedicated CPUs; '
        f'{first.arrivals:,} arrivals and {first.departures:,} departures '
        f'{"in the first run" if len(results) > 1 else ""}; '
        f'{seeds} {"seed" if seeds == 1 else "seeds"}'.replace(' ;', ';'),
        console)
    _figures(results, names, study, console)
    _acceptance(results, names, console)


def _figures(results: Sequence[run.Result], names: Sequence[str],
             study: compare.Study, console: rich.console.Console) -> None:
    figures = report.figures(results, names)
    printing.heading('Configurations', console)
    titles = [figure.title for figure in figures]
    rows = [[name, *(_value(figure, of_it[name])
                     for figure, of_it in figures.items())]
            for name in names]
    printing.table(['Configuration', *titles], rows, console, titles)
    if len(names) > 1:
        changes = [figure for figure in figures if figure.is_share]
        titles = [figure.title for figure in changes]
        printing.heading(f'Change against {names[0]}, in points', console)
        printing.table(
            ['Configuration', *titles],
            [[name, *(_change(figures[figure][name]) for figure in changes)]
             for name in names[1:]], console, titles)
    console.print()
    printing.say(' '.join(_legend(
        {figure.key for figure in figures}, study)), console)
    for figure, of_it in figures.items():
        for name, found in of_it.items():
            if found.lacking and found.value is not None:
                printing.say(
                    f'{name}: {found.lacking} of {len(study.seeds)} runs '
                    f'have no "{figure.title}".', console)


def _legend(keys: Collection[str], study: compare.Study) -> Iterator[str]:
    """Sentences on the columns that there are, and on those that are not.

    :param keys: of the figures
    """
    plan = study.plan
    limit = (f'{100 * plan.refused_share:g}% of the latest {plan.window:,} '
             'arrivals')
    sold = [text for key, text in (
        ('sold_at_limit', f'when {limit} were refused (at limit)'),
        ('sold_at_first_refusal', 'at the first refusal'),
        ('sold', 'in the mean')) if key in keys]
    columns = [f'dedicated CPUs sold {words.listed(sold)}'] if sold else []
    columns += [text for key, text in (
        ('accepted', 'guests that found a host (accepted)'),
        ('stranded', 'free CPUs that an average guest could not use '
                     '(stranded)'),
        ('in_fewest_l3', 'guests in the fewest L3 domains possible'),
        ('decision_micros', 'median time of a decision in microseconds (µs)'),
    ) if key in keys]
    if columns:
        text = '; '.join(columns)
        yield f'{text[0].upper()}{text[1:]}.'
    if 'sold_at_first_refusal' not in keys:
        yield 'No guest was refused.'
    elif 'sold_at_limit' not in keys:
        yield f'The limit, {limit} refused, was never reached.'
    if len(study.seeds) > 1:
        yield 'After ±: half the 95% confidence interval of the mean.'


def _value(figure: report.Figure, found: statistic.Compared) -> str:
    if found.value is None:
        return '-'
    return _estimate(found.value, 100 if figure.is_share else 1,
                     '%' if figure.is_share else '', '')


def _change(found: statistic.Compared) -> str:
    return '-' if found.change is None else _estimate(
        found.change, 100, '', '+')


def _estimate(found: statistic.Estimate, factor: float, unit: str,
              sign: str) -> str:
    digits = '.1f' if factor == 100 else '.0f'
    text = f'{found.mean * factor:{sign}{digits}}{unit}'
    if found.error is not None:
        text += f' ±{found.error * factor:{digits}}'
    return text


def _acceptance(results: Sequence[run.Result], names: Sequence[str],
                console: rich.console.Console) -> None:
    found = report.acceptances(results, names)
    printing.heading('Accepted, by size', console)
    kinds = dict.fromkeys((one.vcpus, one.name) for one in found)
    by_kind = {(one.vcpus, one.name, one.configuration): one for one in found}
    rows = []
    for vcpus, name in kinds:
        cells = [by_kind.get((vcpus, name, configuration))
                 for configuration in names]
        rows.append([
            name, str(vcpus), f'{max(one.arrivals for one in cells if one):,}',
            *('-' if one is None else
              f'{100 * (1 - one.refused / one.arrivals):.1f}%'
              for one in cells)])
    columns = ['Guest', 'vCPUs', 'Arrivals', *names]
    printing.table(columns, rows, console, columns[1:])
