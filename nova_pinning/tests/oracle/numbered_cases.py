# SPDX-License-Identifier: Apache-2.0
"""Numbered random cases that nova judges, one after the other.

An oracle says what is wrong with what one case shows, and counts what it has
shown; the rest, from nova's set-up to the exit status, is the same for all of
those about devices. The exit status is 0 if all agree with nova, 1 if not, 2
for a usage error.
"""

import argparse
import collections
from collections.abc import Callable
from collections.abc import Iterable
import logging
import time
from typing import TypeAlias

from nova_pinning.tests.oracle import oracle_case

Counts: TypeAlias = collections.Counter[str]
#: Takes the seed, the number of a case, and what to count.
Oracle: TypeAlias = Callable[[int, int, Counts], Iterable[str]]
#: Disagreements that are printed.
_KEPT = 40


def run(oracle: Oracle, seed: int,
        numbers: Iterable[int]) -> tuple[list[str], Counts]:
    """What of some cases differs, and what was counted."""
    oracle_case.setup()
    # It has a lot to say about what should not happen.
    logging.getLogger('nova').setLevel(logging.CRITICAL + 1)
    counts = Counts()
    return [f'{number}: {difference}' for number in numbers
            for difference in oracle(seed, number, counts)], counts


def main(oracle: Oracle, description: str | None, each: int = 1,
         argv: list[str] | None = None) -> int:
    """Run an oracle as a command.

    :param each: how many cases go by one number
    :returns: the exit status
    """
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cases', type=int, default=2000, metavar='N',
                        help='how many cases to try (%(default)s)')
    parser.add_argument('--seed', type=int, default=1, metavar='S',
                        help='which series of them (%(default)s)')
    parser.add_argument('--only', type=int, metavar='K',
                        help='what goes by number K')
    parsed = parser.parse_args(argv)
    if parsed.cases < 1:
        parser.error('--cases must be at least 1')
    numbers = (range(-(-parsed.cases // each)) if parsed.only is None
               else range(parsed.only, parsed.only + 1))
    begun = time.monotonic()
    wrong, counts = run(oracle, parsed.seed, numbers)
    for difference in wrong[:_KEPT]:
        print(difference)
    for name, number in sorted(counts.items()):
        print(f'{number:8,} {name}')
    print(f'{len(numbers) * each:,} cases of seed {parsed.seed} in '
          f'{time.monotonic() - begun:.0f} s: {len(wrong):,} disagreements '
          'with nova')
    return int(bool(wrong))
