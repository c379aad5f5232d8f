# SPDX-License-Identifier: Apache-2.0
"""Why a reader should not trust a run too far: what the page begins with."""

from collections.abc import Iterator
from collections.abc import Sequence

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import sessions
from nova_pinning.instance_bench import statistics

#: Fewer CPUs leave none for the host beside two instances.
_LEAST_CPUS = 4
#: Fewer say little of what differs from one round to the next.
_LEAST_ROUNDS = 5
#: Of a case without neighbours, above which the host itself is restless.
_NOISE = 0.05
#: Tools that handovers are held against, and on how many CPUs; by how many
#: times the two may differ.
_CROSS_CHECKS = (('sched-pipe', '1'), ('ping-pong', '2'))
_ORDER = 5


def caveats(summary: statistics.RunSummary) -> tuple[str, ...]:
    """Sentences, the gravest first, each with what follows from it."""
    sentences = [*_of_sessions(summary.results.conditions)]
    for conditions in summary.results.conditions:
        sentences.extend(_of_host(conditions))
        if any(len({tenant.guest_class for tenant in case.tenants}) > 1
               for case in summary.experiment.cases
               if summary.experiment.table == 'levels'):
            sentences.extend(_of_layout(conditions))
    sentences.extend(_of_run(summary))
    return tuple(dict.fromkeys(sentences))


def _of_sessions(
        conditions: Sequence[bench_model.Conditions]) -> Iterator[str]:
    changed = dict.fromkeys(
        text for number, session in enumerate(conditions)
        for text in sessions.changes(conditions[:number], session))
    if changed:
        yield ('The host was changed before the run was resumed, and figures '
               f'from before and after are mixed: {"; ".join(changed)}.')


def _of_host(conditions: bench_model.Conditions) -> Iterator[str]:
    if conditions.emulated:
        yield ('Guests were emulated, without hardware virtualisation: what '
               'they cost here says nothing of KVM. Directions may hold, '
               'levels do not.')
    if conditions.cpus < _LEAST_CPUS:
        yield (f'The host has {words.count(conditions.cpus, "CPU")}: too few '
               'to keep dedicated instances, shared ones and the host itself '
               'apart. Take this run for a trial of the method.')
    if conditions.virtualised:
        yield (f'The host is itself a guest ({conditions.virtualised}): its '
               'CPUs may be taken from it at any time, unseen.')
    if conditions.load > sessions.LOAD * conditions.cpus:
        yield (f'The load was {conditions.load:.2f} before the start, on '
               f'{words.count(conditions.cpus, "CPU")}: something else was '
               'running.')


def _of_layout(conditions: bench_model.Conditions) -> Iterator[str]:
    dedicated = conditions.layout.get('dedicated', cpuset.CpuSet())
    others = cpuset.union(cpus for name, cpus in conditions.layout.items()
                          if name != 'dedicated')
    if dedicated & others:
        yield (f'CPUs {dedicated & others} are for dedicated instances and '
               'for others too: there nothing is isolated.')


def _of_run(summary: statistics.RunSummary) -> Iterator[str]:
    experiment = summary.experiment
    if not summary.results.measurements:
        yield 'Nothing has been measured.'
        return
    yield from _of_baseline(experiment)
    if experiment.rounds < _LEAST_ROUNDS:
        yield (f'Each case was measured in '
               f'{words.count(experiment.rounds, "round")}, fewer than '
               f'{_LEAST_ROUNDS}: ' + (
                   'intervals are wide.' if experiment.rounds > 1 else
                   'what differs from one round to the next is in no '
                   'interval.'))
    restless = [row for row in summary.rows
                if not row.has_neighbours and row.is_measured
                and summary.is_first(row)
                and row.estimate.variation.value > _NOISE]
    if restless:
        worst = max(restless, key=lambda row: row.estimate.variation.value)
        yield (f'{words.count(len(restless), "case")} without neighbours '
               f'{"varies" if len(restless) == 1 else "vary"} by more than '
               f'{words.percent(_NOISE)}, at worst '
               f'{summary.name(worst.case)} by '
               f'{words.percent(worst.estimate.variation.value)}: the host is '
               'too noisy for small differences.')
    yield from _of_cross_checks(summary)
    flagged = sum(
        bool(measurement.flags)
        for measurement in summary.results.measurements)
    if flagged:
        yield (f'{flagged:,} of {len(summary.results.measurements):,} '
               'measurements have flags, listed below; they are counted like '
               'the others.')
    if summary.results.failures:
        yield (f'{words.count(len(summary.results.failures), "time")} a case '
               'could not be measured to its end; the reasons are below.')
    skipped = sum(bool(case.skipped) for case in experiment.cases)
    if skipped:
        yield (f'{skipped:,} of {words.count(len(experiment.cases), "case")} '
               'do not fit on this host and were skipped; they are below.')


def _of_cross_checks(summary: statistics.RunSummary) -> Iterator[str]:
    """Established tools that say something else of the same."""
    rows = {(row.tenant.workload, row.case.factors.get('processors')): row
            for row in row_pairs.first_figures(summary)
            if row.tenant.platform is bench_model.PlatformName.BARE_METAL}
    for tool, processors in _CROSS_CHECKS:
        both = rows.get(('handover', processors)), rows.get((tool, processors))
        if both[0] and both[1]:
            ours, theirs = both[0].estimate.mean, both[1].estimate.mean
            if max(ours, theirs) > _ORDER * min(ours, theirs):
                yield (f'A handover takes {words.number(ours, 3)} ns here and '
                       f'{words.number(theirs, 3)} ns by {tool}, which should '
                       'be of its order: one of the two was disturbed, or '
                       'measures something else on this host.')


def _of_baseline(experiment: bench_model.Experiment) -> Iterator[str]:
    baseline = experiment.baseline
    if baseline and not any(
            statistics.is_baseline(case, baseline)
            for case in experiment.cases):
        platform = baseline.get('platform')
        advice = (f'measure with --platform {platform} too' if platform
                  else 'measure without --only and --platform, or name it')
        yield (f'The baseline ({", ".join(baseline.values())}) is not among '
               f'the cases: there are no ratios to it; {advice}.')
