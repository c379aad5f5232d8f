# SPDX-License-Identifier: Apache-2.0
"""The command: python -m benchmarks.rebalance."""

import argparse
from collections.abc import Sequence
import json
import pathlib
import sys
import time

from benchmarks import machine
from benchmarks import progress
from benchmarks.rebalance import cases
from benchmarks import tables

_HEADER = ('case', 'hosts', 'guests moved', 'slots before', 'after',
           'at most', 'GiB', 'seconds', 'CPU seconds')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.rebalance',
        description='How much room plans of moves make on a real snapshot '
                    'and on generated fleets, beside what is proved to be '
                    'the most, and how long they take to make. Exit status '
                    '1: a bar is missed.')
    parser.add_argument('--quick', action='store_true',
                        help='small fleets only, to see that it works')
    parser.add_argument('--case', action='append', metavar='NAME',
                        help='only this one; may be given several times')
    parser.add_argument('--slack', type=float, default=1.0, metavar='FACTOR',
                        help='let everything take so many times as long, on '
                             'a machine that has other work')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE',
                        help='write the figures')
    parser.add_argument('--rst', type=pathlib.Path, metavar='FILE',
                        help='write the table for the documentation')
    return parser


def _row(outcome: cases.Outcome) -> tuple[str, ...]:
    plan, case = outcome.plan, outcome.case
    slots = ('', '', '')
    if plan.gains:
        (gain,) = plan.gains
        slots = str(gain.before), str(gain.after), str(gain.bound)
    return (case.name, str(case.hosts or 279), str(len(plan.moves)), *slots,
            f'{plan.memory_mib / 1024:,.0f}', f'{outcome.seconds:.1f}',
            f'{outcome.cpu_seconds:.1f}')


def _rst(rows: Sequence[Sequence[str]],
         facts: dict[str, object]) -> list[str]:
    return ['.. Made by "python -m benchmarks.rebalance --rst", not by '
            'hand.', '', *tables.listed((_HEADER, *rows)), '',
            *machine.as_rst(facts)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = _parser()
    args = parser.parse_args(arguments)
    chosen = cases.QUICK if args.quick else cases.SNAPSHOT + cases.LARGE
    if not args.slack > 0:
        parser.error('--slack must be more than 0')
    if args.case:
        known = {case.name: case for case in (
            *cases.QUICK, *cases.SNAPSHOT, *cases.LARGE)}
        unknown = sorted(set(args.case) - set(known))
        if unknown:
            parser.error(f'there is no case {", ".join(unknown)}; there are '
                         f'{", ".join(known)}')
        chosen = tuple(known[name] for name in args.case)
    if not cases.has_snapshot() and any(not case.hosts for case in chosen):
        print('the real snapshot is not there: set NOVA_PINNING_DATA to the '
              'directory that has bytedance/clusters.json', file=sys.stderr)
        chosen = tuple(case for case in chosen if case.hosts)
        if not chosen:
            return 2
    facts = machine.facts()
    start = time.monotonic()
    bar = progress.Bar(len(chosen))
    outcomes = []
    try:
        for outcome in cases.measure(chosen, bar.show, args.slack):
            outcomes.append(outcome)
            bar.step(outcome.case.name, 1)
    except KeyboardInterrupt:
        print('stopped', file=sys.stderr)
        return 130
    finally:
        bar.close()
    rows = list(map(_row, outcomes))
    print('\n'.join(tables.FigureTable(
        (_HEADER, *rows), numbers=range(1, len(_HEADER))).as_text()))
    print(f'{facts["cpu_model"]}, {facts["cpus"]} CPUs, {facts["python"]}; '
          f'load {facts["load_average"][0]:.1f} at the start; took '
          f'{time.monotonic() - start:.0f} s')
    problems = [f'{outcome.case.name}: {problem}' for outcome in outcomes
                for problem in outcome.problems]
    for problem in problems:
        print(problem)
    if args.json:
        args.json.write_text(json.dumps({
            'machine': facts, 'problems': problems,
            'cases': [dict(zip(_HEADER, row)) for row in rows]},
            indent=1) + '\n')
    if args.rst:
        args.rst.write_text('\n'.join(_rst(rows, facts)))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
