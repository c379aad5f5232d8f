# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""From samples to figures, and from figures to a table, JSON or rst."""

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import random
import statistics
import textwrap
import typing as ty

from benchmarks import bars
from benchmarks import measure

_RESAMPLES = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A case's figures; times in microseconds a host or a request.

    ``ours_us``, ``nova_us`` and ``interval`` are of the passes over the same
    HostStates, or of the only pass where there is one.
    """

    case: bars.Case
    fits: str
    ours_us: float
    nova_us: float | None
    ours_first_us: float
    nova_first_us: float | None
    at_least: bool
    interval: tuple[float, float] | None
    problems: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Nova's time over ours."""
        if self.nova_us is None:
            return None
        return self.nova_us / self.ours_us

    @property
    def first_ratio(self) -> float | None:
        """Nova's time over ours, on HostStates seen for the first time."""
        if self.nova_first_us is None:
            return None
        return self.nova_first_us / self.ours_first_us

    @property
    def met(self) -> bool:
        """Whether the bar is met, and by right answers."""
        if self.problems:
            return False
        if self.case.ratio is not None:
            return self.ratio is not None and self.ratio >= self.case.ratio
        return (self.case.limit_us is None
                or self.ours_us < self.case.limit_us)

    @property
    def verdict(self) -> str:
        """The verdict in one word."""
        if self.problems:
            return 'WRONG'
        if self.case.bar == '-':
            return '-'
        return 'met' if self.met else 'MISSED'


def _same(rounds: list[list[int]]) -> list[int]:
    """Return the times that the bar is judged on."""
    return [elapsed for passes in rounds for elapsed in passes[1:] or passes]


def _first(rounds: list[list[int]]) -> list[int]:
    return [passes[0] for passes in rounds]


def _mean_of_medians(lists: ty.Iterable[list[int]], per: float) -> float:
    return statistics.fmean(
        statistics.median(values) for values in lists) / per


def _interval(parts: list[measure.Samples]) -> tuple[float, float]:
    """Bootstrap the ratio, a round's times always together."""
    rng = random.Random(0)
    ratios = []
    for _ in range(_RESAMPLES):
        nova, ours = [], []
        for part in parts:
            rounds = range(len(part.ours_ns))
            drawn = rng.choices(rounds, k=len(rounds))
            nova.append(_same([part.nova_ns[number] for number in drawn]))
            ours.append(_same([part.ours_ns[number] for number in drawn]))
        ratios.append(_mean_of_medians(nova, 1) / _mean_of_medians(ours, 1))
    cuts = statistics.quantiles(ratios, n=40)
    return cuts[0], cuts[-1]


def summarise(case: bars.Case, parts: list[measure.Samples],
              limited: measure.Limited | None) -> Row:
    """Return the figures of one case from those of its processes."""
    hosts = sum(part.hosts for part in parts)
    passed = sum(part.ours_passed for part in parts)
    per = 1000.0 if case.whole_request else 1000.0 * parts[0].hosts
    problems = []
    differ = sum(len(part.differ) for part in parts)
    if differ:
        problems.append(f'answers differ on {differ} hosts, such as '
                        + next(part.differ[0] for part in parts
                               if part.differ))
    if case.expect is bars.Expect.FIT and passed != hosts:
        problems.append(f'{hosts - passed} hosts refused though there is '
                        'room')
    if case.expect is bars.Expect.REFUSE and passed:
        problems.append(f'{passed} hosts accepted though there is no room')
    if limited is not None and limited.ended and limited.passed:
        problems.append('nova accepted a host on which there is no room')
    nova_us = nova_first_us = interval = None
    if limited is not None:
        nova_us = limited.seconds * 1e6
    elif parts[0].nova_ns:
        nova_us = _mean_of_medians(
            (_same(part.nova_ns) for part in parts), per)
        nova_first_us = _mean_of_medians(
            (_first(part.nova_ns) for part in parts), per)
        interval = _interval(parts)
    return Row(
        case=case, fits=f'{passed}/{hosts}',
        ours_us=_mean_of_medians(
            (_same(part.ours_ns) for part in parts), per),
        nova_us=nova_us,
        ours_first_us=_mean_of_medians(
            (_first(part.ours_ns) for part in parts), per),
        nova_first_us=nova_first_us,
        at_least=limited is not None and not limited.ended,
        interval=interval, problems=tuple(problems))


def _time(microseconds: float | None) -> str:
    if microseconds is None:
        return '-'
    for size, unit in ((1e6, 's'), (1e3, 'ms')):
        if microseconds >= size:
            return f'{microseconds / size:.3g} {unit}'
    return f'{microseconds:.3g} us'


