# SPDX-License-Identifier: Apache-2.0
"""Which rows of a run are compared, for reports and for advice.

What pinning buys and what density costs are told apart. A pinned instance has
a CPU for each vCPU. Beside a floating one that shares its CPUs with two others
it would win whatever pinning does, so the two are compared where as many vCPUs
are sold for each CPU, and what more of them cost is a comparison of its own,
of floating instances.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import statistics

#: A gain of less is not worth a CPU of one's own, or another policy, and more
#: overhead than this is too much: for reports and for advice.
WORTH = 0.05
# Of vCPUs for each CPU, what counts as the same.
_SAME = 0.1
# Threads beside those that an instance's work runs in.
_NOT_ITS_OWN = ('emulator', 'vhost')

#: Two rows that differ in one thing.
Pair = tuple[statistics.FigureRow, statistics.FigureRow]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IsolationPair:
    """A pinned instance and a floating one of the same platform and work.

    :param other: None if none was measured at the same density
    :param level: how much worse off the floating one is; above 1 pinning
        gains
    :param spread: how much further its values are from their median
    :param has_one_cpu: as :func:`has_one_cpu` of the floating one
    """

    row: statistics.FigureRow
    other: statistics.FigureRow | None
    level: intervals.Interval | None = None
    spread: intervals.Interval | None = None
    has_one_cpu: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DensityCost:
    """A floating instance among many, against one among few.

    :param few: vCPUs for each CPU
    :param cost: how much worse off it is among many
    """

    row: statistics.FigureRow
    other: statistics.FigureRow
    many: float
    few: float
    cost: intervals.Interval


def ratio(
    summary: statistics.RunSummary, row: statistics.FigureRow,
    other: statistics.FigureRow, confidence: float = intervals.CONFIDENCE,
) -> intervals.Interval:
    """How much worse a row is than another; above 1 is worse.

    As wide as the self-test says that it has to be.
    """
    return statistics.ratio(
        row.estimate.sample, other.estimate.sample, row.figure.better,
        confidence, is_paired=True).stretched(summary.stretch)


def against_own(
    summary: statistics.RunSummary, pair: Pair, other: Pair,
    confidence: float = intervals.CONFIDENCE,
) -> intervals.Interval:
    """How much worse a row is by one of its own than another by its own.

    Round by round; as wide as the self-test says that it has to be.
    """
    rows = (*pair, *other)
    if rows[0].figure.better is bench_model.Better.HIGHER:
        rows = (*pair[::-1], *other[::-1])
    return intervals.interval(
        [row.estimate.sample for row in rows], intervals.ratio_of_ratios,
        is_positive=True, is_paired=True, confidence=confidence,
    ).stretched(summary.stretch)


def first_figures(
        summary: statistics.RunSummary) -> list[statistics.FigureRow]:
    """Rows of measured tenants, of their workloads' first figures."""
    return [row for row in summary.rows
            if row.is_measured and summary.is_first(row)]


def alike_but_for(
    summary: statistics.RunSummary, factor: str,
) -> Iterable[list[statistics.FigureRow]]:
    """Rows of first figures, those together that differ in one factor."""
    groups: dict[object, list[statistics.FigureRow]] = {}
    for row in first_figures(summary):
        groups.setdefault((
            bench_model.case_key(_without(row.case, factor)), row.tenant.name,
            row.tenant.workload), []).append(row)
    return groups.values()


def _without(case: bench_model.Case, factor: str) -> Mapping[str, str]:
    return {name: value for name, value in case.factors.items()
            if name != factor}


def pinning_pairs(summary: statistics.RunSummary) -> Iterator[Pair]:
    """What floats, and the same pinned."""
    for rows in alike_but_for(summary, 'provisioning'):
        pinned = [row for row in rows if row.is_pinned]
        yield from ((row, pinned[-1]) for row in rows
                    if pinned and not row.is_pinned)


def slowdown_pairs(
    summary: statistics.RunSummary,
) -> Iterator[tuple[statistics.FigureRow, statistics.FigureRow,
                    intervals.Interval]]:
    """Pinned and floating beside the same neighbour: which it slows more.

    Each against itself without one, since the two need not have as many vCPUs
    for each CPU: what floats is among its neighbours, and what is pinned is
    not. Above 1 the floating one is slowed more.
    """
    for floating, pinned in pinning_pairs(summary):
        alone = [quiet for row in (floating, pinned)
                 if (quiet := statistics.quiet_row(summary, row)) is not None]
        if len(alone) == 2 and floating.has_neighbours:
            yield pinned, floating, against_own(
                summary, (floating, alone[0]), (pinned, alone[1]))


def processor_pairs(summary: statistics.RunSummary) -> Iterator[Pair]:
    """What ran on two CPUs (SMP), and the same on one (UP)."""
    for rows in alike_but_for(summary, 'processors'):
        of_number = {row.case.factors.get('processors'): row for row in rows}
        if {'1', '2'} <= of_number.keys():
            yield of_number['2'], of_number['1']


