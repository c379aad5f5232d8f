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

"""Findings for people, and for programs."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
from typing import Any

import rich.console
import rich.table
import rich.text

from nova_pinning.flavors import finding
from nova_pinning.flavors.finding import Severity
from nova_pinning.reports import findings as reports

#: So many messages of one rule at one place are shown in full.
_MAX_MESSAGES = 4


def exit_status(findings: Iterable[finding.Finding],
                strict: bool = False) -> int:
    """1 if there is an error or a warning, else 0.

    :param strict: notes count as well
    """
    counted = {Severity.ERROR, Severity.WARNING}
    if strict:
        counted.add(Severity.NOTE)
    return int(any(one.severity in counted for one in findings))


def as_dict(findings: Iterable[finding.Finding],
            checked: int) -> dict[str, Any]:
    """Findings for JSON; the documentation of the checks has a sample.

    :param checked: how many flavors were checked
    """
    findings = tuple(findings)
    return {
        'version': 1,
        'flavors': checked,
        'totals': {str(severity): number
                   for severity, number in reports.count(findings).items()},
        'findings': [{
            'code': one.code,
            'severity': str(one.severity),
            'flavor': one.flavor,
            'source': one.where.source,
            'line': one.where.line,
            'column': one.where.column,
            'key': one.where.key,
            'message': one.message,
            'why': one.why,
            'advice': one.advice,
        } for one in findings],
    }


def totals(findings: Iterable[finding.Finding], checked: int) -> str:
    """All in one line: '2 errors and 1 note in 22 flavors'."""
    flavors = 'flavor' if checked == 1 else 'flavors'
    return f'{reports.summary(findings)} in {checked} {flavors}'


def show(findings: Iterable[finding.Finding], checked: int,
         console: rich.console.Console) -> None:
    """Print findings, those of one rule at one place together.

    :param checked: how many flavors were checked
    """
    findings = tuple(findings)
    explained: set[tuple[str, str]] = set()
    for source, groups in _by_source(findings).items():
        console.print(rich.text.Text(source, 'bold'), soft_wrap=True)
        grid = rich.table.Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow='fold', ratio=1)
        for group in groups:
            grid.add_row(
                rich.text.Text(f'  {group.severity}',
                               reports.STYLES[group.severity]),
                group.code, rich.text.Text('\n'.join(
                    [*_lines(group), *_reasons(group, explained)])))
        console.print(grid)
        console.print()
    console.print(totals(findings, checked))


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """What one rule found at one place.

    :param flavors: by message
    """

    code: str
    severity: Severity
    place: str
    why: str
    advice: str
    flavors: dict[str, list[str]]


def _by_source(
    findings: Iterable[finding.Finding],
) -> dict[str, list[_Group]]:
    """The groups in the order of their lines, by file or cloud."""
    groups: dict[Any, _Group] = {}
    sources: dict[str, dict[Any, _Group]] = {}
    for one in findings:
        where = one.where
        # In a cloud each flavor is a place of its own.
        key = (where.source, where.line, where.key if where.line else '',
               one.code, one.severity, one.advice)
        if key not in groups:
            place = f'{where.line}: {where.key}' if where.line else ''
            groups[key] = _Group(one.code, one.severity, place, one.why,
                                 one.advice, {})
            sources.setdefault(where.source or 'flavors', {})[key] = (
                groups[key])
        groups[key].flavors.setdefault(one.message, []).append(one.flavor)
    ranks = list(Severity)
    return {
        source: [found[key] for key in sorted(found, key=lambda key: (
            key[1], ranks.index(key[4]), key[3]))]
        for source, found in sources.items()}


def _lines(group: _Group) -> Iterator[str]:
    if group.place:
        yield group.place
    shown = list(group.flavors.items())
    if len(shown) > _MAX_MESSAGES:
        shown = shown[:_MAX_MESSAGES - 1]
    for message, flavors in shown:
        yield f'{_flavors(flavors)}: {message}'
    rest = list(group.flavors.values())[len(shown):]
    if rest:
        names = {name for flavors in rest for name in flavors}
        yield f'and {len(rest)} more like these, in {_flavors(sorted(names))}'


def _flavors(names: Sequence[str]) -> str:
    """'large', 'large and xlarge' or '6 flavors (large ... 16xlarge)'."""
    names = list(dict.fromkeys(names))
    if len(names) > 2:
        return f'{len(names)} flavors ({names[0]} ... {names[-1]})'
    return ' and '.join(names)


def _reasons(group: _Group,
             explained: set[tuple[str, str]]) -> Iterator[str]:
    """Why, and what to write instead; each once."""
    for title, text in (('why', group.why), ('instead', group.advice)):
        if text and (group.code, text) not in explained:
            explained.add((group.code, text))
            yield f'{title}: {text}'
