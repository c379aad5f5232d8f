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
import math
import re

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench.report import disturbances
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics

#: By how much a ratio of finish times may be beside what weights should give.
BAND = 0.10
#: What a platform may be faster than bare metal, huge pages and all.
_MARGIN = 0.05
# By how much a clock may go wrong beside what its handshakes leave open, and
# how much these may.
_RATE = 0.001
_VAGUE_RATE = 0.01
_HANDOVER = 'handover'
# Comparisons of which one in 20 can be seen.
_LEAST_COMPARISONS = 20
# An effect that a machine has to show, or its intervals include 1 whatever
# happens.
_SHOWN = 0.10
_NO_EQUAL = ('no floating instance of its platform and size had as many vCPUs '
             'for each CPU')
_ONE_CPU = ('the floating one has a single CPU to float on, and is pinned in '
            'all but name')
_CLOCKS = ("The clocks inside instances go as the controller's does, within "
           f'{words.percent(_RATE)}')
_SPREAD_GUESTS = ('over several CPUs the kernel may spread guests so that '
                  'each has some of its own; cpu-weights has one')
# Platforms with a thread of the host for each vCPU.
_BY_VCPUS = (bench_model.PlatformName.GUEST, bench_model.PlatformName.NOVA)
_ONE_L3 = re.compile(r'\b1 L3 domain\b')
_SHARED_L3 = ('this host has one L3 domain, where everything shares the cache '
              'anyway')
# Where interrupts and vhost threads had better not be.
_PLACES = {
    bench_model.NetworkCpus.OTHER_CACHE: 'in another L3 domain',
    bench_model.NetworkCpus.VCPUS: "on the vCPUs' own"}


class ClaimVerdict(enum.StrEnum):
    HOLDS = 'holds'
    DOES_NOT_HOLD = 'does not hold'
    INCONCLUSIVE = 'inconclusive'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunClaim:
    """A sentence, and whether the run bears it out.

    :param name: for programs: 'affinities', 'clocks', 'complete', 'level',
        'spread', 'slowdown', 'handover', 'finish-ratio', 'bare-metal',
        'agent', 'placement', 'self-test', 'sensitivity'
    :param subject: of which case, '' if of all
    :param evidence: the figures that decide
    """

    name: str
    subject: str = ''
    statement: str
    verdict: ClaimVerdict
    evidence: str


def claims(summary: statistics.RunSummary) -> tuple[RunClaim, ...]:
    """All that the run can be held to.

    Nothing but the self-test, which is about the machine as it is, is said of
    figures that other work has disturbed.
    """
    table = summary.experiment.table
    own = _OF_TABLE.get(table)
    doubt = '' if table == self_test.TABLE else disturbances.doubt(summary)
    return (_affinities(summary.results.measurements),
            _clocks(summary.results.clocks), _complete(summary),
            *(_doubted(claim, doubt) for claim in (
                own(summary) if own else ())))


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


def _settled(name: str, statement: str, wrong: str, unknown: str,
             right: str) -> RunClaim:
    """A claim on a whole run, by the first evidence that there is.

    :param wrong: what speaks against it, '' if nothing does
    :param unknown: what is not known, '' if that is enough
    """
    verdict, evidence = next(
        (verdict, evidence) for verdict, evidence in (
            (ClaimVerdict.DOES_NOT_HOLD, wrong),
            (ClaimVerdict.INCONCLUSIVE, unknown), (ClaimVerdict.HOLDS, right))
        if evidence)
    return RunClaim(name=name, statement=statement, verdict=verdict,
                    evidence=evidence)


def _doubted(claim: RunClaim, why: str) -> RunClaim:
    """The claim, open if there is a reason why nothing can be said of it."""
    return dataclasses.replace(
        claim, verdict=ClaimVerdict.INCONCLUSIVE,
        evidence=f'{claim.evidence}; {why}') if why else claim


def _affinities(measurements: Sequence[bench_model.Measurement]) -> RunClaim:
    every = [affinity for measurement in measurements
             for affinity in measurement.affinities]
    gone = sum(not affinity.seen for affinity in every)
    unseen = sum(map(_has_unseen, measurements))
    wrong = [affinity for affinity in every
             if affinity.seen and not affinity.is_in_force]
    return _settled(
        'affinities',
        'While it was measured, every thread might run only on the host CPUs '
        'that were meant for it',
        f'{len(wrong):,} of {len(every):,} were not in force; '
        f'{wrong[0].thread}: CPUs {wrong[0].seen} in place of '
        f'{wrong[0].asked}' if wrong else '',
        'nothing was measured' if not measurements else
        f'those of some instance were not seen in {unseen:,} of '
        f'{len(measurements):,} measurements' if unseen else '',
        f'{len(every) - gone:,} affinities seen, all in force' + (
            f'; {words.count(gone, "thread")} had ended before'
            if gone else ''))


