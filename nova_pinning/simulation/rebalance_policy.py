# SPDX-License-Identifier: Apache-2.0
"""When and how much is moved, as it is written on a command line.

``key=value`` items, separated by blanks:

* ``every=6h``: between two plans, in s, m, h or d;
* ``moves=1%``: of the guests that there are, or a number: at most, each time;
* ``from=30d``: after the first arrival, before which none is moved.
"""

import contextlib
import dataclasses

from nova_pinning import errors
from nova_pinning.simulation import spec

_WHERE = errors.Location('--rebalance')
_EXAMPLE = 'write it like every=6h moves=1%'
_MOST_MOVES = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePolicy:
    """How often guests are moved, and how many.

    :param every_hours: simulated time between two plans
    :param moves: at most, in each; None if a share says
    :param moves_share: at most, of the guests that there are by then
    :param from_hours: simulated time from the first arrival on in which no
        plan is made
    """

    every_hours: float
    moves: int | None = None
    moves_share: float | None = None
    from_hours: float = 0.0

    def most_moves(self, guests: int) -> int:
        """The moves that may be made while there are so many guests."""
        if self.moves is not None:
            return self.moves
        return max(1, int((self.moves_share or 0.0) * guests))


def parse(text: str) -> RebalancePolicy:
    """
    :raises errors.InputError: saying what is wrong
    """
    given = spec.items(text, _ITEMS, _WHERE, _EXAMPLE)
    for key in ('every', 'moves'):
        if _ITEMS[key][0] not in given:
            raise errors.InputError(f'{key} is missing', _WHERE, _EXAMPLE)
    moves, share = given.pop('moves')
    return RebalancePolicy(moves=moves, moves_share=share, **given)


def _moves(text: str) -> tuple[int | None, float | None]:
    with contextlib.suppress(ValueError):
        if not text.endswith('%'):
            return spec.whole(text, _MOST_MOVES), None
        share = spec.positive(text[:-1])
        if share <= 100:
            return None, share / 100
    raise ValueError(f'{text!r} is neither a number from 1 to {_MOST_MOVES:,} '
                     'nor a share above 0%')


_ITEMS: spec.Items = {
    'every': ('every_hours', spec.hours), 'moves': ('moves', _moves),
    'from': ('from_hours', spec.hours)}
