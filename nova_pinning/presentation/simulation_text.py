# SPDX-License-Identifier: Apache-2.0
"""The results of a simulation on a console."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console

from nova_pinning.host import words
from nova_pinning.presentation import printing
from nova_pinning.presentation import simulation_report
from nova_pinning.simulation import compare
from nova_pinning.simulation import meter
from nova_pinning.simulation import simulation_run
from nova_pinning.simulation import statistic
from nova_pinning import units

#: Kinds of guests that are named in a sentence.
_MOST_KINDS = 12

Tell = Callable[[int], None]


def show(results: Sequence[simulation_run.Result], names: Sequence[str],
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
    left_out = impossible(results)
    if left_out:
        printing.say(left_out, console)
    _figures(results, names, study, console)
    for sentence in _moves(results, names):
        printing.say(sentence, console)
    _acceptance(results, names, console)


def impossible(results: Sequence[simulation_run.Result]) -> str:
    """A sentence on guests that are left out, '' if none are."""
    kinds = simulation_report.impossible(results)
    if not kinds:
        return ''
    total = sum(kind.arrivals for kind in kinds)
    seeds = len({result.seed for result in results})
    return (
        f'Left out of all figures: {total:,} '
        f'{"guest" if total == 1 else "guests"} '
        f'{f"of the {seeds} seeds " if seeds > 1 else ""}that no host of the '
        f'fleet could hold even if it was empty: ' + words.listed([
            *(f'{kind.name} ({kind.arrivals:,})'
              for kind in kinds[:_MOST_KINDS]),
            *([f'{len(kinds) - _MOST_KINDS:,} more kinds, which --format '
               'json has'] if len(kinds) > _MOST_KINDS else [])]) + '.')


def _moves(results: Sequence[simulation_run.Result],
           names: Sequence[str]) -> Iterator[str]:
    """What was moved, a sentence for each configuration that had it."""
    for name in names:
        counts = [result.moves or meter.MoveCounts(0, 0, 0, 0)
                  for result in results if result.configuration == name]
        made = sum(count.made for count in counts)
        if not any(result.moves for result in results
                   if result.configuration == name):
            continue
        plans = sum(count.plans for count in counts)
        gib = sum(count.memory_mib for count in counts) / units.MIB_PER_GIB
        sentence = (
            f'{name}: {made:,} guests moved by {plans:,} plans, with '
            f'{gib:,.0f} GiB of memory')
        if len(counts) > 1:
            sentence += f', in {len(counts):,} runs'
        refused = sum(count.refused for count in counts)
        if refused:
            sentence += f'; {refused:,} moves were refused'
        yield f'{sentence}.'


def _figures(results: Sequence[simulation_run.Result], names: Sequence[str],
             study: compare.Study, console: rich.console.Console) -> None:
    figures = simulation_report.figures(results, names)
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
        for name, comparison in of_it.items():
            if comparison.lacking and comparison.value is not None:
                printing.say(
                    f'{name}: {comparison.lacking} of {len(study.seeds)} runs '
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
        ('sold', 'on average')) if key in keys]
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


def _value(figure: simulation_report.ComparedFigure,
           compared: statistic.Compared) -> str:
    if compared.value is None:
        return '-'
    return _estimate(compared.value, 100 if figure.is_share else 1,
                     '%' if figure.is_share else '', '')


def _change(compared: statistic.Compared) -> str:
    return '-' if compared.change is None else _estimate(
        compared.change, 100, '', '+')


def _estimate(estimate: statistic.SeedEstimate, factor: float, unit: str,
              sign: str) -> str:
    digits = '.1f' if factor == 100 else '.0f'
    text = f'{estimate.mean * factor:{sign}{digits}}{unit}'
    if estimate.error is not None:
        text += f' ±{estimate.error * factor:{digits}}'
    return text


def _acceptance(results: Sequence[simulation_run.Result], names: Sequence[str],
                console: rich.console.Console) -> None:
    acceptances = simulation_report.acceptances(results, names)
    printing.heading('Accepted, by size', console)
    kinds = dict.fromkeys((row.vcpus, row.name) for row in acceptances)
    by_kind = {(row.vcpus, row.name, row.configuration): row
               for row in acceptances}
    rows = []
    for vcpus, name in kinds:
        cells = [by_kind.get((vcpus, name, configuration))
                 for configuration in names]
        rows.append([
            name,
            str(vcpus), f'{max(cell.arrivals for cell in cells if cell):,}',
            *('-' if cell is None else
              f'{100 * (1 - cell.refused / cell.arrivals):.1f}%'
              for cell in cells)])
    columns = ['Guest', 'vCPUs', 'Arrivals', *names]
    printing.table(columns, rows, console, columns[1:])
