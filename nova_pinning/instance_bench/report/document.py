# SPDX-License-Identifier: Apache-2.0
"""Results for programs: JSON, version 1."""

from collections.abc import Sequence
import dataclasses
import math
from typing import Any

from nova_pinning.instance_bench import intervals
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
    return {'version': VERSION, 'results': [_part(part) for part in parts],
            'hosts_of_different_sizes': [
                dict(zip(found.columns, row)) for row in found.rows]
            if found is not None else []}


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
            'stretch': _number(part.calibration.stretch)},
        'warnings': list(part.caveats),
        'claims': list(map(dataclasses.asdict, part.claims)),
        'figures': [_row(summary, row) for row in summary.rows],
        'finishes': [{
            'case': dict(finish.case.factors),
            'heavy': finish.heavy.tenant.name,
            'light': finish.light.tenant.name,
            'ratio': _interval(finish.ratio.interval)
        } for finish in statistics.finishes(summary)],
        'split': [{
            'workload': split.name[0],
            'platform': split.name[1],
            'provisioning': split.name[2],
            'with_platform': _interval(split.platform),
            'by_size': _interval(split.by_size),
            'residual': _number(split.residual)
        } for split in statistics.split(summary)],
        'skipped': [{
            'case': dict(case.factors), 'reason': case.skipped
        } for case in summary.experiment.cases if case.skipped],
        'failures': [{
            'case': dict(failure.factors), 'message': failure.message
        } for failure in summary.results.failures]}
    if part.comparison is not None:
        entry['comparison'] = _comparison(part.comparison)
    return entry


def _row(summary: statistics.RunSummary,
         row: statistics.FigureRow) -> dict[str, Any]:
    estimate = row.estimate
    return {
        'case': dict(row.case.factors), 'tenant': row.tenant.name,
        'platform': run_tables.platform(summary, row.tenant),
        'workload': row.tenant.workload, 'figure': row.figure.name,
        'unit': row.figure.unit, 'better': str(row.figure.better),
        'count': estimate.count, 'mean': _number(estimate.mean),
        'low': _number(estimate.interval.low),
        'high': _number(estimate.interval.high),
        'method': str(estimate.interval.method),
        'deviation': _number(estimate.deviation),
        'variation': _interval(estimate.variation),
        'minimum': estimate.minimum, 'maximum': estimate.maximum,
        'outliers': list(estimate.outliers), 'values': list(estimate.values),
        'baseline': row.baseline, 'overhead': _interval(row.overhead),
        'quiet': row.quiet, 'slowdown': _interval(row.slowdown),
        'instability': _interval(row.instability),
        'flagged': row.flagged}


def _comparison(comparison: run_comparison.Comparison) -> dict[str, Any]:
    return {
        'warnings': list(run_caveats.caveats(comparison.old)),
        'tolerance': comparison.tolerance,
        'confidence': comparison.confidence,
        'changes': [{
            'case': dict(change.new.case.factors),
            'tenant': change.new.tenant.name,
            'figure': change.new.figure.name,
            'was': _number(change.old.estimate.mean),
            'is': _number(change.new.estimate.mean),
            'ratio': _interval(change.ratio),
            'verdict': str(change.verdict)} for change in comparison.changes],
        'only_old': list(comparison.only_old),
        'only_new': list(comparison.only_new),
        'unlike': list(comparison.unlike),
        'differing': list(comparison.differing)}


def _interval(interval: intervals.Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {'value': _number(interval.value), 'low': _number(interval.low),
            'high': _number(interval.high), 'method': str(interval.method)}


def _number(value: float) -> float | None:
    """JSON has only null for what is not known."""
    return value if math.isfinite(value) else None
