# SPDX-License-Identifier: Apache-2.0
"""Findings that are no news: left out of the count, shown with a reason."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import json
import types
from typing import Any

from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning import spelling

#: What tells a finding from others, whatever stands in its message besides.
Mark = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class WaivedFinding:
    """A finding that does not count, and why."""

    finding: check_rule.Finding
    reason: str


def mark(finding: check_rule.Finding) -> Mark:
    """By which a finding is known again: code, kind, name and host."""
    return finding.code, finding.kind, finding.name or finding.subject, (
        finding.host)


def baseline(text: str, source: str) -> frozenset[Mark]:
    """The findings of an earlier run, as ``--format json`` wrote them.

    Those that did not count then do not count now either.

    :raises errors.InputError: if it is something else
    """
    try:
        document = json.loads(text)
        told = [*document['findings'],
                *(waived['finding'] for waived in document.get('waived', ()))]
        return frozenset(
            (one['code'], one['kind'], one['name'] or one['subject'],
             one['host']) for one in told)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise errors.InputError(
            'it is not what a check has written', errors.Location(source),
            'write it with --format json') from error


def check_codes(codes: Iterable[str],
                rules: check_rule.Registry[Any],
                where: errors.Location) -> None:
    """Look whether there are rules with these codes.

    :raises errors.InputError: naming the first that there is not
    """
    for code in codes:
        if code not in rules:
            raise errors.InputError(
                f'there is no rule with the code {code}', where,
                spelling.did_you_mean(code, rules))


def sort_out(
    findings: Iterable[check_rule.Finding], codes: Mapping[str, str],
    known: Mapping[Mark, str] = types.MappingProxyType({}),
) -> tuple[tuple[check_rule.Finding, ...], tuple[WaivedFinding, ...]]:
    """Findings that count, and those that do not.

    :param codes: of rules that do not count, with the reason
    :param known: findings that do not count, with the reason
    """
    kept, waived = [], []
    for finding in findings:
        reason = codes.get(finding.code) or known.get(mark(finding), '')
        if reason:
            waived.append(WaivedFinding(finding, reason))
        else:
            kept.append(finding)
    return tuple(kept), tuple(waived)
