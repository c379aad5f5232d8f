# SPDX-License-Identifier: Apache-2.0
"""Values and intervals as pieces of SVG, to stand in the rows of a table.

The row says what they are, and the page has their colours.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import math
from typing import NamedTuple

from nova_pinning.instance_bench import intervals

# From where to where a mark goes, in pixels; one without height is as high as
# its line is wide.
_HEIGHTS = {'one': (0, 16), 'ends': (8, 8), 'run': (8, 8), 'outlier': (8, 8),
            'mean': (2, 14)}


class Strip(NamedTuple):
    """What is drawn of a row.

    :param values: that the interval is of; empty for a ratio
    :param outliers: those of them that are drawn as such
    """

    interval: intervals.Interval
    values: tuple[float, ...] = ()
    outliers: tuple[float, ...] = ()


def draw(strips: Sequence[Strip]) -> list[str]:
    """Each as an element of SVG as wide as its place, all on one scale.

    Ratios are drawn by their logarithms, with a line at 1.
    """
    is_ratio = not any(strip.values for strip in strips)
    scale = math.log if is_ratio else float
    drawn = [[(kind, scale(first), scale(last))
              for kind, first, last in _marks(strip, is_ratio)
              if math.isfinite(last) and (first > 0 or not is_ratio)]
             for strip in strips]
    low = min((first for marks in drawn for _kind, first, _last in marks),
              default=0)
    high = max((last for marks in drawn for _kind, _first, last in marks),
               default=0)
    unit = 100 / ((high - low) or 1)
    return ['<svg aria-hidden="true">' + ''.join(
        f'<line class="{kind}" x1="{unit * (first - low):.1f}%" '
        f'x2="{unit * (last - low):.1f}%" '
        'y1="{}" y2="{}"/>'.format(*_HEIGHTS[kind])
        for kind, first, last in marks) + '</svg>' for marks in drawn]


def _marks(strip: Strip,
           is_ratio: bool) -> Iterator[tuple[str, float, float]]:
    """What they are, and from which value to which."""
    interval, values, outliers = strip
    if is_ratio:
        yield 'one', 1.0, 1.0
    if interval.is_known and not interval.is_vague:
        yield 'ends', interval.low, interval.high
    for value in values:
        yield 'outlier' if value in outliers else 'run', value, value
    yield 'mean', interval.value, interval.value
