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

"""Means over seeds, with their 95% confidence intervals."""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import math
import statistics

from nova_pinning.fleet.simulate import run

#: Two-sided 95% quantiles of Student's t, for 1 degree of freedom and on.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds.

    :param error: half the width of its 95% confidence interval, None if one
        seed is all there is
    """

    mean: float
    error: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of some values, None if there are none.

    The interval is Student's, which takes the mean to be normally
    distributed.
    """
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, count)
    spread = statistics.stdev(values, mean) / math.sqrt(count)
    return Estimate(mean, _quantile(count - 1) * spread, count)


def _quantile(degrees: int) -> float:
    if degrees <= len(_T):
        return _T[degrees - 1]
    # From the expansion of the quantile around that of the normal one.
    normal = 1.959964
    return normal + (normal ** 3 + normal) / (4 * degrees)


#: A figure of a run, None if it has none.
Figure = Callable[[run.Result], float | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """A figure of one configuration, over all seeds.

    :param value: None where no run has the figure
    :param change: what a seed's figure differs from that of the first
        configuration with the same seed; None for that one itself
    :param lacking: runs that do not have the figure
    """

    value: Estimate | None
    change: Estimate | None
    lacking: int


def compare(
    results: Sequence[run.Result], names: Sequence[str], figure: Figure,
) -> dict[str, Compared]:
    """A figure of each configuration.

    :param names: of the configurations, the one to compare with first
    """
    values: dict[str, dict[int, float]] = {name: {} for name in names}
    counts = dict.fromkeys(names, 0)
    for result in results:
        counts[result.configuration] += 1
        found = figure(result)
        if found is not None:
            values[result.configuration][result.seed] = found
    first = values[names[0]]
    return {
        name: Compared(
            estimate(list(of_it.values())),
            None if name == names[0] else estimate([
                value - first[seed] for seed, value in of_it.items()
                if seed in first]),
            counts[name] - len(of_it))
        for name, of_it in values.items()}


def stranded_share(result: run.Result) -> float | None:
    """CPUs that were stranded, as a share of all, over the whole run."""
    if not result.samples or not result.dedicated_cpus:
        return None
    return math.fsum(
        sample.stranded_cpus for sample in result.samples
    ) / len(result.samples) / result.dedicated_cpus


def first_refusal_share(result: run.Result) -> float | None:
    """Share of the CPUs that was sold when a guest was first refused."""
    if result.first_refusal is None or not result.dedicated_cpus:
        return None
    return result.first_refusal.dedicated_vcpus / result.dedicated_cpus


def sold_share(result: run.Result) -> float | None:
    """Share of the CPUs that was sold, the mean over the whole run."""
    if not result.samples or not result.dedicated_cpus:
        return None
    return math.fsum(
        sample.dedicated_vcpus for sample in result.samples
    ) / len(result.samples) / result.dedicated_cpus


def l3_share(result: run.Result) -> float | None:
    """Guests in the fewest L3 domains, of those that could have been."""
    if not result.l3_possible or result.l3_met is None:
        return None
    return result.l3_met / result.l3_possible
