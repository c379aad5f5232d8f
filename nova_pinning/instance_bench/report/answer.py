# SPDX-License-Identifier: Apache-2.0
"""What a run says of what it was made for: one sentence, and its ratios."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import functools
import math

from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench.report import break_even
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import strips
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import typed_table

# Of more ratios the table need not stand open.
_MOST_OPEN = 16
#: The factor that says which neighbour a row has.
NEIGHBOUR = 'scenario'

#: A row, and how much worse it is than another, by the confidence.
_Compared = tuple[statistics.FigureRow, Callable[[float], intervals.Interval]]
_Ratios = list[tuple[str, intervals.Interval]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentAnswer:
    """
    :param more: what belongs to it, and is not it
    :param axis: what the ratios are
    :param ratios: that the sentence is about, each with what it is of
    """

    sentence: str
    more: str = ''
    axis: str = ''
    ratios: _Ratios = dataclasses.field(default_factory=list)

    @property
    def table(self) -> run_tables.ReportTable | None:
        """The ratios, None if there are none."""
        if not self.ratios:
            return None
        return run_tables.ReportTable(
            ('of', typed_table.count('ratio')),
            [(label, words.ratio(ratio)) for label, ratio in self.ratios],
            title=self.axis[0].upper() + self.axis[1:],
            drawn=[strips.Strip(ratio) for _label, ratio in self.ratios],
            is_detail=len(self.ratios) > _MOST_OPEN)


def answer(summary: statistics.RunSummary) -> ExperimentAnswer:
    """The answer; it says so if there is none."""
    found = None
    if summary.rows:
        found = _OF_TABLE.get(summary.experiment.table, _overheads)(summary)
    return found or ExperimentAnswer(
        sentence='What was measured does not answer the question of this '
                 'experiment.')


def _isolation(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    isolations = list(row_pairs.isolations(summary))
    rows = [one.row for one in isolations if one.other is not None]
    levels = [(_name(one.row, rows), one.level) for one in isolations
              if one.level is not None]
    spreads = [(_name(one.row, rows), one.spread) for one in isolations
               if one.spread is not None]
    costs = [(cost, cost.row.tenant.workload)
             for cost in row_pairs.density_costs(summary)]
    gains = '; '.join(f'{words.change(level)} for {name}'
                      for name, level in levels)
    sentence = ('Beside neighbours, with as many vCPUs for each CPU, pinning '
                f'{gains}.')
    more = []
    if not levels:
        sentence = ('What pinning buys beside neighbours was not measured: no '
                    'floating instance had as many vCPUs for each CPU as a '
                    'pinned one has.')
    elif all(one.has_one_cpu for one in isolations):
        sentence = ('This host is too small to tell what pinning buys: with '
                    'as many vCPUs for each CPU, a floating instance has one '
                    'CPU to float on, and is pinned in all but name.')
        more.append(f'There pinning {gains}.')
    if spreads:
        more.append('Floating instances vary by this many times as much: '
                    + '; '.join(f'{name} {words.ratio(spread)}'
                                for name, spread in spreads) + '.')
    if costs:
        more.append('What density costs is apart from that: ' + '; '.join(
            f'{workload} is {words.ratio(cost.cost)} times worse off at '
            f'{cost.many:.2g} vCPUs for each CPU than at {cost.few:.2g}, '
            'both floating' for cost, workload in costs) + '.')
    return ExperimentAnswer(
        sentence=sentence, more=' '.join(more),
        axis='floating by pinned, many by few; above 1: worse', ratios=[
            *((f'{name}: level, floating by pinned', level)
              for name, level in levels),
            *((f'{name}: spread, floating by pinned', spread)
              for name, spread in spreads),
            *((f'{workload}: density, many by few', cost.cost)
              for cost, workload in costs)])


def _name(row: statistics.FigureRow,
          rows: Sequence[statistics.FigureRow]) -> str:
    """A workload's name, with the case if it alone is not enough."""
    workload = row.tenant.workload
    cases = [other.case for other in rows if other.tenant.workload == workload]
    if len(cases) < 2:
        return workload
    factors = ', '.join(
        row.case.factors.get(name, '') for name in statistics.varying(cases)
        if name != 'workload')
    return f'{workload} ({factors})'


