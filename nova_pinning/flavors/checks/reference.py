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

"""The page of the documentation that lists all rules."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import json
import re
import textwrap
from typing import Protocol

from nova_pinning import errors
from nova_pinning.flavors.checks import rule
from nova_pinning.flavors.checks import run
from nova_pinning.flavors import finding
from nova_pinning.flavors import report

_GROUPS = {
    'N0': 'What nova refuses',
    'P1': 'CPUs',
    'P2': 'Memory and NUMA cells',
    'P3': 'Devices',
    'P4': 'Weights and limits',
    'P5': 'Classes, traits and names',
    'P6': 'The hosts at hand',
}
_INTRODUCTION = """\
Flavor checks
=============

.. Generated from the rules in nova_pinning/flavors/checks: this page is the
   output of python -m nova_pinning.flavors.checks

``nova-pinning flavor check`` looks at the flavors of a catalogue,
``openstack pinning flavor check`` at those of a cloud. Both run every flavor
through nova's own checks, with or without an image's properties, and then
look for what nova accepts but nobody wants.

An *error* is refused by nova, or never finds a host. A *warning* works, but
not as its author will expect. A *note* is worth knowing. The exit status is
1 if there is an error or a warning (under ``--strict`` also a note), 0 if
there is none, and 2 if the input cannot be read. Some rules are milder or
more severe than is said here where the hosts, or the rest of the flavor,
leave no doubt.

A code is never given to another rule. Codes with N are nova's own checks;
the sentence that nova gives is part of the message. The rules from P600 on,
and parts of others, need hosts to check against (``--hosts``), which are
taken to be empty.

For programs
------------

With ``--format json`` the output is one object. Lines and columns count from
1 and are 0 where there are none; ``flavors`` is how many were checked.

.. code-block:: json

{sample}

With ``--format sarif`` it is a log in the Static Analysis Results Interchange
Format, version 2.1.0, which code review tools read. The levels are the
severities.
"""
_SAMPLE = finding.Finding(
    'P105', finding.Severity.WARNING, 'enterprise.large',
    errors.Location('flavors.yaml', 41, 5, 'families.enterprise.class'),
    'the guest sees 2 sockets with one core and one thread each',
    'nova then shows ...', 'set hw:cpu_sockets ...')
#: What reads better as code.
_KEY = re.compile(
    r'(?:(?:hw|hw_cpu|quota|trait|pci_passthrough|pinning|cpu|disk)'
    r'[:_][\w:.=*-]*[\w*])|\[pci\] alias|nova\.conf')


def page(rules: Iterable[rule.Rule] = tuple(run.RULES.values())) -> str:
    """The page as reStructuredText."""
    return '\n'.join(_lines(rules)) + '\n'


def _lines(rules: Iterable[rule.Rule]) -> Iterator[str]:
    sample = json.dumps(report.as_dict([_SAMPLE], 22), indent=2)
    yield _INTRODUCTION.rstrip().format(
        sample=textwrap.indent(sample, '   '))
    yield from sections(rules, _GROUPS, 'Instead')


class Described(Protocol):
    """A rule of any kind, as far as its description goes."""

    @property
    def code(self) -> str: ...

    @property
    def severity(self) -> finding.Severity: ...

    @property
    def title(self) -> str: ...

    @property
    def why(self) -> str: ...

    @property
    def advice(self) -> str: ...


def sections(rules: Iterable[Described], groups: Mapping[str, str],
             advice_title: str) -> Iterator[str]:
    """A section for each rule, under headings for the groups of codes.

    :param groups: headings by the first two characters of codes
    :param advice_title: what to call the advice
    """
    group = ''
    for one in sorted(rules, key=lambda one: one.code):
        if one.code[:2] != group:
            group = one.code[:2]
            yield from _heading(groups[group], '-')
        yield from _heading(f'{one.code}: {one.title}', '~')
        yield ''
        yield from _paragraph(
            f'*{one.severity.capitalize()}*: {_code(one.why)}.')
        yield ''
        yield from _paragraph(f'{advice_title}: {_code(one.advice)}.')
        if isinstance(one, rule.Rule) and one.in_catalogue:
            yield ''
            yield from _paragraph(f'In a catalogue: {one.in_catalogue}.')


def _heading(text: str, line: str) -> Iterator[str]:
    yield from ('', text, line * len(text))


def _paragraph(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, 79, break_long_words=False,
                             break_on_hyphens=False)


def _code(text: str) -> str:
    return _KEY.sub(lambda match: f'``{match[0]}``', text)
