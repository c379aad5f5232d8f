# SPDX-License-Identifier: Apache-2.0
"""Rectangles for an SVG drawing, and how to lay them out.

A box is a piece of SVG and the room it takes, drawn from its own upper left
corner. Boxes are put together into larger ones until the drawing is one box.
"""

from collections.abc import Sequence
import dataclasses
import math
import re
import unicodedata

#: Between a frame and what is in it.
PADDING = 10


@dataclasses.dataclass(frozen=True, slots=True)
class SvgBox:
    """A piece of SVG and its size in user units."""

    width: float
    height: float
    svg: str = ''


def rectangle(
    x: float, y: float, width: float, height: float, style: str,
    radius: float,
) -> str:
    return (f'<rect class="{style}" x="{number(x)}" y="{number(y)}" '
            f'width="{number(width)}" height="{number(height)}" '
            f'rx="{number(radius)}"/>')


def at(x: float, y: float, box: SvgBox) -> str:
    """The SVG of a box that is put somewhere else."""
    return (f'<g transform="translate({number(x)},{number(y)})">'
            f'{box.svg}</g>')


def grid(boxes: Sequence[SvgBox], columns: int, gap: float) -> SvgBox:
    """Boxes in rows, each column and each row as large as its largest.

    :param boxes: at least one
    """
    rows = [boxes[first:first + columns]
            for first in range(0, len(boxes), columns)]
    widths = [max(box.width for box in boxes[column::columns])
              for column in range(min(columns, len(boxes)))]
    heights = [max(box.height for box in row) for row in rows]
    svg = []
    y = 0.0
    for row, height in zip(rows, heights):
        x = 0.0
        for box, width in zip(row, widths):
            svg.append(at(x, y, box))
            x += width + gap
        y += height + gap
    return SvgBox(sum(widths) + gap * (len(widths) - 1), y - gap, ''.join(svg))


def framed(
    inner: Sequence[SvgBox], style: str, padding: float = PADDING,
) -> list[SvgBox]:
    """Each box in a frame, all frames of one size."""
    width = max((box.width for box in inner), default=0) + 2 * padding
    height = max((box.height for box in inner), default=0) + 2 * padding
    return [
        SvgBox(width, height,
               rectangle(0, 0, width, height, style, 8)
               + at(padding, padding, box)) for box in inner]


def framed_grid(
    inner: Sequence[SvgBox], style: str, ratio: float, gap: float,
) -> SvgBox:
    """Boxes in frames, all as wide, and those of a row as high.

    :param inner: at least one
    :param ratio: of width to height, which the whole comes near
    """
    columns = columns_for(framed(inner, style), gap, ratio)
    widest = SvgBox(max(box.width for box in inner), 0)
    frames: list[SvgBox] = []
    for first in range(0, len(inner), columns):
        row = inner[first:first + columns]
        frames += framed([*row, widest], style)[:-1]
    return grid(frames, columns, gap)


def columns_for(boxes: Sequence[SvgBox], gap: float, ratio: float) -> int:
    """How many columns bring a grid nearest to a ratio of width to height.

    Places that would be left empty in the last row count against it.
    """
    width = max(box.width for box in boxes) + gap
    height = max(box.height for box in boxes) + gap

    def cost(columns: int) -> float:
        rows = math.ceil(len(boxes) / columns)
        empty = (rows * columns - len(boxes)) / len(boxes)
        shape = columns * width / (rows * height) / ratio
        return abs(math.log(shape)) + 2 * empty
    return min(range(1, len(boxes) + 1), key=cost)


def text_width(content: str, size: float) -> float:
    """About how wide a text is, in a font a little wider than most.

    :param size: font size in user units
    """
    return size * sum(
        1.0 if unicodedata.east_asian_width(letter) in 'FW' else
        0.36 if letter in " .,:;|!'iIjl()[]-" else
        0.92 if letter in 'MW@m%w' else 0.66
        for letter in content)


def shorten(content: str, width: float, size: float) -> str:
    """A text, cut off where it would be wider than width."""
    if text_width(content, size) <= width:
        return content
    while content and text_width(f'{content}…', size) > width:
        content = content[:-1]
    return f'{content}…'


def wrap(content: str, width: float, size: float) -> list[str]:
    """Break a text after blanks, and after commas, as CPU lists have them."""
    lines = ['']
    for piece in re.split(r'(?<=[, ])', content):
        together = (lines[-1] + piece).rstrip()
        if lines[-1] and text_width(together, size) > width:
            lines.append('')
        lines[-1] += piece
    return [shorten(line.rstrip(), width, size) for line in lines]


def number(value: float) -> str:
    """A number in few letters."""
    return f'{value:.1f}'.removesuffix('.0')
