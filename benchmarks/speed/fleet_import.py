# SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks.speed.fleet_import``: a large cloud from MariaDB.

Starts its own MariaDB, has nova-manage make nova's tables, fills them
with hosts and guests, and runs ``nova-pinning fleet import nova`` on them as
a user who may only read.
"""

import argparse
from collections.abc import Sequence
import pathlib
import sys
import types
from typing import Any

from benchmarks import runner
from benchmarks.speed import commands
from nova_pinning.bridge.offline import standalone
from nova_pinning.tests import mariadb

#: The bars for 5,000 hosts and 50,000 guests.
LIMIT_S = 120
LIMIT_MIB = 2048


def measure(_cases: Sequence[Any], options: argparse.Namespace,
            step: runner.Step) -> list[runner.Outcome]:
    """Fill databases and import them.

    :raises runner.BenchmarkError: if there is no MariaDB, or the command
        fails
    """
    if trouble := mariadb.missing():
        raise runner.BenchmarkError(trouble)
    standalone.prepare()
    with mariadb.MariaDB() as server:
        nova = mariadb.nova_on_mariadb(server)
        nova.fill(options.hosts, options.guests)
        server.give_to_reader(nova)
        fleet = server.directory / 'fleet.json.zst'
        run = commands.ProcessRun.of([
            str(pathlib.Path(sys.executable).parent / 'nova-pinning'),
            'fleet', 'import', 'nova', '--config-file', str(nova.conf),
            '--output', str(fleet)])
        nova.close()
        transactions = server.transactions('reader')
        step('import')
        return [runner.outcome(
            'import', f'{options.hosts:,} hosts, '
            f'{options.hosts * options.guests:,} guests', {
                'wall_s': runner.Figure(run.seconds, '{:.0f} s', LIMIT_S),
                'cpu_s': runner.Figure(run.cpu_s, '{:.0f} s'),
                'peak_mib': runner.Figure(
                    run.peak_mib, '{:.0f} MiB', LIMIT_MIB),
                'transactions': runner.Figure(transactions.count, '{}'),
                'longest_ms': runner.Figure(
                    1000 * transactions.longest_seconds, '{:.0f} ms'),
                'file_bytes': runner.Figure(fleet.stat().st_size, '{:,}')},
            ['some transactions might have written']
            if transactions.writing else ())]


GROUP = runner.Group(
    key='imports', cases=[types.SimpleNamespace(name='import')],
    measure=measure, headings=(
        'import', 'time', 'CPU', 'memory', 'transactions', 'longest', 'bytes',
        'bar'))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    parser = runner.parser('python -m benchmarks.speed.fleet_import',
                           'Time the import of a large cloud from MariaDB.')
    parser.add_argument('--hosts', type=int, default=5000)
    parser.add_argument('--guests', type=int, default=10, metavar='N',
                        help='on each host, up to 22 (default: %(default)s)')
    return runner.run(runner.parse(parser, [GROUP], argv), [GROUP],
                      parser.prog)


if __name__ == '__main__':
    sys.exit(main())
