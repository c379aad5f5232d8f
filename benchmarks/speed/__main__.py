# SPDX-License-Identifier: Apache-2.0
"""Command line: ``python -m benchmarks.speed``."""

from collections.abc import Sequence
import os
import sys

from benchmarks import runner
from benchmarks.speed import commands
from benchmarks.speed import report

GROUPS = (report.GROUP, commands.GROUP)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks and return the exit status."""
    parser = runner.parser(
        'python -m benchmarks.speed',
        "Time our filters and weighers against nova's NUMATopologyFilter, "
        'side by side, and the commands.', GROUPS)
    parser.add_argument('--rigorous', action='store_true',
                        help='a quarter of an hour or more, for a quiet '
                             'machine')
    options = parser.parse_args(argv)
    if options.quick and options.rigorous:
        parser.error('--quick and --rigorous exclude each other')
    # Where a launcher fixed the hash seed for all processes, as tox does,
    # they would be less different than they ought to be.
    os.environ.pop('PYTHONHASHSEED', None)
    return runner.run(options, GROUPS, parser.prog)


if __name__ == '__main__':
    sys.exit(main())
