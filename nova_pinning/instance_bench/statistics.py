# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: estimates with intervals, and how cases compare.

Ratios are oriented so that more than 1 is worse, whether a figure is better
higher or lower: 1.25 is a quarter more time, or a throughput that the
baseline beats by a quarter.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import math
import re
from typing import Any

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals

#: Tables whose cases differ by the workload.
COMPARES_WORKLOADS = ('multitask',)
# Percentiles, and values beyond one that it takes to be more than the largest.
_PERCENTILE = re.compile(r'p(\d+(?:_\d+)?)')
_LEAST_BEYOND = 10
# The figure of a workload that says how many values its percentiles are of.
_SAMPLES = 'samples'


def ratio(sample: intervals.Sample, baseline: intervals.Sample,
          better: bench_model.Better = bench_model.Better.LOWER,
          confidence: float = intervals.CONFIDENCE,
          is_paired: bool = False) -> intervals.Interval:
    """How much worse a sample is than a baseline's: above 1 is worse.

    :param is_paired: that both are of the same rounds, so that what a round
        does to both is not taken for a difference
    """
    pair = [sample, baseline]
    if better is bench_model.Better.HIGHER:
        pair.reverse()
    return intervals.interval(pair, intervals.ratio, is_positive=True,
                              confidence=confidence, is_paired=is_paired)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """What one figure of one tenant came to in one case.

    :param overhead: against the baseline's case, None if this is one or
        there is none
    :param slowdown: against the same kind of instance on an otherwise idle
        host, None if it has no neighbours or there is no such case
    :param flagged: how many of its measurements have flags
    """

    case: bench_model.Case
    tenant: bench_model.Tenant
    figure: bench_model.WorkloadFigure
    estimate: intervals.FigureEstimate
    baseline: str = ''
    overhead: intervals.Interval | None = None
    quiet: str = ''
    slowdown: intervals.Interval | None = None
    flagged: int = 0

    @property
    def has_neighbours(self) -> bool:
        """Whether any other instance ran, be it of the same kind."""
        return sum(tenant.count for tenant in self.case.tenants) > 1

    @property
    def is_measured(self) -> bool:
        return self.tenant.role is bench_model.Role.MEASURED

    @property
    def is_pinned(self) -> bool:
        """Whether its vCPUs have CPUs of their own, and do not float."""
        return self.tenant.provisioning is bench_model.Provisioning.PINNED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """All rows, in the order of the experiment's cases.

    :param stretch: what intervals of ratios are wider by than the rounds
        themselves tell, by logarithms where they cannot be negative: what a
        self-test of the machine asks for
    """

    results: bench_model.Results
    rows: tuple[FigureRow, ...]
    stretch: float = 1.0

    @property
    def experiment(self) -> bench_model.Experiment:
        return self.results.experiment

    @property
    def conditions(self) -> bench_model.Conditions | None:
        """Those of the last session, None if nobody knows them."""
        conditions = self.results.conditions
        return conditions[-1] if conditions else None

    @property
    def host_cpus(self) -> int:
        """How many CPUs the host has, 0 if nobody knows."""
        return self.conditions.cpus if self.conditions else 0

    def is_first(self, row: FigureRow) -> bool:
        """Whether it is of its workload's first figure."""
        return row.figure == self.results.workloads[
            row.tenant.workload].figures[0]

    def name(self, case: bench_model.Case) -> str:
        """A case's, without what is the same for all."""
        return ' / '.join(
            case.factors[name] for name in varying(self.experiment.cases)
            if name in case.factors)


def summarise(results: bench_model.Results,
              stretch: float = 1.0) -> RunSummary:
    """Estimates of all figures of all tenants that have been read.

    :param stretch: as of :class:`RunSummary`
    """
    measured = by_case(results.measurements)
    rows = []
    for case in results.experiment.cases:
        measurements = measured.get(case.key, ())
        for tenant in case.tenants:
            workload = results.workloads.get(tenant.workload)
            for figure in workload.figures if workload else ():
                sample = sample_of(measurements, tenant.name, figure.name)
                if sample is not None and _is_told(
                        figure, sample_of(measurements, tenant.name,
                                          _SAMPLES)):
                    rows.append(FigureRow(
                        case=case, tenant=tenant, figure=figure,
                        estimate=intervals.estimate(sample),
                        flagged=sum(bool(measurement.flags)
                                    for measurement in measurements)))
    return RunSummary(results=results, stretch=stretch, rows=tuple(
        _compared(row, rows, results.experiment, stretch) for row in rows))


