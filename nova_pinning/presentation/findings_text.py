# SPDX-License-Identifier: Apache-2.0
"""What a check has found, for people.

All of a code comes together. Findings that have one remedy share it: commands
that differ in their last word only become one loop over these words.
"""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence
import os
import re
import textwrap
from typing import TypeVar

import rich.console
import rich.text

from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.host import words
from nova_pinning.presentation import printing
from nova_pinning import spelling

#: Findings, subjects, lines of evidence and commands that are shown of each
#: code, unless said.
LIMIT = 10
#: Findings of a code that is no error: what they are like, so that they do
#: not drown those.
FEW = 3

#: Rows of the smallest terminals in use, and those that a code takes besides
#: a row for each cause: heading, remedy, how many more, and an empty one.
SCREEN = 24
_ROWS = 4

_STYLES = {
    check_rule.Severity.ERROR: 'bold red',
    check_rule.Severity.WARNING: 'yellow',
    check_rule.Severity.NOTE: 'cyan'}
_SEVERITIES = list(check_rule.Severity)
# A command that needs no quotes for its last word.
_LAST_WORD = re.compile(r"(.*\S) ([\w.:/@%+=,-]*[\w/])")

_Item = TypeVar('_Item')
_Key = TypeVar('_Key', bound=Hashable)


