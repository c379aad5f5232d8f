# SPDX-License-Identifier: Apache-2.0
"""What a run can be held to, on any machine.

A claim is a direction, or a ratio within a band; its margin is the run's own
interval. What the intervals are too wide for is inconclusive, which is not
to be taken for passed.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import enum
import itertools
import re

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import statistics

#: By how much a ratio of finish times may be beside what weights should give.
BAND = 0.10
#: What a platform may be faster than bare metal, huge pages and all.
_MARGIN = 0.05
# Threads beside those that an instance's work runs in.
_NOT_ITS_OWN = ('emulator', 'vhost')
_SMP = re.compile(r'\b(SMP|smp)\b')


class ClaimVerdict(enum.StrEnum):
    HOLDS = 'holds'
    DOES_NOT_HOLD = 'does not hold'
    INCONCLUSIVE = 'inconclusive'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunClaim:
    """A sentence, and whether the run bears it out.

    :param name: for programs: 'affinities', 'clocks', 'complete', 'level',
        'spread', 'mutex', 'finish-ratio', 'bare-metal'
    :param subject: of which case, '' if of all
    :param evidence: the figures that decide
    """

    name: str
    statement: str
    verdict: ClaimVerdict
    evidence: str
    subject: str = ''


def claims(summary: statistics.RunSummary) -> tuple[RunClaim, ...]:
    """All that the run can be held to."""
    run_claims = [_affinities(summary.results.measurements),
                  _clocks(summary.results.measurements), _complete(summary)]
    for own in _OF_TABLE.get(summary.experiment.table, ()):
        run_claims.extend(own(summary))
    return tuple(run_claims)


def counted(run_claims: Iterable[RunClaim]) -> str:
    """'3 hold, 1 does not hold, 2 inconclusive (not passed)'."""
    verdicts = [run_claim.verdict for run_claim in run_claims]
    parts = []
    for verdict, singular, plural in (
            (ClaimVerdict.HOLDS, 'holds', 'hold'),
            (ClaimVerdict.DOES_NOT_HOLD, 'does not hold', 'do not hold'),
            (ClaimVerdict.INCONCLUSIVE, 'inconclusive (not passed)', '')):
        number = verdicts.count(verdict)
        if number:
            parts.append(words.count(number, singular, plural or singular))
    return ', '.join(parts)


def _affinities(measurements: Sequence[bench_model.Measurement]) -> RunClaim:
    statement = ('While it was measured, every thread might run only on the '
                 'host CPUs that were meant for it')
    every = [affinity for measurement in measurements
             for affinity in measurement.affinities]
    wrong = [affinity for affinity in every
             if affinity.seen and not affinity.is_in_force]
    gone = sum(not affinity.seen for affinity in every)
    unseen = sum(map(_has_unseen, measurements))
    if wrong:
        verdict = ClaimVerdict.DOES_NOT_HOLD
        evidence = (f'{len(wrong):,} of {len(every):,} were not in force; '
                    f'{wrong[0].thread}: CPUs {wrong[0].seen} in place of '
                    f'{wrong[0].asked}')
    elif unseen or not measurements:
        verdict = ClaimVerdict.INCONCLUSIVE
        evidence = ('those of some instance were not seen in '
                    f'{unseen:,} of {len(measurements):,} measurements'
                    if measurements else 'nothing was measured')
    else:
        verdict = ClaimVerdict.HOLDS
        evidence = f'{len(every) - gone:,} affinities seen, all in force'
        if gone:
            evidence += f'; {words.count(gone, "thread")} had ended before'
    return RunClaim(name='affinities', statement=statement, verdict=verdict,
                    evidence=evidence)


def _has_unseen(measurement: bench_model.Measurement) -> bool:
    """Whether there is an instance none of whose threads was seen."""
    seen = {
        affinity.thread.partition(': ')[0]
        for affinity in measurement.affinities
        if affinity.seen}
    return any(
        reading.instance not in seen for reading in measurement.readings)


def _clocks(measurements: Sequence[bench_model.Measurement]) -> RunClaim:
    readings = [reading for measurement in measurements
                for reading in measurement.readings]
    both = [
        reading for reading in readings if reading.inside_seconds is not None]
    apart = [reading for reading in both if not reading.clocks_agree]
    if apart:
        # A slow way in can make the time outside longer, as a clock inside
        # that lags does. Nothing but the clock makes it shorter.
        verdict = (ClaimVerdict.DOES_NOT_HOLD if any(
            (reading.inside_seconds or 0.0) > reading.outside_seconds
            for reading in apart) else ClaimVerdict.INCONCLUSIVE)
        worst = max(apart, key=lambda reading: abs(
            reading.outside_seconds - (reading.inside_seconds or 0.0)))
        evidence = (
            f'{len(apart):,} of {len(both):,} disagree; {worst.instance}: '
            f'{worst.outside_seconds:.2f} s outside, '
            f'{worst.inside_seconds:.2f} s inside')
    elif not both:
        verdict = ClaimVerdict.INCONCLUSIVE
        evidence = 'no clock inside was read'
    else:
        verdict = ClaimVerdict.HOLDS
        evidence = f'{words.count(len(both), "pair")} of times agree'
    return RunClaim(
        name='clocks', verdict=verdict, evidence=evidence,
        statement=("The controller's clock and those inside instances agree"))


def _complete(summary: statistics.RunSummary) -> RunClaim:
    experiment = summary.experiment
    times = experiment.repetitions * experiment.rounds
    done: dict[object, int] = {}
    for measurement in summary.results.measurements:
        name = statistics.key(measurement.factors)
        done[name] = done.get(name, 0) + 1
    able = [case for case in experiment.cases if not case.skipped]
    short = [case for case in able
             if done.get(statistics.key(case.factors), 0) < times]
    verdict = ClaimVerdict.HOLDS
    evidence = (f'{words.count(len(able), "case")}, '
                f'{words.count(times, "time")} each')
    if short or not able:
        verdict = ClaimVerdict.INCONCLUSIVE
        evidence = f'{len(short):,} of {len(able):,} were not'
        if short:
            evidence += f', among them {summary.name(short[0])}'
    return RunClaim(
        name='complete', verdict=verdict, evidence=evidence,
        statement='All cases that fit on the host were measured as '
        'often as they should be')


def below(interval: intervals.Interval, bound: float) -> ClaimVerdict:
    """Whether a figure is less than a bound, its interval being the margin."""
    if not interval.is_known or interval.low <= bound <= interval.high:
        return ClaimVerdict.INCONCLUSIVE
    return (ClaimVerdict.HOLDS if interval.high < bound
            else ClaimVerdict.DOES_NOT_HOLD)


def _figure_rows(summary: statistics.RunSummary) -> list[statistics.FigureRow]:
    """Rows of measured tenants, of their workloads' first figures."""
    return [row for row in summary.rows if row.is_measured
            and row.figure == summary.results.workloads[
                row.tenant.workload].figures[0]]


