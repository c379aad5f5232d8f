# SPDX-License-Identifier: Apache-2.0
"""The command: python -m benchmarks.scheduling."""

import argparse
import collections
import json
import os
import sys
import time

from benchmarks.scheduling import fleets
from benchmarks.scheduling import study
from benchmarks.scheduling import table
from nova_pinning import errors

_SEEDS = 10
_SHORT_SEEDS = 2


def _parser() -> argparse.ArgumentParser:
    parser = fleets.parser(
        'python -m benchmarks.scheduling', __doc__, fleets.NAMES,
        seeds=f'how many (default: {_SEEDS})',
        short='few hosts and seeds, to see that it works; without the real '
              'snapshot unless that is asked for',
        json='write what each run found')
    parser.add_argument(
        '--processes', type=int, default=os.cpu_count() or 1,
        help='how many (default: one for each CPU)')
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the study.

    :returns: 1 if a bar is not reached, 2 if it cannot be run
    """
    args = _parser().parse_args(arguments)
    names = args.fleet or [
        name for name in fleets.NAMES if not args.short or name != 'snapshot']
    seeds = args.seeds or (_SHORT_SEEDS if args.short else _SEEDS)
    start = time.monotonic()
    try:
        tables, outcomes = _run(names, seeds, args.short, args.processes)
    except errors.InputError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('stopped', file=sys.stderr)
        return 130
    print(f'took {time.monotonic() - start:.0f} s with {args.processes} '
          f'processes')
    if args.json:
        args.json.write_text(json.dumps([
            {**outcome.job._asdict(), 'share': outcome.share,
             'l3_possible': outcome.l3_possible, 'l3_met': outcome.l3_met}
            for outcome in outcomes], indent=1) + '\n')
    if args.rst:
        args.rst.write_text('\n'.join(table.rst(
            tables, 'python -m benchmarks.scheduling --rst')) + '\n')
    return int(any(list(shown.missed) for shown in tables))


def _run(
    names: list[str], seeds: int, is_short: bool, processes: int,
) -> tuple[list[study.Table], list[study.Outcome]]:
    """Do all jobs, and print each table as soon as it is complete."""
    if 'snapshot' in names and not fleets.snapshot_path().exists():
        # Says what is missing before hours are spent on the others.
        fleets.scenario('snapshot')
    todo = study.jobs(names, seeds, is_short)
    left = collections.Counter(job.scenario for job in todo)
    by_scenario: dict[str, list[study.Outcome]] = collections.defaultdict(list)
    tables = []
    for outcome in study.perform_all(todo, processes):
        name = outcome.job.scenario
        by_scenario[name].append(outcome)
        left[name] -= 1
        if sys.stderr.isatty():
            print(f'\r{sum(left.values())} runs left ', end='',
                  file=sys.stderr, flush=True)
        if not left[name]:
            tables.append(study.table(by_scenario[name]))
            print('\n'.join(table.text(tables[-1:])), flush=True)
    tables.sort(key=lambda shown: names.index(shown.scenario))
    return tables, [outcome for name in names for outcome in sorted(
        by_scenario[name], key=lambda outcome: outcome.job)]


if __name__ == '__main__':
    sys.exit(main())
