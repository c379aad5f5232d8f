# SPDX-License-Identifier: Apache-2.0
"""Which actions have to end before which: their positions, as Watcher's
parents."""

from collections.abc import Sequence

#: For each action the positions of those before it that have to end first.
Order = Sequence[Sequence[int]]


def one_by_one(count: int) -> Order:
    """The order in which each waits for the one before it."""
    return [(position - 1,) if position else () for position in range(count)]


def behind(firsts: int, order: Order) -> Order:
    """The order with so many actions in front, for which all others wait."""
    return [*[()] * firsts,
            *[(*range(firsts), *(parent + firsts for parent in parents))
              for parents in order]]


def limited(order: Order, most: int) -> Order:
    """The order in which so many run at a time at most.

    Each waits for the one ``most`` places before it, too, so there are as many
    lanes.
    """
    return [sorted({*parents, *([position - most] if position >= most
                                else [])})
            for position, parents in enumerate(order)]
