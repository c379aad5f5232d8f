# SPDX-License-Identifier: Apache-2.0
"""Results for programs: JSON, version 2."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math
import operator
from typing import Any

from nova_pinning.instance_bench.report import report_part
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench import statistics

VERSION = 2
# Where values are, by their keys.
_FIGURE = {
    'case': 'case.factors', 'tenant': 'tenant.name',
    'workload': 'tenant.workload', 'figure': 'figure.name',
    'unit': 'figure.unit', 'better': 'figure.better',
    'mean': 'estimate.mean', 'low': 'estimate.interval.low',
    'high': 'estimate.interval.high',
    **{name: f'estimate.{name}' for name in (
        'count', 'deviation', 'variation', 'minimum', 'maximum', 'outliers',
        'values')},
    **{name: name for name in (
        'baseline', 'overhead', 'quiet', 'slowdown',
        'flagged')}}
_FINISH = {'case': 'case.factors', 'heavy': 'heavy.tenant.name',
           'light': 'light.tenant.name', 'ratio': 'ratio.interval'}
_CHANGE = {'case': 'new.case.factors', 'tenant': 'new.tenant.name',
           'figure': 'new.figure.name', 'was': 'old.estimate.mean',
           'is': 'new.estimate.mean', 'ratio': 'ratio', 'verdict': 'verdict',
           'more_boots': 'more_boots'}
_SELF_TEST = ('comparisons', 'including_one', 'largest', 'smallest_effect',
              'stretch')
_COMPARISON = ('boots', 'confidence', 'only_old', 'only_new',
               'unlike', 'differing')


def report_document(parts: Sequence[report_part.Part]) -> dict[str, Any]:
    """All that the page says of what was measured."""
    document: dict[str, Any] = _plain({
        'version': VERSION, 'results': list(map(_part, parts))})
    return document


def _plain(value: Any) -> Any:
    """What json.dumps takes; it has only null for what is not known."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name))
                for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return None if isinstance(value, float) and (
        not math.isfinite(value)) else value


def _records(places: Mapping[str, str],
             rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [{key: operator.attrgetter(place)(row)
             for key, place in places.items()} for row in rows]


def _part(part: report_part.Part) -> dict[str, Any]:
    summary, calibration = part.summary, part.calibration
    entry: dict[str, Any] = {
        'source': part.source,
        'experiment': summary.experiment.name,
        'answer': part.answer.sentence,
        'self_test': calibration and {
            name: getattr(calibration, name) for name in _SELF_TEST},
        'warnings': part.caveats,
        'claims': part.claims,
        'figures': [
            {'platform': run_tables.platform(summary, row.tenant), **figure}
            for row, figure in zip(
                summary.rows, _records(_FIGURE, summary.rows))],
        'finishes': _records(_FINISH, statistics.finishes(summary)),
        'skipped': _records({'case': 'factors', 'reason': 'skipped'}, (
            case for case in summary.experiment.cases if case.skipped)),
        'failures': _records({'case': 'factors', 'message': 'message'},
                             summary.results.failures)}
    comparison = part.comparison
    if comparison is not None:
        entry['comparison'] = {
            'warnings': part.earlier_caveats,
            'changes': _records(_CHANGE, comparison.changes),
            **{name: getattr(comparison, name) for name in _COMPARISON}}
    return entry
