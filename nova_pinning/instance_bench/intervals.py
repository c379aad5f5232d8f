# SPDX-License-Identifier: Apache-2.0
"""Intervals for what was measured several times.

What was measured together is not independent: instances of one repetition
share the host as it was then and compete for it, and repetitions of one round
share instances, their places and their memory. So a sample is kept as
clusters, and clusters are what the jackknife leaves out, as a whole. Each
statistic here is a function of the number of values, their sum and their sum
of squares, which clusters simply add up to.

There is no bootstrap: runs have five rounds or so, and of fewer than ten its
intervals are too short.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import enum
import itertools
import math
from typing import Any

#: Of intervals, if nothing else is said.
CONFIDENCE = 0.95
# One end of an interval by the other.
_VAGUE = 100
# Of one value to another, below which they differ by rounding only.
_ROUNDING = 1e-12


class Method(enum.StrEnum):
    """How an interval was found."""

    #: Student's t with the jackknife's standard error.
    STUDENT = "Student's t"
    #: There is no spread in it.
    EQUAL = 'all equal'
    #: Too few values.
    NONE = 'none'


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
        return tuple(value for cluster in self.clusters for value in cluster)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure and where it is with 95% confidence.

    :param value: nan if there is none
    :param low: nan, as high, if there are too few values to tell
    """

    value: float
    low: float
    high: float
    method: Method

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
        # Beyond that numbers have no room.
        low, high = (self.value * math.exp(max(min(end, 700.0), -700.0))
                     for end in ends)
        return dataclasses.replace(self, low=low, high=high)

    def widened(self, factor: float) -> 'Interval':
        """Wider by a factor, as it is: for what can be negative."""
        if factor == 1 or not self.is_known:
            return self
        low, high = (
            self.value + (end - self.value) * factor if end != self.value
            else end for end in (self.low, self.high))
        return dataclasses.replace(self, low=low, high=high)


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """What clusters add up to: arrays of one shape, or numbers.

    :param total: the sum of the values' distances from the centre
    :param squares: the sum of the squares of these
    """

    count: Any
    total: Any
    squares: Any
    centre: float

    @property
    def mean(self) -> Any:
        return self.centre + self.total / self.count

    @property
    def deviation(self) -> Any:
        """The standard deviation; nan of a single value."""
        import numpy

        spread = self.squares - self.total ** 2 / self.count
        return numpy.sqrt(numpy.where(
            self.count > 1, numpy.maximum(spread, 0.0), math.nan)
            / numpy.maximum(self.count - 1, 1))


Statistic = Callable[[Sequence[Totals]], Any]


def mean(totals: Sequence[Totals]) -> Any:
    return totals[0].mean


def variation(totals: Sequence[Totals]) -> Any:
    """Standard deviation by mean."""
    return totals[0].deviation / abs(totals[0].mean)


def ratio(totals: Sequence[Totals]) -> Any:
    """The first mean by the second."""
    return totals[0].mean / totals[1].mean


def ratio_of_ratios(totals: Sequence[Totals]) -> Any:
    """The first mean by the second, by the third by the fourth."""
    return ratio(totals[:2]) / ratio(totals[2:])


def variation_ratio(totals: Sequence[Totals]) -> Any:
    return variation(totals[:1]) / variation(totals[1:])


class _SampleGroup:
    """Samples that share clusters, in an order that is always the same.

    :param samples: one, or several with numbers
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        import numpy

        numbered = [dict(zip(sample.numbers or range(len(sample.clusters)),
                             sample.clusters)) for sample in samples]
        # A sample without values in a cluster has an empty one there.
        shared = sorted(
            [tuple(sorted(clusters.get(number, ()))) for clusters in numbered]
            for number in set().union(*numbered))
        self._centres = [math.fsum(sample.values) / len(sample.values)
                         for sample in samples]
        # By cluster, sample, and what is added up.
        self._sums = numpy.array([
            [(len(cluster), math.fsum(value - centre for value in cluster),
              math.fsum((value - centre) ** 2 for value in cluster))
             for cluster, centre in zip(clusters, self._centres)]
            for clusters in shared])
        self.clusters = len(shared)
        self.fewest = min(len(sample.clusters) for sample in samples)
        self.is_flat = all(
            max(sample.values) - min(sample.values)
            <= _ROUNDING * max(map(abs, sample.values)) for sample in samples)

    def totals(self) -> list[Totals]:
        """Of each sample."""
        return self._split(self._sums.sum(axis=0))

    def leave_one_out(self) -> list[Totals]:
        """Of all clusters but one, for each."""
        return self._split(self._sums.sum(axis=0) - self._sums)

    def _split(self, sums: Any) -> list[Totals]:
        return [Totals(sums[..., index, 0], sums[..., index, 1],
                       sums[..., index, 2], centre)
                for index, centre in enumerate(self._centres)]


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
    import numpy

    groups = [_SampleGroup(of_group) for of_group in (
        [samples] if is_paired else [[sample] for sample in samples])]
    with numpy.errstate(all='ignore'):
        value = float(statistic(_joined(
            [group.totals() for group in groups])))
        if not math.isfinite(value):
            return _unknown(value)
        fewest = min(group.fewest for group in groups)
        if fewest < 2:
            return _unknown(value)
        if all(group.is_flat for group in groups):
            return Interval(value=value, low=value, high=value,
                            method=Method.EQUAL)
        return _student(groups, statistic, value, is_positive, confidence)


def _unknown(value: float) -> Interval:
    return Interval(value=value if math.isfinite(value) else math.nan,
                    low=math.nan, high=math.nan, method=Method.NONE)


def _joined(totals: Iterable[Sequence[Totals]]) -> list[Totals]:
    return list(itertools.chain.from_iterable(totals))


def _student(groups: Sequence[_SampleGroup], statistic: Statistic,
             value: float, is_positive: bool,
             confidence: float) -> Interval:
    """From the jackknife: leave each cluster out in turn."""
    import numpy
    from scipy import stats

    if is_positive and value <= 0:
        return _unknown(value)
    whole = [group.totals() for group in groups]
    variances = []
    for index, group in enumerate(groups):
        totals = [*whole]
        totals[index] = group.leave_one_out()
        left = statistic(_joined(totals))
        if is_positive:
            left = numpy.log(left)
        variances.append(float(
            (group.clusters - 1) ** 2 / group.clusters * left.var(ddof=1)))
    variance = math.fsum(variances)
    if not math.isfinite(variance):
        return _unknown(value)
    if variance == 0:
        return Interval(value=value, low=value, high=value,
                        method=Method.EQUAL)
    # Welch and Satterthwaite's degrees of freedom.
    freedom = 1 / math.fsum(
        (part / variance) ** 2 / (group.clusters - 1)
        for part, group in zip(variances, groups))
    # From the upper end, where nothing is lost to rounding.
    reach = float(stats.t.isf((1 - confidence) / 2, freedom)
                  ) * math.sqrt(variance)
    if not is_positive:
        return Interval(value=value, low=value - reach, high=value + reach,
                        method=Method.STUDENT)
    factor = math.exp(min(reach, 700.0))
    return Interval(value=value, low=value / factor, high=value * factor,
                    method=Method.STUDENT)
