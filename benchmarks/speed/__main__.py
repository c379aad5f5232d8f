# SPDX-License-Identifier: Apache-2.0
"""Command line: ``python -m benchmarks.speed``."""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time
import typing as ty

from benchmarks import machine
from benchmarks import progress
from benchmarks.speed import audit
from benchmarks.speed import bars
from benchmarks.speed import commands
from benchmarks.speed import exporting
from benchmarks.speed import measure
from benchmarks.speed import report
from benchmarks.speed import results

QUICK = measure.Plan(processes=2, rounds=7, few_rounds=2, command_rounds=2,
                     time_limit=2)
DEFAULT = measure.Plan(processes=3, rounds=7, few_rounds=4, command_rounds=7,
                       time_limit=10)
RIGOROUS = measure.Plan(processes=8, rounds=20, few_rounds=10,
                        command_rounds=20, time_limit=60)


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """What is measured, by its kinds."""

    cases: ty.Sequence[bars.Case] = ()
    timed: ty.Sequence[commands.Command] = ()
    audits: ty.Sequence[audit.Case] = ()
    exports: ty.Sequence[exporting.Case] = ()


def parse(argv: ty.Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    names = [case.name for case in bars.CASES]
    names += [command.name for command in commands.COMMANDS]
    names += [case.name for case in audit.CASES]
    names += [case.name for case in exporting.CASES]
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.speed',
        description="Time our filters and weighers against nova's "
                    'NUMATopologyFilter, side by side, the commands, and the '
                    'audit of a large cloud. '
                    'Exit status 1: a bar was missed, its whole 95% interval '
                    'beyond it, or the answers differ.',
        epilog='Cases: ' + ', '.join(names))
    size = parser.add_mutually_exclusive_group()
    size.add_argument('--quick', action='store_true',
                      help='about a minute, rough figures')
    size.add_argument('--rigorous', action='store_true',
                      help='a quarter of an hour or more, for a quiet '
                           'machine')
    parser.add_argument('--case', nargs='+', action='extend', choices=names,
                        metavar='NAME',
                        help='only these cases; may be given several times')
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


def run(cases: ty.Sequence[bars.Case], plan: measure.Plan,
        ) -> tuple[list[report.Row], dict[str, list[measure.Samples]]]:
    """Measure the cases and return their figures and samples."""
    endless = [case for case in cases if case.endless]
    steps = sum(plan.steps(case) + plan.warm_up_steps(case) for case in cases)
    bar = progress.Bar(plan.processes * steps + len(endless))
    samples: dict[str, list[measure.Samples]] = {
        case.name: [] for case in cases}
    limited = {}
    try:
        for process in range(plan.processes):
            results = measure.run_process(
                cases, process, plan,
                lambda case, count: bar.step(case.name, count))
            for name, part in results.items():
                samples[name].append(part)
        for case in endless:
            bar.show(f'nova alone on {case.name}, for up to '
                     f'{plan.time_limit:g} s')
            limited[case.name] = measure.run_limited(case, plan.time_limit)
            bar.step(case.name, 1)
    finally:
        bar.close()
    rows = [
        report.summarise(case, samples[case.name], limited.get(case.name))
        for case in cases]
    return rows, samples


def choose(args: argparse.Namespace, plan: measure.Plan) -> Chosen:
    """Return what to measure."""
    def named(cases: ty.Sequence[ty.Any]) -> list[ty.Any]:
        return [case for case in cases
                if not args.case or case.name in args.case]

    cases = named(bars.CASES)
    if plan.calibrate:
        # Nova would never end the others.
        return Chosen([
            dataclasses.replace(case, ratio=None, limit_us=None)
            for case in cases if not case.endless])
    chosen = Chosen(cases, named(commands.COMMANDS), named(audit.CASES),
                    named(exporting.CASES))
    if not args.quick or args.case:
        return chosen
    return dataclasses.replace(
        chosen, exports=[],
        # Most of its time is waited.
        audits=[case for case in chosen.audits if not case.request_ms],
        timed=[command for command in chosen.timed
               if not command.is_long])


def measure_all(chosen: Chosen, plan: measure.Plan) -> results.Results:
    """Measure all that was chosen, with a progress bar for each kind.

    :raises measure.WorkerError: if a process fails
    :raises commands.CommandFailed: if a command does
    """
    def with_bar(measured: ty.Callable[..., list[ty.Any]],
                 cases: ty.Sequence[ty.Any], *more: int) -> list[ty.Any]:
        if not cases:
            return []
        bar = progress.Bar(len(cases) * (1 + sum(more)))
        try:
            return measured(cases, *more, lambda name: bar.step(name, 1))
        finally:
            bar.close()

    facts = machine.facts()
    start = time.monotonic()
    rows, samples = run(chosen.cases, plan) if chosen.cases else ([], {})
    return results.Results(
        plan, facts, rows, samples,
        timings=with_bar(commands.measure, chosen.timed,
                         plan.command_rounds),
        audits=with_bar(audit.run, chosen.audits),
        exports=with_bar(exporting.run, chosen.exports),
        seconds=time.monotonic() - start)


def main(argv: ty.Sequence[str] | None = None) -> int:
    """Run the benchmarks and return the exit status."""
    args = parse(argv)
    plan = choose_plan(args)
    # Where a launcher fixed the hash seed for all processes, as tox does,
    # they would be less different than they ought to be.
    os.environ.pop('PYTHONHASHSEED', None)
    try:
        measured = measure_all(choose(args, plan), plan)
    except (measure.WorkerError, commands.CommandFailed) as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('stopped', file=sys.stderr)
        return 130
    print('\n'.join(measured.as_text()))
    if args.json:
        args.json.write_text(json.dumps(measured.as_json(), indent=1) + '\n')
    if args.rst:
        args.rst.write_text('\n'.join(measured.as_rst()))
    return int(measured.has_failed)


if __name__ == '__main__':
    sys.exit(main())
