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

"""Compare the engine, the oracle and nova over many random cases.

Exit status: 0 if the engine agrees with the oracle in every case, 1 if it
does not in some, 2 for a usage error.
"""

import argparse
import collections
import dataclasses
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

from nova_pinning.tests.oracle import case as case_lib
from nova_pinning.tests.oracle import compare
from nova_pinning.tests.oracle import generate
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import shrink

ENGINE = 'nova_pinning.bridge.numa:numa_fit_instance_to_host'

#: Cases handed to a process at a time.
_CHUNK = 100
#: Disagreements that are kept; more would say no more.
_KEPT = 20
#: Disagreements that are cut down to a minimal case.
_SHRUNK = 3


@dataclasses.dataclass(slots=True)
class Tally:
    """What a number of cases showed, added up.

    :param seen: cases by guest's CPU policy, number of its cells and whether
        it fits
    :param disagreements: by case number, why the engine is wrong; only the
        first of them
    :param wrong: how often nova is wrong in each way
    :param examples: by way of being wrong, the length of the shortest case
        and its number
    """

    cases: int = 0
    seen: collections.Counter[tuple[str, int, bool]] = dataclasses.field(
        default_factory=collections.Counter)
    disagreeing: int = 0
    disagreements: dict[int, list[str]] = dataclasses.field(
        default_factory=dict)
    wrong: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    wrong_cases: int = 0
    differing: int = 0
    examples: dict[str, tuple[int, int]] = dataclasses.field(
        default_factory=dict)

    def note(self, number: int, case: case_lib.Case,
             verdict: compare.Verdict) -> None:
        """Add what one case showed."""
        guest = case.data['guest']
        self.cases += 1
        self.seen[str(guest['policy'] or 'none'), len(guest['cells']),
                  verdict.fits] += 1
        self.differing += verdict.nova_differs
        self.wrong_cases += bool(verdict.nova_wrong)
        if verdict.disagreements:
            self.disagreeing += 1
            self._keep(number, verdict.disagreements)
        for kind in verdict.nova_wrong:
            self.wrong[kind] += 1
            self._example(kind, (len(str(case)), number))

    def add(self, other: 'Tally') -> None:
        """Add what other cases showed."""
        self.cases += other.cases
        self.seen += other.seen
        self.disagreeing += other.disagreeing
        self.wrong += other.wrong
        self.wrong_cases += other.wrong_cases
        self.differing += other.differing
        for number, reasons in other.disagreements.items():
            self._keep(number, reasons)
        for kind, example in other.examples.items():
            self._example(kind, example)

    def _keep(self, number: int, reasons: list[str]) -> None:
        if len(self.disagreements) < _KEPT:
            self.disagreements[number] = reasons

    def _example(self, kind: str, example: tuple[int, int]) -> None:
        self.examples[kind] = min(self.examples.get(kind, example), example)


