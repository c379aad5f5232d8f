# SPDX-License-Identifier: Apache-2.0
"""Results for programs: JSON, version 1."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math
from typing import Any

from nova_pinning.instance_bench.report import across_hosts
from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import page
from nova_pinning.instance_bench.report import run_caveats
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import statistics

VERSION = 1


def report_document(parts: Sequence[page.Part]) -> dict[str, Any]:
    """All that the page says of what was measured, but for pictures."""
    found = across_hosts.table([part.summary for part in parts])
    document: dict[str, Any] = _plain({
        'version': VERSION, 'results': list(map(_part, parts)),
        'hosts_of_different_sizes': list(found.records()) if found else []})
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


def _part(part: page.Part) -> dict[str, Any]:
    summary = part.summary
    entry: dict[str, Any] = {
        'source': part.source,
        'experiment': summary.experiment.name,
        'answer': answer.answer(summary).sentence,
        'self_test': part.calibration and {
            'comparisons': len(part.calibration.comparisons),
            'including_one': part.calibration.including_one,
            'largest': part.calibration.largest,
            'stretch': part.calibration.stretch},
        'warnings': part.caveats,
        'claims': part.claims,
        'figures': [_row(summary, row) for row in summary.rows],
        'finishes': [{
            'case': finish.case.factors, 'heavy': finish.heavy.tenant.name,
            'light': finish.light.tenant.name, 'ratio': finish.ratio.interval,
        } for finish in statistics.finishes(summary)],
        'split': [{
            **dict(zip(('workload', 'platform', 'provisioning'), split.name)),
            'with_platform': split.platform, 'by_size': split.by_size,
            'residual': split.residual,
        } for split in statistics.split(summary)],
        'skipped': [{
            'case': case.factors, 'reason': case.skipped
        } for case in summary.experiment.cases if case.skipped],
        'failures': [{
            'case': failure.factors, 'message': failure.message
        } for failure in summary.results.failures]}
    if part.comparison is not None:
        entry['comparison'] = _comparison(part.comparison)
    return entry


def _row(summary: statistics.RunSummary,
         row: statistics.FigureRow) -> dict[str, Any]:
    estimate = row.estimate
    return {
        'case': row.case.factors, 'tenant': row.tenant.name,
        'platform': run_tables.platform(summary, row.tenant),
        'workload': row.tenant.workload, 'figure': row.figure.name,
        'unit': row.figure.unit, 'better': row.figure.better,
        'count': estimate.count, 'mean': estimate.mean,
        'low': estimate.interval.low, 'high': estimate.interval.high,
        'method': estimate.interval.method, 'deviation': estimate.deviation,
        'variation': estimate.variation, 'minimum': estimate.minimum,
        'maximum': estimate.maximum, 'outliers': estimate.outliers,
        'values': estimate.values, 'baseline': row.baseline,
        'overhead': row.overhead, 'quiet': row.quiet,
        'slowdown': row.slowdown, 'instability': row.instability,
        'flagged': row.flagged}


def _comparison(comparison: run_comparison.Comparison) -> dict[str, Any]:
    return {
        'warnings': run_caveats.caveats(comparison.old),
        'changes': [{
            'case': change.new.case.factors, 'tenant': change.new.tenant.name,
            'figure': change.new.figure.name,
            'was': change.old.estimate.mean, 'is': change.new.estimate.mean,
            'ratio': change.ratio, 'verdict': change.verdict,
        } for change in comparison.changes],
        **{name: getattr(comparison, name) for name in (
            'tolerance', 'confidence', 'only_old', 'only_new', 'unlike',
            'differing')}}
