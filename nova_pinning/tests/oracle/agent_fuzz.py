# SPDX-License-Identifier: Apache-2.0
"""The agent's decisions at random: python -m ... --events N --seed S.

Caches are controlled on a kernel in memory (agent_cache_fuzz), homes of
floating guests chosen under random loads (agent_home_fuzz), and some of all
events are followed by whole rounds (agent_round_fuzz), which take longer. What
is printed in the end is how much was tried.
"""

import argparse
import sys
import time

from nova_pinning.tests.oracle import agent_cache_fuzz
from nova_pinning.tests.oracle import agent_home_fuzz
from nova_pinning.tests.oracle import agent_round_fuzz

_EVENTS_OF_A_CASE = 200
_EVENTS_WITH_ROUNDS = 20


def main(arguments: list[str] | None = None) -> int:
    """Run cases until there were enough events; 1 if one goes wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--events', type=int, default=1_000_000,
                        metavar='N', help='default: 1,000,000')
    parser.add_argument('--seed', type=int, default=1, metavar='S',
                        help='of the first case, default 1')
    parser.add_argument('--seconds', type=float, default=0.0, metavar='S',
                        help='end after this time in any case')
    options = parser.parse_args(arguments)
    started = time.monotonic()
    counts = {'cache': 0, 'homes': 0, 'rounds': 0}
    moves, hours = 0, 0.0
    seed = options.seed
    while sum(counts.values()) < options.events and not (
            options.seconds
            and time.monotonic() - started > options.seconds):
        cache = agent_cache_fuzz.CacheCase(seed)
        homes = agent_home_fuzz.HomeCase(seed)
        rounds = agent_round_fuzz.RoundCase(seed)
        try:
            cache.run(_EVENTS_OF_A_CASE)
            homes.run(_EVENTS_OF_A_CASE)
            rounds.run(_EVENTS_WITH_ROUNDS)
        except Exception as error:  # noqa: B902 - with its seed
            print(f'case {seed}, after {cache.events}, {homes.events} and '
                  f'{rounds.events} events: {type(error).__name__}: {error}')
            return 1
        counts['cache'] += cache.events
        counts['homes'] += homes.events
        counts['rounds'] += rounds.events
        moves, hours = moves + homes.moves, hours + homes.hours
        seed += 1
    print(f'{sum(counts.values()):,} events in {seed - options.seed:,} cases: '
          f'{counts["cache"]:,} on caches, {counts["homes"]:,} on homes with '
          f'{moves:,} moves in {hours:,.0f} hours, {counts["rounds"]:,} with '
          'whole rounds; nothing went wrong')
    return 0


if __name__ == '__main__':
    sys.exit(main())
