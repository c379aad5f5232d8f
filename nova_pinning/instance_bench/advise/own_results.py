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
import math

from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import statistics

STRENGTH = 'own results'
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
        gain = 1 + row_pairs.WORTH
        if self.times.low > gain:
            return self.answer
        enough = gain if self.other == 'shared' else 1 / gain
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
    for on_two, on_one in row_pairs.processor_pairs(run):
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
    """The smallest size with hardly more overhead than any other has.

    Each size against each other, round by round: it is too small if one is
    better by more than that, and large enough if none can be. Where neither
    is known of it, nothing is said of larger ones.

    On a host with another number of CPUs it does not decide: nobody knows
    what of it goes by the size, and what by its ratio to the host's.
    """
    by_kind: dict[object, tuple[
        statistics.RunSummary, dict[int, row_pairs.Pair]]] = {}
    for run in summaries:
        for row in row_pairs.first_figures(run):
            base = statistics.baseline_row(row, run.rows, run.experiment)
            if base is not None and is_about(run.results, row.tenant,
                                             question):
                by_kind.setdefault((
                    id(run), row.tenant.workload, row.tenant.platform,
                    row.tenant.provisioning), (run, {}))[1][
                        row.tenant.size.vcpus] = row, base
    if not by_kind:
        return None
    run, sizes = max(by_kind.values(), key=lambda kind: len(kind[1]))
    if len(sizes) < 2:
        return None
    confidence = intervals.of_many(len(sizes) - 1)
    most = 1 + row_pairs.WORTH
    for vcpus, pair in sorted(sizes.items()):
        ratios = {other: row_pairs.against_own(
            run, pair, sizes[other], confidence)
            for other in sizes if other != vcpus}
        if not any(ratio.low > most for ratio in ratios.values()):
            break
    row, overhead = pair[0], pair[0].overhead
    assert overhead is not None
    unclear = {other: ratio for other, ratio in ratios.items()
               if not ratio.high <= most}
    is_of_host = (question.host is None
                  or len(question.host.cpus) == run.host_cpus)
    return advice_model.AdviceLine(
        topic='size', strength=STRENGTH, holds=_where(run, row),
        low=vcpus if is_of_host and not unclear else None,
        why=_unclear(vcpus, unclear, len(row.estimate.sample.clusters), most)
        if unclear else
        f'with {vcpus} vCPUs it takes {overhead.value:.3g} times '
        f'({overhead.low:.3g} to {overhead.high:.3g}) what the baseline '
        f'takes, and with more hardly less: {row.case.name}')


def _unclear(vcpus: int, unclear: Mapping[int, intervals.Interval],
             rounds: int, most: float) -> str:
    """What is not known of a size, and how many rounds would tell."""
    # The nearest to the bound takes most of them.
    other = min(unclear, key=lambda size: abs(
        math.log(most / unclear[size].value)))
    ratio = unclear[other]
    return (f'with {vcpus} vCPUs its overhead is {ratio.value:.3g} times '
            f'({ratio.low:.3g} to {ratio.high:.3g}) that with {other}, where '
            f'{most:.3g} is too much; '
            + intervals.rounds_that_tell(ratio, most, rounds))
