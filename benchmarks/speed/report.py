# SPDX-License-Identifier: Apache-2.0
"""From samples to figures, and from figures to a table, JSON or rst."""

import dataclasses
import math
import random
import statistics
import typing as ty

from benchmarks.speed import bars
from benchmarks.speed import judging
from benchmarks.speed import measure
from benchmarks import tables


class Judged(ty.NamedTuple):
    """One bar of a case, and the interval of what it is for, in words."""

    bar: str
    interval: str
    verdict: judging.Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A case's figures; times in microseconds a host or a request.

    ``ours_us``, ``nova_us`` and the intervals are of the passes over the same
    HostStates, or of the only pass where there is one. The ratio has none
    when nova was not tried.
    """

    case: bars.Case
    fits: str
    ours_us: float
    nova_us: float | None
    ours_first_us: float
    nova_first_us: float | None
    at_least: bool
    ours_interval: judging.Interval
    ratio_interval: judging.Interval | None
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
    def judged(self) -> list[Judged]:
        """Each of the case's bars."""
        judged = []
        if self.case.ratio is not None:
            low, high = interval = self.ratio_interval or (0, math.inf)
            end = 'or more' if math.isinf(high) else f'to {_ratio(high)}x'
            judged.append(Judged(
                bars.ratio_bar(self.case.ratio), f'{_ratio(low)}x {end}',
                judging.of_ratio(interval, self.case.ratio)))
        if self.case.limit_us is not None:
            judged.append(Judged(
                bars.time_bar(self.case.limit_us),
                ' to '.join(_time(end) for end in self.ours_interval),
                judging.of_time(self.ours_interval, self.case.limit_us)))
        return judged

    @property
    def verdict(self) -> judging.Verdict:
        """The verdict on all bars, and on the answers."""
        if self.problems:
            return judging.Verdict.WRONG
        return judging.worst(judged.verdict for judged in self.judged)


def _same(rounds: list[list[int]]) -> list[int]:
    """Return the times that the bar is judged on."""
    return [elapsed for passes in rounds for elapsed in passes[1:] or passes]


def _first(rounds: list[list[int]]) -> list[int]:
    return [passes[0] for passes in rounds]


def _mean_of_medians(lists: ty.Iterable[list[int]], per: float) -> float:
    return statistics.fmean(
        statistics.median(values) for values in lists) / per


def _draw(rng: random.Random, parts: list[measure.Samples],
          ) -> list[tuple[measure.Samples, list[int]]]:
    """Draw processes, and of each its rounds: both differ by chance."""
    drawn = []
    for part in rng.choices(parts, k=len(parts)):
        rounds = range(len(part.ours_ns))
        drawn.append((part, rng.choices(rounds, k=len(rounds))))
    return drawn


def _ours_interval(parts: list[measure.Samples], per: float,
                   ) -> judging.Interval:
    def draw(rng: random.Random) -> float:
        return _mean_of_medians(
            (_same([part.ours_ns[number] for number in numbers])
             for part, numbers in _draw(rng, parts)), per)

    return judging.bootstrap(draw)


def _ratio_interval(parts: list[measure.Samples]) -> judging.Interval:
    """Bootstrap the ratio, a round's times always together."""
    def draw(rng: random.Random) -> float:
        drawn = _draw(rng, parts)
        nova, ours = (
            _mean_of_medians(
                (_same([getattr(part, side)[number] for number in numbers])
                 for part, numbers in drawn), 1)
            for side in ('nova_ns', 'ours_ns'))
        return nova / ours

    return judging.bootstrap(draw)


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
    if (case.expect is bars.Expect.REFUSE and limited is not None
            and limited.passed):
        problems.append('nova accepted a host on which there is no room')
    nova_us = nova_first_us = ratio_interval = None
    ours_interval = _ours_interval(parts, per)
    if limited is not None:
        nova_us = limited.seconds * 1e6
        fast, slow = ours_interval
        ratio_interval = (
            nova_us / slow, nova_us / fast if limited.ended else math.inf)
    elif parts[0].nova_ns:
        nova_us = _mean_of_medians(
            (_same(part.nova_ns) for part in parts), per)
        nova_first_us = _mean_of_medians(
            (_first(part.nova_ns) for part in parts), per)
        ratio_interval = _ratio_interval(parts)
    return Row(
        case=case, fits=f'{passed}/{hosts}',
        ours_us=_mean_of_medians((_same(part.ours_ns) for part in parts), per),
        nova_us=nova_us,
        ours_first_us=_mean_of_medians(
            (_first(part.ours_ns) for part in parts), per),
        nova_first_us=nova_first_us,
        at_least=limited is not None and not limited.ended,
        ours_interval=ours_interval, ratio_interval=ratio_interval,
        problems=tuple(problems))


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
        row.case.name,
        more + _time(row.nova_us),
        _time(row.ours_us),
        '-' if row.ratio is None else more + _ratio(row.ratio),
        '-' if row.first_ratio is None else _ratio(row.first_ratio),
        row.case.bar,
        row.verdict)


