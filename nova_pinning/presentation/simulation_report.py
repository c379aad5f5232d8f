# SPDX-License-Identifier: Apache-2.0
"""The results of a study: as a document, and on a console."""

import collections
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any
from typing import NamedTuple

import rich.console

from nova_pinning.admission import gaps
from nova_pinning.host import words
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning.simulation import compare
from nova_pinning.simulation import meter
from nova_pinning.simulation import simulation_run
from nova_pinning.simulation import statistic
from nova_pinning import units

#: Kinds of guests that are named in a sentence.
_MOST_KINDS = 12


class ComparedFigure(NamedTuple):
    """A figure that configurations are compared by.

    :param key: in documents
    :param title: for people, of one column
    """

    key: str
    title: str
    of: statistic.Figure


FIGURES = (
    ComparedFigure('sold_at_limit', 'At limit',
                   lambda result: result.limit_share),
    ComparedFigure('sold_at_first_refusal', '1st refusal',
                   statistic.first_refusal_share),
    ComparedFigure('sold', 'Mean sold', statistic.sold_share),
    ComparedFigure('accepted', 'Accepted', lambda result: result.acceptance),
    ComparedFigure('stranded', 'Stranded', statistic.stranded_share),
    ComparedFigure('in_fewest_l3', 'Few L3', statistic.l3_share))


def figures(results: Sequence[simulation_run.Result], names: Sequence[str],
            ) -> Mapping[ComparedFigure, Mapping[str, statistic.Compared]]:
    """All figures that any run has."""
    by_figure = {}
    for figure in FIGURES:
        compared = statistic.compare(results, names, figure.of)
        if any(comparison.value is not None
               for comparison in compared.values()):
            by_figure[figure] = compared
    return by_figure


class Acceptance(NamedTuple):
    """How many guests of one kind were accepted under a configuration."""

    name: str
    vcpus: int
    configuration: str
    arrivals: int
    refused: int


def acceptances(results: Sequence[simulation_run.Result],
                names: Sequence[str]) -> list[Acceptance]:
    """Over all seeds, by kind and then by configuration."""
    counts: dict[tuple[int, str, str], list[int]] = {}
    for result in results:
        for kind in result.kinds:
            key = kind.vcpus, kind.name, result.configuration
            totals = counts.setdefault(key, [0, 0])
            totals[0] += kind.arrivals
            totals[1] += kind.refused
    return [
        Acceptance(name, vcpus, configuration, *counts[
            vcpus, name, configuration])
        for vcpus, name, configuration in sorted(
            counts, key=lambda key: (key[0], key[1], names.index(key[2])))]


def impossible(
    results: Sequence[simulation_run.Result],
) -> list[meter.ImpossibleKind]:
    """Guests that no host could hold even if it was empty, over all seeds.

    All configurations get the same ones, but some may end their runs before.
    """
    counts: dict[tuple[int, str, int], int] = {}
    for result in results:
        for kind in result.impossible:
            key = kind.vcpus, kind.name, result.seed
            counts[key] = max(counts.get(key, 0), kind.arrivals)
    totals: collections.Counter[tuple[int, str]] = collections.Counter()
    for (vcpus, name, _seed), count in counts.items():
        totals[vcpus, name] += count
    return [meter.ImpossibleKind(name, vcpus, totals[vcpus, name])
            for vcpus, name in sorted(totals)]


def doubts(results: Sequence[simulation_run.Result]) -> list[gaps.Counted]:
    """What was not known in any of the runs, by kind."""
    found: dict[str, gaps.Counted] = {}
    for result in results:
        for kind, number, example in result.doubts:
            _kind, most, first = found.get(kind, (kind, 0, example))
            found[kind] = kind, max(most, number), first
    return [found[kind] for kind in sorted(found)]


