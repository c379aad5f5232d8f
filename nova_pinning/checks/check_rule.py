# SPDX-License-Identifier: Apache-2.0
"""Rules, and what they find in a subject of whatever kind."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum
import types
from typing import Any
from typing import Generic
from typing import Protocol
from typing import TypeVar

from nova_pinning import errors

_Subject = TypeVar('_Subject')


class Severity(enum.StrEnum):
    """How bad a finding is, the worst first.

    An ERROR breaks what was promised, or never works. A WARNING works, but
    not as expected. A NOTE is worth knowing.
    """

    ERROR = 'error'
    WARNING = 'warning'
    NOTE = 'note'


class Evidence(Protocol):
    """One place where a finding shows; str() has it in a line."""

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What a rule sees in a subject.

    :param subject: what it is about, for people: 'flavor large',
        'service libvirtd'
    :param message: what is wrong, a sentence without a full stop
    :param kind: of the thing it is about, if it has a name: 'flavor', 'host'
    :param id: what the thing goes by in nova or Placement
    :param host: the host where it shows, '' if that is not one host
    :param location: where it stands in a file, or which cloud it is from
    :param remediation: commands, one after the other; may be empty
    :param severity: if not the rule's own
    :param advice: what to do about it, if not the rule's own
    :param why: what comes of it, if not the rule's own
    :param details: further keys of the finding for JSON
    :param is_catalogue: whether it stands in a catalogue of flavors
    """

    subject: str
    message: str
    kind: str = ''
    id: str = ''
    name: str = ''
    host: str = ''
    location: errors.Location | None = None
    evidence: tuple[Evidence, ...] = ()
    remediation: tuple[str, ...] = ()
    severity: Severity | None = None
    advice: str = ''
    why: str = ''
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_catalogue: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Violation):
    """A violation, with what its rule says of it.

    :param code: the rule's stable code, such as 'P103'
    """

    code: str
    severity: Severity


Violations = Iterator[Violation]


# No slots: Rule[Subject](...) sets its own attribute.
@dataclasses.dataclass(frozen=True)
class Rule(Generic[_Subject]):
    """One thing to look for.

    :param code: never given to another rule
    :param title: what it finds, in a few words
    :param why: what comes of it
    :param advice: what to do about it
    :param find: None for what something else than a look at a subject tells
    :param in_catalogue: the advice in the words of a catalogue, for what
        stands in a file; '' if it is the same
    """

    code: str
    severity: Severity
    title: str
    why: str
    advice: str
    find: Callable[[_Subject], Iterable[Violation]] | None = None
    in_catalogue: str = ''

    def finding(self, violation: Violation) -> Finding:
        """A violation as it is reported."""
        advice = self.advice
        if self.in_catalogue and violation.is_catalogue:
            advice = self.in_catalogue
        values = {field.name: getattr(violation, field.name)
                  for field in dataclasses.fields(Violation)}
        return Finding(**{
            **values, 'code': self.code, 'why': violation.why or self.why,
            'severity': violation.severity or self.severity,
            'advice': violation.advice or advice})

    def findings(self, subject: _Subject) -> Iterator[Finding]:
        """What it finds in a subject."""
        if self.find:
            yield from map(self.finding, self.find(subject))


def rule(
    code: str, severity: Severity, title: str, *, why: str, advice: str,
    in_catalogue: str = '',
) -> Callable[[Callable[[_Subject], Iterable[Violation]]], Rule[_Subject]]:
    """Make a rule of the function that finds what it is about."""
    return lambda find: Rule(
        code, severity, title, why, advice, find, in_catalogue)


class Registry(dict[str, Rule[_Subject]]):
    """The rules of a check by code, in the order in which they are run.

    :param modules: those that define the rules
    :param groups: headings by the first two characters of codes
    :raises ValueError: for a code that two rules have, or that is of no group
    """

    def __init__(self, *modules: types.ModuleType,
                 groups: Mapping[str, str]) -> None:
        super().__init__()
        self.groups = groups
        for module in modules:
            for value in vars(module).values():
                if isinstance(value, Rule):
                    self.add(value)

    def add(self, added: Rule[_Subject]) -> None:
        """Put a rule behind the others.

        :raises ValueError: for a code that another rule has, or that is of no
            group
        """
        if added.code in self or added.code[:2] not in self.groups:
            raise ValueError(f'two rules have the code {added.code}, or it '
                             'belongs to no group')
        self[added.code] = added

    def run(self, subject: _Subject) -> Iterator[Finding]:
        """What all rules find in a subject."""
        for rule in self.values():
            yield from rule.findings(subject)


def exit_status(findings: Iterable[Finding], least: Severity) -> int:
    """1 if anything is at least so severe, else 0."""
    severities = list(Severity)
    counted = severities[:severities.index(least) + 1]
    return int(any(finding.severity in counted for finding in findings))


def count(findings: Iterable[Finding]) -> dict[Severity, int]:
    """How many findings there are of each severity."""
    counts = dict.fromkeys(Severity, 0)
    for finding in findings:
        counts[finding.severity] += 1
    return counts


def summary(findings: Iterable[Finding]) -> str:
    """Findings in a few words: '2 errors and 1 note'."""
    parts = [f'{number} {severity}{"" if number == 1 else "s"}'
             for severity, number in count(findings).items() if number]
    *first, last = parts or ['nothing found']
    return f'{", ".join(first)} and {last}' if first else last
