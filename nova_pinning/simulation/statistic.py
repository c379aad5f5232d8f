# SPDX-License-Identifier: Apache-2.0
"""Means over seeds, with their 95% confidence intervals."""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import math
import statistics

from nova_pinning.simulation import simulation_run


@dataclasses.dataclass(frozen=True, slots=True)
class SeedEstimate:
    """A mean over seeds.

    :param error: half the width of its 95% confidence interval, None if one
        seed is all there is
    """

    mean: float
    error: float | None
    count: int


def estimate(values: Sequence[float]) -> SeedEstimate | None:
    """The mean of some values, None if there are none.

    The interval is Student's, which takes the mean to be normally
    distributed.
    """
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if count < 2:
        return SeedEstimate(mean, None, count)
    # It takes a while to load.
    from scipy import stats

    quantile = float(stats.t.ppf(0.975, count - 1))
    return SeedEstimate(mean, quantile * statistics.stdev(values, mean)
                        / math.sqrt(count), count)


#: A figure of a run, None if it has none.
Figure = Callable[[simulation_run.Result], float | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """A figure of one configuration, over all seeds.

    :param value: None where no run has the figure
    :param change: what a seed's figure differs from that of the first
        configuration with the same seed; None for that one itself
    :param lacking: runs that do not have the figure
    """

    value: SeedEstimate | None
    change: SeedEstimate | None
    lacking: int


def compare(
    results: Sequence[simulation_run.Result], names: Sequence[str],
    figure: Figure,
) -> dict[str, Compared]:
    """A figure of each configuration.

    :param names: of the configurations, the one to compare with first
    """
    values: dict[str, dict[int, float]] = {name: {} for name in names}
    counts = dict.fromkeys(names, 0)
    for result in results:
        counts[result.configuration] += 1
        number = figure(result)
        if number is not None:
            values[result.configuration][result.seed] = number
    first = values[names[0]]
    return {
        name: Compared(
            estimate(list(of_it.values())),
            None if name == names[0] else estimate([
                value - first[seed] for seed, value in of_it.items()
                if seed in first]),
            counts[name] - len(of_it))
        for name, of_it in values.items()}


def stranded_share(result: simulation_run.Result) -> float | None:
    """CPUs that were stranded, as a share of all, over the whole run."""
    return _mean_share(
        result, [sample.stranded_cpus for sample in result.samples])


def first_refusal_share(result: simulation_run.Result) -> float | None:
    """Share of the CPUs that was sold when a guest was first refused."""
    if result.first_refusal is None or not result.dedicated_cpus:
        return None
    return result.first_refusal.dedicated_vcpus / result.dedicated_cpus


def sold_share(result: simulation_run.Result) -> float | None:
    """Share of the CPUs that was sold, the mean over the whole run."""
    return _mean_share(
        result, [sample.dedicated_vcpus for sample in result.samples])


def _mean_share(result: simulation_run.Result,
                cpus: Sequence[float]) -> float | None:
    if not cpus or not result.dedicated_cpus:
        return None
    return math.fsum(cpus) / len(cpus) / result.dedicated_cpus


def l3_share(result: simulation_run.Result) -> float | None:
    """Guests in the fewest L3 domains, of those that could have been."""
    if not result.l3_possible or result.l3_met is None:
        return None
    return result.l3_met / result.l3_possible
