# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Command line: ``python -m benchmarks``."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import sys
import textwrap
import time
import typing as ty

from benchmarks import audit
from benchmarks import bars
from benchmarks import commands
from benchmarks import measure
from benchmarks import report

QUICK = measure.Plan(processes=1, rounds=3, passes=3, request_rounds=2,
                     time_limit=2)
DEFAULT = measure.Plan(processes=3, rounds=7, request_rounds=4,
                       time_limit=10)
RIGOROUS = measure.Plan(processes=8, rounds=20, request_rounds=10,
                        time_limit=60)


class ProgressBar:
    """A line on the terminal's error output; nothing where there is none."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._shown = sys.stderr.isatty()
        self.show('starting')

    def show(self, what: str) -> None:
        """Draw the line."""
        if not self._shown:
            return
        filled = 30 * self._done // self._total
        line = (f'[{"#" * filled:<30}] '
                f'{100 * self._done // self._total:3}% {what}')
        width = shutil.get_terminal_size().columns - 1
        print('\r' + line[:width].ljust(width), end='', file=sys.stderr,
              flush=True)

    def step(self, name: str, count: int) -> None:
        """Note that some work on a case is done."""
        self._done += count
        self.show(name)

    def close(self) -> None:
        """Wipe the line."""
        if self._shown:
            width = shutil.get_terminal_size().columns - 1
            print('\r' + ' ' * width + '\r', end='', file=sys.stderr,
                  flush=True)


def parse(argv: ty.Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    names = [case.name for case in bars.CASES]
    names += [command.name for command in commands.COMMANDS]
    names += [case.name for case in audit.CASES]
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks',
        description="Time our filters and weighers against nova's "
                    'NUMATopologyFilter, side by side, the commands, and the '
                    'audit of a large cloud. '
                    'Exit status 1: a bar was missed or the answers '
                    'differ.',
        epilog='Cases: ' + ', '.join(names))
    size = parser.add_mutually_exclusive_group()
    size.add_argument('--quick', action='store_true',
                      help='about a minute, rough figures')
    size.add_argument('--rigorous', action='store_true',
                      help='a quarter of an hour or more, for a quiet '
                           'machine')
    parser.add_argument('--case', nargs='+', choices=names, metavar='NAME',
                        help='only these cases')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE',
                        help='write everything measured to a file')
    parser.add_argument('--rst', type=pathlib.Path, metavar='FILE',
                        help='write the table for the documentation')
    parser.add_argument('--time-limit', type=float, metavar='SECONDS',
                        help='how long nova may try one host of a case that '
                             'it cannot end in useful time')
    parser.add_argument('--calibrate', action='store_true',
                        help="nova's filter on both sides: every ratio "
                             'should be 1')
    args = parser.parse_args(argv)
    if args.time_limit is not None and args.time_limit <= 0:
        parser.error('--time-limit must be more than 0')
    return args


def choose_plan(args: argparse.Namespace) -> measure.Plan:
    """Return how much to measure."""
    plan = DEFAULT
    if args.quick:
        plan = QUICK
    elif args.rigorous:
        plan = RIGOROUS
    changes: dict[str, ty.Any] = {'calibrate': args.calibrate}
    if args.time_limit is not None:
        changes['time_limit'] = args.time_limit
    return dataclasses.replace(plan, **changes)


def run(cases: list[bars.Case], plan: measure.Plan,
        ) -> tuple[list[report.Row], dict[str, list[measure.Samples]]]:
    """Measure the cases and return their figures and samples."""
    endless = [case for case in cases if case.endless]
    steps = sum(plan.steps(case) + plan.warm_up_steps(case)
                for case in cases)
    progress = ProgressBar(plan.processes * steps + len(endless))
    samples: dict[str, list[measure.Samples]] = {
        case.name: [] for case in cases}
    limited = {}
    try:
        for process in range(plan.processes):
            results = measure.run_process(
                cases, process, plan,
                lambda case, count: progress.step(case.name, count))
            for name, part in results.items():
                samples[name].append(part)
        for case in endless:
            progress.show(f'nova alone on {case.name}, for up to '
                          f'{plan.time_limit:g} s')
            limited[case.name] = measure.run_limited(case, plan.time_limit)
            progress.step(case.name, 1)
    finally:
        progress.close()
    rows = [
        report.summarise(case, samples[case.name], limited.get(case.name))
        for case in cases]
    return rows, samples


def run_commands(wanted: list[commands.Command], rounds: int,
                 ) -> list[commands.Timing]:
    """Time the commands."""
    progress = ProgressBar(len(wanted) * (rounds + 1))
    try:
        return commands.measure(wanted, rounds,
                                lambda name: progress.step(name, 1))
    finally:
        progress.close()


def run_audits(cases: list[audit.Case]) -> list[audit.Outcome]:
    """Audit the stubs of clouds."""
    progress = ProgressBar(len(cases))
    try:
        return audit.run(cases, lambda name: progress.step(name, 1))
    finally:
        progress.close()


def main(argv: ty.Sequence[str] | None = None) -> int:
    """Run the benchmarks and return the exit status."""
    args = parse(argv)
    plan = choose_plan(args)
    cases = [case for case in bars.CASES
             if not args.case or case.name in args.case]
    wanted = [command for command in commands.COMMANDS
              if not args.case or command.name in args.case]
    audits = [case for case in audit.CASES
              if not args.case or case.name in args.case]
    if args.quick and not args.case:
        # Most of its time is waited.
        audits = [case for case in audits if not case.request_ms]
    if plan.calibrate:
        wanted = []
        audits = []
        # Nova would never end the others.
        cases = [dataclasses.replace(case, ratio=None, limit_us=None)
                 for case in cases if not case.endless]
    # Where a launcher fixed the hash seed for all processes, as tox does,
    # they would be less different than they ought to be.
    os.environ.pop('PYTHONHASHSEED', None)
    facts = report.machine()
    start = time.monotonic()
    try:
        rows, samples = run(cases, plan) if cases else ([], {})
        timings = run_commands(wanted, plan.rounds) if wanted else []
        outcomes = run_audits(audits) if audits else []
    except (measure.WorkerError, commands.CommandFailed) as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('stopped', file=sys.stderr)
        return 130
    if rows:
        print('\n'.join(report.table(rows)))
        print(textwrap.fill(report.explain(rows, plan), 79))
    if timings:
        print('\n'.join(commands.table(timings)))
        print(textwrap.fill(commands.explain(plan.rounds), 79))
    if outcomes:
        print('\n'.join(audit.table(outcomes)))
        print(textwrap.fill(audit.explain(), 79))
    versions = facts['versions']
    print(textwrap.fill(
        f'{facts["cpu_model"]}, {facts["cpus"]} CPUs, {facts["python"]}, '
        f'nova {versions["nova"]}; load {facts["load_average"][0]:.1f} at '
        f'the start; took {time.monotonic() - start:.0f} s', 79))
    for row in rows:
        for problem in row.problems:
            print(f'{row.case.name}: {problem}')
    is_flat = audit.is_flat(outcomes)
    if not is_flat:
        print('audit: it takes more memory for more servers')
    if args.json:
        args.json.write_text(json.dumps(
            report.as_json(rows, samples, plan, facts)
            | {'commands': [dataclasses.asdict(one) for one in timings],
               'audits': [dataclasses.asdict(one) for one in outcomes]},
            indent=1) + '\n')
    if args.rst:
        args.rst.write_text('\n'.join([
            '.. Made by "python -m benchmarks --rst", not by hand.', '',
            *(report.as_rst(rows, plan) if rows else ()),
            *(commands.as_rst(timings, plan.rounds) if timings else ()),
            *(audit.as_rst(outcomes) if outcomes else ()),
            *report.machine_as_rst(facts)]))
    is_met = all(one.met for one in (*rows, *timings, *outcomes))
    return 0 if is_met and is_flat else 1


if __name__ == '__main__':
    sys.exit(main())