def table(rows: ty.Sequence[Row], plan: measure.Plan) -> tables.FigureTable:
    """What filters and weighers took."""
    return tables.FigureTable(
        [HEADINGS, *map(cells, rows)], explain(rows, plan), range(1, 5))


def parts_table(parts: ty.Sequence[measure.Samples]) -> tables.FigureTable:
    """What the times of a case consist of, as the table of all cases is."""
    def median(side: str, part: str) -> float:
        return _mean_of_medians(
            ([times[part] for times in samples.parts_ns[side]]
             for samples in parts), 1000)

    names = list(parts[0].parts_ns['ours'][0])
    times = {side: {name: median(side, name) for name in names}
             for side in ('nova', 'ours')}
    return tables.FigureTable([
        ('of the whole request', 'nova', '%', 'ours', '%'),
        *((name, *(word for took in times.values() for word in (
            _time(took[name]), f'{100 * took[name] / sum(took.values()):.0f}')
        )) for name in names)], numbers=range(1, 5))


def explain(rows: ty.Sequence[Row], plan: measure.Plan) -> str:
    """Say what the figures of the table are."""
    text = (
        'Times are per host over the same HostStates: medians of '
        f'{plan.processes} x {plan.rounds} rounds of {plan.passes - 1} '
        f'passes ({plan.processes} x {plan.few_rounds} of one where nova '
        'takes long). They make the ratio and are what the bars are judged '
        'on; "first" is the ratio on HostStates seen for the first time. A '
        'whole request is timed as one, always on new HostStates '
        f'({plan.processes} x {plan.few_rounds} rounds).')
    spread = max(
        (abs(end / row.ratio - 1) for row in rows
         if row.ratio_interval and row.ratio and not row.at_least
         for end in row.ratio_interval), default=None)
    if spread is not None:
        text += f' Ratios: +/- {100 * spread:.0f}% at most (95% intervals).'
    return ' '.join([text, *inconclusive(rows)])


def inconclusive(rows: ty.Iterable[Row]) -> list[str]:
    """A sentence for each bar that lies inside its interval."""
    return [
        f'Inconclusive, which is not a failure: the bar {bar.bar} of '
        f'{row.case.name} lies inside the 95% interval, {bar.interval}.'
        for row in rows for bar in row.judged
        if bar.verdict is judging.Verdict.INCONCLUSIVE]


def as_json(rows: ty.Sequence[Row],
            samples: dict[str, list[measure.Samples]], plan: measure.Plan,
            facts: dict[str, ty.Any]) -> dict[str, ty.Any]:
    """Return all there is to know about a run."""
    return {
        'version': 3,
        'machine': facts,
        'plan': dataclasses.asdict(plan),
        'cases': [{
            'name': row.case.name,
            'bars': [{'bar': bar.bar, 'verdict': bar.verdict}
                     for bar in row.judged],
            'unit': 'request' if row.case.whole_request else 'host',
            'fits': row.fits,
            'nova_us': row.nova_us,
            'nova_is_lower_bound': row.at_least,
            'ours_us': row.ours_us,
            'ours_us_95': row.ours_interval,
            'ratio': row.ratio,
            # JSON knows no infinity: null is an end that is not known.
            'ratio_95': row.ratio_interval and [
                end if math.isfinite(end) else None
                for end in row.ratio_interval],
            'nova_first_us': row.nova_first_us,
            'ours_first_us': row.ours_first_us,
            'first_ratio': row.first_ratio,
            'verdict': row.verdict,
            'problems': list(row.problems),
            'processes': [
                dataclasses.asdict(part) for part in samples[row.case.name]],
        } for row in rows]}
