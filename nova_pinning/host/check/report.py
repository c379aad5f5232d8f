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

"""What a check of a host found, for people and for programs."""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
import itertools
from typing import Any

import rich.console

from nova_pinning import cpuset
from nova_pinning.host.check import finding
from nova_pinning.host.check import rule
from nova_pinning.host.check.rules import settings
from nova_pinning.host import words
from nova_pinning.reports import findings

# What is looked at, in the words for one of each.
_ONE = {'processes': 'process', 'threads': 'thread', 'guests': 'guest',
        'interrupts': 'interrupt'}


def as_dict(result: finding.Result) -> dict[str, Any]:
    """A result for JSON; every key is always there."""
    return {
        'version': 1,
        'host': result.host,
        'plan': result.plan,
        'started': round(result.started, 3),
        'duration_seconds': round(result.duration_seconds, 3),
        'watched_seconds': round(result.watched_seconds, 3),
        'nova_conf_files': list(result.nova_conf_files),
        'looked_at': dict(result.looked_at),
        'foreign_seconds': [
            {'cpu': cpu, 'seconds': round(seconds, 9)}
            for cpu, seconds in sorted(result.foreign_seconds.items())],
        'free_pages': [
            {'node': node, 'page_size_kib': size_kib, 'count': number}
            for (node, size_kib), number
            in sorted(result.free_pages.items())],
        'unread': [{'path': one.path, 'reason': one.reason,
                    'hides': one.hides} for one in result.unread],
        'totals': {str(severity): number for severity, number
                   in findings.count(result.findings).items()},
        'findings': [{
            'code': one.code,
            'severity': str(one.severity),
            'subject': one.subject,
            'message': one.message,
            'why': one.why,
            'advice': one.advice,
            'evidence': list(map(_evidence, one.evidence)),
            'commands': list(one.mends),
        } for one in result.findings],
    }


def _evidence(one: finding.Evidence) -> dict[str, Any]:
    def text(cpus: cpuset.CpuSet | None) -> str | None:
        return None if cpus is None else str(cpus)

    return {
        'pid': one.pid,
        'tid': one.tid,
        'name': one.name,
        'interrupt': one.interrupt,
        'node': one.node,
        'cpus': text(one.cpus),
        'expected_cpus': text(one.expected_cpus),
        'run_seconds': one.run_seconds,
        'is_estimate': one.is_estimate,
        'count': one.count,
    }


def show(result: finding.Result, rules: Mapping[str, rule.Rule],
         console: rich.console.Console,
         limit: int = findings.LIMIT) -> None:
    """Print what was found, all of a code together.

    :param rules: all that there are, by code
    :param limit: findings of one code, lines of evidence and commands of one
        finding that are shown
    """
    for code, found in itertools.groupby(
            result.findings, lambda one: one.code):
        findings.show(
            code, rules[code].title, tuple(found), console, limit,
            subject=lambda one: one.subject,
            details=lambda one: _limited(
                list(map(evidence, one.evidence)), limit),
            commands=limit)
    if result.unread:
        findings.wrap('not known, for it could not be read:', '', console)
        for one in result.unread:
            findings.wrap(f'- {one.hides}: {one.path}: {one.reason}', '  ',
                          console)
        console.print()
    if result.nova_conf_files and any(
            one.subject == settings.SUBJECT for one in result.findings):
        findings.wrap('nova.conf as loaded from '
                      f'{", ".join(result.nova_conf_files)}', '', console)
        console.print()
    codes = collections.Counter(one.code for one in result.findings)
    if len(codes) > 1:
        # The end is what people see of a long list.
        for code, number in codes.items():
            findings.wrap(f'{code} {number:4,}  {rules[code].title}', '',
                          console)
        console.print()
    findings.wrap(totals(result), '', console)


def totals(result: finding.Result) -> str:
    """All in one line: '1 error in 212 processes, 655 threads, ...'."""
    parts = ', '.join(
        f'{number:,} {_ONE.get(what, what) if number == 1 else what}'
        for what, number in result.looked_at.items())
    watched = (f', watched for {words.duration(result.watched_seconds)}'
               if result.watched_seconds else '')
    plan = '' if result.plan == result.host else f' by plan {result.plan}'
    return (f'{findings.summary(result.findings)} on host {result.host}'
            f'{plan}, in {parts}{watched}')


def evidence(one: finding.Evidence) -> str:
    """In a line: 'pid 7 tid 9 CPU 1/KVM: CPUs 0-3, should be 2'."""
    what = ' '.join(filter(None, (
        *(f'{name} {value}' for name, value in (
            ('pid', one.pid), ('tid', one.tid), ('interrupt', one.interrupt))
          if value is not None),
        one.name.removesuffix(':'),
        '' if one.node is None else f'node {one.node}')))
    facts = ', '.join(_facts(one))
    return f'{what}: {facts}' if what and facts else what or facts


def _facts(one: finding.Evidence) -> Iterator[str]:
    if one.cpus is not None:
        yield words.cpus(one.cpus)
    if one.expected_cpus is not None:
        yield f'should be {one.expected_cpus or "none"}'
    if one.run_seconds is not None:
        about = 'about ' if one.is_estimate else ''
        yield f'{about}{words.duration(one.run_seconds)}'
    if one.count is not None:
        yield 'once' if one.count == 1 else f'{one.count:,} times'


def _limited(lines: list[str], limit: int) -> Iterator[str]:
    yield from lines[:limit]
    if len(lines) > limit:
        yield f'and {len(lines) - limit:,} more (--limit)'