def given_cpus(summary: statistics.RunSummary, case: bench_model.Case,
               tenant: bench_model.Tenant | None = None) -> cpuset.CpuSet:
    """The host CPUs that instances of a case were given; empty if unknown.

    Threads that work for a guest may run elsewhere and are left out.

    :param tenant: None for all of the case
    """
    name = case.key
    given = cpuset.CpuSet()
    for measurement in summary.results.measurements:
        if measurement.key == name:
            for affinity in measurement.affinities:
                # 'enterprise-0: vCPU 1'
                instance, _colon, thread = affinity.thread.rpartition(': ')
                if thread not in _NOT_ITS_OWN and (
                        tenant is None
                        or instance.rpartition('-')[0] == tenant.name):
                    given |= affinity.asked
            if given:
                return given
    if summary.conditions is None:
        return given
    return summary.conditions.layout.get(
        str((tenant or case.tenants[0]).guest_class), cpuset.CpuSet())


def density(summary: statistics.RunSummary,
            row: statistics.FigureRow) -> float:
    """How many vCPUs there are for each CPU that a row's tenant may use.

    :returns: 0 if nobody knows the CPUs
    """
    own = given_cpus(summary, row.case, row.tenant)
    vcpus = 0.0
    for tenant in row.case.tenants:
        cpus = given_cpus(summary, row.case, tenant)
        if cpus:
            vcpus += (tenant.count * tenant.size.vcpus
                      * len(cpus & own) / len(cpus))
    return vcpus / len(own) if own else 0.0


def isolations(summary: statistics.RunSummary) -> Iterator[IsolationPair]:
    """Pinned instances among neighbours, each with the like of it.

    Those that ran at the same time where there are any: they had the same
    neighbours.
    """
    found: dict[object, list[IsolationPair]] = {}
    rows = first_figures(summary)
    floating = [row for row in rows if not row.is_pinned]
    for row in rows:
        if row.is_pinned and row.has_neighbours:
            found.setdefault(_kind(row), []).append(_isolation(summary, row, (
                max((other for other in floating if _kind(row) == _kind(other)
                     and _is_alike(summary, row, other)),
                    key=lambda other: (
                        other.case == row.case, other.has_neighbours),
                    default=None))))
    for group in found.values():
        for is_wanted in (
                lambda one: one.other and one.other.case == one.row.case,
                lambda one: one.other, lambda one: True):
            if wanted := [one for one in group if is_wanted(one)]:
                yield from wanted
                break


def _kind(row: statistics.FigureRow) -> tuple[object, ...]:
    return row.tenant.workload, row.tenant.platform, row.tenant.size


def _is_alike(summary: statistics.RunSummary, row: statistics.FigureRow,
              other: statistics.FigureRow) -> bool:
    """Whether only pinning tells two rows apart.

    That is the density, and what all instances do; in a matrix of neighbours
    the factors as well.
    """
    work, others_work = ({tenant.workload for tenant in one.case.tenants}
                         for one in (row, other))
    return is_as_dense(summary, row, other) and work == others_work and (
        summary.experiment.table != 'neighbours'
        or _without(row.case, 'provisioning')
        == _without(other.case, 'provisioning'))


def is_as_dense(summary: statistics.RunSummary, row: statistics.FigureRow,
                other: statistics.FigureRow) -> bool:
    """Whether there are as many vCPUs for each CPU."""
    return abs(density(summary, row) - density(summary, other)) <= _SAME


def has_one_cpu(summary: statistics.RunSummary,
                row: statistics.FigureRow) -> bool:
    """Whether what floats has a single CPU to float on, and it for itself.

    So it is pinned in all but name.
    """
    return (len(given_cpus(summary, row.case, row.tenant)) == 1
            and density(summary, row) <= 1 + _SAME)


def _isolation(summary: statistics.RunSummary, row: statistics.FigureRow,
               other: statistics.FigureRow | None) -> IsolationPair:
    if other is None:
        return IsolationPair(row=row, other=None)
    return IsolationPair(
        row=row, other=other, level=ratio(summary, other, row),
        spread=intervals.spread_ratio(
            other.estimate.sample, row.estimate.sample,
        ).stretched(summary.stretch),
        has_one_cpu=has_one_cpu(summary, other))


def density_costs(summary: statistics.RunSummary) -> Iterator[DensityCost]:
    """Floating instances where most vCPUs are, against one for each CPU.

    Of each platform and workload one.
    """
    pairs: dict[object, list[tuple[float, statistics.FigureRow]]] = {}
    for row in first_figures(summary):
        if not row.is_pinned and all(
                tenant.role is bench_model.Role.MEASURED
                for tenant in row.case.tenants):
            pairs.setdefault(_kind(row), []).append(
                (density(summary, row), row))
    for rows in pairs.values():
        many, row = max(rows, key=lambda pair: (pair[0], len(
            pair[1].case.tenants)))
        few, other = min(rows, key=lambda pair: (
            abs(pair[0] - 1), [tenant.name for tenant in pair[1].case.tenants]
            != [tenant.name for tenant in row.case.tenants]))
        if abs(few - 1) <= _SAME < many - few:
            yield DensityCost(
                row=row, other=other, many=many, few=few,
                cost=ratio(summary, row, other))