def load(path: str) -> ty.Callable[..., ty.Any] | None:
    """Return the function that ``module:name`` names; None for 'none'.

    :raises argparse.ArgumentTypeError: if there is no such function
    """
    if path == 'none':
        return None
    module, _, name = path.partition(':')
    try:
        return ty.cast(ty.Callable[..., ty.Any], getattr(
            importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as e:
        raise argparse.ArgumentTypeError(f'no such engine: {path}: {e}')


def explainer(path: str) -> ty.Callable[..., ty.Any] | None:
    """Return the ``explain`` that stands beside an engine, if any."""
    if path == 'none':
        return None
    return getattr(
        importlib.import_module(path.partition(':')[0]), 'explain', None)


def run_chunk(task: tuple[int, range, str]) -> Tally:
    """Run some cases of a series.

    :param task: the seed, the numbers of the cases, the engine's path
    """
    seed, numbers, engine = task
    fit, explain = load(engine), explainer(engine)
    tally = Tally()
    with compare.silence():
        for number in numbers:
            case = generate.generate(seed, number)
            tally.note(number, case, compare.compare(case, fit, explain))
    return tally


def shrink_example(task: tuple[int, int, str, str | None]) -> str:
    """Return a minimal case, as JSON, that shows what a bigger one does.

    :param task: the seed and the number of the bigger case, the engine's
        path, and the way in which nova is wrong, or None if it is the engine
        that is wrong
    """
    seed, number, engine, kind = task
    fit, explain = load(engine), explainer(engine)

    def holds(case: case_lib.Case) -> bool:
        if kind is None:
            return bool(compare.compare(case, fit, explain).disagreements)
        return kind in compare.compare(case, None).nova_wrong

    with compare.silence():
        return str(shrink.shrink(generate.generate(seed, number), holds))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog='python -m nova_pinning.tests.oracle.fuzz',
        description='Compare the engine with a brute-force oracle, and with '
                    'nova itself, over random hosts and guests.')
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
        '--engine', type=_engine, default=ENGINE, metavar='MODULE:FUNCTION',
        help="what to compare with the oracle, or 'none' to look at nova "
             'only (%(default)s)')
    one = made.add_mutually_exclusive_group()
    one.add_argument(
        '--case', type=int, metavar='K',
        help='run case K of the series only, and show all of it')
    one.add_argument(
        '--replay', metavar='FILE', type=argparse.FileType(),
        help='run the case in this file (JSON as printed; - for standard '
             'input) only, and show all of it')
    return made


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError('must be at least 1')
    return number


def _engine(path: str) -> str:
    load(path)
    return path


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    args = parser().parse_args(argv)
    if args.replay is not None:
        try:
            return _show_one(case_lib.Case.parse(args.replay.read()), args)
        except ValueError as e:
            print(f'error: {args.replay.name}: {e}', file=sys.stderr)
            return 2
    if args.case is not None:
        return _show_one(generate.generate(args.seed, args.case), args)
    started = time.monotonic()
    # The case is a function of its number, so the parent needs no state of
    # the children's but their tallies.
    processes = multiprocessing.get_context('fork')
    with processes.Pool(args.jobs) as pool:
        tally = _run(pool, args, started)
    # A new pool, as the old one may have cases left to do when the time was
    # up.
    with processes.Pool(args.jobs) as pool:
        examples, failures = _shrink(pool, args, tally)
    report = _report(args, tally, examples, failures,
                     time.monotonic() - started)
    if args.format == 'json':
        print(json.dumps(report, indent=2))
    else:
        _print_tables(report)
    return 1 if tally.disagreeing else 0


