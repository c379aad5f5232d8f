# SPDX-License-Identifier: Apache-2.0
"""A run of an experiment against earlier ones: what got worse, what better.

What differs from one boot to the next (where memory lies, which interrupts
went where) is in every round of a boot, so boots are what is independent.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import itertools
import math
import statistics as figures

from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import sessions
from nova_pinning.instance_bench import statistics

#: Change that nobody minds, if nothing else is said.
TOLERANCE = 0.02
#: What boots differ by at the most, unless the earlier ones differ by more: we
#: assume so much, since no figure is published, and few boots tell little.
BOOTS = 0.10
# Earlier boots that tell of a change of some three times their deviation.
_LEAST_BOOTS = 5
# Nobody boots so often.
_MANY_BOOTS = 100


class ChangeVerdict(enum.StrEnum):
    REGRESSION = 'regression'
    IMPROVEMENT = 'improvement'
    #: The interval has no change in it.
    NOISE = 'within the noise'
    #: More than rounds of a boot differ by, but boots may.
    BOOTS = 'inconclusive: boots'
    #: Beyond the noise, but too small to mind.
    TOLERATED = 'within the tolerance'
    #: Too few values for an interval that says anything.
    UNKNOWN = 'too few runs'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """A figure of a tenant in a case, new against old.

    :param old: its values those of all earlier runs
    :param ratio: above 1 is worse; its interval, of the comparison's
        confidence, is what decides
    :param more_boots: earlier ones that would tell, infinite if no number
        need; 0 if boots do not matter
    """

    old: statistics.FigureRow
    new: statistics.FigureRow
    ratio: intervals.Interval
    verdict: ChangeVerdict
    more_boots: float = 0

    @property
    def is_notable(self) -> bool:
        return self.verdict in (ChangeVerdict.REGRESSION,
                                ChangeVerdict.IMPROVEMENT)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All of a run and earlier ones.

    :param old: the earlier runs
    :param boots: how many boots they are known to be of
    :param only_old: names of what is in the old ones only
    :param unlike: names of what is in both, but was not measured alike: other
        sizes, numbers of instances, neighbours, parameters or commands
    :param confidence: of the intervals that decide: so high that among all
        comparisons together any is wrong by chance in one of 20 pairs of runs
    :param differing: what of the hosts is not the same, in words
    """

    old: Sequence[statistics.RunSummary]
    boots: int
    changes: tuple[FigureChange, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    unlike: tuple[str, ...]
    confidence: float
    differing: tuple[str, ...]


def compare(new: statistics.RunSummary,
            old: Sequence[statistics.RunSummary]) -> Comparison:
    """Find what differs beyond the noise and by more than the tolerance.

    :param old: at least one, each of one boot: the last that it was run in
    """
    after = {_key(row): row for row in new.rows}
    before: dict[object, statistics.FigureRow] = {}
    alike: dict[object, dict[str, list[tuple[float, ...]]]] = {}
    for run in old:
        for was in run.rows:
            name = _key(was)
            before.setdefault(name, was)
            if name in after and (_measured(run, was)
                                  == _measured(new, after[name])):
                alike.setdefault(name, {}).setdefault(
                    _boot(run), []).extend(was.estimate.sample.clusters)
    confidence = intervals.of_many(len(alike))
    return Comparison(
        old=old, boots=len({_boot(run) for run in old}),
        changes=tuple(
            _change(before[name], after[name], alike[name], new, confidence)
            for name in after if name in alike),
        only_old=tuple(_name(row) for name, row in before.items()
                       if name not in after),
        only_new=tuple(_name(row) for name, row in after.items()
                       if name not in before),
        unlike=tuple(_name(row) for name, row in after.items()
                     if name in before and name not in alike),
        confidence=confidence,
        differing=tuple(dict.fromkeys(itertools.chain.from_iterable(
            sessions.between_runs(run.results.conditions,
                                  new.results.conditions) for run in old))))


def _boot(summary: statistics.RunSummary) -> str:
    """Those that nobody knows are taken for one."""
    return summary.conditions.boot_id if summary.conditions else ''


def _key(row: statistics.FigureRow) -> tuple[object, ...]:
    return (row.case.key, row.tenant.name,
            row.tenant.workload, row.figure.name)


def _measured(summary: statistics.RunSummary,
              row: statistics.FigureRow) -> tuple[object, ...]:
    """What has to be the same for figures to be comparable."""
    workloads = [summary.results.workloads[tenant.workload]
                 for tenant in row.case.tenants]
    return (row.case.tenants, row.figure.unit, row.figure.better, [
        (workload.command, workload.parameters) for workload in workloads])


def _name(row: statistics.FigureRow) -> str:
    return f'{row.case.name}: {row.tenant.name}, {row.figure.name}'


def _change(old: statistics.FigureRow, new: statistics.FigureRow,
            boots: Mapping[str, Sequence[tuple[float, ...]]],
            summary: statistics.RunSummary,
            confidence: float) -> FigureChange:
    """:param boots: the earlier values of each boot, in rounds"""
    every = intervals.Sample(
        clusters=tuple(itertools.chain.from_iterable(boots.values())))
    rounds = statistics.ratio(
        new.estimate.sample, every, new.figure.better,
        confidence).stretched(summary.stretch)
    ratio, more = rounds, 0.0
    boot = _boot(summary)
    if rounds.is_known and not (boot and boots.keys() == {boot}):
        ratio, more = _over_boots(rounds, [
            tuple(itertools.chain.from_iterable(clusters))
            for clusters in boots.values()], confidence)
    if not ratio.is_known or rounds.is_vague:
        verdict = ChangeVerdict.UNKNOWN
    elif not rounds.excludes(1):
        verdict = ChangeVerdict.NOISE
    elif not ratio.excludes(1):
        verdict = ChangeVerdict.BOOTS
    elif abs(ratio.value - 1) <= TOLERANCE:
        verdict = ChangeVerdict.TOLERATED
    elif ratio.value > 1:
        verdict = ChangeVerdict.REGRESSION
    else:
        verdict = ChangeVerdict.IMPROVEMENT
    return FigureChange(
        old=dataclasses.replace(old, estimate=intervals.estimate(every)),
        new=new, ratio=ratio, verdict=verdict,
        more_boots=more if verdict is ChangeVerdict.BOOTS else 0)


def _over_boots(
        rounds: intervals.Interval, boots: Sequence[Sequence[float]],
        confidence: float) -> tuple[intervals.Interval, float]:
    """A ratio whose interval has in it what boots do, and how many more tell.

    By how much one more boot may be beside the mean of those that were, all
    being alike: Student's t with as many degrees of freedom as there are
    boots but one. Never less than rounds tell, nor more than is assumed.
    """
    logs = [math.log(mean) for values in boots
            if (mean := figures.fmean(values)) > 0]

    def reach(number: int, of_mean: float) -> float:
        return math.sqrt((1 + of_mean) * variance) * intervals.t_quantile(
            (1 - confidence) / 2, number - 1)

    most = math.log(1 + BOOTS)
    if len(logs) < 2:
        more: float = _LEAST_BOOTS - 1
        beyond = most
    else:
        variance = intervals.variance(logs)
        away = abs(math.log(rounds.value))
        more = next((number - len(logs)
                     for number in range(len(logs) + 1, _MANY_BOOTS)
                     if reach(number, 1 / number) < away), math.inf)
        counts = list(map(len, boots))
        of_mean = sum(count ** 2 for count in counts) / sum(counts) ** 2
        beyond = max(0.0, reach(len(logs), of_mean)
                     - math.log(rounds.high / rounds.value))
        if max(logs) - min(logs) <= most:
            beyond = min(beyond, most)
    return dataclasses.replace(
        rounds, low=rounds.low / math.exp(beyond),
        high=rounds.high * math.exp(beyond)), more