def _has_unseen(measurement: bench_model.Measurement) -> bool:
    """Whether there is an instance none of whose threads was seen."""
    seen = {
        affinity.thread.partition(': ')[0]
        for affinity in measurement.affinities
        if affinity.seen}
    return any(
        reading.instance not in seen for reading in measurement.readings)


def _clocks(clocks: Sequence[instance_clock.ClockCheck]) -> RunClaim:
    """Rates by handshakes before and after, within what these leave open."""
    off = [check for check in clocks
           if abs(check.rate - 1) > check.uncertainty + _RATE]
    vague = [check for check in clocks if check.uncertainty > _VAGUE_RATE]

    def rate(check: instance_clock.ClockCheck) -> str:
        return (f'{check.instance}: {check.rate:.5f} s inside for 1 s '
                f'outside, give or take {check.uncertainty:.5f}')

    furthest = max(off or clocks, default=None,
                   key=lambda check: abs(check.rate - 1))
    if furthest is None:
        return _settled('clocks', _CLOCKS, '', 'no clock inside was read', '')
    return _settled(
        'clocks', _CLOCKS,
        f'{len(off):,} of {len(clocks):,} do not; {rate(furthest)}'
        if off else '',
        f'{len(vague):,} of {len(clocks):,} cannot be told; '
        + rate(max(vague, key=lambda check: check.uncertainty))
        if vague else '',
        f'{words.count(len(clocks), "clock")}; {rate(furthest)}')


def _complete(summary: statistics.RunSummary) -> RunClaim:
    experiment = summary.experiment
    times = experiment.repetitions * experiment.rounds
    done = statistics.by_case(summary.results.measurements)
    able = [case for case in experiment.cases if not case.skipped]
    short = [summary.name(case) for case in able
             if len(done.get(case.key, ())) < times]
    return _settled(
        'complete', 'All cases that fit on the host were measured as often '
        'as they should be', '',
        ', among them '.join([f'{len(short):,} of {len(able):,} were not',
                              *short[:1]]) if short or not able else '',
        f'{words.count(len(able), "case")}, {words.count(times, "time")} each')


def above(interval: intervals.Interval | None,
          bound: float) -> ClaimVerdict:
    """Whether a figure is more than a bound, its interval being the margin."""
    if (interval is None or interval.is_vague
            or not interval.excludes(bound)):
        return ClaimVerdict.INCONCLUSIVE
    return (ClaimVerdict.HOLDS if interval.low > bound
            else ClaimVerdict.DOES_NOT_HOLD)


