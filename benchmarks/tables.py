# SPDX-License-Identifier: Apache-2.0
"""Tables of figures, for a terminal and for the documentation."""

from collections.abc import Container
from collections.abc import Sequence
import dataclasses
import textwrap

_WIDTH = 79


@dataclasses.dataclass(frozen=True, slots=True)
class FigureTable:
    """A table, and what its figures are.

    :param grid: the headings, and a row for each case
    :param numbers: the columns that are flush right
    """

    grid: Sequence[Sequence[str]]
    text: str = ''
    numbers: Container[int] = ()

    @property
    def lines(self) -> list[str]:
        """For a terminal, and for the documentation."""
        widths = [max(map(len, column)) for column in zip(*self.grid)]
        rule = '  '.join('=' * width for width in widths)
        rows = ['  '.join(
            cell.rjust(width) if column in self.numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in self.grid]
        text = textwrap.wrap(self.text, _WIDTH)
        return [rule, rows[0], rule, *rows[1:], rule, '', *text,
                *[''][:len(text)]]