def study_document(
    results: Sequence[simulation_run.Result],
    names: Sequence[str],
) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        'version': 1,
        'configurations': [{
            'name': name,
            'figures': {
                figure.key: _compared(compared[name])
                for figure, compared in figures(results, names).items()}}
                           for name in names],
        'acceptance': [
            acceptance._asdict()
            for acceptance in acceptances(results, names)],
        'impossible': [kind._asdict() for kind in impossible(results)],
        'runs': [_run(result) for result in results]}


def _compared(compared: statistic.Compared) -> dict[str, Any]:
    return {
        'mean': compared.value and compared.value.mean,
        'error': compared.value and compared.value.error,
        'change': compared.change and dataclasses.asdict(compared.change),
        'lacking': compared.lacking}


def _run(result: simulation_run.Result) -> dict[str, Any]:
    return {
        'acceptance': result.acceptance, 'limit_share': result.limit_share,
        **dataclasses.asdict(result),
        'impossible': [kind._asdict() for kind in result.impossible],
        'moves': result.moves and result.moves._asdict()}


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
    left_out = _impossible_text(results)
    if left_out:
        printing.say(left_out, console)
    if not any(result.arrivals for result in results):
        return
    _figures(results, names, study, console)
    for sentence in _moves(results, names):
        printing.say(sentence, console)
    _acceptance(results, names, console)


def _impossible_text(results: Sequence[simulation_run.Result]) -> str:
    """A sentence on guests that are left out, '' if none are."""
    kinds = impossible(results)
    if not kinds:
        return ''
    total = sum(kind.arrivals for kind in kinds)
    seeds = len({result.seed for result in results})
    is_doubtful = any(result.doubts for result in results)
    return (
        f'Left out of all figures: {total:,} '
        f'{"guest" if total == 1 else "guests"} '
        f'{f"of the {seeds} seeds " if seeds > 1 else ""}that no host of the '
        f'fleet {"is known to have room for" if is_doubtful else "could hold"}'
        ' even if it was empty: ' + words.listed([
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
    found = figures(results, names)
    printing.heading('Configurations', console)
    titles = [figure.title for figure in found]
    header: list[str | typed_table.Column] = [
        'Configuration', *map(typed_table.count, titles)]
    typed_table.show(header, [
        [name, *(_points(of_it[name].value, '.1f', '%')
                 for of_it in found.values())] for name in names], console)
    if len(names) > 1:
        printing.heading(f'Change against {names[0]}, in points', console)
        typed_table.show(header, [
            [name, *(_points(of_it[name].change, '+.1f')
                     for of_it in found.values())]
            for name in names[1:]], console)
    console.print()
    printing.say(' '.join(_legend(
        {figure.key for figure in found}, study)), console)
    for figure, of_it in found.items():
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


def _points(estimate: statistic.SeedEstimate | None, form: str,
            unit: str = '') -> str:
    if estimate is None:
        return '-'
    text = f'{estimate.mean * 100:{form}}{unit}'
    if estimate.error is not None:
        text += f' ±{estimate.error * 100:.1f}'
    return text


def _acceptance(results: Sequence[simulation_run.Result], names: Sequence[str],
                console: rich.console.Console) -> None:
    found = acceptances(results, names)
    printing.heading('Accepted, by size', console)
    kinds = dict.fromkeys((row.vcpus, row.name) for row in found)
    by_kind = {(row.vcpus, row.name, row.configuration): row
               for row in found}
    rows = []
    for vcpus, name in kinds:
        cells = [by_kind.get((vcpus, name, configuration))
                 for configuration in names]
        rows.append([
            name, vcpus, max(cell.arrivals for cell in cells if cell),
            *('-' if cell is None else 1 - cell.refused / cell.arrivals
              for cell in cells)])
    typed_table.show(
        ['Guest', *map(typed_table.count, ('vCPUs', 'Arrivals')),
         *(typed_table.Column(title=name, kind=typed_table.ColumnKind.SHARE)
           for name in names)], rows, console)
