# SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks.speed.fleet_import``: a large cloud from MariaDB.

Starts its own MariaDB, has nova-manage make nova's tables, fills them
with hosts and guests, and runs ``nova-pinning fleet import nova`` on them as
a user who may only read.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import typing as ty

from benchmarks.speed import commands
from nova_pinning.bridge import standalone
from nova_pinning.tests import mariadb

#: The bars for 5,000 hosts and 50,000 guests.
LIMIT_S = 120
LIMIT_MIB = 2048


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured.

    :param peak_mib: the most memory that the command had at a time
    :param transactions: of the command, of which none may write
    :param longest_ms: the longest of these
    """

    hosts: int
    guests: int
    wall_s: float
    cpu_s: float
    peak_mib: float
    transactions: int
    longest_ms: float
    file_bytes: int

    @property
    def met(self) -> bool:
        return self.wall_s <= LIMIT_S and self.peak_mib <= LIMIT_MIB


def measure(hosts: int, guests: int) -> Outcome:
    """Fill databases and import them.

    :param guests: on each host
    """
    standalone.prepare()
    with mariadb.MariaDB() as server:
        nova = mariadb.nova_on_mariadb(server)
        nova.fill(hosts, guests)
        server.give_to_reader(nova)
        fleet = server.directory / 'fleet.json.zst'
        run = commands.ProcessRun.of([
            str(pathlib.Path(sys.executable).parent / 'nova-pinning'),
            'fleet', 'import', 'nova', '--config-file', str(nova.conf),
            '--output', str(fleet)])
        nova.close()
        transactions = server.transactions('reader')
        if transactions.writing:
            raise SystemExit('some transactions might have written')
        return Outcome(
            hosts, hosts * guests, run.seconds, run.cpu_s, run.peak_mib,
            transactions.count,
            transactions.longest_seconds * 1000, fleet.stat().st_size)


def main(argv: ty.Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.speed.fleet_import',
        description='Time the import of a large cloud from MariaDB. Exit '
                    'status 1: a bar was missed.')
    parser.add_argument('--hosts', type=int, default=5000)
    parser.add_argument('--guests', type=int, default=10, metavar='N',
                        help='on each host, up to 22 (default: %(default)s)')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE')
    args = parser.parse_args(argv)
    trouble = mariadb.missing()
    if trouble:
        parser.error(trouble)
    outcome = measure(args.hosts, args.guests)
    print(f'{outcome.hosts:,} hosts, {outcome.guests:,} guests: '
          f'{outcome.wall_s:.0f} s (CPU time {outcome.cpu_s:.0f} s), '
          f'{outcome.peak_mib:.0f} MiB; {outcome.transactions} transactions, '
          f'the longest {outcome.longest_ms:.0f} ms; '
          f'{outcome.file_bytes:,} bytes')
    if args.json:
        args.json.write_text(json.dumps(
            dataclasses.asdict(outcome), indent=1) + '\n')
    return 0 if outcome.met else 1


if __name__ == '__main__':
    sys.exit(main())
