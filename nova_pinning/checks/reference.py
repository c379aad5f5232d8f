# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation that list all rules."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import re
import textwrap
from typing import Any

from nova_pinning.checks import check_rule

_NOTE = """\
.. Generated from the rules in nova_pinning: this file is written by
   tools/write_check_references.py
"""
#: What reads better as code.
_KEY = re.compile(
    r'(?:(?:hw|hw_cpu|quota|trait|pci_passthrough|pinning|cpu|disk)'
    r'[:_][\w:.=*-]*[\w*])|\[pci\] alias|nova\.conf')


def page(rules: check_rule.Registry[Any],
         fields: Callable[[str], Iterable[str]] = lambda code: ()) -> str:
    """A section for each rule, under the headings of groups, as reST.

    :param fields: lines that say more of a rule, by its code
    """
    return _NOTE + '\n'.join(_lines(rules, fields)) + '\n'


def _lines(rules: check_rule.Registry[Any],
           fields: Callable[[str], Iterable[str]]) -> Iterator[str]:
    group = ''
    for code, described in sorted(rules.items()):
        if code[:2] != group:
            group = code[:2]
            yield from heading(rules.groups[group], '-')
        yield from heading(f'{code}: {described.title}', '~')
        yield from paragraph(f'*{described.severity.capitalize()}*: '
                             f'{_code(described.why)}.')
        yield from fields(code)
        yield from paragraph(f'Remedy: {_code(described.advice)}.')
        if described.in_catalogue:
            yield from paragraph(
                f'In a catalogue: {described.in_catalogue}.')


def heading(text: str, line: str) -> Iterator[str]:
    """Lines of a heading that is underlined with a character."""
    yield from ('', text, line * len(text))


def paragraph(text: str) -> Iterator[str]:
    """Lines of a paragraph, with a blank one before."""
    yield ''
    yield from textwrap.wrap(text, 79, break_long_words=False,
                             break_on_hyphens=False)


def _code(text: str) -> str:
    return _KEY.sub(lambda match: f'``{match[0]}``', text)
