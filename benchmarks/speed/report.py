# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers beside nova's: from samples to figures and a table."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import math
import random
import statistics

from benchmarks import judging
from benchmarks import runner
from benchmarks.speed import bars
from benchmarks.speed import measure

_Rounds = list[list[int]]


def _same(rounds: _Rounds) -> list[int]:
    """Return the times that the bar is judged on."""
    return [elapsed for passes in rounds for elapsed in passes[1:] or passes]


def _first(rounds: _Rounds) -> list[int]:
    return [passes[0] for passes in rounds]


def _mean_of_medians(lists: Iterable[list[int]], per: float) -> float:
    return statistics.fmean(
        statistics.median(values) for values in lists) / per


def _intervals(
    parts: list[measure.Samples], per: float,
) -> tuple[judging.Interval, judging.Interval | None]:
    """Of our time, and of the ratio if nova was timed as often."""
    def drawn(rng: random.Random, *sides: str) -> list[float]:
        """Draw processes, and of each its rounds: both differ by chance.

        A round's times are always together.
        """
        chosen = [
            (part, rng.choices(range(len(part.ours_ns)), k=len(part.ours_ns)))
            for part in rng.choices(parts, k=len(parts))]
        return [_mean_of_medians(
            (_same([getattr(part, side)[number] for number in numbers])
             for part, numbers in chosen), per) for side in sides]

    def ratio(rng: random.Random) -> float:
        nova, ours = drawn(rng, 'nova_ns', 'ours_ns')
        return nova / ours

    return (judging.bootstrap(lambda rng: drawn(rng, 'ours_ns')[0]),
            judging.bootstrap(ratio) if parts[0].nova_ns else None)


def _problems(case: bars.Case, parts: list[measure.Samples],
              limited: measure.Limited | None) -> Iterator[str]:
    """What is wrong with the answers."""
    hosts = sum(part.hosts for part in parts)
    passed = sum(part.ours_passed for part in parts)
    differ = [host for part in parts for host in part.differ]
    if differ:
        yield f'answers differ on {len(differ)} hosts, such as {differ[0]}'
    if case.expect is bars.Expect.FIT and passed != hosts:
        yield f'{hosts - passed} hosts refused though there is room'
    if case.expect is bars.Expect.REFUSE:
        if passed:
            yield f'{passed} hosts accepted though there is no room'
        if limited is not None and limited.passed:
            yield 'nova accepted a host on which there is no room'


def summarise(case: bars.Case,
              parts: list[measure.Samples]) -> runner.Outcome:
    """Return the figures of one case from those of its processes.

    Times are in microseconds a host or a request, of the passes over the same
    HostStates, or of the only pass where there is one.
    """
    limited = parts[0].limited
    per = 1000.0 if case.whole_request else 1000.0 * parts[0].hosts
    (ours_us, ours_first_us), nova = (
        [_mean_of_medians((take(getattr(part, side)) for part in parts), per)
         for take in (_same, _first)] if getattr(parts[0], side) else None
        for side in ('ours_ns', 'nova_ns'))
    nova_us, nova_first_us = nova or (None, None)
    ours_interval, ratio_interval = _intervals(parts, per)
    if limited is not None:
        nova_us = limited.seconds * 1e6
        fast, slow = ours_interval
        ratio_interval = (
            nova_us / slow, nova_us / fast if limited.ended else math.inf)
    ratio = nova_us and nova_us / ours_us
    first_ratio = nova_first_us and nova_first_us / ours_first_us
    judged = []
    if case.ratio is not None:
        judged.append(judging.at_least(
            ratio_interval or (0, math.inf), case.ratio, _ratio))
    if case.limit_us is not None:
        judged.append(judging.below(ours_interval, case.limit_us, _time))
    is_bound = limited is not None and not limited.ended
    more = '> ' if is_bound else ''
    return runner.Outcome(
        name=case.name, bars=judged,
        problems=list(_problems(case, parts, limited)),
        cells=(case.name, more + _time(nova_us), _time(ours_us),
               more + _ratio(ratio, '') if ratio else '-',
               _ratio(first_ratio, '') if first_ratio else '-'),
        details={'ratio': ratio, 'ratio_95': ratio_interval,
                 'nova_is_lower_bound': is_bound})


def _time(microseconds: float | None) -> str:
    if microseconds is None:
        return '-'
    for size, unit in ((1e6, 's'), (1e3, 'ms')):
        if microseconds >= size:
            return f'{microseconds / size:.3g} {unit}'
    return f'{microseconds:.3g} us'


def _ratio(value: float, unit: str = 'x') -> str:
    if value >= 1000:
        # Only lower bounds get here; they are rounded down.
        step = 10 ** (len(str(int(value))) - 2)
        return f'{int(value) // step * step:,}{unit}'
    return f'{value:.3g}{unit}'


def explain(outcomes: Sequence[runner.Outcome],
            options: argparse.Namespace) -> str:
    """Say what the figures of the table are."""
    plan = measure.plan_of(options)
    text = (
        'Times are per host over the same HostStates: medians of '
        f'{plan.processes} x {plan.rounds} rounds of {plan.passes - 1} '
        f'passes ({plan.processes} x {plan.few_rounds} of one where nova '
        'takes long). They make the ratio and are what the bars are judged '
        'on; "first" is the ratio on HostStates seen for the first time. A '
        'whole request is timed as one, always on new HostStates '
        f'({plan.processes} x {plan.few_rounds} rounds).')
    spread = max(
        (abs(end / details['ratio'] - 1)
         for details in (outcome.details for outcome in outcomes)
         if details['ratio_95'] and not details['nova_is_lower_bound']
         for end in details['ratio_95']), default=None)
    if spread is not None:
        text += f' Ratios: +/- {100 * spread:.0f}% at most (95% intervals).'
    return text


def run(cases: Sequence[bars.Case], options: argparse.Namespace,
        step: runner.Step) -> list[runner.Outcome]:
    """Measure the cases."""
    samples = measure.measure_all(cases, measure.plan_of(options), step)
    return [summarise(case, samples[case.name]) for case in cases]


GROUP = runner.Group(
    cases=bars.CASES, measure=run,
    headings=('case', 'nova', 'ours', 'ratio', 'first', 'bar'),
    numbers=range(1, 5), explain=explain)
