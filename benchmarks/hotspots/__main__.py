# SPDX-License-Identifier: Apache-2.0
"""The command: python -m benchmarks.hotspots."""

import argparse
import collections
from collections.abc import Iterator
from concurrent.futures import process as futures_process
import dataclasses
import json
import math
import os
import pathlib
import random
import sys
import textwrap
import time

from benchmarks.hotspots import model
from benchmarks.hotspots import processes
from benchmarks.hotspots import report
from benchmarks.hotspots import setups
from benchmarks import machine
from benchmarks import progress

_ROUNDS = 8
_QUICK_ROUNDS = 2
#: With few hosts and requests, to see that it works.
_QUICK_SCENE = setups.Scene(hosts=24, requests=80)
_QUICK_SETUPS = (setups.NOVA, setups.OURS, setups.Setup(True, 5))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.hotspots',
        description='How often several nova-schedulers that choose the same '
                    "host have to try again: nova's own scheduler code in "
                    'several processes, around an emulation of Placement and '
                    "of nova-compute's claim. Exit status 1: a host was "
                    'oversold, a request was lost, or an error was logged.')
    parser.add_argument('--quick', action='store_true',
                        help='few hosts, requests and set-ups')
    parser.add_argument('--rounds', type=int,
                        help=f'how many (default: {_ROUNDS})')
    parser.add_argument('--minutes', type=float, default=math.inf,
                        help='begin no round that would not be over by then')
    for name, what in (('hosts', 'hosts'), ('requests', 'of each run'),
                       ('processes', 'nova-schedulers'),
                       ('threads', 'requests under way in each of them')):
        parser.add_argument(f'--{name}', type=int, help=what)
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE',
                        help='write what each run found')
    parser.add_argument('--rst', type=pathlib.Path, metavar='FILE',
                        help='write the table for the documentation')
    return parser


def _scene(args: argparse.Namespace) -> setups.Scene:
    return dataclasses.replace(
        _QUICK_SCENE if args.quick else setups.Scene(), **{
            name: getattr(args, name)
            for name in ('hosts', 'requests', 'processes', 'threads')
            if getattr(args, name) is not None})


def _runs(scene: setups.Scene, chosen: tuple[setups.Setup, ...], rounds: int,
          seconds: float = math.inf) -> Iterator[setups.Run]:
    """All set-ups in each round, in an order that differs.

    :param seconds: no round begins that would not be over by then, at the
        pace of those before, and none is finished that still is not
    """
    start = time.monotonic()
    for seed in range(rounds):
        passed = time.monotonic() - start
        if seed and passed * (seed + 1) / seed > seconds:
            return
        order = list(chosen)
        random.Random(f'order-{seed}').shuffle(order)
        for setup in order:
            if time.monotonic() - start > seconds:
                return
            yield setups.Run(setup, scene, seed)


def _whole_rounds(results: list[model.Result],
                  chosen: tuple[setups.Setup, ...]) -> list[model.Result]:
    """Without a round that was broken off; by set-up."""
    runs = collections.Counter(result.run.seed for result in results)
    return sorted(
        (result for result in results if runs[result.run.seed] == len(chosen)),
        key=lambda result: (chosen.index(result.run.setup), result.run.seed))


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark.

    :returns: 1 if its figures are worth nothing, 2 if it cannot be run
    """
    parser = _parser()
    args = parser.parse_args(arguments)
    scene = _scene(args)
    rounds = args.rounds
    if rounds is None:
        rounds = _QUICK_ROUNDS if args.quick else _ROUNDS
    if min(rounds, *dataclasses.astuple(scene)) <= 0:
        parser.error('all numbers must be more than 0')
    chosen = _QUICK_SETUPS if args.quick else setups.SETUPS
    # Where a launcher fixed the hash seed for all processes, as tox does, all
    # of them would put hosts that weigh the same in the same order.
    os.environ.pop('PYTHONHASHSEED', None)
    facts = machine.facts()
    start = time.monotonic()
    bar = progress.Bar(rounds * len(chosen))
    results: list[model.Result] = []
    try:
        for result in processes.perform(
                _runs(scene, chosen, rounds, 60 * args.minutes),
                scene.processes):
            results.append(result)
            bar.step(result.run.setup.name, 1)
    except futures_process.BrokenProcessPool as error:
        print(f'error: a nova-scheduler has died: {error}', file=sys.stderr)
        return 2
    except processes.Failed as error:
        print(f'error: a nova-scheduler has failed:\n{error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('stopped', file=sys.stderr)
        return 130
    finally:
        bar.close()
    results = _whole_rounds(results, chosen)
    if not results:
        print('error: not even the first round was over in time: allow more '
              '--minutes, or fewer --requests', file=sys.stderr)
        return 2
    rounds = len(results) // len(chosen)
    runs = [report.measured(result) for result in results]
    print('\n'.join(report.text(runs)))
    print(textwrap.fill(report.explain(scene, rounds), 79))
    print(f'took {time.monotonic() - start:.0f} s; load '
          f'{facts["load_average"][0]:.1f} at the start')
    wrong = list(report.problems(results))
    for problem in wrong:
        print(problem)
    if args.json:
        args.json.write_text(json.dumps(
            report.as_json(results, facts), indent=1) + '\n')
    if args.rst:
        args.rst.write_text('\n'.join(report.rst(runs, scene, rounds, facts)))
    return int(bool(wrong))


if __name__ == '__main__':
    sys.exit(main())
