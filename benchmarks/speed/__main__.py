# SPDX-License-Identifier: Apache-2.0
"""Command line: ``python -m benchmarks.speed``."""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import textwrap
import time
import typing as ty

from benchmarks import machine
from benchmarks import progress
from benchmarks.speed import audit
from benchmarks.speed import bars
from benchmarks.speed import commands
from benchmarks.speed import exporting
from benchmarks.speed import judging
from benchmarks.speed import measure
from benchmarks.speed import report

QUICK = measure.Plan(processes=1, rounds=6, few_rounds=2, command_rounds=2,
                     time_limit=2, passes=3)
DEFAULT = measure.Plan(processes=3, rounds=7, few_rounds=4, command_rounds=7,
                       time_limit=10)
RIGOROUS = measure.Plan(processes=8, rounds=20, few_rounds=10,
                        command_rounds=20, time_limit=60)


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


def run(cases: list[bars.Case], plan: measure.Plan,
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


def run_commands(chosen: list[commands.Command], rounds: int,
                 ) -> list[commands.Timing]:
    """Time the commands."""
    bar = progress.Bar(len(chosen) * (rounds + 1))
    try:
        return commands.measure(chosen, rounds, lambda name: bar.step(name, 1))
    finally:
        bar.close()


def run_audits(cases: list[audit.Case]) -> list[audit.Outcome]:
    """Audit the stubs of clouds."""
    bar = progress.Bar(len(cases))
    try:
        return audit.run(cases, lambda name: bar.step(name, 1))
    finally:
        bar.close()


def run_exporters(cases: list[exporting.Case]) -> list[exporting.Outcome]:
    """Export large fleets."""
    bar = progress.Bar(len(cases))
    try:
        return exporting.run(cases, lambda name: bar.step(name, 1))
    finally:
        bar.close()


def main(argv: ty.Sequence[str] | None = None) -> int:
    """Run the benchmarks and return the exit status."""
    args = parse(argv)
    plan = choose_plan(args)
    cases = [case for case in bars.CASES
             if not args.case or case.name in args.case]
    timed = [command for command in commands.COMMANDS
             if not args.case or command.name in args.case]
    audits = [case for case in audit.CASES
              if not args.case or case.name in args.case]
    exports = [case for case in exporting.CASES
               if not args.case or case.name in args.case]
    if args.quick and not args.case:
        exports = []
        # Most of its time is waited.
        audits = [case for case in audits if not case.request_ms]
        timed = [command for command in timed if not command.is_long]
    if plan.calibrate:
        timed = []
        audits = []
        exports = []
        # Nova would never end the others.
        cases = [dataclasses.replace(case, ratio=None, limit_us=None)
                 for case in cases if not case.endless]
    # Where a launcher fixed the hash seed for all processes, as tox does,
    # they would be less different than they ought to be.
    os.environ.pop('PYTHONHASHSEED', None)
    facts = machine.facts()
    rounds = plan.command_rounds
    start = time.monotonic()
    try:
        rows, samples = run(cases, plan) if cases else ([], {})
        timings = run_commands(timed, rounds) if timed else []
        outcomes = run_audits(audits) if audits else []
        exported = run_exporters(exports) if exports else []
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
        print(textwrap.fill(commands.explain(timings, rounds), 79))
    if outcomes:
        print('\n'.join(audit.table(outcomes)))
        print(textwrap.fill(audit.explain(), 79))
    if exported:
        print('\n'.join(exporting.table(exported)))
        print(textwrap.fill(exporting.explain(), 79))
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
        args.json.write_text(
            json.dumps(report.as_json(rows, samples, plan, facts)
                       | {
                           'commands': [
                               commands.as_json(timing) for timing in timings],
                           'audits': [
                               dataclasses.asdict(outcome) | {
                                   'verdict': outcome.verdict
                               } for outcome in outcomes],
                           'exporters': [
                               dataclasses.asdict(outcome) | {
                                   'verdict': outcome.verdict
                               } for outcome in exported]},
                       indent=1) + '\n')
    if args.rst:
        args.rst.write_text('\n'.join([
            '.. Made by "python -m benchmarks.speed --rst", not by hand.',
            '',
            *(report.as_rst(rows, plan) if rows else ()),
            *(commands.as_rst(timings, rounds) if timings else ()),
            *(audit.as_rst(outcomes) if outcomes else ()),
            *(exporting.as_rst(exported) if exported else ()),
            *machine.as_rst(facts)]))
    verdict = judging.worst([
        *(row.verdict for row in rows),
        *(timing.verdict for timing in timings),
        *(outcome.verdict for outcome in outcomes),
        *(outcome.verdict for outcome in exported)])
    return 1 if verdict.is_failure or not is_flat else 0


if __name__ == '__main__':
    sys.exit(main())
