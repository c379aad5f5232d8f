# SPDX-License-Identifier: Apache-2.0
"""Two runs of an experiment, case by case: what got worse, what better."""

import dataclasses
import enum

from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import sessions
from nova_pinning.instance_bench import statistics

#: Change that nobody minds, if nothing else is said.
TOLERANCE = 0.02


class ChangeVerdict(enum.StrEnum):
    REGRESSION = 'regression'
    IMPROVEMENT = 'improvement'
    #: The interval has no change in it.
    NOISE = 'within the noise'
    #: Beyond the noise, but too small to mind.
    TOLERATED = 'within the tolerance'
    #: Too few values for an interval that says anything.
    UNKNOWN = 'too few runs'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """A figure of a tenant in a case, new against old.

    :param ratio: above 1 is worse; its interval, of the comparison's
        confidence, is what decides
    """

    old: statistics.FigureRow
    new: statistics.FigureRow
    ratio: intervals.Interval
    verdict: ChangeVerdict

    @property
    def is_notable(self) -> bool:
        return self.verdict in (ChangeVerdict.REGRESSION,
                                ChangeVerdict.IMPROVEMENT)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All of two runs.

    :param old: the earlier run
    :param only_old: names of what is in the old one only
    :param unlike: names of what is in both, but was not measured alike: other
        sizes, numbers of instances, neighbours, parameters or commands
    :param confidence: of the intervals that decide: so high that among all
        comparisons together any is wrong by chance in one of 20 pairs of runs
    :param differing: what of the hosts is not the same, in words
    """

    old: statistics.RunSummary
    changes: tuple[FigureChange, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    unlike: tuple[str, ...]
    tolerance: float
    confidence: float
    differing: tuple[str, ...]

    @property
    def regressions(self) -> tuple[FigureChange, ...]:
        return tuple(change for change in self.changes
                     if change.verdict is ChangeVerdict.REGRESSION)


def compare(new: statistics.RunSummary, old: statistics.RunSummary,
            tolerance: float = TOLERANCE) -> Comparison:
    """Find what differs beyond the noise and by more than the tolerance."""
    before = {_key(row): row for row in old.rows}
    after = {_key(row): row for row in new.rows}
    pairs = [(before[name], row) for name, row in after.items()
             if name in before]
    alike, unlike = [], []
    for was, row in pairs:
        if _measured(old, was) == _measured(new, row):
            alike.append((was, row))
        else:
            unlike.append(_name(row))
    confidence = intervals.of_many(len(alike))
    return Comparison(
        old=old,
        changes=tuple(_change(was, row, new, tolerance, confidence)
                      for was, row in alike),
        only_old=tuple(_name(row) for name, row in before.items()
                       if name not in after),
        only_new=tuple(_name(row) for name, row in after.items()
                       if name not in before),
        unlike=tuple(unlike), tolerance=tolerance, confidence=confidence,
        differing=sessions.between_runs(
            old.results.conditions, new.results.conditions))


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
            summary: statistics.RunSummary, tolerance: float,
            confidence: float) -> FigureChange:
    ratio = statistics.ratio(
        new.estimate.sample, old.estimate.sample,
        new.figure.better, confidence).stretched(summary.stretch)
    if not ratio.is_known or ratio.is_vague:
        verdict = ChangeVerdict.UNKNOWN
    elif not ratio.excludes(1):
        verdict = ChangeVerdict.NOISE
    elif abs(ratio.value - 1) <= tolerance:
        verdict = ChangeVerdict.TOLERATED
    elif ratio.value > 1:
        verdict = ChangeVerdict.REGRESSION
    else:
        verdict = ChangeVerdict.IMPROVEMENT
    return FigureChange(old=old, new=new, ratio=ratio, verdict=verdict)
