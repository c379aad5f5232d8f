# SPDX-License-Identifier: Apache-2.0
"""The first assignment of guest cells to host cells, among all that there are.

Guest cells are rows and host cells are columns here; a bitmask for each row
tells which columns it may have.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_pinning.model import Reason
from nova_pinning.model import Refusal

#: Says why a set of host cells (given by their ids) will not do, or None.
SetCheck = Callable[[tuple[int, ...]], 'Reason | None']
#: Takes a step of a search; says True where there may be no more.
IsOver = Callable[[], bool]


class _Matching:
    """A matching of rows to columns, by Kuhn's augmenting paths.

    :param rows: a bitmask of allowed columns each
    """

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = rows
        #: The column of each row that is matched, and the reverse.
        self.column_of: dict[int, int] = {}
        self.row_of: dict[int, int] = {}

    def place(self, row: int, closed: int = 0) -> int | None:
        """Match row, moving others if need be, but into no closed column.

        :returns: None if it was matched, else the columns that were tried
            and the closed ones
        """
        tried = closed
        todo = self._rows[row] & ~tried
        while todo:
            bit = todo & -todo
            tried |= bit
            column = bit.bit_length() - 1
            other = self.row_of.get(column)
            reached = None if other is None else self.place(other, tried)
            if reached is None:
                self.put(row, column)
                return None
            tried |= reached
            todo = self._rows[row] & ~tried
        return tried

    def put(self, row: int, column: int) -> None:
        self.column_of[row] = column
        self.row_of[column] = row


def _can_match(rows: Sequence[int]) -> bool:
    """Whether each row can have its own column."""
    matching = _Matching(rows)
    return all(matching.place(row) is None for row in range(len(rows)))


def first_match(rows: Sequence[int]) -> list[int] | Refusal:
    """The first assignment, in lexicographic order, of rows to columns.

    Once there is a matching, each row in turn moves to the lowest column
    from which the rows after it can still be matched.

    :param rows: a bitmask of allowed columns each
    :returns: a column for each row
    """
    matching = _Matching(rows)
    for row in range(len(rows)):
        tried = matching.place(row)
        if tried is not None:
            return _contended(rows, tried)
    fixed = 0
    for row in range(len(rows)):
        old = matching.column_of[row]
        for column in columns_of(rows[row] & ~fixed):
            if column == old:
                break
            other = matching.row_of.get(column)
            del matching.row_of[old]
            matching.put(row, column)
            if other is None or matching.place(
                    other, fixed | 1 << column) is None:
                break
            matching.put(other, column)
            matching.put(row, old)
        fixed |= 1 << matching.column_of[row]
    return [matching.column_of[row] for row in range(len(rows))]


def _contended(rows: Sequence[int], columns: int) -> Refusal:
    """Too few host cells for the guest cells that fit nowhere else."""
    rivals = [row for row, mask in enumerate(rows) if not mask & ~columns]
    return Refusal(
        Reason.CELLS_CONTENDED,
        detail=(f'guest cells {", ".join(map(str, rivals))} have only '
                f'{bin(columns).count("1")} host cells with room for them'))


class _Over(Exception):
    """The search may take no more steps."""


def first_match_of_sets(
    rows: Sequence[int],
    labels: Sequence[Hashable],
    ids: Sequence[int],
    check: SetCheck,
    is_over: IsOver | None = None,
) -> tuple[list[int], int] | Refusal:
    """The first assignment whose set of columns passes the check.

    Columns with the same label that the same rows allow stand for each
    other, so of such columns the lowest free one is taken, and what remains
    possible depends only on how many of each kind are taken: a state. One
    that failed is not entered again, so no set is checked twice, nor is one
    from which the rows that are left have no match at all.

    :param rows: a bitmask of allowed columns each
    :param labels: for each column, what the check knows it by
    :param ids: for each column, the host cell's id
    :param is_over: asked for each state, so before each check
    :returns: the columns, and how many sets failed the check before
    """
    kind_of = _kinds(rows, labels)
    taken_per_kind = [0] * len(ids)
    dead: set[tuple[int, ...]] = set()
    chosen: list[int] = []
    reasons: list[Reason] = []

    def extend() -> bool:
        """Find columns for the rows that are left, if that can be done."""
        state = tuple(taken_per_kind)
        if state in dead:
            return False
        if is_over is not None and is_over():
            raise _Over
        if len(chosen) == len(rows):
            reason = check(tuple(sorted(ids[column] for column in chosen)))
            if reason is None:
                return True
            reasons.append(reason)
        elif _can_match(_without(rows[len(chosen):], chosen)):
            tried_kinds = set()
            for column in columns_of(rows[len(chosen)]):
                kind = kind_of[column]
                if column in chosen or kind in tried_kinds:
                    continue
                tried_kinds.add(kind)
                chosen.append(column)
                taken_per_kind[kind] += 1
                if extend():
                    return True
                taken_per_kind[kind] -= 1
                chosen.pop()
        dead.add(state)
        return False

    try:
        if extend():
            return chosen, len(reasons)
    except _Over:
        return Refusal(
            Reason.BUDGET, detail=f'{len(reasons)} sets of cells tried')
    reason = max(sorted(set(reasons)), key=reasons.count)
    return Refusal(reason, detail=f'{len(reasons)} sets of cells tried')


def _kinds(
    rows: Sequence[int], labels: Sequence[Hashable],
) -> list[int]:
    """For each column, a number that like columns share."""
    numbers: dict[Hashable, int] = {}
    return [
        numbers.setdefault(
            (label, tuple(row >> column & 1 for row in rows)), len(numbers))
        for column, label in enumerate(labels)]


def _without(rows: Sequence[int], columns: Sequence[int]) -> list[int]:
    """The rows with some columns no longer allowed."""
    taken = sum(1 << column for column in columns)
    return [row & ~taken for row in rows]


def columns_of(row: int) -> Iterator[int]:
    """The columns that a bitmask allows, lowest first."""
    while row:
        bit = row & -row
        yield bit.bit_length() - 1
        row ^= bit
