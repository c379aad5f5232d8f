# SPDX-License-Identifier: Apache-2.0
"""When and how much is moved, as it is written on a command line.

``key=value`` items, separated by blanks:

* ``every=6h``: between two plans, in s, m, h or d;
* ``moves=1%``: of the guests that there are, or a number: at most, each time;
* ``from=30d``: after the first arrival, before which none is moved;
* ``for=16:2,32``: the sizes to make room for, in vCPUs, each with a weight (1
  if left out); without it, the size of which most was asked for lately.
"""

from collections.abc import Mapping
import dataclasses
import re
from typing import NoReturn

from nova_pinning import errors
from nova_pinning.simulation import spec

_WHERE = errors.Location('--rebalance')
_EXAMPLE = 'write it like every=6h moves=1%'
_KEYS = ('every', 'moves', 'from', 'for')
_MOST_MOVES = 100_000
_MOST_VCPUS = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePolicy:
    """How often guests are moved, how many, and to make room for what.

    :param every_hours: simulated time between two plans
    :param moves: at most, in each; None if a share says
    :param moves_share: at most, of the guests that there are by then
    :param from_hours: simulated time from the first arrival on in which no
        plan is made
    :param sizes: vCPUs of guests of one cell, each with a weight; () for the
        size of which most was asked for lately
    """

    every_hours: float
    moves: int | None = None
    moves_share: float | None = None
    from_hours: float = 0.0
    sizes: tuple[tuple[int, float], ...] = ()

    def most_moves(self, guests: int) -> int:
        """The moves that may be made while there are so many guests."""
        if self.moves is not None:
            return self.moves
        return max(1, int((self.moves_share or 0.0) * guests))


def parse(text: str) -> RebalancePolicy:
    """
    :raises errors.InputError: saying what is wrong
    """
    given = spec.items(text, _KEYS, _WHERE, _EXAMPLE)
    for key in ('every', 'moves'):
        if key not in given:
            _refuse(f'{key} is missing')
    moves, share = _moves(given['moves'])
    return RebalancePolicy(
        every_hours=_hours('every', given), moves=moves, moves_share=share,
        from_hours=_hours('from', given) if 'from' in given else 0.0,
        sizes=_sizes(given['for']) if 'for' in given else ())


def _refuse(message: str) -> NoReturn:
    raise errors.InputError(message, _WHERE, _EXAMPLE)


def _hours(key: str, given: Mapping[str, str]) -> float:
    try:
        return spec.hours(given[key])
    except ValueError as error:
        _refuse(f'{key} {error}')


def _moves(text: str) -> tuple[int | None, float | None]:
    number = text.removesuffix('%')
    if text != number:
        if _is_number(number) and 0 < float(number) <= 100:
            return None, float(number) / 100
    elif number.isascii() and number.isdecimal() and len(number) < 12 and (
            1 <= int(number) <= _MOST_MOVES):
        return int(number), None
    _refuse(f'moves {text!r} is neither a number from 1 to {_MOST_MOVES:,} '
            'nor a share above 0%')


def _sizes(text: str) -> tuple[tuple[int, float], ...]:
    sizes: dict[int, float] = {}
    for item in text.split(','):
        what, colon, weight = item.partition(':')
        if not (what.isascii() and what.isdecimal() and len(what) < 12
                and 1 <= int(what) <= _MOST_VCPUS
                and (not colon or _is_number(weight) and float(weight))):
            _refuse(f'for: {item!r} is not a number of vCPUs, or one with its '
                    'weight')
        if int(what) in sizes:
            _refuse(f'for: {what} appears twice')
        sizes[int(what)] = float(weight) if colon else 1.0
    return tuple(sizes.items())


def _is_number(text: str) -> bool:
    return re.fullmatch(r'[0-9]{1,9}(\.[0-9]{1,9})?', text,
                        re.ASCII) is not None
