# SPDX-License-Identifier: Apache-2.0
"""Tables of typed columns: for people, and record by record for programs."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import itertools
import operator
import re
from typing import Any

import rich.console
import rich.text

from nova_pinning.document import quantities
from nova_pinning.host import words
from nova_pinning.presentation import printing

_GAP = '  '


class ColumnKind(enum.Enum):
    """What the values of a column are, which says how people see them."""

    TEXT = enum.auto()
    COUNT = enum.auto()
    #: In MiB.
    MEMORY = enum.auto()
    #: Of 1.
    SHARE = enum.auto()
    #: In seconds.
    SPAN = enum.auto()


_SHOWN: Mapping[ColumnKind, Callable[[Any], str]] = {
    ColumnKind.TEXT: str,
    ColumnKind.COUNT: '{:,}'.format,
    ColumnKind.MEMORY: quantities.shown_memory,
    ColumnKind.SHARE: '{:.1%}'.format,
    ColumnKind.SPAN: words.span}


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    :param key: of its values in records, '' if these have none; a row that
        is a mapping has the value under it, an object as its attribute
    :param title: for people; None for a column that they are not shown
    :param of: what makes the value of a row, or an attribute of it such as
        'move.guest', if it is not under the key. A value is None where there
        is none, or a text to be shown in its place
    :param rank: where there is no room for all columns, those of the largest
        rank are left out first; 0 for one that stays
    :param style: rich's, of a value as people are shown it
    """

    key: str = ''
    title: str | None = None
    kind: ColumnKind = ColumnKind.TEXT
    of: Callable[[Any], Any] | str = ''
    rank: int = 0
    style: Callable[[str], str] = lambda shown: ''


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows, and what there is to say of each.

    :param columns: a text stands for a column of texts with that title
    :param rows: objects, mappings, or tuples with a value for each column
    :param is_whole: whether columns are left out rather than texts broken
    """

    columns: Sequence[Column | str]
    rows: Iterable[Any]
    is_whole: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Those of the records, in the order of the columns."""
        return tuple(column.key for column in self._columns if column.key)

    @property
    def _columns(self) -> list[Column]:
        return [Column(title=column) if isinstance(column, str) else column
                for column in self.columns]

    def records(self) -> Iterator[dict[str, Any]]:
        """The values of each row, by their keys."""
        columns = [(place, column) for place, column
                   in enumerate(self._columns) if column.key]
        for row in self.rows:
            yield {column.key: _value(row, column, place)
                   for place, column in columns}

    def parts(self) -> list[tuple[Column, list[str]]]:
        """The columns that people are shown, with the text of each row.

        One in which no row has anything tells nothing, and is left out.
        """
        rows = list(self.rows)
        parts = [(column, [_shown(row, column, place) for row in rows])
                 for place, column in enumerate(self._columns)
                 if column.title is not None]
        return [(column, texts) for column, texts in parts if any(texts)]

    def show(self, console: rich.console.Console,
             indent: str = '') -> list[str]:
        """Print it for people.

        If there is too little room even for the columns that stay, each row
        becomes a text.

        :returns: the titles of columns that there was no room for
        """
        parts = self.parts()
        left_out: list[str] = []
        room = console.width - len(indent)
        while not (widths := _widths(parts, room, self.is_whole)):
            column, texts = max(parts, key=lambda part: part[0].rank,
                                default=(Column(), []))
            if not column.rank:
                widths = _widths(parts, room, False)
                break
            parts.remove((column, texts))
            left_out.append(str(column.title))
        if widths:
            _show_lines(parts, widths, indent, console)
        else:
            _show_texts(parts, console)
        return left_out


def count(title: str) -> Column:
    """A column of whole numbers that is for people only."""
    return Column(title=title, kind=ColumnKind.COUNT)


def of_keys(keys: Iterable[str], rows: Iterable[Any]) -> Table:
    """A table that is for programs only."""
    return Table(tuple(map(Column, keys)), rows)


def show(columns: Sequence[Column | str], rows: Iterable[Any],
         console: rich.console.Console) -> None:
    """Print a table that is for people only."""
    Table(columns, rows).show(console)


_Part = tuple[Column, list[str]]


def _value(row: Any, column: Column, place: int = 0) -> Any:
    if callable(column.of):
        return column.of(row)
    if isinstance(row, Mapping):
        return row.get(column.key)
    # A named tuple has attributes.
    return (row[place] if type(row) in (tuple, list)
            else operator.attrgetter(column.of or column.key)(row))


def _shown(row: Any, column: Column, place: int) -> str:
    value = _value(row, column, place)
    if value is None or isinstance(value, str):
        return str(value or '')
    return _SHOWN[column.kind](value)


def _widths(parts: Sequence[_Part], room: int,
            is_whole: bool) -> list[int] | None:
    """How wide each column is, None if there is no room for all.

    :param is_whole: whether none can be narrower than its widest text
    """
    columns = [(str(column.title), *texts) for column, texts in parts]
    widths = [max(map(len, column)) for column in columns]
    least = widths if is_whole else [
        max(len(piece.rstrip()) for cell in column
            for piece in re.split('(?<=[, ])', cell)) for column in columns]
    room -= len(_GAP) * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        # The widest of those that can still do with less.
        widest = max(
            (column for column in range(len(widths))
             if widths[column] > least[column]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _show_lines(parts: Sequence[_Part], widths: Sequence[int], indent: str,
                console: rich.console.Console) -> None:
    columns = [column for column, _texts in parts]
    titles = [str(column.title) for column in columns]
    rows = [([(text, column.style(text)) for text, column
              in zip(row, columns)])
            for row in zip(*(texts for _column, texts in parts))]
    if any(titles):
        rows.insert(0, [(title, 'dim') for title in titles])
    for row in rows:
        cells = [printing.wrap(text, width)
                 for (text, _style), width in zip(row, widths)]
        for pieces in itertools.zip_longest(*cells, fillvalue=''):
            line = rich.text.Text(indent)
            for number, (column, piece, (_text, style), width) in enumerate(
                    zip(columns, pieces, row, widths)):
                line.append(_GAP if number else '').append(
                    piece.ljust(width) if column.kind is ColumnKind.TEXT
                    else piece.rjust(width), style)
            printing.line(line, console)


def _show_texts(parts: Sequence[_Part],
                console: rich.console.Console) -> None:
    """Print each row as a label, which is its first text, and a text."""
    titles = [column.title for column, _texts in parts]
    printing.pairs([
        (row[0], '; '.join(f'{title}: {text}' for title, text
                           in zip(titles[1:], row[1:]) if text))
        for row in zip(*(texts for _column, texts in parts))], console)