def _neighbours(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    rows = [(row, ratio) for row in row_pairs.first_figures(summary)
            if (ratio := slowdown(row)) is not None]
    sentence = '; '.join(
        _worst(summary, kind, own) for kind, is_pinned in (
            ('pinned', True), ('floating', False))
        if (own := [row for row, _ratio in rows
                    if row.is_pinned is is_pinned]))
    return ExperimentAnswer(
        sentence=f'{sentence[0].upper()}{sentence[1:]}.',
        axis='slowdown by a neighbour; above 1: worse',
        ratios=[(_label(summary, row), ratio) for row, ratio in rows]
    ) if rows else None


def _worst(summary: statistics.RunSummary, kind: str,
           rows: Sequence[statistics.FigureRow]) -> str:
    """The worst of some neighbours, by an interval for the worst of so many.

    :param kind: of instances, in a word
    """
    confidence = intervals.of_many(len(rows))
    row, ratio = max(((row, row_pairs.ratio(summary, row, quiet, confidence))
                      for row in rows if (quiet := statistics.quiet_row(
                          summary, row)) is not None),
                     key=lambda pair: pair[1].value)
    text = (f'{row.case.factors.get(NEIGHBOUR, "")}, which slows '
            f'{row.tenant.workload} {words.ratio(ratio)} times')
    return (f'of {words.count(len(rows), "case")} the worst neighbour of '
            f'{kind} instances is {text}' if ratio.low > 1 else
            f'of {words.count(len(rows), "case")} none is known to slow '
            f'{kind} instances, not even {text}')


def slowdown(row: statistics.FigureRow) -> intervals.Interval | None:
    """What neighbours cost: against an idle host, or the baseline's."""
    return row.slowdown or row.overhead


def _of_pairs(summary: statistics.RunSummary, what: str, axis: str,
              pairs: Sequence[_Compared]) -> ExperimentAnswer | None:
    """Of each platform the least and the most; None if there are no pairs.

    By intervals for the least and the most of so many.
    """
    by_platform: dict[str, list[_Compared]] = {}
    for row, ratio in pairs:
        by_platform.setdefault(run_tables.platform(summary, row.tenant),
                               []).append((row, ratio))
    texts = []
    for platform, own in by_platform.items():
        confidence = intervals.of_many(len(own))
        ordered = sorted(((ratio(confidence), _label(summary, row))
                          for row, ratio in own),
                         key=lambda pair: pair[0].value)
        ends = [f'{words.ratio(ratio)} ({label})'
                for ratio, label in ordered[:1] + ordered[1:][-1:]]
        texts.append(f'{platform} ' + (ends[0] if len(own) == 1 else (
            f'at the least of {len(own)} {ends[0]}, at the most {ends[1]}')))
    return ExperimentAnswer(
        sentence=f'{what}: {"; ".join(texts)}.', axis=axis, ratios=[
            (_label(summary, row), ratio(intervals.CONFIDENCE))
            for row, ratio in pairs]) if pairs else None


def _against(summary: statistics.RunSummary,
             pairs: Iterable[row_pairs.Pair]) -> list[_Compared]:
    return [(row, functools.partial(row_pairs.ratio, summary, row, other))
            for row, other in pairs]


def _mutex(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    return _of_pairs(
        summary, 'Two threads need, on two CPUs by on one',
        'two CPUs by one; above 1: one is faster',
        _against(summary, row_pairs.processor_pairs(summary))
    ) or _overheads(summary)


def _mine(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    found = list(break_even.offers(summary))
    return ExperimentAnswer(
        sentence=break_even.sentence(summary, found),
        more=break_even.work(summary),
        axis='work of a pinned vCPU by that of a floating one', ratios=[
            (_label(summary, offer.floating), offer.worth)
            for offer in found]) if found else _overheads(summary)


def _label(summary: statistics.RunSummary, row: statistics.FigureRow) -> str:
    factors = row.case.factors
    return ', '.join(
        f'{name} {factors[name]}' if factors[name].isdigit()
        else factors[name] for name in statistics.varying(
            [one.case for one in summary.rows]) if name in factors)


def _priority(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    finishes = statistics.finishes(summary)
    weights = ' and '.join(str(one.tenant.weight) for finish in finishes[:1]
                           for one in (finish.heavy, finish.light))
    return _of_pairs(
        summary, f'With weights {weights} the heavier is done in this part of '
        'the time of the lighter', 'finish time, heavier by lighter', [
            (finish.heavy, functools.partial(
                _finish, summary, finish.ratio.sample))
            for finish in finishes])


def _finish(summary: statistics.RunSummary, sample: intervals.Sample,
            confidence: float) -> intervals.Interval:
    return intervals.interval(
        [sample], intervals.mean, is_positive=True, confidence=confidence,
    ).stretched(summary.stretch)


def _by_pinning(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    return _of_pairs(
        summary, 'Floating instances are, by pinned ones of the same size, '
        'this many times worse off', 'floating by pinned; above 1: pinning '
        'gains', _against(summary, row_pairs.pinning_pairs(summary))
    ) or _overheads(summary)


def _latency(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    """The largest latency seen is what such instances are bought for."""
    sentence = '; '.join(
        f'{_label(summary, row)}: {words.number(row.estimate.maximum)} '
        f'{row.figure.unit}' for row in summary.rows
        if row.is_measured and row.figure.name == 'max')
    found = _by_pinning(summary)
    if not sentence:
        return found
    sentence = f'The latest that a thread woke: {sentence}.'
    return (dataclasses.replace(found, sentence=sentence) if found
            else ExperimentAnswer(sentence=sentence))


def _overheads(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    base = ', '.join(summary.experiment.baseline.values())
    return _of_pairs(
        summary, f'Against the baseline ({base}), above 1 being worse',
        'by the baseline; above 1: worse', _against(summary, [
            (row, other) for row in row_pairs.first_figures(summary)
            if (other := statistics.baseline_row(
                row, summary.rows, summary.experiment)) is not None]))


def _self_test(summary: statistics.RunSummary) -> ExperimentAnswer | None:
    found = self_test.calibrate(summary.results)
    return ExperimentAnswer(
        sentence=calibration_words(found), axis='copies, furthest first',
        ratios=[(f'{one.name}, {one.figure}', one.ratio)
                for one in sorted(found.comparisons, reverse=True,
                                  key=lambda one: one.reach)])


def calibration_words(found: self_test.Calibration | None) -> str:
    """The machine's A/A figure."""
    if found is None:
        return ('Intervals are as they were calculated: no self-test of this '
                'machine was given ("bench run self-test", then '
                '--self-test), so none is widened.')
    if not found.comparisons:
        return ('Intervals are as they were calculated: the self-test was cut '
                'off, so none is widened.')
    stretch = (f'intervals stretched by {found.stretch:.2f}'
               if math.isfinite(found.stretch) else 'some differ without any '
               'spread, so that no stretch will do and ratios say nothing')
    return (f'{found.including_one:,} of {len(found.comparisons):,} identical '
            'comparisons on this machine include 1.0, the largest ratio '
            f'being {found.largest:.2f}; {stretch}. An effect of less than '
            f'{words.percent(found.smallest_effect - 1)} need not show.')


_OF_TABLE: dict[
    str, Callable[[statistics.RunSummary], ExperimentAnswer | None],
] = {
    'levels': _isolation, 'neighbours': _neighbours, 'mutex': _mutex,
    'mine': _mine, 'priority': _priority, 'overhead': _by_pinning,
    'latency': _latency,
    'self-test': _self_test}
