# SPDX-License-Identifier: Apache-2.0
"""Findings that one thing puts right, as one finding."""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import itertools
import os

from nova_pinning.checks import check_rule
from nova_pinning.host import words

# Each guest has a life of its own, and so has each thread that was watched.
_APART = ('H6', 'H7')
# Of what is merged, a message names so many.
_NAMED = 5


def merged(
    findings: Iterable[check_rule.Finding],
) -> Iterator[check_rule.Finding]:
    """The findings, those of one rule with the same advice together.

    :param findings: those of a rule one after the other
    """
    for (code, _severity, _advice, _why), group in itertools.groupby(
            findings, lambda finding: (finding.code, finding.severity,
                                       finding.advice, finding.why)):
        same = list(group)
        if len(same) == 1 or code.startswith(_APART):
            yield from same
        else:
            yield _one(same)


def _one(same: list[check_rule.Finding]) -> check_rule.Finding:
    prefix = _common([finding.subject for finding in same])
    names = [finding.subject.removeprefix(prefix) for finding in same]
    has_one_subject = len(set(names)) == 1
    parts = [
        finding.message if has_one_subject else f'{name}: {finding.message}'
        for name, finding in zip(names, same)]
    if len(parts) > _NAMED:
        parts[_NAMED - 1:] = [f'and {len(parts) - _NAMED + 1} more']
        names[_NAMED - 1:] = [f'{len(names) - _NAMED + 1} more']
    return dataclasses.replace(
        same[0],
        subject=same[0].subject if has_one_subject
        else prefix + words.listed(names),
        message='; '.join(parts),
        evidence=tuple(itertools.chain.from_iterable(
            finding.evidence for finding in same)),
        remediation=tuple(dict.fromkeys(itertools.chain.from_iterable(
            finding.remediation for finding in same))))


def _common(subjects: list[str]) -> str:
    """The words that all of them begin with, and a blank."""
    start = os.path.commonprefix(subjects)
    return start[:start.rfind(' ') + 1]
