# SPDX-License-Identifier: Apache-2.0
"""Masks of the ways of an L3 cache, and which ways everybody keeps.

Masks are integers; bit n is a *way*. See the kernel's
Documentation/filesystems/resctrl.rst.
"""

from collections.abc import Iterator
import functools
from typing import NamedTuple


class Slot(NamedTuple):
    """What a group of resctrl has a mask of its own for.

    :param line: of its schemata: 'L3', or 'L3CODE' and 'L3DATA' where code
        and data are apart (CDP); they are about the same ways
    :param domain: the id of the L3 cache
    """

    line: str
    domain: int


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """The runs of bits of a mask: first bit, and the one behind the last."""
    while mask:
        first = (mask & -mask).bit_length() - 1
        end = first
        while mask >> end & 1:
            end += 1
        yield first, end
        mask &= ~_run(first, end)


def longest_run(mask: int) -> tuple[int, int]:
    """The longest run of bits of a mask, as :func:`runs` has it."""
    return max(runs(mask), key=lambda run: run[1] - run[0], default=(0, 0))


def is_contiguous(mask: int) -> bool:
    """Whether a mask is one run of bits."""
    return len(list(runs(mask))) == 1


@functools.lru_cache
def kept(ways: int, least: int, shareable: int) -> int:
    """The ways that everybody else always has: one run of bits.

    It has all that devices use, since nobody could have those for himself,
    and lies at the end where they are.

    :param ways: how many ways the cache has
    :param least: how many are kept, at the least
    :param shareable: the mask of ways that devices use too (shareable_bits)
    """
    length = min(least, ways)
    if not shareable:
        return _run(ways - length, ways)
    first = (shareable & -shareable).bit_length() - 1
    end = shareable.bit_length()
    missing = max(0, length - (end - first))
    if ways - end <= first:
        # Nearer to the upper end: up to there, then down.
        upwards = min(missing, max(0, ways - end))
        return _run(first - (missing - upwards), end + upwards)
    downwards = min(missing, first)
    return _run(first - downwards, end + missing - downwards)


def _run(first: int, end: int) -> int:
    return (1 << end) - (1 << first)
