# SPDX-License-Identifier: Apache-2.0
"""Commands that try something on numbered random cases, in many processes.

A series says how a case of a number is made and how it is judged; the rest,
from the options to the exit status, is the same for all. The exit status is 0
if no case shows a disagreement, 1 if some do, 2 for a usage error.
"""

from __future__ import annotations

import abc
import argparse
import collections
import contextlib
import dataclasses
import gc
import importlib
import json
import multiprocessing
import multiprocessing.pool
import sys
import time
import typing as ty

import rich.console
import rich.progress
import rich.table

from nova_pinning import compat
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.oracle import shrink

#: Cases handed to a process at a time.
_CHUNK = 100
#: Disagreements that are kept; more would say no more.
_KEPT = 20


@compat.dataclass(slots=True)
class Outcome:
    """What one case showed.

    :param disagreements: what is wrong with what is tried, in words
    :param kinds: whatever is worth a minimal example of its own
    :param counts: whatever else is added up, under names of any type
    """

    disagreements: list[str]
    kinds: set[str]
    counts: collections.Counter[ty.Any]


@compat.dataclass(slots=True)
class Tally:
    """What a number of cases showed, added up.

    :param disagreeing: how many cases show a disagreement
    :param disagreements: by case number, what is wrong; only the first of
        them
    :param kinds: in how many cases each kind is seen
    :param examples: by kind, the length of the shortest case that shows it
        and its number
    """

    cases: int = 0
    counts: collections.Counter[ty.Any] = dataclasses.field(
        default_factory=collections.Counter)
    disagreeing: int = 0
    disagreements: dict[int, list[str]] = dataclasses.field(
        default_factory=dict)
    kinds: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    examples: dict[str, tuple[int, int]] = dataclasses.field(
        default_factory=dict)

    def note(self, number: int, case: oracle_case.Case,
             outcome: Outcome) -> None:
        """Add what one case showed."""
        self.cases += 1
        self.counts.update(outcome.counts)
        if outcome.disagreements:
            self.disagreeing += 1
            self._keep(number, outcome.disagreements)
        for kind in outcome.kinds:
            self.kinds[kind] += 1
            self._example(kind, (len(str(case)), number))

    def add(self, other: Tally) -> None:
        """Add what other cases showed."""
        self.cases += other.cases
        self.counts.update(other.counts)
        self.disagreeing += other.disagreeing
        self.kinds.update(other.kinds)
        for number, reasons in other.disagreements.items():
            self._keep(number, reasons)
        for kind, example in other.examples.items():
            self._example(kind, example)

    def _keep(self, number: int, reasons: list[str]) -> None:
        if len(self.disagreements) < _KEPT:
            self.disagreements[number] = reasons

    def _example(self, kind: str, example: tuple[int, int]) -> None:
        self.examples[kind] = min(self.examples.get(kind, example), example)


class Series(abc.ABC):
    """What a command tries, and on which cases.

    :cvar module: the module that is the command
    :cvar option: the option that names what is tried
    :cvar default: what is tried if it is not given, as ``module:name``
    :cvar help: its help
    :cvar kinds: what the report calls the kinds of outcomes
    :cvar shrunk: how many cases with disagreements are cut down, beside an
        example of each kind
    :cvar shapes: names of the kinds of cases that can be asked for, the usual
        one first; none if there is one kind
    :ivar shape: what is asked for
    """

    shapes: ty.Sequence[str] = ()
    shape: str = ''
    module: str
    description: str
    option: str
    default: str
    help: str
    kinds: str
    shrunk: int = 3

    @abc.abstractmethod
    def generate(self, seed: int, number: int) -> oracle_case.Case:
        """A case; the same whenever it is asked for."""

    @abc.abstractmethod
    def judge(self, case: oracle_case.Case, subject: str) -> Outcome:
        """Try a case.

        :param subject: the path of what is tried
        """

    @abc.abstractmethod
    def report(self, tally: Tally) -> dict[str, ty.Any]:
        """What to print of the counts; all in it can be obtained as JSON."""

    @abc.abstractmethod
    def print_report(self, console: rich.console.Console,
                     report: dict[str, ty.Any]) -> None:
        """Print that, with what all reports have: see ``_report``."""

    @abc.abstractmethod
    def details(self, case: oracle_case.Case,
                subject: str) -> dict[str, ty.Any]:
        """All there is to know of one case, ``disagreements`` included."""

    def shows(self, case: oracle_case.Case, subject: str,
              kind: str | None) -> bool:
        """Whether a case shows this kind; None is any disagreement."""
        outcome = self.judge(case, subject)
        if kind is None:
            return bool(outcome.disagreements)
        return kind in outcome.kinds

    def prepared(self) -> contextlib.AbstractContextManager[None]:
        """What has to be in force around judge(), shows() and details()."""
        return oracle_compare.silence()


