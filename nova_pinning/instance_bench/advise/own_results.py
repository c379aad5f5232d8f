# SPDX-License-Identifier: Apache-2.0
"""What one's own results say on what is advised."""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.instance_bench.advise import hosts
from nova_pinning.instance_bench.advise import model
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import statistics

#: Less than that is not worth a CPU of one's own.
WORTH = 0.02
#: Overhead that nobody minds, beyond that of the best size.
_HARDLY = 0.05
#: Values of each side below which there are few.
_FEW = 10
#: Width of a ratio's interval from which on it is wide.
_WIDE = 0.1
#: The same threads on one CPU and on two.
_UP, _SMP = 'mutex-up', 'mutex-smp'
_GUESTS = frozenset((bench_model.PlatformName.GUEST,
                     bench_model.PlatformName.NOVA))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnFinding:
    """What was found on a topic.

    :param value: None if it does not decide
    :param why: the comparison, in words
    :param thin: in what the evidence is thin, in words
    """

    value: model.AdvisedValue | None
    why: str
    thin: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Measured:
    """A row with the results that it is from."""

    row: statistics.FigureRow
    results: bench_model.Results

    @property
    def sample(self) -> intervals.Sample:
        return self.row.estimate.sample

    @property
    def tenant(self) -> bench_model.Tenant:
        return self.row.tenant

    @property
    def name(self) -> str:
        return f'{self.tenant.name} of {self.row.case.name}'

    @property
    def others(self) -> int:
        """vCPUs of the other instances that ran at the time."""
        return sum(tenant.count * tenant.size.vcpus for tenant
                   in self.row.case.tenants) - self.tenant.size.vcpus


def find(
    summaries: Sequence[statistics.RunSummary], question: model.Question,
    room: hosts.BareHost | None, near: int = 1,
) -> Mapping[model.Topic, OwnFinding]:
    """What results say, by topic; topics that they say nothing on are not in.

    What counts is the first figure of the workload that is asked about, or of
    all of its class if none is named or threads contend for a lock, of what
    is measured on the platform that is asked about; guests of libvirt and of
    nova are one.

    :param near: the size in vCPUs that pinning is of interest for
    """
    rows = [_Measured(row, summary.results) for summary in summaries
            for row in summary.rows if _is_about(row, summary, question)]
    findings: dict[model.Topic, OwnFinding] = {}
    pinning = _pinning(rows, question, room, near)
    if pinning is not None:
        findings[model.Topic.CLASS], findings[model.Topic.GAIN] = pinning
    is_lock_bound = question.load is model.WorkloadBound.LOCK_BOUND
    size = _one_cpu if is_lock_bound else _size
    for topic, finding in ((model.Topic.SIZE, size(rows, room)),
                           (model.Topic.EMULATOR, _emulator(rows, room))):
        if finding is not None:
            findings[topic] = finding
    return findings


def are_about(results: bench_model.Results, question: model.Question) -> bool:
    """Whether anything of a file of results counts for a question."""
    return any(
        _counts_for(results.workloads[tenant.workload], tenant, question)
        for tenant in measured(results))


def measured(results: bench_model.Results) -> Iterator[bench_model.Tenant]:
    """The tenants that there are figures of."""
    done = {
        statistics.key(measurement.factors)
        for measurement in results.measurements}
    for case in results.experiment.cases:
        if statistics.key(case.factors) in done:
            yield from (tenant for tenant in case.tenants
                        if tenant.role is bench_model.Role.MEASURED)


def _is_about(row: statistics.FigureRow, summary: statistics.RunSummary,
              question: model.Question) -> bool:
    workload = summary.results.workloads[row.tenant.workload]
    return (row.figure == workload.figures[0]
            and _counts_for(workload, row.tenant, question))


def _counts_for(workload: bench_model.Workload, tenant: bench_model.Tenant,
                question: model.Question) -> bool:
    if (question.workload
            and question.load is not model.WorkloadBound.LOCK_BOUND):
        is_same = workload.name == question.workload
    else:
        is_same = workload.workload_class is question.workload_class
    platform = tenant.platform
    return (is_same and tenant.role is bench_model.Role.MEASURED
            and (platform is question.platform
                 or {platform, question.platform} <= _GUESTS))