def _is_told(figure: bench_model.WorkloadFigure,
             samples: intervals.Sample | None) -> bool:
    """Whether a percentile has values beyond it, and is not the largest.

    :param samples: how many values each run had, None if nobody knows
    """
    match = _PERCENTILE.fullmatch(figure.name)
    if match is None or samples is None:
        return True
    beyond = 1 - float(match[1].replace('_', '.')) / 100
    return round(min(samples.values) * beyond, 6) >= _LEAST_BEYOND


def varying(cases: Sequence[bench_model.Case]) -> tuple[str, ...]:
    """The factors that are needed to tell cases apart; at least one."""
    names = dict.fromkeys(name for case in cases for name in case.factors)
    factors: list[str] = []
    kinds = 1
    for name in names:
        divided = len({tuple(case.factors.get(factor) for factor in (
            *factors, name)) for case in cases})
        if divided > kinds:
            factors.append(name)
            kinds = divided
    return tuple(factors) or tuple(names)[:1]


def by_case(
    measurements: Iterable[bench_model.Measurement],
) -> dict[bench_model.CaseKey, list[bench_model.Measurement]]:
    """Those of each case, in their order."""
    measured: dict[bench_model.CaseKey, list[bench_model.Measurement]] = {}
    for measurement in measurements:
        measured.setdefault(measurement.key, []).append(measurement)
    return measured


def sample_of(measurements: Iterable[bench_model.Measurement], tenant: str,
              figure: str) -> intervals.Sample | None:
    """A tenant's values, in clusters: its rounds.

    All of a round shares instances and the host's state. Repetitions are no
    clusters, nor are instances: these run at the same time, so what disturbs
    one repetition is in all of them, and what one gets of a CPU another does
    not.

    :returns: None if there are no values
    """
    return _in_rounds((measurement.round, value)
                      for measurement in measurements
                      for value in _values(measurement, tenant, figure))


def _values(measurement: bench_model.Measurement, tenant: str,
            figure: str) -> list[float]:
    """A figure of a tenant's instances, as one repetition brought it."""
    return [float(reading.figures[figure]) for reading in measurement.readings
            if reading.tenant == tenant and figure in reading.figures]


def _in_rounds(values: Iterable[tuple[int, float]]) -> intervals.Sample | None:
    """Values with their rounds as a sample, None if there are none."""
    rounds: dict[int, list[float]] = {}
    for number, value in values:
        rounds.setdefault(number, []).append(value)
    if not rounds:
        return None
    return intervals.Sample(numbers=tuple(rounds),
                            clusters=tuple(map(tuple, rounds.values())))


def _compared(row: FigureRow, rows: Sequence[FigureRow],
              experiment: bench_model.Experiment,
              stretch: float) -> FigureRow:
    """The row with what it is next to its baseline and without neighbours."""
    changes: dict[str, Any] = {}
    for other, case, times in (
            (baseline_row(row, rows, experiment), 'baseline', 'overhead'),
            (_without_neighbours(row, rows, experiment), 'quiet', 'slowdown')):
        if other is not None:
            changes[case] = other.case.name
            changes[times] = ratio(
                row.estimate.sample, other.estimate.sample, row.figure.better,
                is_paired=True).stretched(stretch)
    return dataclasses.replace(row, **changes)


def is_baseline(case: bench_model.Case, baseline: Mapping[str, str]) -> bool:
    """Whether a case is one of those that ratios are calculated against."""
    return baseline.items() <= case.factors.items()