def load(path: str) -> ty.Any:
    """Return what ``module:name`` names.

    :raises argparse.ArgumentTypeError: if there is no such thing
    """
    module, _, name = path.partition(':')
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as e:
        raise argparse.ArgumentTypeError(f'cannot be imported: {path}: {e}')


def _run_chunk(task: tuple[Series, int, range, str]) -> Tally:
    """Run some cases of a series.

    :param task: the series, its seed, the numbers of the cases, and the path
        of what is tried
    """
    series, seed, numbers, subject = task
    tally = Tally()
    with series.prepared():
        for number in numbers:
            case = series.generate(seed, number)
            tally.note(number, case, series.judge(case, subject))
    return tally


def _shrink_example(task: tuple[Series, int, int, str, str | None]) -> str:
    """Return a minimal case, as JSON, that shows what a bigger one does.

    :param task: the series, its seed, the number of the bigger case, the
        path of what is tried, and the kind, or None for any disagreement
    """
    series, seed, number, subject, kind = task
    with series.prepared():
        return str(shrink.shrink(
            series.generate(seed, number),
            lambda case: series.shows(case, subject, kind)))


def _parser(series: Series) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f'python -m {series.module}', description=series.description)
    made.add_argument(
        '--cases', type=_positive, default=2000, metavar='N',
        help='how many cases to run (%(default)s)')
    made.add_argument(
        '--seed', type=int, default=1, metavar='S',
        help='which series of cases (%(default)s)')
    made.add_argument(
        '--jobs', type=_positive, default=2, metavar='J',
        help='processes to use (%(default)s)')
    made.add_argument(
        '--time-limit', type=float, metavar='SECONDS',
        help='stop after this time, however many cases are done')
    made.add_argument(
        '--format', choices=('table', 'json'), default='table',
        help='how to print the result (%(default)s)')
    made.add_argument(
        '--no-shrink', action='store_true',
        help='print cases as they were found instead of cutting them down')
    made.add_argument(
        series.option, dest='subject', type=_subject, default=series.default,
        metavar='MODULE:NAME', help=series.help)
    if series.shapes:
        made.add_argument(
            '--shapes', dest='shape', choices=series.shapes,
            default=series.shapes[0], help='which cases (%(default)s)')
    single = made.add_mutually_exclusive_group()
    single.add_argument(
        '--case', type=int, metavar='K',
        help='run case K of the series only, and show all of it')
    single.add_argument(
        '--replay', metavar='FILE', type=argparse.FileType(),
        help='run the case in this file (JSON as printed; - for standard '
             'input) only, and show all of it')
    return made


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError('must be at least 1')
    return number


def _subject(path: str) -> str:
    if path != 'none':
        load(path)
    return path


