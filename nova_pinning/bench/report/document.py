#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Results for programs: JSON, version 1."""

from collections.abc import Sequence
import math
from typing import Any

from nova_pinning.bench import compare
from nova_pinning.bench import intervals
from nova_pinning.bench.report import caveats
from nova_pinning.bench.report import claims
from nova_pinning.bench.report import page
from nova_pinning.bench.report import tables
from nova_pinning.bench import statistics

VERSION = 1


def document(parts: Sequence[page.Part]) -> dict[str, Any]:
    """All that the page says of what was measured, but for pictures."""
    return {'version': VERSION, 'results': [_part(one) for one in parts]}


def _part(part: page.Part) -> dict[str, Any]:
    summary = part.summary
    found: dict[str, Any] = {
        'source': part.source,
        'experiment': summary.experiment.name,
        'warnings': list(caveats.caveats(summary)),
        'claims': [_claim(one) for one in part.claims],
        'figures': [_row(one) for one in summary.rows],
        'finishes': [{
            'case': dict(one.case.factors),
            'heavy': one.heavy.tenant.name, 'light': one.light.tenant.name,
            'ratio': _interval(one.ratio.interval)}
            for one in statistics.finishes(summary)],
        'split': [{
            'workload': one.name[0], 'platform': one.name[1],
            'provisioning': one.name[2],
            'with_platform': _interval(one.platform),
            'by_size': _interval(one.by_size),
            'residual': _number(one.residual)}
            for one in statistics.split(summary, tables.host_cpus(summary))],
        'skipped': [{'case': dict(one.factors), 'reason': one.skipped}
                    for one in summary.experiment.cases if one.skipped],
        'failures': [{'case': dict(one.factors), 'message': one.message}
                     for one in summary.results.failures]}
    if part.comparison is not None:
        found['comparison'] = _comparison(part.comparison)
    return found


def _claim(one: claims.Claim) -> dict[str, Any]:
    return {'name': one.name, 'subject': one.subject,
            'statement': one.statement, 'verdict': str(one.verdict),
            'evidence': one.evidence}


def _row(row: statistics.Row) -> dict[str, Any]:
    estimate = row.estimate
    return {
        'case': dict(row.case.factors), 'tenant': row.tenant.name,
        'workload': row.tenant.workload, 'figure': row.figure.name,
        'unit': row.figure.unit, 'better': str(row.figure.better),
        'count': estimate.count, 'mean': _number(estimate.mean),
        'low': _number(estimate.low), 'high': _number(estimate.high),
        'method': str(estimate.method),
        'resampled': str(estimate.sample.unit),
        'deviation': _number(estimate.deviation),
        'variation': _interval(estimate.variation),
        'minimum': estimate.minimum, 'maximum': estimate.maximum,
        'outliers': list(estimate.outliers), 'values': list(estimate.values),
        'baseline': row.baseline, 'overhead': _interval(row.overhead),
        'quiet': row.quiet, 'slowdown': _interval(row.slowdown),
        'instability': _interval(row.instability),
        'flagged': row.flagged}


def _comparison(found: compare.Comparison) -> dict[str, Any]:
    return {
        'warnings': list(caveats.caveats(found.old)),
        'tolerance': found.tolerance, 'confidence': found.confidence,
        'changes': [{
            'case': dict(one.new.case.factors),
            'tenant': one.new.tenant.name, 'figure': one.new.figure.name,
            'was': _number(one.old.estimate.mean),
            'is': _number(one.new.estimate.mean),
            'ratio': _interval(one.ratio), 'verdict': str(one.verdict)}
            for one in found.changes],
        'only_old': list(found.only_old), 'only_new': list(found.only_new),
        'unlike': list(found.unlike), 'differing': list(found.differing)}


def _interval(one: intervals.Interval | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {'value': _number(one.value), 'low': _number(one.low),
            'high': _number(one.high), 'method': str(one.method)}


def _number(value: float) -> float | None:
    """JSON has no word for what is not known but null."""
    return value if math.isfinite(value) else None