def baseline_row(row: FigureRow, rows: Sequence[FigureRow],
                 experiment: bench_model.Experiment) -> FigureRow | None:
    """The row of the baseline's tenant that is most like one, None of its own.

    The workload has to be the same, but where workloads are what is compared.
    A scenario may fix axes that others vary, so the other factors need not
    be, but the more the better. It is looked for in the whole experiment: if
    it was not measured, another that was will not do.
    """
    baseline = experiment.baseline
    if not baseline or is_baseline(row.case, baseline):
        return None
    others = {factor: value for factor, value in row.case.factors.items()
              if factor not in baseline}
    like = max(
        ((case, tenant) for case in experiment.cases
         if is_baseline(case, baseline) for tenant in case.tenants
         if (tenant.workload == row.tenant.workload
             or experiment.table in COMPARES_WORKLOADS)),
        key=lambda pair: (
            sum(pair[0].factors.get(factor) == value
                for factor, value in others.items()),
            pair[1].parameters == row.tenant.parameters,
            pair[1].name == row.tenant.name,
            pair[1].size == row.tenant.size), default=None)
    return _row_of(like, row.figure, rows)


def _without_neighbours(
        row: FigureRow, rows: Sequence[FigureRow],
        experiment: bench_model.Experiment) -> FigureRow | None:
    """The like of it alone on the host, in the case with fewest instances.

    None if that case was not measured: among more of its kind it is not
    alone.
    """
    if not row.is_measured or not row.has_neighbours:
        return None
    like = dataclasses.replace(row.tenant, name='', count=1)
    alone = min(
        ((case, tenant) for case in experiment.cases
         if len(case.tenants) == 1 for tenant in case.tenants
         if dataclasses.replace(tenant, name='', count=1) == like),
        key=lambda pair: pair[1].count, default=None)
    if alone is None or alone[0] == row.case:
        return None
    return _row_of(alone, row.figure, rows)


def quiet_row(summary: RunSummary, row: FigureRow) -> FigureRow | None:
    """What a row is without its neighbours, or else its baseline."""
    experiment = summary.experiment
    return (_without_neighbours(row, summary.rows, experiment)
            or baseline_row(row, summary.rows, experiment))


def _row_of(tenant_of_case: tuple[bench_model.Case, bench_model.Tenant] | None,
            figure: bench_model.WorkloadFigure,
            rows: Sequence[FigureRow]) -> FigureRow | None:
    """What was measured of a tenant of a case, if anything was."""
    if tenant_of_case is None:
        return None
    case, tenant = tenant_of_case
    return next((row for row in rows if row.case.factors == case.factors
                 and row.tenant == tenant and row.figure == figure), None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Two tenants of one case: how long one takes by how long the other.

    :param ratio: of the heavier tenant's time to the lighter one's, each
        repetition's two times being a pair
    """

    heavy: FigureRow
    light: FigureRow
    ratio: intervals.FigureEstimate

    @property
    def case(self) -> bench_model.Case:
        return self.heavy.case


def finishes(summary: RunSummary) -> tuple[Finish, ...]:
    """Ratios of cases with two measured tenants of different weights."""
    measured = by_case(summary.results.measurements)
    pairs = []
    for _name, group in itertools.groupby(
            summary.rows, lambda row: row.case.key):
        rows = [row for row in group if row.is_measured
                and row.figure.better is bench_model.Better.LOWER]
        # A tenant's first figure that is a time.
        firsts = list({row.tenant.name: row for row in reversed(rows)
                       }.values())
        if len(firsts) != 2:
            continue
        light, heavy = sorted(firsts, key=lambda row: row.tenant.weight)
        if light.tenant.weight == heavy.tenant.weight:
            continue
        sample = _paired(measured[heavy.case.key], heavy, light)
        if sample is not None:
            found = intervals.estimate(sample)
            pairs.append(Finish(
                heavy=heavy, light=light, ratio=dataclasses.replace(
                    found,
                    interval=found.interval.stretched(summary.stretch))))
    return tuple(pairs)


def _paired(measurements: Iterable[bench_model.Measurement], heavy: FigureRow,
            light: FigureRow) -> intervals.Sample | None:
    """Of each repetition the ratio of the two's means, if it has both."""
    ratios = []
    for measurement in measurements:
        both = [_values(measurement, row.tenant.name, row.figure.name)
                for row in (heavy, light)]
        if all(both) and math.fsum(both[1]):
            means = [math.fsum(values) / len(values) for values in both]
            ratios.append((measurement.round, means[0] / means[1]))
    return _in_rounds(ratios)
