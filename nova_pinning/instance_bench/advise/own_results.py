# SPDX-License-Identifier: Apache-2.0
"""What one's own results say: the pairs that reports compare, as answers.

A pair decides if its interval does. Where a run, or several, have more than
one pair on a topic, all have to say the same.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import statistics

STRENGTH = 'own results'
#: A gain of less is not worth a CPU of one's own, or another policy.
WORTH = 0.02
#: Overhead that nobody minds, beyond that of the best size.
_HARDLY = 0.05
_GUESTS = frozenset((bench_model.PlatformName.GUEST,
                     bench_model.PlatformName.NOVA))


@dataclasses.dataclass(frozen=True, slots=True)
class _Compared:
    """One answer against another.

    :param times: how much worse the other is; above 1 if it is
    :param row: of the answer
    """

    answer: str
    other: str
    times: intervals.Interval
    row: statistics.FigureRow
    run: statistics.RunSummary

    @property
    def decision(self) -> str:
        """The better one, '' if that is open; a tie is for shared CPUs."""
        if self.times.low > 1 + WORTH:
            return self.answer
        enough = 1 + WORTH if self.other == 'shared' else 1 / (1 + WORTH)
        return self.other if self.times.high < enough else ''


def is_about(results: bench_model.Results, tenant: bench_model.Tenant,
             question: advice_model.Question) -> bool:
    """Whether what was measured of a tenant counts for a question.

    Lock-bound threads are measured by several workloads that belong
    together; guests of libvirt and of nova are one platform.
    """
    is_same = (results.workloads[tenant.workload].workload_class
               is question.workload_class)
    if (question.workload
            and question.load is not advice_model.WorkloadBound.LOCK_BOUND):
        is_same = tenant.workload == question.workload
    platforms = {tenant.platform, question.platform}
    return (is_same and tenant.role is bench_model.Role.MEASURED
            and (len(platforms) == 1 or platforms <= _GUESTS))


def findings(
    summaries: Sequence[statistics.RunSummary],
    question: advice_model.Question,
) -> dict[str, advice_model.AdviceLine]:
    """By topic; without answer and bounds where results do not decide."""
    found = {'size': _least_size(summaries, question)}
    for topic, pairs in _PAIRS.items():
        compared = [pair for run in summaries for pair in pairs(run)
                    if is_about(run.results, pair.row.tenant, question)]
        if compared:
            found[topic] = _said(topic, compared)
    return {topic: line for topic, line in found.items() if line is not None}


def _classes(run: statistics.RunSummary) -> Iterator[_Compared]:
    """Pinned instances among neighbours, and without any if there are none.

    What floats on one CPU is pinned in all but name.
    """
    isolations = list(row_pairs.isolations(run))
    pairs = [(one.other, one.row) for one in isolations
             if one.other is not None]
    for floating, pinned in pairs if isolations else (
            row_pairs.pinning_pairs(run)):
        if (row_pairs.is_as_dense(run, floating, pinned)
                and not row_pairs.has_one_cpu(run, floating)):
            yield _Compared('dedicated', 'shared',
                            row_pairs.ratio(run, floating, pinned), pinned,
                            run)


def _emulators(run: statistics.RunSummary) -> Iterator[_Compared]:
    """The best policy and the next, all else being as in the baseline."""
    groups = [rows for rows in row_pairs.alike_but_for(run, 'emulator_threads')
              if all(row.tenant.emulator_threads for row in rows)]
    for rows in [rows for rows in groups if any(
            statistics.is_baseline(row.case, run.experiment.baseline)
            for row in rows)] or groups:
        rows.sort(key=lambda row: row.estimate.mean, reverse=rows[
            0].figure.better is bench_model.Better.HIGHER)
        if len(rows) > 1:
            best, other = rows[:2]
            yield _Compared(_policy(best), _policy(other),
                            row_pairs.ratio(run, other, best), best, run)


def _policy(row: statistics.FigureRow) -> str:
    threads = row.tenant.emulator_threads
    return (threads and threads.policy) or 'on-vcpus'


def _lock_sizes(run: statistics.RunSummary) -> Iterator[_Compared]:
    """The same threads on one CPU and on two."""
    for on_two, on_one in row_pairs.smp_pairs(run):
        yield _Compared('1', '2', row_pairs.ratio(run, on_two, on_one),
                        on_one, run)


_PAIRS: Mapping[str, Callable[[statistics.RunSummary],
                              Iterator[_Compared]]] = {
    'class': _classes, 'emulator': _emulators, 'size': _lock_sizes}


def _said(topic: str, compared: list[_Compared]) -> advice_model.AdviceLine:
    decisions = {pair.decision for pair in compared}
    answer = decisions.pop() if len(decisions) == 1 else ''
    shown = min(compared, key=lambda pair: (
        pair.times.low if pair.decision == pair.answer else -pair.times.high))
    several = (f', the least clear of {len(compared)} comparisons'
               if len(compared) > 1 else '')
    is_size = topic == 'size' and answer
    return advice_model.AdviceLine(
        topic=topic, strength=STRENGTH, holds=_where(shown.run, shown.row),
        answers=(answer,) if answer and not is_size else (),
        low=int(answer) if is_size else None,
        high=int(answer) if is_size else None,
        why=f'{shown.answer} is {shown.times.value:.3g} times as good as '
            f'{shown.other} ({shown.times.low:.3g} to '
            f'{shown.times.high:.3g}){several}: {shown.row.tenant.workload}, '
            f'{shown.row.case.name}')


def _where(run: statistics.RunSummary, row: statistics.FigureRow) -> str:
    """What figures were taken on, and what is doubtful about them."""
    texts = [run.experiment.name]
    if run.conditions is not None:
        texts[0] += f' on {run.host_cpus} CPUs'
        if run.conditions.emulated:
            texts.append('guests that were emulated')
        if run.conditions.virtualised:
            texts.append('a host that is a guest itself')
    if row.flagged:
        texts.append('with doubtful measurements')
    return ', '.join(texts)


def _least_size(
    summaries: Sequence[statistics.RunSummary],
    question: advice_model.Question,
) -> advice_model.AdviceLine | None:
    """The smallest size with hardly more overhead than the best has.

    On a host with another number of CPUs it does not decide: nobody knows
    what of it goes by the size, and what by its ratio to the host's.
    """
    by_kind: dict[object, dict[int, tuple[
        intervals.Interval, statistics.FigureRow,
        statistics.RunSummary]]] = {}
    for run in summaries:
        for row in row_pairs.first_figures(run):
            tenant, overhead = row.tenant, row.overhead
            if (overhead is not None and overhead.is_known
                    and is_about(run.results, tenant, question)):
                by_kind.setdefault((
                    id(run), tenant.workload, tenant.platform,
                    tenant.provisioning), {})[tenant.size.vcpus] = (
                        overhead, row, run)
    sizes = max(by_kind.values(), default={}, key=len)
    if len(sizes) < 2:
        return None
    lowest = min(overhead.value for overhead, _row, _run in sizes.values())
    vcpus = min(size for size, (overhead, _row, _run) in sizes.items()
                if overhead.low <= (1 + _HARDLY) * lowest)
    overhead, row, run = sizes[vcpus]
    is_of_host = (question.host is None
                  or len(question.host.cpus) == run.host_cpus)
    return advice_model.AdviceLine(
        topic='size', strength=STRENGTH, holds=_where(run, row),
        low=vcpus if is_of_host else None,
        why=f'with {vcpus} vCPUs it takes {overhead.value:.3g} times '
            f'({overhead.low:.3g} to {overhead.high:.3g}) what the baseline '
            f'takes, and with more hardly less: {row.case.name}')
