# SPDX-License-Identifier: Apache-2.0
"""Texts and tables on a console.

Lines have no blanks at their ends, and break after blanks only, or after the
commas of a list of CPUs that is longer than a line.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
import itertools
import re
import textwrap

import rich.console
import rich.text

from nova_pinning import spelling

# Longer lines are hard to read.
_MAX_TEXT_WIDTH = 100
# Texts that are narrower stand below their labels.
_MIN_PAIR_WIDTH = 16
_GAP = '  '


class _Wrapper(textwrap.TextWrapper):

    def _handle_long_word(self, chunks: list[str], line: list[str],
                          length: int, width: int) -> None:
        end = chunks[-1].rfind(',', 0, width - length) + 1
        if end:
            line.append(chunks[-1][:end])
            chunks[-1] = chunks[-1][end:]
        elif not line:
            super()._handle_long_word(chunks, line, length, width)


def wrap(text: str, width: int, indent: str = '',
         further: str = '') -> list[str]:
    """Break lines after blanks, and CPU lists that are longer at commas.

    :param indent: what the first line begins with
    :param further: what all others do
    """
    return _Wrapper(
        max(width, 1), initial_indent=indent, subsequent_indent=further,
        break_on_hyphens=False).wrap(text) or [indent.rstrip()]


def title(text: str, console: rich.console.Console) -> None:
    """Print what is above all else."""
    _print(rich.text.Text(text, 'bold'), console)


def heading(text: str, console: rich.console.Console) -> None:
    """Print what is above a text or table, after an empty line."""
    console.print()
    title(text, console)


def say(text: str, console: rich.console.Console, indent: str = '') -> None:
    """Print a text; its further lines are indented."""
    for line in wrap(
            ' '.join(text.split()), min(console.width, _MAX_TEXT_WIDTH),
            indent, f'{indent}{_GAP}'):
        _print(rich.text.Text(line), console)


def pairs(items: Iterable[tuple[str, str]],
          console: rich.console.Console) -> None:
    """Print labels and texts next to each other."""
    items = tuple(items)
    size = max((len(label) for label, _text in items), default=0)
    width = min(console.width, _MAX_TEXT_WIDTH)
    indent = ' ' * (size + 2 * len(_GAP))
    for label, text in items:
        if width - len(indent) < _MIN_PAIR_WIDTH:
            say(f'{label}: {text}', console, _GAP)
            continue
        first, *more = wrap(text, width, indent, indent)
        _print(rich.text.Text.assemble(
            _GAP, (label.ljust(size), 'dim'), first[size + len(_GAP):],
        ), console)
        for line in more:
            _print(rich.text.Text(line), console)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]],
          console: rich.console.Console,
          numbers: Collection[str] = ()) -> None:
    """Print a table; what it is too wide for is printed as pairs.

    :param columns: their names; the first tells the rows apart
    :param numbers: the columns that are aligned at their right
    """
    rows = tuple(rows)
    widths = _widths((columns, *rows), console.width)
    if widths is None:
        pairs(((row[0], '; '.join(
            f'{name}: {cell}' for name, cell in zip(columns[1:], row[1:])
            if cell)) for row in rows), console)
        return
    for row_index, row in enumerate((columns, *rows)):
        cells = [wrap(cell, width)
                 for cell, width in zip(row, widths)]
        for parts in itertools.zip_longest(*cells, fillvalue=''):
            line = _GAP.join(
                part.rjust(width) if name in numbers else part.ljust(width)
                for name, part, width in zip(columns, parts, widths))
            _print(rich.text.Text(line, '' if row_index else 'dim'), console)


def has_room(columns: Sequence[str], rows: Iterable[Sequence[str]],
             console: rich.console.Console) -> bool:
    """Whether the console is wide enough for a table."""
    return _widths((columns, *rows), console.width) is not None


def bar(filled: int, left: int, console: rich.console.Console) -> str:
    """A bar of so many characters, of those that the output can show."""
    try:
        '█░'.encode(console.encoding)
    except (LookupError, UnicodeEncodeError):
        return '#' * filled + '.' * left
    return '█' * filled + '░' * left


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """How wide each column is, None if there is no room for all."""
    columns = list(zip(*rows))
    least = [max(len(piece.rstrip()) for cell in column
                 for piece in re.split('(?<=[, ])', cell))
             for column in columns]
    widths = [max(map(len, column)) for column in columns]
    room = width - len(_GAP) * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        # The widest of those that can still do with less.
        widest = max(
            (column for column in range(len(widths))
             if widths[column] > least[column]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _print(text: rich.text.Text, console: rich.console.Console) -> None:
    # Names are those of files that others wrote.
    text.plain = spelling.printable(text.plain).rstrip()
    console.print(text, soft_wrap=True)