def _isolation(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Dedicated instances among neighbours against shared ones."""
    for pair in row_pairs.isolations(summary):
        level = spread = _NO_EQUAL
        if pair.other is not None:
            level = f'floating by pinned {words.ratio(pair.level)}'
            if pair.row.slowdown and pair.other.slowdown:
                level += (
                    f'; neighbours slow them {words.ratio(pair.row.slowdown)} '
                    f'and {words.ratio(pair.other.slowdown)} times')
            spread = (
                'coefficients of variation '
                f'{words.percent(pair.row.estimate.variation.value)} and '
                f'{words.percent(pair.other.estimate.variation.value)}; '
                'distance from the median, round by round, floating by '
                f'pinned {words.ratio(pair.spread)}')
            if pair.spread and not pair.spread.is_known:
                spread += (': no two rounds have several values of each, as '
                           'they have without --short')
        for name, ratio, evidence, does in (
                ('level', pair.level, level, 'gets more'),
                ('spread', pair.spread, spread, 'varies less')):
            yield _doubted(RunClaim(
                name=name, subject=_against(summary, pair.row, pair.other),
                evidence=evidence, verdict=above(ratio, 1),
                statement='Beside neighbours, with as many vCPUs for each '
                          f'CPU, a pinned instance {does} than a floating '
                          'one'), _ONE_CPU if pair.has_one_cpu else '')


def _neighbours(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Of each victim its aggressors together, since there are many."""
    pairs = list(row_pairs.slowdown_pairs(summary))
    alike = [pair for pair in pairs
             if row_pairs.is_as_dense(summary, *pair[:2])]
    for claim in _together(
            'slowdown', [(row, ratio) for row, _floating, ratio
                         in alike or pairs], 1,
            'Whatever its neighbour, it slows a pinned instance less than a '
            'floating one of as many vCPUs for each CPU, each by itself '
            'alone'):
        yield _doubted(claim, '' if alike else _NO_EQUAL)


def _against(summary: statistics.RunSummary, row: statistics.FigureRow,
             other: statistics.FigureRow | None) -> str:
    if other is None:
        return f'{summary.name(row.case)} ({row.tenant.name})'
    if row.case == other.case:
        return (f'{summary.name(row.case)}: {row.tenant.name} against '
                f'{other.tenant.name}')
    return (f'{summary.name(row.case)} ({row.tenant.name}) against '
            f'{summary.name(other.case)} ({other.tenant.name})')


def _mutex(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Of threads that take turns; what competes may gain by a second CPU."""
    for row, other in row_pairs.processor_pairs(summary):
        if row.tenant.workload == _HANDOVER:
            ratio = row_pairs.ratio(summary, row, other)
            yield RunClaim(
                name='handover', subject=summary.name(row.case),
                verdict=above(ratio, 1),
                statement='Two threads that take turns, each asleep until it '
                          'has it, do so faster on one CPU (UP) than on two '
                          '(SMP)',
                evidence=f'time on two by time on one {words.ratio(ratio)}')


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
    weights = [tenant.weight * tenant.count for tenant in (heavy, light)]
    share = min(max(cpus * weights[0] / sum(weights), cpus - demands[1]),
                demands[0])
    rates = share, min(cpus - share, demands[1])
    first = 1 / max(rates)
    ends = [first + (1 - rate * first) / demand
            for rate, demand in zip(rates, demands)]
    return ends[0] / ends[1]


def tenant_threads(tenant: bench_model.Tenant) -> int:
    """That a tenant's workload has; as many as vCPUs if nothing is said."""
    given = tenant.parameters.get('threads', '')
    try:
        return int(given) * tenant.count
    except ValueError:
        return tenant.size.vcpus * tenant.count


def _priority(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    for finish in statistics.finishes(summary):
        cpus = len(row_pairs.given_cpus(summary, finish.case))
        if not cpus:
            continue
        expected = expected_ratio(finish.heavy.tenant, finish.light.tenant,
                                  cpus)
        interval = finish.ratio.interval
        low, high = expected - BAND, expected + BAND
        verdict = ClaimVerdict.INCONCLUSIVE
        if low <= interval.low and interval.high <= high:
            verdict = ClaimVerdict.HOLDS
        elif interval.high < low or interval.low > high:
            verdict = ClaimVerdict.DOES_NOT_HOLD
        # Threads of QEMU are what the kernel spreads over CPUs, and it may
        # do so by guests: each has CPUs of its own then, whatever its weight.
        yield _doubted(RunClaim(
            name='finish-ratio', subject=summary.name(finish.case),
            verdict=verdict,
            statement=(
                f'With weights {finish.heavy.tenant.weight} and '
                f'{finish.light.tenant.weight}, finish times are as '
                f'{expected:.2f} to 1, give or take {BAND:.2f}'),
            evidence=f'{words.ratio(interval)} on {words.count(cpus, "CPU")}'
        ), _SPREAD_GUESTS if cpus > 1
            and finish.heavy.tenant.platform in _BY_VCPUS else '')


def _bare_metal(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Each workload's overheads together, since there are many of them.

    What floats can be faster than what is pinned to two threads of a core,
    so only what is provisioned like its baseline is held to this.
    """
    provisioned = {row.case.name: row.tenant.provisioning
                   for row in summary.rows}
    rows = [row for row in row_pairs.first_figures(summary)
            if row.overhead is not None
            and row.tenant.platform is not bench_model.PlatformName.BARE_METAL
            and row.tenant.provisioning is provisioned.get(row.baseline)]
    yield from _together(
        'bare-metal', [(row, row.overhead) for row in rows if row.overhead],
        1 - _MARGIN, 'No platform is faster than the baseline, provisioned '
        f'alike, by more than {words.percent(_MARGIN)}')


def _together(
        name: str,
        pairs: Iterable[tuple[statistics.FigureRow, intervals.Interval]],
        bound: float, statement: str) -> Iterator[RunClaim]:
    """One claim on each workload: that all of its ratios are above."""
    for workload, group in itertools.groupby(
            sorted(pairs, key=lambda pair: pair[0].tenant.workload),
            lambda pair: pair[0].tenant.workload):
        ratios = list(group)
        verdicts = [above(ratio, bound) for _row, ratio in ratios]
        least, ratio = min(ratios, key=lambda pair: pair[1].value)
        yield RunClaim(
            name=name, subject=workload, statement=statement,
            verdict=next(
                verdict for verdict in (
                    ClaimVerdict.DOES_NOT_HOLD, ClaimVerdict.INCONCLUSIVE,
                    ClaimVerdict.HOLDS)
                if verdict in verdicts),
            evidence=f'{verdicts.count(ClaimVerdict.HOLDS)} of {len(ratios)} '
            f'ratios are above; the least is {words.ratio(ratio)}, '
            f'{least.case.name}')


def _self_test(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    found = self_test.calibrate(summary.results)
    number = len(found.comparisons)
    evidence = 'no two copies were both measured in two rounds'
    is_wrong = is_right = False
    if number:
        evidence = (f'{found.including_one:,} of {number:,} do; the largest '
                    f'ratio is {found.largest:.2f}')
    if 0 < number < _LEAST_COMPARISONS:
        evidence += (f'; this claim needs {_LEAST_COMPARISONS} comparisons, '
                     'which a self-test has without --short')
    if number >= _LEAST_COMPARISONS:
        # On a perfect machine there are fewer than 95 of 100 in four of ten
        # self-tests.
        is_right = found.including_one >= intervals.CONFIDENCE * number
        is_wrong = found.chance < 1 - intervals.CONFIDENCE
        evidence += (f'; if 95% are to, there are so few or fewer in '
                     f'{words.percent(found.chance)} of self-tests')
    yield _settled(
        'self-test', 'Of cases that are copies of each other, 95% of the '
        'intervals of their ratios include 1.0',
        evidence if is_wrong and not is_right else '',
        '' if is_right else evidence, evidence)
    shown = (f'half of the intervals tell {words.percent(effect)} from none'
             if math.isfinite(effect := found.smallest_effect - 1)
             else 'no effect can be told from none')
    yield _settled(
        'sensitivity', 'Half of the comparisons on this machine would show '
        f'an effect of {words.percent(_SHOWN)}',
        shown if number and effect > _SHOWN else '',
        '' if number else 'nothing was compared', shown)


def _network(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    yield from _agent(summary)
    for place, elsewhere in _PLACES.items():
        yield from _placement(summary, place, elsewhere)


def _placement(summary: statistics.RunSummary,
               place: bench_model.NetworkCpus,
               elsewhere: str) -> Iterator[RunClaim]:
    """Guests whose network is served elsewhere than in their own L3."""
    statement = ('Interrupts and vhost threads on other CPUs of its L3 domain '
                 f"serve a guest's network faster than {elsewhere}")
    pairs = []
    for rows in row_pairs.alike_but_for(summary, 'network_cpus'):
        of_place = {row.tenant.network_cpus: row for row in rows}
        near = of_place.get(bench_model.NetworkCpus.SAME_CACHE)
        if near is not None and place in of_place:
            pairs.append((of_place[place], row_pairs.ratio(
                summary, of_place[place], near)))
    for claim in _together('placement', pairs, 1, statement):
        yield _doubted(claim, _shared_l3(summary))
    reason = next((case.skipped for case in summary.experiment.cases
                   if case.skipped and any(
                       tenant.network_cpus is place
                       for tenant in case.tenants)), '')
    if reason and not pairs:
        yield RunClaim(name='placement', statement=statement, evidence=reason,
                       verdict=ClaimVerdict.INCONCLUSIVE)


def _shared_l3(summary: statistics.RunSummary) -> str:
    """Why nothing can be said of caches, '' if something can."""
    return _SHARED_L3 if summary.conditions is not None and _ONE_L3.search(
        summary.conditions.topology) else ''


def _agent(summary: statistics.RunSummary) -> Iterator[RunClaim]:
    """Guests with nova-pinning agent against the same without."""
    for row in row_pairs.first_figures(summary):
        if (row.tenant.agent in (None, bench_model.AgentScheme.NONE)
                or row.overhead is None):
            continue
        yield _doubted(RunClaim(
            name='agent', subject=summary.name(row.case),
            verdict=above(row.overhead.inverse, 1),
            statement="With nova-pinning agent a guest's network is faster "
                      'than without',
            evidence='what it gets without, by what it gets with it '
                     f'{words.ratio(row.overhead)}'), _shared_l3(summary))


_OF_TABLE: dict[str, Callable[[statistics.RunSummary],
                              Iterator[RunClaim]]] = {
    'levels': _isolation, 'neighbours': _neighbours, 'mutex': _mutex,
    'priority': _priority, 'ladder': _bare_metal, 'overhead': _bare_metal,
    'network': _network, 'self-test': _self_test}