def show(checked: report.CheckReport, console: rich.console.Console,
         least: check_rule.Severity = check_rule.Severity.NOTE) -> None:
    """Print what was found.

    Commands are never broken, so that they can be copied.

    :param least: severity; what is less severe has but its line of the totals
    """
    codes = _grouped(checked.findings, lambda finding: finding.code)
    ranks = {code: _SEVERITIES.index(_worst(codes[code]))
             for code in checked.rules if code in codes}
    # What does most harm comes first.
    shown = sorted(ranks, key=ranks.__getitem__)
    told = [code for code in shown if ranks[code] <= _SEVERITIES.index(least)]
    wrong = {code: len(_grouped(codes[code], _line)) for code in told
             if not ranks[code]}
    rooms = dict.fromkeys(told, FEW) | dict.fromkeys(
        wrong, max(FEW, LIMIT // max(len(wrong), 1)))

    def show_codes(some: Iterable[str], is_brief: bool) -> None:
        for code in some:
            _show_code(checked.rules[code].title, codes[code], console,
                       rooms[code], is_brief)

    def show_totals(some: Iterable[str]) -> None:
        for code in some:
            for line in printing.wrap(
                    f'{code} {len(codes[code]):4,}  '
                    f'{checked.rules[code].title}', console.width, '', '  '):
                console.print(rich.text.Text(line), soft_wrap=True)
        console.print()

    # All errors are to be on the first screen, or what kinds there are.
    rows, left = sum(wrong.values()), SCREEN - _ROWS * len(wrong)
    is_long = 2 * rows > left
    is_brief = is_long and not any(
        finding.evidence or finding.remediation
        for code in wrong for finding in codes[code])
    if len(wrong) > 1 and is_long and not (is_brief and rows <= left):
        show_totals(wrong)
        left -= len(wrong) + 1
    for place, code in enumerate(sorted(wrong, key=wrong.__getitem__)):
        if is_brief:
            rooms[code] = max(FEW, left // (len(wrong) - place))
            left -= min(rooms[code], wrong[code])
    show_codes(wrong, is_brief)
    show_codes(told[len(wrong):], False)
    for heading, *items in checked.notes:
        printing.say(heading, console)
        for item in items:
            printing.say(f'- {item}', console, '  ')
        console.print()
    _show_waived(checked, console)
    if len(shown) > 1 or told != shown:
        # The end is what people see of a long list.
        show_totals(shown)
    printing.say(checked.totals, console)


def _show_waived(checked: report.CheckReport,
                 console: rich.console.Console) -> None:
    """Print what does not count, a line for each code and reason."""
    groups = _grouped(checked.waived,
                      lambda one: (one.finding.code, one.reason))
    if not groups:
        return
    printing.say('Left out:', console)
    for (code, reason), alike in groups.items():
        subjects = list(dict.fromkeys(one.finding.subject for one in alike))
        printing.say(f'- {code}, {words.listed(subjects, LIMIT)}: {reason}',
                     console, '  ')
    console.print()


def _show_code(title: str, findings: Sequence[check_rule.Finding],
               console: rich.console.Console, room: int,
               is_brief: bool) -> None:
    severity = _worst(findings)
    console.print(rich.text.Text.assemble(
        (f'{findings[0].code} {severity}', _STYLES[severity]),
        f': {title} ({len(findings):,})'), soft_wrap=True)
    advice = findings[0].advice
    if not is_brief:
        printing.say(f'why: {findings[0].why}', console, '  ')
    printing.say(f'remedy: {advice}', console, '  ')
    hidden = 0
    for alike in _grouped(findings, _remedy).values():
        lines = list(_grouped(alike, _line).values())
        for line in lines[:room]:
            _show_line(line, console, is_brief)
        covered = sum(map(len, lines[:room]))
        hidden += len(alike) - covered
        if covered and alike[0].advice != advice:
            printing.say(f'remedy: {alike[0].advice}', console, '    ')
        if covered:
            _show_commands(alike, console)
        room = max(room - len(lines), 0)
    if hidden:
        _show_more(hidden, '  ', console)
    console.print()


def _worst(
        findings: Sequence[check_rule.Finding]) -> check_rule.Severity:
    return min((finding.severity for finding in findings),
               key=_SEVERITIES.index)


def _remedy(finding: check_rule.Finding) -> Hashable:
    """The same for findings that have one remedy."""
    return finding.advice, tuple(dict.fromkeys(
        _split(command)[0] for command in finding.remediation))


def _line(finding: check_rule.Finding) -> Hashable:
    """The same for findings that differ in their subjects and places only."""
    location = finding.location
    return (finding.message, finding.kind, location and location.source,
            id(finding) if finding.evidence else 0)


def _show_line(findings: Sequence[check_rule.Finding],
               console: rich.console.Console, is_brief: bool) -> None:
    """Print findings that differ in their subjects and places only.

    The first place stands for all of them.

    :param is_brief: whether they are to have one row, whatever is cut off
    """
    first = findings[0]
    where = ''
    if first.location and first.location.line:
        source = first.location.source
        where = (f'{os.path.basename(source) if is_brief else source}:'
                 f'{first.location.line}: ')
        spec = first.location.key.partition('.extra_specs.')[2]
        if not spec or spec not in first.message:
            where += f'{first.location.key}: '
    places = {finding.location for finding in findings}
    subjects = list(dict.fromkeys(finding.subject for finding in findings))
    kind = f'{first.kind} '
    what = subjects[0]
    if len(subjects) > 1:
        if first.kind:
            subjects = [subject.removeprefix(kind) for subject in subjects]
            kind = f'{first.kind}s '
        what = (kind if first.kind else '') + words.listed(
            subjects, FEW if len(places) > 1 else LIMIT)
    if is_brief:
        printing.line(rich.text.Text('  ' + textwrap.shorten(
            f'- {where}{first.message} ({what})' if where else
            f'- {what}: {first.message}', console.width - 2,
            placeholder=' ...')), console)
    else:
        printing.say(f'- {where}{what}: {first.message}', console, '  ')
    for evidence in first.evidence[:LIMIT]:
        printing.say(str(evidence), console, '    ')
    _show_more(len(first.evidence) - LIMIT, '    ', console)


def _show_commands(findings: Sequence[check_rule.Finding],
                   console: rich.console.Console) -> None:
    """Print the commands of findings that have one remedy, each once."""
    commands = dict.fromkeys(command for finding in findings
                             for command in finding.remediation)
    if commands and len(findings) > 1:
        printing.say(f'for all {len(findings):,} of these:', console, '    ')
    loops = list(_grouped(commands, lambda line: _split(line)[0]).values())
    for alike in loops[:LIMIT]:
        line, hidden = alike[0], 0
        if len(alike) > 1:
            last = ' '.join(_split(command)[1] for command in alike[:LIMIT])
            line = f'for x in {last}; do {_split(line)[0]} $x; done'
            hidden = len(alike) - LIMIT
        console.print(rich.text.Text(
            f'      {spelling.printable(line)}', 'bold'), soft_wrap=True)
        _show_more(hidden, '      ', console)
    _show_more(sum(map(len, loops[LIMIT:])), '      ', console)


def _split(command: str) -> tuple[str, str]:
    """A command without its last word, and that; '' if it has to stay."""
    match = _LAST_WORD.fullmatch(command)
    return (match[1], match[2]) if match else (command, '')


def _show_more(number: int, indent: str,
               console: rich.console.Console) -> None:
    if number > 0:
        printing.say(f'and {number:,} more (-f json has all)', console,
                     indent)


def _grouped(items: Iterable[_Item],
             key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Items by a key, in the order of the first of each."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
