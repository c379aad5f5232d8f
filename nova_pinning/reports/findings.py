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

"""Findings of any check: how many, how bad, and in words for people."""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import textwrap
from typing import Protocol
from typing import TypeVar

import rich.console
import rich.text

from nova_pinning.model.severity import Severity

#: How each severity is shown.
STYLES = {Severity.ERROR: 'bold red', Severity.WARNING: 'yellow',
          Severity.NOTE: 'cyan'}
#: Findings of one code that people are shown, unless said.
LIMIT = 10

_SEVERITIES = list(Severity)


class Severe(Protocol):
    """What has a severity: a finding of any kind."""

    @property
    def severity(self) -> Severity: ...


class Mendable(Severe, Protocol):
    """A finding that says what mends it."""

    @property
    def message(self) -> str: ...

    @property
    def why(self) -> str: ...

    @property
    def advice(self) -> str: ...

    @property
    def mends(self) -> tuple[str, ...]: ...


_Mendable = TypeVar('_Mendable', bound=Mendable)


def exit_status(findings: Iterable[Severe], least: Severity) -> int:
    """1 if anything is at least so severe, else 0."""
    counted = _SEVERITIES[:_SEVERITIES.index(least) + 1]
    return int(any(one.severity in counted for one in findings))


def count(findings: Iterable[Severe]) -> dict[Severity, int]:
    """How many findings there are of each severity."""
    counter = collections.Counter(one.severity for one in findings)
    return {severity: counter[severity] for severity in Severity}


def summary(findings: Iterable[Severe]) -> str:
    """Findings in a few words: '2 errors and 1 note'."""
    parts = [f'{number} {severity}{"" if number == 1 else "s"}'
             for severity, number in count(findings).items() if number]
    *first, last = parts or ['nothing found']
    return f'{", ".join(first)} and {last}' if first else last


def show(code: str, title: str, found: Sequence[_Mendable],
         console: rich.console.Console, limit: int, *,
         subject: Callable[[_Mendable], str],
         details: Callable[[_Mendable], Iterable[str]] = lambda one: (),
         commands: int | None = None) -> None:
    """Print what was found of one code.

    Commands are never broken, so that they can be copied.

    :param found: at least one
    :param limit: findings that are shown
    :param subject: what a finding is about
    :param details: lines to show below it
    :param commands: those of one finding that are shown, None for all
    """
    severity = min((one.severity for one in found), key=_SEVERITIES.index)
    console.print(rich.text.Text.assemble(
        (f'{code} {severity}', STYLES[severity]),
        f': {title} ({len(found):,})'), soft_wrap=True)
    first = found[0]
    for name, text in (('why', first.why), ('mend', first.advice)):
        wrap(f'{name}: {text}', '  ', console)
    for one in found[:limit]:
        wrap(f'- {subject(one)}: {one.message}', '  ', console)
        for line in details(one):
            wrap(line, '    ', console)
        if one.advice != first.advice:
            wrap(f'mend: {one.advice}', '    ', console)
        for command in one.mends[:commands]:
            console.print(rich.text.Text(f'      {_printable(command)}',
                                         'bold'), soft_wrap=True)
        hidden = len(one.mends[commands:]) if commands is not None else 0
        if hidden:
            wrap(f'and {hidden:,} more (--limit)', '      ', console)
    if len(found) > limit:
        console.print(f'  and {len(found) - limit:,} more (--limit)')
    console.print()


def wrap(text: str, indent: str, console: rich.console.Console) -> None:
    """Print a text over as many lines as it takes, broken between words."""
    for line in _lines(_printable(text), indent, console.width):
        console.print(rich.text.Text(line), soft_wrap=True)


def _lines(text: str, indent: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=f'{indent}  ',
        break_long_words=False, break_on_hyphens=False)


def _printable(text: str) -> str:
    """A text whose names do nothing to a terminal."""
    return ''.join(char if char.isprintable() else '?' for char in text)