def _pinning(
    rows: Sequence[_Measured], question: model.Question,
    room: hosts.BareHost | None, near: int,
) -> tuple[OwnFinding, OwnFinding] | None:
    """Pinned against floating instances: for the class, and for the gain.

    Of several such pairs that counts which had the most vCPUs of others
    beside it, since isolation is for hosts that are in use; then that of the
    nearest size.
    """
    pairs = []
    for group in _groups(rows, lambda row: (
            row.tenant.workload, row.tenant.platform, row.tenant.size,
            tuple(row.tenant.parameters.items()), row.tenant.weight)):
        sides = [[row for row in group if row.tenant.provisioning is side]
                 for side in (bench_model.Provisioning.PINNED,
                              bench_model.Provisioning.VANILLA)]
        if all(sides):
            pairs.append((_fullest(sides[0]), _fullest(sides[1])))
    if not pairs:
        return None
    best = max(pairs, key=lambda pair: (
        min(row.others for row in pair),
        -abs(pair[0].tenant.size.vcpus - near)))
    pinned, floating = best
    ratio = statistics.ratio(
        floating.sample, pinned.sample, pinned.results.experiment.seed,
        pinned.row.figure.better)
    thin = _thin(best, ratio, room)
    what = (f'{pinned.tenant.workload} in {pinned.name}, against '
            f'{floating.name}: {_counts(best)}')
    shown = f'pinning gains {_shown(_percent(ratio), ratio)}, {what}'
    choice = None
    if ratio.is_known and ratio.low > 1 + WORTH:
        choice = model.AdvisedValue(choice='dedicated')
    elif ratio.is_known and ratio.high < 1 + WORTH:
        choice = model.AdvisedValue(choice='shared')
    # An interval that has both much gain and much loss in it says nothing.
    is_gain = choice is not None or ratio.excludes(1)
    gain = OwnFinding(value=_percent(ratio) if is_gain else None, thin=thin,
                      why=what if is_gain else shown)
    if question.is_steady:
        return _steadiness(best, what, thin), gain
    return OwnFinding(value=choice, thin=thin, why=shown), gain


def _steadiness(pair: tuple[_Measured, _Measured], what: str,
                thin: tuple[str, ...]) -> OwnFinding:
    pinned, floating = pair
    ratio = statistics.variation_ratio(
        floating.sample, pinned.sample, pinned.results.experiment.seed)
    choice = None
    if ratio.is_known and ratio.low > 1:
        choice = model.AdvisedValue(choice='dedicated')
    return OwnFinding(value=choice, thin=thin, why=(
        f'floating ones vary {ratio.value:.3g} times as much, '
        f'{_bounds(ratio)}, {what}'))


def _size(rows: Sequence[_Measured],
          room: hosts.BareHost | None) -> OwnFinding | None:
    """The smallest size that has hardly more overhead than the best has.

    Results of a machine with another number of CPUs do not decide: nobody
    knows what of it goes by the size, and what by the ratio to the host's.

    :returns: None if there are not several sizes with an overhead
    """
    best: OwnFinding | None = None
    most = 1
    for group in _groups(rows, lambda row: (
            row.tenant.workload, row.tenant.platform, row.tenant.provisioning,
            tuple(row.tenant.parameters.items()), row.row.has_neighbours)):
        known = sorted(
            (row for row in group
             if row.row.overhead is not None and row.row.overhead.is_known),
            key=lambda row: row.tenant.size.vcpus)
        sizes = {row.tenant.size.vcpus for row in known}
        if len(sizes) > most:
            most = len(sizes)
            best = _least(known, room)
    return best


def _least(known: Sequence[_Measured],
           room: hosts.BareHost | None) -> OwnFinding:
    overheads = [row.row.overhead for row in known if row.row.overhead]
    lowest = min(overheads, key=lambda overhead: overhead.value)
    least, overhead = next(
        (row, overhead) for row, overhead in zip(known, overheads)
        if overhead.low <= (1 + _HARDLY) * lowest.value)
    vcpus = least.tenant.size.vcpus
    cpus = min((condition.cpus for condition in least.results.conditions),
               default=0)
    is_other = room is not None and cpus != room.cpus
    return OwnFinding(
        value=None if is_other else model.AdvisedValue(
            low=vcpus, high=vcpus, unit='vCPU'),
        thin=_thin((least,), overhead, room),
        why=f'{least.tenant.workload} in {least.name} takes '
            f'{overhead.value:.3g} times what it takes on bare metal, '
            f'{_bounds(overhead)}, and larger sizes hardly less; '
            f'{_counts((least,))}, {vcpus} of {cpus} CPUs')


def _one_cpu(rows: Sequence[_Measured],
             room: hosts.BareHost | None) -> OwnFinding | None:
    """Two threads that contend for a lock on one CPU, and on two."""
    for group in _groups(rows, lambda row: (
            row.tenant.platform, row.tenant.provisioning, row.tenant.size,
            tuple(row.tenant.parameters.items()), row.row.has_neighbours)):
        by_name = {row.tenant.workload: row for row in group}
        if not {_UP, _SMP} <= by_name.keys():
            continue
        pair = by_name[_UP], by_name[_SMP]
        ratio = statistics.ratio(
            pair[1].sample, pair[0].sample, pair[0].results.experiment.seed,
            pair[0].row.figure.better)
        vcpus = None
        if ratio.excludes(1):
            vcpus = 1 if ratio.value > 1 else 2
        return OwnFinding(
            value=None if vcpus is None else model.AdvisedValue(
                low=vcpus, high=vcpus, unit='vCPU'),
            why=f'on two CPUs they take {ratio.value:.3g} times as long as '
                f'on one, {_bounds(ratio)}, in {pair[1].name}: '
                f'{_counts(pair)}',
            thin=_thin(pair, ratio, room))
    return None


