# SPDX-License-Identifier: Apache-2.0
"""The command: python -m benchmarks.scheduling."""

from collections.abc import Sequence
import sys

from benchmarks import runner
from benchmarks.scheduling import fleets
from benchmarks.scheduling import study


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, and return the exit status."""
    parser = runner.parser(
        'python -m benchmarks.scheduling',
        'Which weighers sell more: a study with the simulator as the judge.',
        study.GROUPS)
    fleets.add_options(parser)
    return runner.run(parser.parse_args(argv), study.GROUPS, parser.prog)


if __name__ == '__main__':
    sys.exit(main())
