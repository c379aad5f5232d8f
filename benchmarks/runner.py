# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of a benchmark: its command line, tables and exit status.

A benchmark is groups of cases. What a group measures is its own matter; how
cases are chosen, judged and shown is the same for all.
"""

import argparse
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import sys
import textwrap
import time
from typing import Any

from benchmarks import judging
from nova_pinning import errors
from nova_pinning.host.discover import system
from nova_pinning.host import machine_files

_WIDTH = 79

#: Notes that some work on the case of this name is done.
Step = Callable[[str], None]


#: Of the name of an outcome, a bar and its interval.
_SENTENCES = {
    judging.Verdict.INCONCLUSIVE:
        'Inconclusive, which is not a failure: the bar {1} of {0} lies inside '
        'the 95% interval, {2}.',
    judging.Verdict.MISSED:
        'Missed: the bar {1} of {0}; the 95% interval is {2}.'}


class BenchmarkError(Exception):
    """Something could not be measured."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was measured of a case.

    :param cells: of its row in the table, all but bars and the verdict
    :param bars: each with its verdict
    :param problems: what is wrong with the answers
    :param details: whatever else the text below the table is made of
    """

    name: str
    cells: Sequence[str]
    bars: Sequence[judging.JudgedBar] = ()
    problems: Sequence[str] = ()
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def verdict(self) -> judging.Verdict:
        """The verdict on all bars, and on the answers."""
        if self.problems:
            return judging.Verdict.WRONG
        return judging.worst(bar.verdict for bar in self.bars)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cases that are measured alike, and stand in one table.

    :param headings: of the columns, all but the verdict; one that is ``bar``
        comes last
    :param cases: each with its ``name``
    :param is_quick: whether a case is part of the quick form
    :param measure: measures cases as the options of the command line say
    :param explain: says what the figures of the table are
    :param numbers: the columns that are flush right
    """

    headings: Sequence[str]
    cases: Sequence[Any]
    measure: Callable[[Sequence[Any], argparse.Namespace, Step],
                      Sequence[Outcome]]
    is_quick: Callable[[Any], bool] = lambda _case: True
    explain: Callable[[Sequence[Outcome], argparse.Namespace],
                      str] = lambda _outcomes, _options: ''
    numbers: range = range(0)

    def chosen(self, options: argparse.Namespace) -> list[Any]:
        """The cases to be measured."""
        return [case for case in self.cases if (
            case.name in options.case if options.case
            else self.is_quick(case) or not options.quick)]

    def table(self, outcomes: Sequence[Outcome],
              options: argparse.Namespace) -> list[str]:
        """What was measured, for a terminal and for the documentation."""
        sentences = [self.explain(outcomes, options), *(
            _SENTENCES[bar.verdict].format(outcome.name, *bar)
            for outcome in outcomes for bar in outcome.bars
            if bar.verdict in _SENTENCES)]
        grid = [(*self.headings, 'verdict'),
                *((*outcome.cells,
                   *([' '.join(bar.bar for bar in outcome.bars) or '-']
                     if self.headings[-1] == 'bar' else ()),
                   outcome.verdict) for outcome in outcomes)]
        widths = [max(map(len, column)) for column in zip(*grid)]
        rule = '  '.join('=' * width for width in widths)
        rows = ['  '.join(
            cell.rjust(width) if column in self.numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in grid]
        text = textwrap.wrap(' '.join(sentences).strip(), _WIDTH)
        return [rule, rows[0], rule, *rows[1:], rule, '', *text,
                *[''][:len(text)]]


def parser(prog: str, description: str,
           groups: Sequence[Group]) -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks."""
    names = [case.name for group in groups for case in group.cases]
    own = argparse.ArgumentParser(
        prog=prog, epilog='Cases: ' + ', '.join(names),
        description=f'{description} Exit status 1: a bar was missed, its '
        'whole 95% interval beyond it, or an answer is wrong.')
    own.add_argument('--quick', action='store_true',
                     help='the short form, with rough figures')
    own.add_argument('--case', nargs='+', action='extend', choices=names,
                     metavar='NAME',
                     help='only these cases; may be given several times')
    own.add_argument('--rst', type=pathlib.Path, metavar='FILE',
                     help='write the tables for the documentation')
    return own


def run(options: argparse.Namespace, groups: Sequence[Group],
        prog: str) -> int:
    """Measure what was chosen, show it, and return the exit status."""
    load = os.getloadavg()[0]
    start = time.monotonic()
    outcomes: list[Outcome] = []
    shown: list[str] = []
    try:
        for group in groups:
            if cases := group.chosen(options):
                own = group.measure(cases, options, _tell)
                outcomes += own
                lines = group.table(own, options)
                shown += lines
                print('\n'.join(lines), flush=True)
    except (BenchmarkError, errors.InputError) as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('stopped', file=sys.stderr)
        return 130
    print(textwrap.fill(
        f'{_machine()}; load {load:.1f} at the start; took '
        f'{time.monotonic() - start:.0f} s', _WIDTH))
    for outcome in outcomes:
        for problem in outcome.problems:
            print(f'{outcome.name}: {problem}')
    if options.rst:
        options.rst.write_text('\n'.join([
            f'.. Made by "{prog} --rst", not by hand.', '', *shown,
            *textwrap.wrap(f'Measured on {_machine()}.', _WIDTH), '']))
    return int(judging.worst(
        outcome.verdict for outcome in outcomes).is_failure)


def _machine() -> str:
    """Where the figures come from, in a line that does not name it."""
    model = system.cpu_info(machine_files.Tree()).get('model name')
    return (f'{model or platform.machine()} '
            f'({len(os.sched_getaffinity(0))} CPUs), '
            f'{platform.system()} {platform.machine()}, '
            f'{platform.python_implementation()} {platform.python_version()}, '
            f'nova {importlib.metadata.version("nova")}')


def _tell(case: str) -> None:
    """Name the case that work is done on, where people would see it."""
    if sys.stderr.isatty():
        print(f'\r{case:<40}', end='\r', file=sys.stderr, flush=True)