def _run(pool: multiprocessing.pool.Pool, args: argparse.Namespace,
         started: float) -> Tally:
    tally = Tally()
    tasks = [
        (args.seed, range(first, min(first + _CHUNK, args.cases)),
         args.engine)
        for first in range(0, args.cases, _CHUNK)]
    console = rich.console.Console(stderr=True)
    with rich.progress.Progress(
            *rich.progress.Progress.get_default_columns(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task('cases', total=args.cases)
        for done in pool.imap_unordered(run_chunk, tasks):
            tally.add(done)
            progress.update(bar, completed=tally.cases)
            if args.time_limit and (
                    time.monotonic() - started > args.time_limit):
                break
    return tally


def _shrink(
    pool: multiprocessing.pool.Pool, args: argparse.Namespace, tally: Tally,
) -> tuple[dict[str, str], dict[int, str]]:
    """Return minimal cases by kind of nova's errors and by disagreement."""
    kinds = {kind: number for kind, (_, number) in tally.examples.items()}
    numbers = sorted(tally.disagreements)[:_SHRUNK]
    if args.no_shrink:
        def text(number: int) -> str:
            return str(generate.generate(args.seed, number))
        return ({kind: text(number) for kind, number in kinds.items()},
                {number: text(number) for number in numbers})
    tasks: list[tuple[int, int, str, str | None]] = [
        (args.seed, number, args.engine, kind)
        for kind, number in kinds.items()]
    tasks += [(args.seed, number, args.engine, None) for number in numbers]
    texts = pool.map(shrink_example, tasks, chunksize=1)
    return (dict(zip(kinds, texts)), dict(zip(numbers, texts[len(kinds):])))


def _report(args: argparse.Namespace, tally: Tally, examples: dict[str, str],
            failures: dict[int, str], seconds: float) -> dict[str, ty.Any]:
    groups = sorted({key[:2] for key in tally.seen})
    return {
        'version': 1,
        'engine': args.engine,
        'seed': args.seed,
        'cases': tally.cases,
        'cases_wanted': args.cases,
        'seconds': round(seconds, 1),
        'by_guest': [
            {'policy': policy, 'guest_cells': cells,
             'fits': tally.seen[policy, cells, True],
             'refused': tally.seen[policy, cells, False]}
            for policy, cells in groups],
        'disagreements': tally.disagreeing,
        'disagreeing_cases': [
            {'case': number, 'reasons': reasons,
             'minimal': json.loads(failures.get(number, 'null'))}
            for number, reasons in sorted(tally.disagreements.items())],
        'nova_wrong_cases': tally.wrong_cases,
        'nova_differs_but_is_right': tally.differing,
        'nova_wrong': [
            {'kind': kind, 'count': count,
             'case': tally.examples[kind][1],
             'minimal': json.loads(examples[kind])}
            for kind, count in tally.wrong.most_common()],
    }


def _print_tables(report: dict[str, ty.Any]) -> None:
    console = rich.console.Console()
    table = rich.table.Table(title='Cases by guest')
    for name in ('policy', 'guest cells', 'fits', 'refused'):
        table.add_column(
            name, justify='left' if name == 'policy' else 'right')
    for row in report['by_guest']:
        table.add_row(*map(str, row.values()))
    console.print(table)
    table = rich.table.Table(title="nova's own wrong answers")
    table.add_column('how')
    table.add_column('cases', justify='right')
    table.add_column('example', justify='right')
    for row in report['nova_wrong']:
        table.add_row(row['kind'], str(row['count']), str(row['case']))
    console.print(table)
    for row in report['nova_wrong']:
        _print_plain(console, f'{row["kind"]}, a minimal case:')
        _print_plain(console, str(case_lib.Case(row['minimal'])))
    for row in report['disagreeing_cases']:
        _print_plain(console, f'DISAGREEMENT in case {row["case"]}:')
        for reason in row['reasons']:
            _print_plain(console, f'  {reason}')
        if row['minimal']:
            smallest = case_lib.Case(row['minimal'])
            _print_plain(console, f'  minimal: {smallest}')
    _print_plain(
        console,
        f'{report["cases"]} of {report["cases_wanted"]} cases of seed '
        f'{report["seed"]} in {report["seconds"]} s: '
        f'{report["disagreements"]} disagreements with the oracle; nova '
        f'wrong in {report["nova_wrong_cases"]}, right in another way in '
        f'{report["nova_differs_but_is_right"]}.')


def _print_plain(console: rich.console.Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _show_one(case: case_lib.Case, args: argparse.Namespace) -> int:
    """Run one case and print all there is to know about it."""
    fit, explain = load(args.engine), explainer(args.engine)
    with compare.silence():
        verdict = compare.compare(case, fit, explain)
        with case.configured():
            expected = oracle.fit(*case.inputs())
    result = {
        'case': case.data,
        'oracle': expected and [
            dataclasses.asdict(cell) for cell in expected],
        'explain': explain and str(explain(*case.inputs())),
        'disagreements': verdict.disagreements,
        'nova_wrong': sorted(verdict.nova_wrong),
        'nova_differs_but_is_right': verdict.nova_differs,
    }
    if args.format == 'json':
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            print(f'{key}: {case if key == "case" else value}')
    return 1 if verdict.disagreements else 0


if __name__ == '__main__':
    sys.exit(main())
