# SPDX-License-Identifier: Apache-2.0
"""What a machine's measurements are worth: identical cases, compared.

An A/A experiment measures copies of one case as if they differed. Its ratios
are 1 but for chance, and 95% of their intervals should include 1. Where fewer
do, something that rounds share or that comes and goes makes figures differ by
more than their spread tells, and other experiments' intervals on this machine
are too narrow by the same measure.
"""

import dataclasses
import math

from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import statistics

TABLE = 'self-test'
# What makes another machine of one, by the conditions of a run: a self-test
# says nothing of others.
_MACHINE = {'cpu_model': 'CPU model', 'topology': 'topology',
            'kernel': 'kernel'}
#: The factor that tells copies apart.
COPY = 'copy'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CopyComparison:
    """Two copies of a case, one against the other.

    :param name: of the case
    :param ratio: of the first copy's figure to the second one's
    """

    name: str
    figure: str
    ratio: intervals.Interval

    @property
    def reach(self) -> float:
        """What the interval has to be stretched by to include 1."""
        value = self.ratio.value
        end = self.ratio.low if value > 1 else self.ratio.high
        if value == 1:
            return 0.0
        return (math.log(value) / math.log(value / end) if value != end
                else math.inf)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a self-test says of the machine that it was run on.

    :param comparisons: none if it was cut off before two rounds
    :param stretch: at least 1; what half-widths of intervals of ratios, by
        their logarithms, have to be multiplied by so that 95% include 1.
        Infinite where copies differ without any spread: no stretch will do
    :param conditions: of the machine, None if nobody knows them
    :param source: the file's name
    """

    comparisons: tuple[CopyComparison, ...]
    stretch: float
    conditions: bench_model.Conditions | None = None
    source: str = ''

    @property
    def including_one(self) -> int:
        return sum(comparison.reach <= 1 for comparison in self.comparisons)

    @property
    def largest(self) -> float:
        """The ratio that is farthest from 1, as one above 1."""
        return math.exp(max((abs(math.log(comparison.ratio.value))
                             for comparison in self.comparisons), default=0))

    @property
    def smallest_effect(self) -> float:
        """The ratio, above 1, that half of the intervals can tell from 1.

        As wide as they have to be, or infinite.
        """
        if not (self.comparisons and math.isfinite(self.stretch)):
            return math.inf
        reaches = sorted(one.ratio.high / one.ratio.value
                         for one in self.comparisons)
        return math.pow(reaches[len(reaches) // 2], self.stretch)

    @property
    def chance(self) -> float:
        """That so few intervals, or fewer, include 1 if 95% are to."""
        from scipy import stats

        return float(stats.binom.cdf(
            self.including_one, len(self.comparisons), intervals.CONFIDENCE))

    def other_machine(
            self, conditions: bench_model.Conditions | None) -> str:
        """What tells its machine from another, '' if nothing is known to.

        :param conditions: of the other
        """
        if self.conditions is None or conditions is None:
            return ''
        return '; '.join(
            f'{words}: {was} there, {now} here'
            for name, words in _MACHINE.items()
            if (was := getattr(self.conditions, name))
            != (now := getattr(conditions, name)))


def calibrate(results: bench_model.Results, source: str = '') -> Calibration:
    """Compare the copies of each case, each of them once.

    :param source: the file's name
    :raises nova_pinning.errors.InputError: if these are not results of a
        self-test
    """
    if results.experiment.table != TABLE:
        raise errors.InputError(
            f'has results of {results.experiment.name}, which is not a '
            'self-test', errors.Location(source) if source else None,
            'make one with nova-pinning bench run self-test')
    by_case: dict[tuple[object, ...], list[statistics.FigureRow]] = {}
    summary = statistics.summarise(results)
    for row in summary.rows:
        if summary.is_first(row):
            by_case.setdefault(tuple(
                value for name, value in row.case.factors.items()
                if name != COPY), []).append(row)
    comparisons = tuple(
        comparison for rows in by_case.values()
        for one, other in zip(rows[::2], rows[1::2])
        if (comparison := _compared(one, other)).ratio.is_known)
    reaches = sorted(comparison.reach for comparison in comparisons)
    enough = (reaches[math.ceil(intervals.CONFIDENCE * len(reaches)) - 1]
              if reaches else 1.0)
    return Calibration(comparisons=comparisons, stretch=max(enough, 1.0),
                       conditions=summary.conditions, source=source)


def _compared(one: statistics.FigureRow,
              other: statistics.FigureRow) -> CopyComparison:
    return CopyComparison(
        name=' / '.join(value for name, value in one.case.factors.items()
                        if name != COPY),
        figure=one.figure.name, ratio=statistics.ratio(
            one.estimate.sample, other.estimate.sample,
            better=one.figure.better, is_paired=True))
