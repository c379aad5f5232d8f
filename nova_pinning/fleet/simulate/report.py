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

"""The results of a study: as a document, as CSV, as lines over time."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import csv
import dataclasses
import io
from typing import Any
from typing import NamedTuple

from nova_pinning.fleet.simulate import meter
from nova_pinning.fleet.simulate import run
from nova_pinning.fleet.simulate import statistic


class Figure(NamedTuple):
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
    Figure('sold_at_limit', 'At limit',
           lambda result: result.limit_share),
    Figure('sold_at_first_refusal', '1st refusal',
           statistic.first_refusal_share),
    Figure('sold', 'Mean sold', statistic.sold_share),
    Figure('accepted', 'Accepted', lambda result: result.acceptance),
    Figure('stranded', 'Stranded', statistic.stranded_share),
    Figure('in_fewest_l3', 'Few L3', statistic.l3_share),
    Figure('decision_micros', 'µs',
           lambda result: result.decision_micros or None, is_share=False),
)


def figures(results: Sequence[run.Result], names: Sequence[str],
            ) -> Mapping[Figure, Mapping[str, statistic.Compared]]:
    """All figures that any run has."""
    found = {}
    for figure in FIGURES:
        compared = statistic.compare(results, names, figure.of)
        if any(one.value is not None for one in compared.values()):
            found[figure] = compared
    return found


class Acceptance(NamedTuple):
    """How many guests of one kind were accepted under a configuration."""

    name: str
    vcpus: int
    configuration: str
    arrivals: int
    refused: int


def acceptances(results: Sequence[run.Result],
                names: Sequence[str]) -> list[Acceptance]:
    """Over all seeds, by kind and then by configuration."""
    counts: dict[tuple[int, str, str], list[int]] = {}
    for result in results:
        for kind in result.kinds:
            key = kind.vcpus, kind.name, result.configuration
            found = counts.setdefault(key, [0, 0])
            found[0] += kind.arrivals
            found[1] += kind.refused
    return [
        Acceptance(name, vcpus, configuration, *counts[
            vcpus, name, configuration])
        for vcpus, name, configuration in sorted(
            counts, key=lambda key: (key[0], key[1], names.index(key[2])))]


def document(results: Sequence[run.Result], names: Sequence[str],
             ) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        'version': 1,
        'configurations': [
            {'name': name,
             'figures': {
                 figure.key: _compared(compared[name])
                 for figure, compared in figures(results, names).items()}}
            for name in names],
        'acceptance': [one._asdict() for one in acceptances(results, names)],
        'runs': [_run(result) for result in results],
    }


def _compared(found: statistic.Compared) -> dict[str, Any]:
    return {
        'mean': found.value and found.value.mean,
        'error': found.value and found.value.error,
        'change': found.change and dataclasses.asdict(found.change),
        'lacking': found.lacking,
    }


def _run(result: run.Result) -> dict[str, Any]:
    return {
        'acceptance': result.acceptance, 'limit_share': result.limit_share,
        **dataclasses.asdict(result)}


def table(results: Sequence[run.Result]) -> str:
    """All samples of all runs, as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    fields = [field.name for field in dataclasses.fields(meter.Sample)]
    writer.writerow(['configuration', 'seed', 'dedicated_cpus', *fields])
    for result in results:
        for sample in result.samples:
            writer.writerow([
                result.configuration, result.seed, result.dedicated_cpus,
                *(getattr(sample, field) for field in fields)])
    return text.getvalue()


class Point(NamedTuple):
    """Shares of the dedicated CPUs, over the seeds, after some arrivals."""

    arrivals: int
    sold: statistic.Estimate
    stranded: statistic.Estimate


def curve(results: Sequence[run.Result], name: str) -> Iterator[Point]:
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
            sold = statistic.estimate([one for one, _other in shares])
            stranded = statistic.estimate([one for _other, one in shares])
            assert sold is not None and stranded is not None
            yield Point(arrivals, sold, stranded)
