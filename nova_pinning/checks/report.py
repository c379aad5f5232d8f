# SPDX-License-Identifier: Apache-2.0
"""What a check has to say, and the same for JSON."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning.checks import check_rule
from nova_pinning.checks import waiver
from nova_pinning import errors


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A metric besides those that all checks have.

    :param values: by the values of the labels
    """

    name: str
    help_text: str
    values: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """All that a check has to say.

    :param name: of the check, in the names of its metrics: 'host'
    :param source: what was checked: a file, a host or a cloud
    :param scope: how much was checked, for people: 'in 22 flavors'
    :param head: keys for JSON besides those that all checks have
    :param notes: what else to tell people; a list each with its heading
    :param waived: findings that do not count
    :param started: when the check was started, in seconds since 1970
    """

    name: str
    rules: check_rule.Registry[Any]
    findings: tuple[check_rule.Finding, ...]
    source: str
    scope: str
    head: Mapping[str, Any]
    notes: tuple[tuple[str, ...], ...] = ()
    waived: tuple[waiver.WaivedFinding, ...] = ()
    figures: tuple[Figure, ...] = ()
    started: float = 0.0
    duration_seconds: float = 0.0

    @property
    def totals(self) -> str:
        """All in one line: '2 errors and 1 note in 22 flavors'."""
        left_out = f'; {len(self.waived):,} left out' if self.waived else ''
        return f'{check_rule.summary(self.findings)} {self.scope}{left_out}'

    def as_dict(self) -> dict[str, Any]:
        """For JSON; every key is always there."""
        return {
            'version': 1,
            **self.head,
            'started': round(self.started, 3),
            'duration_seconds': round(self.duration_seconds, 3),
            'totals': {str(severity): number for severity, number
                       in check_rule.count(self.findings).items()},
            'findings': findings_as_dicts(self.findings),
            'waived': [{'reason': one.reason, 'finding': _as_dict(one.finding)}
                       for one in self.waived]}


def findings_as_dicts(
    findings: Iterable[check_rule.Finding],
) -> list[dict[str, Any]]:
    """Findings for JSON; every key is always there."""
    return list(map(_as_dict, findings))


def _as_dict(finding: check_rule.Finding) -> dict[str, Any]:
    location = finding.location or errors.Location('')
    return {
        'code': finding.code,
        'severity': str(finding.severity),
        'subject': finding.subject,
        'kind': finding.kind,
        'id': finding.id,
        'name': finding.name,
        'host': finding.host,
        **finding.details,
        'source': location.source,
        'line': location.line,
        'column': location.column,
        'key': location.key,
        'message': finding.message,
        'why': finding.why,
        'advice': finding.advice,
        'evidence': [evidence.as_dict() for evidence in finding.evidence],
        'commands': list(finding.remediation)}
