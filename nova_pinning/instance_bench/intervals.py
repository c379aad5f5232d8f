# SPDX-License-Identifier: Apache-2.0
"""Intervals for what was measured several times.

What was measured together is not independent: instances of one repetition
share the host as it was then and compete for it, and repetitions of one round
share instances, their places and their memory. So a sample is kept as
clusters, and clusters are what the jackknife leaves out, as a whole.

There is no bootstrap: runs have five rounds or so, and of fewer than ten its
intervals are too short.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import math
import statistics

#: Of intervals, if nothing else is said.
CONFIDENCE = 0.95
# One end of an interval by the other.
_VAGUE = 100
# Of one value to another, below which they differ by rounding only.
_ROUNDING = 1e-12
# Tukey's fences, in quartile distances beyond the quartiles.
_FENCE = 1.5
# Values below which quartiles say nothing.
_LEAST_FENCED = 4
# Nobody measures for so long.
_MANY_ROUNDS = 1000
# Of logarithms; beyond it numbers have no room.
_MOST_REACH = 700.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Values in clusters; clusters are independent of each other.

    :param clusters: with at least one value each
    :param numbers: of the rounds that clusters are, so that another sample of
        the same run can be told to share them
    """

    clusters: tuple[tuple[float, ...], ...]
    numbers: tuple[int, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        return self.without(None)

    @property
    def by_number(self) -> Mapping[int, tuple[float, ...]]:
        return dict(zip(self.numbers or range(len(self.clusters)),
                        self.clusters))

    def without(self, number: int | None) -> tuple[float, ...]:
        """The values of all clusters but one."""
        return tuple(itertools.chain.from_iterable(
            cluster for own, cluster in self.by_number.items()
            if own != number))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure and where it is with 95% confidence.

    :param value: nan if there is none
    :param low: nan, as high, if there are too few values to tell
    """

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def is_vague(self) -> bool:
        """Whether it says next to nothing of what cannot be negative."""
        return (self.low >= 0 and self.high > _VAGUE * self.low
                and self.high > math.sqrt(_VAGUE) * self.value)

    def excludes(self, value: float) -> bool:
        """Whether it is known and the value is not in it."""
        return self.is_known and not self.low <= value <= self.high

    @property
    def inverse(self) -> 'Interval':
        """Of a ratio, that the other way round; of 0 it is infinite."""
        value, low, high = (1 / number if number else math.inf for number
                            in (self.value, self.high, self.low))
        return dataclasses.replace(self, value=value, low=low, high=high)

    def stretched(self, factor: float) -> 'Interval':
        """Wider by a factor, by logarithms: for what cannot be negative."""
        if factor == 1 or not self.is_known or self.low <= 0:
            return self
        ends = (math.log(end / self.value) * factor if end != self.value
                else 0.0 for end in (self.low, self.high))
        low, high = (self.value * math.exp(
            max(min(end, _MOST_REACH), -_MOST_REACH)) for end in ends)
        return dataclasses.replace(self, low=low, high=high)


#: Of the values of each sample; where there is none it raises ArithmeticError
#: or, if they are too few, ValueError.
Statistic = Callable[[Sequence[Sequence[float]]], float]


def mean(samples: Sequence[Sequence[float]]) -> float:
    """Of values all alike it is theirs, and not what rounding makes of it.

    So is the variance 0, and the order of values makes no difference to
    either. Those of the standard library are the same without rounding, in
    fractions, which takes a hundred times as long.
    """
    values = samples[0]
    least = min(values)
    return least + math.fsum(value - least for value in values) / len(values)


def variance(values: Sequence[float]) -> float:
    """As :func:`mean` has it.

    :raises ZeroDivisionError: of a single value
    """
    middle = mean([values])
    return math.fsum(
        (value - middle) ** 2 for value in values) / (len(values) - 1)


def variation(samples: Sequence[Sequence[float]]) -> float:
    """Standard deviation by mean."""
    return math.sqrt(variance(samples[0])) / abs(mean(samples))


def t_quantile(chance: float, freedom: float) -> float:
    """What Student's t exceeds by a small chance.

    From the upper end, where nothing is lost to rounding.
    """
    from scipy import special

    return -float(special.stdtrit(freedom, chance))


def ratio(samples: Sequence[Sequence[float]]) -> float:
    """The first mean by the second."""
    return mean(samples) / mean(samples[1:])


def ratio_of_ratios(samples: Sequence[Sequence[float]]) -> float:
    """The first mean by the second, by the third by the fourth."""
    return ratio(samples) / ratio(samples[2:])


def interval(samples: Sequence[Sample], statistic: Statistic, *,
             is_positive: bool = False, confidence: float = CONFIDENCE,
             is_paired: bool = False) -> Interval:
    """A statistic of samples.

    They are independent of each other, or their clusters are the same rounds:
    then these are left out together.

    By the jackknife's standard error, and Student's t with as many degrees of
    freedom as there are clusters for, on a logarithmic scale for what cannot
    be negative.

    :param is_positive: such as a ratio or a spread
    :param is_paired: that clusters of the same number are of the same round
    """
    try:
        value = statistic([sample.values for sample in samples])
    except (ArithmeticError, ValueError):
        value = math.nan
    reach = math.nan
    if min(len(sample.clusters) for sample in samples) > 1:
        reach = (0.0 if all(map(_is_flat, samples)) else
                 _reach(samples, statistic, is_positive, confidence,
                        is_paired))
    if math.isnan(value) or math.isnan(reach):
        return Interval(value=value, low=math.nan, high=math.nan)
    if not is_positive:
        return Interval(value=value, low=value - reach, high=value + reach)
    factor = math.exp(min(reach, _MOST_REACH))
    return Interval(value=value, low=value / factor, high=value * factor)


def _is_flat(sample: Sample) -> bool:
    return (max(sample.values) - min(sample.values)
            <= _ROUNDING * max(map(abs, sample.values)))


def _reach(samples: Sequence[Sample], statistic: Statistic, is_positive: bool,
           confidence: float, is_paired: bool) -> float:
    """Half an interval's width, nan where it cannot be told.

    From the jackknife: leave each cluster out in turn.
    """
    every = range(len(samples))
    parts = []
    for chosen in [every] if is_paired else [[index] for index in every]:
        numbers = {number for index in chosen
                   for number in samples[index].by_number}
        try:
            left = [statistic([
                sample.without(number if index in chosen else None)
                for index, sample in enumerate(samples)])
                for number in numbers]
            if is_positive:
                left = list(map(math.log, left))
        except (ArithmeticError, ValueError):
            return math.nan
        parts.append(((len(numbers) - 1) ** 2 / len(numbers)
                      * variance(left), len(numbers) - 1))
    of_all = math.fsum(part for part, _freedom in parts)
    if not of_all:
        return 0.0
    # Welch and Satterthwaite's degrees of freedom.
    freedom = 1 / math.fsum((part / of_all) ** 2 / of_part
                            for part, of_part in parts)
    return t_quantile((1 - confidence) / 2, freedom) * math.sqrt(of_all)


def spread_ratio(sample: Sample, other: Sample) -> Interval:
    """How much further values are from their median than another sample's.

    Of each round the one mean distance by the other, and Student's t of the
    logarithms: a round with an outlier counts no more than any. A ratio of
    standard deviations takes outliers for a difference, of identical samples
    with 10% of them in 10 to 20%.

    :returns: not known if fewer than two rounds have two values of each; a
        single one may be the median itself
    """
    try:
        far, near = map(_distances, (sample, other))
        clusters = tuple((far[number] / near[number],)
                         for number in far.keys() & near.keys())
    except ArithmeticError:
        clusters = ()
    return interval(
        [Sample(clusters=clusters)],
        lambda samples: statistics.geometric_mean(samples[0]),
        is_positive=True)


def _distances(sample: Sample) -> dict[int, float]:
    """From the median of all, as parts of it, by rounds of several values."""
    middle = statistics.median(sample.values)
    return {number: statistics.fmean(
        abs(value / middle - 1) for value in cluster)
        for number, cluster in sample.by_number.items() if len(cluster) > 1}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FigureEstimate:
    """What a sample says; the unit is the figure's.

    :param interval: of the mean, with 95% confidence
    :param variation: coefficient of variation, deviation by mean
    :param outliers: values outside Tukey's fences; they count like all
        others
    """

    sample: Sample
    interval: Interval
    variation: Interval
    outliers: tuple[float, ...]

    @property
    def values(self) -> tuple[float, ...]:
        return self.sample.values

    @property
    def count(self) -> int:
        return len(self.sample.values)

    @property
    def mean(self) -> float:
        return self.interval.value

    @property
    def deviation(self) -> float:
        """The standard deviation, nan of a single value."""
        return self.variation.value * abs(self.mean)

    @property
    def minimum(self) -> float:
        return min(self.sample.values)

    @property
    def maximum(self) -> float:
        return max(self.sample.values)


def estimate(sample: Sample) -> FigureEstimate:
    """The mean of at least one value, and its spread."""
    least = min(sample.values)
    level = interval([sample], mean, is_positive=least > 0)
    if least == 0:
        # There are no logarithms of zeros, but nothing is below either.
        level = dataclasses.replace(level, low=max(level.low, 0.0))
    return FigureEstimate(
        sample=sample, interval=level, outliers=outliers(sample.values),
        variation=interval([sample], variation, is_positive=True))


def of_many(number: int) -> float:
    """The confidence of each of some intervals, so that all have 95%.

    Bonferroni's, and what the worst of them takes.
    """
    return 1 - (1 - CONFIDENCE) / max(number, 1)


def rounds_that_tell(interval: Interval, bound: float, rounds: int) -> str:
    """How many more rounds would leave a bound out of an interval, in words.

    :param rounds: that it is of
    """
    away = abs(math.log(bound / interval.value))
    more = (rounds * ((math.log(interval.high / interval.value) / away) ** 2
                      - 1) if interval.is_known and away else math.inf)
    return (f'about {math.ceil(max(more, 1)):,} more rounds would tell'
            if more < _MANY_ROUNDS else
            f'not even {_MANY_ROUNDS:,} rounds need tell')


def outliers(values: Sequence[float]) -> tuple[float, ...]:
    """Values beyond Tukey's fences, in the order in which they came."""
    if len(values) < _LEAST_FENCED:
        return ()
    lower, _median, upper = statistics.quantiles(values, method='inclusive')
    reach = _FENCE * (upper - lower)
    return tuple(value for value in values
                 if not lower - reach <= value <= upper + reach)