def _emulator(rows: Sequence[_Measured],
              room: hosts.BareHost | None) -> OwnFinding | None:
    """The policy with the best figure, if the next is worse."""
    for group in _groups(rows, lambda row: (
            row.tenant.workload, row.tenant.platform, row.tenant.size,
            tuple(row.tenant.parameters.items()), row.tenant.network_cpus)):
        by_policy = {row.tenant.emulator_threads: row for row in group
                     if row.tenant.emulator_threads is not None}
        if len(by_policy) < 2:
            continue
        is_higher = group[0].row.figure.better is bench_model.Better.HIGHER
        ranked = sorted(by_policy.values(), reverse=is_higher,
                        key=lambda row: row.row.estimate.mean)
        pair = ranked[0], ranked[1]
        ratio = statistics.ratio(
            pair[1].sample, pair[0].sample, pair[0].results.experiment.seed,
            pair[0].row.figure.better)
        policy, other = (_POLICIES[row.tenant.emulator_threads]
                         for row in pair if row.tenant.emulator_threads)
        return OwnFinding(
            value=model.AdvisedValue(choice=policy)
            if ratio.is_known and ratio.low > 1 else None,
            why=f'{policy} gains {_shown(_percent(ratio), ratio)} over '
                f'{other}, {pair[0].tenant.workload} in '
                f'{pair[0].name}: {_counts(pair)}',
            thin=_thin(pair, ratio, room))
    return None


_POLICIES: Mapping[bench_model.EmulatorThreads, str] = {
    bench_model.EmulatorThreads.SHARE: 'share',
    bench_model.EmulatorThreads.ISOLATE: 'isolate',
    bench_model.EmulatorThreads.VCPUS: 'on-vcpus',
}


def _groups(
    rows: Sequence[_Measured], key: Callable[[_Measured], Hashable],
) -> Iterator[list[_Measured]]:
    by_key: dict[Hashable, list[_Measured]] = {}
    for row in rows:
        by_key.setdefault(key(row), []).append(row)
    yield from by_key.values()


def _fullest(rows: Sequence[_Measured]) -> _Measured:
    return max(rows, key=lambda row: row.others)


def _percent(ratio: intervals.Interval) -> model.AdvisedValue:
    return model.AdvisedValue(low=100 * (ratio.low - 1),
                              high=100 * (ratio.high - 1),
                              unit='%')


def _shown(value: model.AdvisedValue, ratio: intervals.Interval) -> str:
    """A gain with its interval."""
    middle = f'{100 * (ratio.value - 1):.3g}%'
    return f'{middle} ({value})' if ratio.is_known else (
        f'{middle} (too few values for an interval)')


def _bounds(ratio: intervals.Interval) -> str:
    if not ratio.is_known:
        return 'with too few values for an interval'
    return f'{ratio.low:.3g} to {ratio.high:.3g} with 95% confidence'


def _counts(rows: Sequence[_Measured]) -> str:
    counts = ' and '.join(str(row.row.estimate.count) for row in rows)
    return f'{counts} values'


def _thin(rows: Sequence[_Measured], ratio: intervals.Interval,
          room: hosts.BareHost | None) -> tuple[str, ...]:
    """In what this evidence is thin."""
    reasons = []
    fewest = min(row.row.estimate.count for row in rows)
    if fewest < _FEW:
        reasons.append(f'few repetitions: {fewest}')
    if not ratio.is_known:
        reasons.append('too few values for an interval')
    elif ratio.high - ratio.low > _WIDE:
        reasons.append(f'wide interval: {ratio.low:.3g} to {ratio.high:.3g}')
    if len({id(row.results) for row in rows}) > 1:
        reasons.append('the two are from different runs')
    flagged = sum(row.row.flagged for row in rows)
    if flagged:
        reasons.append(f'{flagged} doubtful measurements')
    conditions = [
        condition for row in rows for condition in row.results.conditions]
    if any(condition.emulated for condition in conditions):
        reasons.append('guests were emulated')
    if any(condition.virtualised for condition in conditions):
        reasons.append('measured on a machine that is a guest itself')
    others = {condition.cpus for condition in conditions if room is not None
              and condition.cpus != room.cpus}
    if others and room is not None:
        reasons.append(f'measured on another machine, with '
                       f'{" and ".join(map(str, sorted(others)))} CPUs, not '
                       f'{room.cpus}')
    return tuple(reasons)
