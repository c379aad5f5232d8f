# SPDX-License-Identifier: Apache-2.0
"""The results of a study: as a document, as CSV, as lines over time."""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import csv
import dataclasses
import io
from typing import Any
from typing import NamedTuple

from nova_pinning.admission import gaps
from nova_pinning.simulation import meter
from nova_pinning.simulation import simulation_run
from nova_pinning.simulation import statistic


class ComparedFigure(NamedTuple):
    """A figure that configurations are compared by.

    :param key: in documents
    :param title: for people, of one column
    :param is_share: whether people read it as a percentage
    """

    key: str
    title: str
    of: statistic.Figure
    is_share: bool = True


FIGURES = (
    ComparedFigure('sold_at_limit', 'At limit',
                   lambda result: result.limit_share),
    ComparedFigure('sold_at_first_refusal', '1st refusal',
                   statistic.first_refusal_share),
    ComparedFigure('sold', 'Mean sold', statistic.sold_share),
    ComparedFigure('accepted', 'Accepted', lambda result: result.acceptance),
    ComparedFigure('stranded', 'Stranded', statistic.stranded_share),
    ComparedFigure('in_fewest_l3', 'Few L3', statistic.l3_share),
    ComparedFigure('decision_micros',
                   'µs',
                   lambda result: result.decision_micros or None,
                   is_share=False))


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


def table(results: Sequence[simulation_run.Result]) -> str:
    """All samples of all runs, as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    fields = [field.name for field in dataclasses.fields(meter.FleetSample)]
    writer.writerow(['configuration', 'seed', 'dedicated_cpus', *fields])
    for result in results:
        for sample in result.samples:
            writer.writerow([
                result.configuration, result.seed, result.dedicated_cpus,
                *(getattr(sample, field) for field in fields)])
    return text.getvalue()


class CurvePoint(NamedTuple):
    """Shares of the dedicated CPUs, over the seeds, after some arrivals."""

    arrivals: int
    sold: statistic.SeedEstimate
    stranded: statistic.SeedEstimate


def curve(results: Sequence[simulation_run.Result],
          name: str) -> Iterator[CurvePoint]:
    """A configuration over time, where all of its runs have a sample."""
    of_it = [result for result in results
             if result.configuration == name and result.dedicated_cpus]
    by_arrivals: dict[int, list[tuple[float, float]]] = {}
    for result in of_it:
        for sample in result.samples:
            by_arrivals.setdefault(sample.arrivals, []).append(
                (sample.dedicated_vcpus / result.dedicated_cpus,
                 sample.stranded_cpus / result.dedicated_cpus))
    for arrivals, shares in sorted(by_arrivals.items()):
        if len(shares) == len(of_it):
            sold = statistic.estimate([share for share, _other in shares])
            stranded = statistic.estimate([share for _other, share in shares])
            assert sold is not None and stranded is not None
            yield CurvePoint(arrivals, sold, stranded)
