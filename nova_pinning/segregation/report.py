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

"""What the audit found, for people and for programs."""

from collections.abc import Mapping
import itertools
from typing import Any

import rich.console

from nova_pinning.model import hostclass
from nova_pinning.reports import findings
from nova_pinning.segregation.audit import run
from nova_pinning.segregation import finding


def as_dict(audit: run.Audit, cloud: str) -> dict[str, Any]:
    """An audit for JSON; the documentation of the checks has a sample."""
    return {
        'version': 1,
        'cloud': cloud,
        'started': round(audit.started, 3),
        'duration_seconds': round(audit.duration_s, 3),
        'hosts': {class_name(host_class): number for host_class, number
                  in _in_order(audit.hosts)},
        'servers': [
            {'host_class': class_name(host_class),
             'server_class': class_name(server_class), 'count': number}
            for (host_class, server_class), number
            in _in_order(audit.servers)],
        'flavors': audit.flavors,
        'aggregates': audit.aggregates,
        'unmatched': list(audit.unmatched),
        'totals': {str(severity): number for severity, number
                   in findings.count(audit.findings).items()},
        'findings': [{
            'code': one.code,
            'severity': str(one.severity),
            'kind': str(one.kind),
            'id': one.id,
            'name': one.name,
            'host': one.host,
            'message': one.message,
            'why': one.why,
            'advice': one.advice,
            'commands': list(one.mends),
        } for one in audit.findings],
    }


def class_name(host_class: hostclass.HostClass | None) -> str:
    """A class in one word, 'none' if there is none, or more than one."""
    return str(host_class or 'none')


def _in_order(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=str)


def totals(audit: run.Audit) -> str:
    """All in one line: '1 error in 2 hosts, 30 servers ...'."""
    parts = ', '.join(
        f'{number:,} {word}{"" if number == 1 else "s"}'
        for number, word in (
            (sum(audit.hosts.values()), 'host'),
            (sum(audit.servers.values()), 'server'),
            (audit.flavors, 'flavor'), (audit.aggregates, 'aggregate')))
    return f'{findings.summary(audit.findings)} in {parts}'


def show(audit: run.Audit, console: rich.console.Console,
         limit: int = findings.LIMIT) -> None:
    """Print what was found, all of a code together.

    :param limit: findings of one code that are shown
    """
    for code, found in itertools.groupby(
            audit.findings, lambda one: one.code):
        findings.show(code, run.RULES[code].title, tuple(found), console,
                      limit, subject=_subject)
    findings.wrap(totals(audit), '', console)


def _subject(one: finding.Finding) -> str:
    name = f'{one.kind} {one.name}'
    return f'{name} {one.id}' if one.kind is finding.Kind.SERVER else name