def _ratio(value: float) -> str:
    if value >= 1000:
        # Only lower bounds get here; they are rounded down.
        unit = 10 ** (len(str(int(value))) - 2)
        return f'{int(value) // unit * unit:,}'
    return f'{value:.3g}'


HEADINGS = ('case', 'nova', 'ours', 'ratio', 'first', 'bar', 'verdict')


def cells(row: Row) -> tuple[str, ...]:
    """Return a row's cells as text."""
    more = '> ' if row.at_least else ''
    return (
        row.case.title,
        more + _time(row.nova_us),
        _time(row.ours_us),
        '-' if row.ratio is None else more + _ratio(row.ratio),
        '-' if row.first_ratio is None else _ratio(row.first_ratio),
        row.case.bar,
        row.verdict)


def table(rows: ty.Sequence[Row], gap: str = '  ',
          line: str = '-') -> list[str]:
    """Return the table's lines: a rule, headings, a rule, rows, a rule."""
    grid = [HEADINGS, *(cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*grid)]
    rule = gap.join(line * width for width in widths)
    lines = [
        gap.join(
            cell.rjust(width) if 0 < number < 5 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(cells_, widths))
        ).rstrip() for cells_ in grid]
    return [rule, lines[0], rule, *lines[1:], rule]


def explain(rows: ty.Sequence[Row], plan: measure.Plan) -> str:
    """Say what the figures of the table are."""
    text = (
        'Times are per host over the same HostStates: medians of '
        f'{plan.processes} x {plan.rounds} rounds of {plan.passes - 1} '
        'passes. They make the ratio and are what the bar is judged on; '
        '"first" is the ratio on HostStates seen for the first time. The '
        'whole request is timed as one, always on new HostStates '
        f'({plan.processes} x {plan.request_rounds} rounds).')
    spread = max(
        (abs(end / row.ratio - 1) for row in rows
         if row.interval and row.ratio for end in row.interval),
        default=None)
    if spread is not None:
        text += f' Ratios: +/- {100 * spread:.0f}% at most (95% intervals).'
    return text


def machine() -> dict[str, ty.Any]:
    """Describe where the figures come from, without naming the machine."""
    model = platform.processor() or platform.machine()
    try:
        text = pathlib.Path('/proc/cpuinfo').read_text()
    except OSError:
        text = ''
    for text_line in text.splitlines():
        key, _, value = text_line.partition(':')
        if key.strip() == 'model name':
            model = value.strip()
            break
    versions = {}
    for name in ('nova', 'nova-pinning', 'oslo.versionedobjects'):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = 'not installed'
    return {
        'cpu_model': model,
        'cpus': len(os.sched_getaffinity(0)),
        'system': f'{platform.system()} {platform.machine()}',
        'python': f'{platform.python_implementation()} '
                  f'{platform.python_version()}',
        'load_average': list(os.getloadavg()),
        'versions': versions,
    }


def as_json(rows: ty.Sequence[Row],
            samples: dict[str, list[measure.Samples]], plan: measure.Plan,
            facts: dict[str, ty.Any]) -> dict[str, ty.Any]:
    """Return all there is to know about a run."""
    return {
        'version': 2,
        'machine': facts,
        'plan': dataclasses.asdict(plan),
        'cases': [{
            'name': row.case.name,
            'title': row.case.title,
            'bar': row.case.bar,
            'unit': 'request' if row.case.whole_request else 'host',
            'fits': row.fits,
            'nova_us': row.nova_us,
            'nova_is_lower_bound': row.at_least,
            'ours_us': row.ours_us,
            'ratio': row.ratio,
            'ratio_95': row.interval,
            'nova_first_us': row.nova_first_us,
            'ours_first_us': row.ours_first_us,
            'first_ratio': row.first_ratio,
            'verdict': row.verdict,
            'problems': list(row.problems),
            'processes': [
                dataclasses.asdict(part) for part in samples[row.case.name]],
        } for row in rows],
    }


def as_rst(rows: ty.Sequence[Row], plan: measure.Plan) -> list[str]:
    """Return the table for the documentation."""
    return [*table(rows, line='='), '',
            *textwrap.wrap(explain(rows, plan), 79), '']


def machine_as_rst(facts: dict[str, ty.Any]) -> list[str]:
    """Return what the documentation says about the machine."""
    return [
        *textwrap.wrap(
            f'Measured on {facts["cpu_model"]} ({facts["cpus"]} CPUs), '
            f'{facts["system"]}, {facts["python"]}, nova '
            f'{facts["versions"]["nova"]}.', 79), '']
