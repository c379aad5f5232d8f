# SPDX-License-Identifier: Apache-2.0
"""The order in which nova takes the threads of a core.

Nova keeps them in a set and walks over what is left of it when taken CPUs are
removed. In which order that is depends on the numbers and, where they collide
in the set's table, on the order in which they were put in: nova itself comes
to another order then each time it reads a topology from its database.
"""

from collections.abc import Sequence
import functools
import itertools

#: With more threads than that not all orders are tried.
_MOST_THREADS = 4


@functools.lru_cache(maxsize=None)
def walk(core: tuple[int, ...]) -> tuple[int, ...]:
    """The order of a core's threads, or the first one that nova can have."""
    walks = [_walked(order) for order in _orders(core)]
    return core if core in walks else walks[0]


@functools.lru_cache(maxsize=None)
def _order(core: tuple[int, ...]) -> tuple[int, ...]:
    return next((order for order in _orders(core) if _walked(order) == core),
                core)


def as_set(core: Sequence[int]) -> set[int]:
    """A set over which nova walks in this order, if there is one."""
    return set(_order(tuple(core)))


def _orders(core: tuple[int, ...]) -> Sequence[tuple[int, ...]]:
    if len(core) > _MOST_THREADS:
        return [tuple(sorted(core))]
    return list(itertools.permutations(sorted(core)))


def _walked(order: tuple[int, ...]) -> tuple[int, ...]:
    # Python goes over the smaller one of two sets.
    return tuple(set(order) & {*order, -1})
