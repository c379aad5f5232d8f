# SPDX-License-Identifier: Apache-2.0
"""Verdicts on bars, by the intervals of what was measured."""

from collections.abc import Callable
from collections.abc import Iterable
import enum
import math
import random
import statistics
from typing import NamedTuple

_RESAMPLES = 1000

#: Where a figure lies, in 95 of 100 runs: from, to. The upper end is infinite
#: where only a lower bound is known.
Interval = tuple[float, float]


class Verdict(enum.StrEnum):
    """What is made of a bar, or of an outcome with several; the worst last."""

    NONE = '-'
    MET = 'met'
    INCONCLUSIVE = 'inconclusive'
    MISSED = 'MISSED'
    WRONG = 'WRONG'

    @property
    def is_failure(self) -> bool:
        """Whether the run ends with status 1."""
        return self in (Verdict.MISSED, Verdict.WRONG)


class JudgedBar(NamedTuple):
    """One bar, and the interval of what it is for, both in words."""

    bar: str
    interval: str
    verdict: Verdict


def at_least(interval: Interval, bar: float,
             show: Callable[[float], str]) -> JudgedBar:
    """Whether a figure is the bar or more, as far as can be told."""
    low, high = interval
    end = 'or more' if math.isinf(high) else f'to {show(high)}'
    return JudgedBar(
        f'>={show(bar)}', f'{show(low)} {end}',
        Verdict.MET if low >= bar else
        Verdict.MISSED if high < bar else Verdict.INCONCLUSIVE)


def below(interval: Interval, limit: float,
          show: Callable[[float], str]) -> JudgedBar:
    """Whether a figure is less than the limit, as far as can be told."""
    low, high = interval
    return JudgedBar(
        f'<{show(limit)}', f'{show(low)} to {show(high)}',
        Verdict.MET if high < limit else
        Verdict.MISSED if low >= limit else Verdict.INCONCLUSIVE)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on all bars together; NONE where there are none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.NONE)


def bootstrap(draw: Callable[[random.Random], float]) -> Interval:
    """The 95% interval of a figure.

    :param draw: works the figure out once, from samples drawn with
        replacement from those that were taken
    """
    rng = random.Random(0)
    cuts = statistics.quantiles([draw(rng) for _ in range(_RESAMPLES)], n=40)
    return cuts[0], cuts[-1]