def _isolation(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Dedicated instances among neighbours against shared ones."""
    crowded = [row for row in _figure_rows(summary) if row.has_neighbours]
    floating = [row for row in crowded if row.tenant.provisioning
                is bench_model.Provisioning.VANILLA]
    pinned = [row for row in crowded if row.tenant.provisioning
              is bench_model.Provisioning.PINNED]
    # Neighbours of another kind are the harder test, if there are any.
    for row in [row for row in pinned if len(row.case.tenants) > 1] or pinned:
        # What ran beside it had the same neighbours; elsewhere floating
        # instances should suffer most where most vCPUs are.
        other = max((beside for beside in floating
                     if beside.tenant.workload == row.tenant.workload
                     and beside.tenant.platform is row.tenant.platform),
                    key=lambda beside: (
                        beside.case == row.case, _vcpus(beside.case)),
                    default=None)
        if other is not None:
            yield _level(summary, row, other)
            yield _spread(summary, row, other)


def _vcpus(case: bench_model.Case) -> int:
    return sum(tenant.count * tenant.size.vcpus for tenant in case.tenants)


def _level(summary: statistics.RunSummary, row: statistics.FigureRow,
           other: statistics.FigureRow) -> RunClaim:
    verdict = ClaimVerdict.INCONCLUSIVE
    evidence = 'one of the two was not measured on an idle host'
    idle = [next((row for row in summary.rows if row.case.name == it.quiet
                  and row.figure == it.figure), None) for it in (row, other)]
    if idle[0] is not None and idle[1] is not None:
        ratio = intervals.interval(
            [measured.estimate.sample
             for measured in (row, idle[0], other, idle[1])],
            _ratio_of_slowdowns(row.figure.better),
            seed=summary.experiment.seed, is_positive=True,
            together=(0, 2) if _shares_runs(row, other) else ())
        verdict = below(ratio, 1)
        evidence = (f'slowdowns {words.ratio(row.slowdown)} and '
                    f'{words.ratio(other.slowdown)}; their ratio '
                    f'{words.ratio(ratio)}')
    return RunClaim(
        name='level', subject=_against(summary, row, other), verdict=verdict,
        evidence=evidence, statement='Neighbours slow a pinned instance down '
                                     'less than a floating one')


def _shares_runs(row: statistics.FigureRow,
                 other: statistics.FigureRow) -> bool:
    """Whether two tenants ran at the same time, beside each other."""
    return (row.case == other.case
            and row.estimate.sample.unit is other.estimate.sample.unit)


def _against(summary: statistics.RunSummary, row: statistics.FigureRow,
             other: statistics.FigureRow) -> str:
    if row.case == other.case:
        return (f'{summary.name(row.case)}: {row.tenant.name} against '
                f'{other.tenant.name}')
    return (f'{summary.name(row.case)} ({row.tenant.name}) against '
            f'{summary.name(other.case)} ({other.tenant.name})')


def _ratio_of_slowdowns(better: bench_model.Better) -> intervals.Statistic:
    def statistic(totals: Sequence[intervals.Totals]) -> object:
        busy, idle, other_busy, other_idle = totals
        ratio = (busy.mean / idle.mean) / (other_busy.mean / other_idle.mean)
        return 1 / ratio if better is bench_model.Better.HIGHER else ratio

    return statistic


def _spread(summary: statistics.RunSummary, row: statistics.FigureRow,
            other: statistics.FigureRow) -> RunClaim:
    ratio = statistics.variation_ratio(
        row.estimate.sample, other.estimate.sample, summary.experiment.seed,
        together=(0, 1) if _shares_runs(row, other) else ())
    return RunClaim(
        name='spread', subject=_against(summary, row, other),
        verdict=below(ratio, 1), statement=(
            'A pinned instance varies less under neighbours than a floating '
            'one'),
        evidence=(f'coefficients of variation '
                  f'{words.percent(row.estimate.variation.value)} and '
                  f'{words.percent(other.estimate.variation.value)}; their '
                  f'ratio {words.ratio(ratio)}'))


def _mutex(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Pairs of cases that differ by SMP and UP."""
    rows = {(statistics.key(row.case.factors), row.figure.name): row
            for row in _figure_rows(summary)}
    for row in rows.values():
        factors = {name: _SMP.sub(_up, value)
                   for name, value in row.case.factors.items()}
        other = rows.get((statistics.key(factors), row.figure.name))
        if other is None or other is row:
            continue
        ratio = statistics.ratio(
            other.estimate.sample, row.estimate.sample,
            summary.experiment.seed, row.figure.better)
        yield RunClaim(
            name='mutex', subject=summary.name(row.case),
            verdict=below(ratio, 1),
            statement='Two threads at one mutex are done sooner on one CPU '
                      '(UP) than on two (SMP)',
            evidence=f'time on one by time on two {words.ratio(ratio)}')


def _up(match: re.Match[str]) -> str:
    return 'UP' if match[0].isupper() else 'up'


def expected_ratio(heavy: bench_model.Tenant, light: bench_model.Tenant,
                   cpus: int) -> float:
    """What finish times should be, heavy by light, for equal work.

    Each gets CPU time by its weight but no more than its threads can use;
    once the heavier has finished, the lighter has all. With twice the weight
    and enough threads to fill the CPUs that is 3/4; where the threads do not
    fill them it is 1.

    :param cpus: that both may use
    """
    demands = [min(tenant_threads(tenant),
                   tenant.size.vcpus * tenant.count, cpus)
               for tenant in (heavy, light)]
    if sum(demands) <= cpus:
        return demands[1] / demands[0]
    weights = [tenant.weight * tenant.count for tenant in (heavy, light)]
    first = min(max(cpus * weights[0] / sum(weights), cpus - demands[1]),
                demands[0])
    second = cpus - first
    if second >= first:
        # The lighter finishes first, or both together.
        ended = 1 / second
        return (ended + (1 - first * ended) / demands[0]) / ended
    ended = 1 / first
    return ended / (ended + (1 - second * ended) / demands[1])


def tenant_threads(tenant: bench_model.Tenant) -> int:
    """That a tenant's workload has; as many as vCPUs if nothing is said."""
    given = tenant.parameters.get('threads', '')
    try:
        return int(given) * tenant.count
    except ValueError:
        return tenant.size.vcpus * tenant.count


def contended_cpus(summary: statistics.RunSummary,
                   case: bench_model.Case) -> int:
    """How many host CPUs a case's instances were given, 0 if nobody knows.

    Threads that work for a guest may run elsewhere and are left out.
    """
    name = statistics.key(case.factors)
    given = cpuset.CpuSet()
    for measurement in summary.results.measurements:
        if statistics.key(measurement.factors) == name:
            for affinity in measurement.affinities:
                # 'enterprise-0: vCPU 1'
                if affinity.thread.rpartition(': ')[2] not in _NOT_ITS_OWN:
                    given |= affinity.asked
    if given or not summary.results.conditions:
        return len(given)
    conditions = summary.results.conditions[-1]
    return len(conditions.layout.get(str(case.tenants[0].guest_class), ()))


def _priority(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    for finish in statistics.finishes(summary):
        cpus = contended_cpus(summary, finish.case)
        if not cpus:
            continue
        expected = expected_ratio(finish.heavy.tenant, finish.light.tenant,
                                  cpus)
        interval = finish.ratio.interval
        low, high = expected - BAND, expected + BAND
        verdict = ClaimVerdict.INCONCLUSIVE
        if interval.is_known:
            if low <= interval.low and interval.high <= high:
                verdict = ClaimVerdict.HOLDS
            elif interval.high < low or interval.low > high:
                verdict = ClaimVerdict.DOES_NOT_HOLD
        yield RunClaim(
            name='finish-ratio', subject=summary.name(finish.case),
            verdict=verdict,
            statement=(
                f'With weights {finish.heavy.tenant.weight} and '
                f'{finish.light.tenant.weight}, finish times are as '
                f'{expected:.2f} to 1, give or take {BAND:.2f}'),
            evidence=f'{words.ratio(interval)} on '
                     f'{words.count(cpus, "CPU")}')


def _bare_metal(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Each workload's overheads together, since there are many of them.

    What floats can be faster than what is pinned to two threads of a core,
    so only what is provisioned like its baseline is held to this.
    """
    provisioned = {row.case.name: row.tenant.provisioning
                   for row in summary.rows}
    rows = [row for row in _figure_rows(summary) if row.overhead is not None
            and row.tenant.platform is not bench_model.PlatformName.BARE_METAL
            and row.tenant.provisioning is provisioned.get(row.baseline)]
    rows.sort(key=lambda row: row.tenant.workload)
    for workload, group in itertools.groupby(
            rows, lambda row: row.tenant.workload):
        ratios = [(row, row.overhead) for row in group if row.overhead]
        verdicts = [_above(ratio) for _row, ratio in ratios]
        least, ratio = min(ratios, key=lambda pair: pair[1].value)
        yield RunClaim(
            name='bare-metal', subject=workload,
            verdict=next(
                verdict for verdict in (
                    ClaimVerdict.DOES_NOT_HOLD, ClaimVerdict.INCONCLUSIVE,
                    ClaimVerdict.HOLDS)
                if verdict in verdicts),
            statement='No platform is faster than the baseline, provisioned '
            f'alike, by more than {words.percent(_MARGIN)}',
            evidence=f'{verdicts.count(ClaimVerdict.HOLDS)} of {len(ratios)} '
            f'ratios are above; the least is {words.ratio(ratio)}, '
            f'{least.case.name}')


def _above(interval: intervals.Interval) -> ClaimVerdict:
    return {ClaimVerdict.HOLDS: ClaimVerdict.DOES_NOT_HOLD,
            ClaimVerdict.DOES_NOT_HOLD: ClaimVerdict.HOLDS}.get(
        (verdict := below(interval, 1 - _MARGIN)), verdict)


_OF_TABLE: dict[str, tuple[
    Callable[[statistics.RunSummary], Iterator[RunClaim]], ...]] = {
        'levels': (_isolation,),
        'mutex': (_mutex,),
        'priority': (_priority,),
        'ladder': (_bare_metal,),
        'overhead': (_bare_metal,),
}