def main(series: Series, argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    args = _parser(series).parse_args(argv)
    series.shape = getattr(args, 'shape', '')
    if args.replay is not None:
        try:
            case = oracle_case.Case.parse(args.replay.read())
        except ValueError as e:
            print(f'error: {args.replay.name}: {e}', file=sys.stderr)
            return 2
        return _show_one(series, case, args)
    if args.case is not None:
        return _show_one(series, series.generate(args.seed, args.case), args)
    started = time.monotonic()
    # The case is a function of its number, so the parent needs no state of
    # the children's but their tallies.
    processes = multiprocessing.get_context('fork')
    # Nova is hundreds of thousands of objects; there is no use in looking
    # for garbage among them time and again.
    with processes.Pool(args.jobs, initializer=gc.freeze) as pool:
        tally = _run(series, pool, args, started)
    # A new pool, as the old one may have cases left to do when the time was
    # up.
    with processes.Pool(args.jobs) as pool:
        examples, failures = _shrink(series, pool, args, tally)
    report = _report(series, args, tally, examples, failures,
                     time.monotonic() - started)
    if args.format == 'json':
        print(json.dumps(report, indent=2))
    else:
        series.print_report(rich.console.Console(), report)
    return 1 if tally.disagreeing else 0


def _run(series: Series, pool: multiprocessing.pool.Pool,
         args: argparse.Namespace, started: float) -> Tally:
    tally = Tally()
    tasks = [
        (series, args.seed, range(first, min(first + _CHUNK, args.cases)),
         args.subject)
        for first in range(0, args.cases, _CHUNK)]
    console = rich.console.Console(stderr=True)
    with rich.progress.Progress(
            *rich.progress.Progress.get_default_columns(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task('cases', total=args.cases)
        for done in pool.imap_unordered(_run_chunk, tasks):
            tally.add(done)
            progress.update(bar, completed=tally.cases)
            if args.time_limit and (
                    time.monotonic() - started > args.time_limit):
                break
    return tally


def _shrink(
    series: Series, pool: multiprocessing.pool.Pool,
    args: argparse.Namespace, tally: Tally,
) -> tuple[dict[str, str], dict[int, str]]:
    """Return minimal cases by kind and by case with a disagreement."""
    kinds = {kind: number for kind, (_, number) in tally.examples.items()}
    numbers = sorted(tally.disagreements)[:series.shrunk]
    if args.no_shrink:
        def text(number: int) -> str:
            return str(series.generate(args.seed, number))
        return ({kind: text(number) for kind, number in kinds.items()},
                {number: text(number) for number in numbers})
    tasks: list[tuple[Series, int, int, str, str | None]] = [
        (series, args.seed, number, args.subject, kind)
        for kind, number in kinds.items()]
    tasks += [(series, args.seed, number, args.subject, None)
              for number in numbers]
    texts = pool.map(_shrink_example, tasks, chunksize=1)
    return (dict(zip(kinds, texts)), dict(zip(numbers, texts[len(kinds):])))


def _report(series: Series, args: argparse.Namespace, tally: Tally,
            examples: dict[str, str], failures: dict[int, str],
            seconds: float) -> dict[str, ty.Any]:
    return {
        'version': 1,
        series.option.strip('-'): args.subject,
        'seed': args.seed,
        'cases': tally.cases,
        'cases_wanted': args.cases,
        'seconds': round(seconds, 1),
        'disagreements': tally.disagreeing,
        'disagreeing_cases': [
            {'case': number, 'reasons': reasons,
             'minimal': json.loads(failures.get(number, 'null'))}
            for number, reasons in sorted(tally.disagreements.items())],
        series.kinds: [
            {'kind': kind, 'count': count,
             'case': tally.examples[kind][1],
             'minimal': json.loads(examples[kind])}
            for kind, count in sorted(
                tally.kinds.items(), key=lambda item: (-item[1], item[0]))],
        **series.report(tally),
    }


def print_table(console: rich.console.Console, title: str,
                rows: list[dict[str, ty.Any]], *names: str) -> None:
    """Print a table; what is not a figure is the first column.

    :param rows: each has the values of a row, in the order of names; those
        after that are left out
    :param names: of the columns
    """
    table = rich.table.Table(title=title)
    for number, name in enumerate(names):
        table.add_column(name, justify='right' if number else 'left')
    for row in rows:
        table.add_row(*map(str, list(row.values())[:len(names)]))
    console.print(table)


def print_plain(console: rich.console.Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_kinds(console: rich.console.Console,
                rows: list[dict[str, ty.Any]]) -> None:
    """Print a minimal case of each kind."""
    for row in rows:
        print_plain(console, f'{row["kind"]}, a minimal case:')
        print_plain(console, str(oracle_case.Case(row['minimal'])))


def print_disagreements(console: rich.console.Console,
                        report: dict[str, ty.Any]) -> None:
    """Print the cases that show one."""
    for row in report['disagreeing_cases']:
        print_plain(console, f'DISAGREEMENT in case {row["case"]}:')
        for reason in row['reasons']:
            print_plain(console, f'  {reason}')
        if row['minimal']:
            smallest = oracle_case.Case(row['minimal'])
            print_plain(console, f'  minimal: {smallest}')


def _show_one(series: Series, case: oracle_case.Case,
              args: argparse.Namespace) -> int:
    """Run one case and print all there is to know about it."""
    with series.prepared():
        result = {'case': case.data, **series.details(case, args.subject)}
    if args.format == 'json':
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            print(f'{key}: {case if key == "case" else value}')
    return 1 if result['disagreements'] else 0
