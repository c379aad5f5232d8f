# SPDX-License-Identifier: Apache-2.0
"""A plan of moves for people."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
from typing import TypeVar

import rich.console

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import words
from nova_pinning.presentation import drawing
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import printing
from nova_pinning.presentation import rebalance_report
from nova_pinning.presentation import terminal_drawing
from nova_pinning.rebalance import plan_model

_Key = TypeVar('_Key')
# Guests that are named where several are alike.
_NAMES = 6


def show(plan: plan_model.RebalancePlan, drawn: drawing.Drawing,
         console: rich.console.Console, most: int | None = None) -> None:
    """Print what a plan gains and costs, its moves, and a drawing.

    :param drawn: the plan, with its title and what is worth knowing of it
    :param most: hosts that are drawn, None for all
    """
    printing.title(drawn.title, console)
    for remark in drawn.remarks:
        printing.say(remark, console, '  ')
    if plan.stuck:
        printing.heading('What stands in the way', console)
        printing.table(
            ('guests', 'host', 'why'),
            [(guests, host, reason) for (host, reason), guests in _alike(
                ((guest.host, guest.reason), guest.name or guest.guest)
                for guest in plan.stuck)], console)
    if plan.moves:
        printing.heading('Moves', console)
        moves(plan, console)
        reasons = list(_alike(
            (move.cold_reason, move.name or move.guest)
            for move in plan.moves if move.cold_reason))
        if reasons:
            printing.heading('Why not live', console)
            printing.table(('guests', 'why'), [
                (guests, reason) for reason, guests in reasons], console)
    if drawn.hosts:
        printing.heading('Before and after', console)
        terminal_drawing.show(
            moves_drawing.beside_table(drawn), console, most)
        left = len(drawn.hosts) - len(drawn.hosts[:most])
        if left:
            printing.say(
                f'{words.count(left, "more host")} '
                f'{"is" if left == 1 else "are"} drawn with --drawing, or in '
                'a file with --svg', console, '  ')


def _alike(named: Iterable[tuple[_Key, str]]) -> Iterator[tuple[_Key, str]]:
    """The names of what is alike, a few of each."""
    groups: dict[_Key, list[str]] = {}
    for key, name in named:
        groups.setdefault(key, []).append(name)
    for key, names in groups.items():
        more = len(names) - _NAMES
        yield key, ', '.join(names[:_NAMES]) + (
            f' and {more:,} more' if more > 0 else '')


@dataclasses.dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table of moves.

    :param shown: what it has of a move
    :param rank: where there is too little room, the largest goes first; 0
        stays
    """

    name: str
    shown: Callable[[plan_model.PlannedMove], str]
    rank: int = 0
    is_number: bool = False


def moves(plan: plan_model.RebalancePlan,
          console: rich.console.Console) -> None:
    """Print the table of moves, as much of it as fits."""
    shown = [(column, [column.shown(move) for move in plan.moves])
             for column in _columns(plan)]
    # What is empty everywhere tells nothing.
    shown = [(column, cells) for column, cells in shown if any(cells)]
    while _width(shown) > console.width:
        last = max((column for column, _cells in shown),
                   key=lambda column: column.rank)
        if not last.rank:
            break
        shown = [(column, cells) for column, cells in shown
                 if column is not last]
    printing.table(
        [column.name for column, _cells in shown],
        list(zip(*(cells for _column, cells in shown))), console,
        [column.name for column, _cells in shown if column.is_number])


def _width(shown: Sequence[tuple[_Column, Sequence[str]]]) -> int:
    """Of a table in which no cell is broken."""
    return sum(max(len(text) for text in (column.name, *cells)) + 2
               for column, cells in shown) - 2


def _columns(plan: plan_model.RebalancePlan) -> Iterator[_Column]:
    letters = moves_drawing.letters(move.guest for move in plan.moves)
    steps = iter(rebalance_report.steps(plan))
    has_cold = any(move.kind is plan_model.MigrationKind.COLD
                   for move in plan.moves)
    yield _Column('', lambda move: letters[move.guest])
    yield _Column('step', lambda move: str(next(steps)), is_number=True)
    yield _Column('guest', lambda move: move.name or move.guest)
    yield _Column('flavor', lambda move: move.flavor, 6)
    yield _Column('vCPUs', lambda move: str(move.vcpus), 1, is_number=True)
    yield _Column(
        'memory', lambda move: quantities.shown_memory(move.memory_mib), 3,
        is_number=True)
    yield _Column('from', lambda move: move.source)
    yield _Column('cell', lambda move: rebalance_report.cells(
        move.source_fit), 4)
    yield _Column('to', lambda move: move.target)
    yield _Column('cell', lambda move: rebalance_report.cells(
        move.target_fit), 2)
    yield _Column('CPUs', _cpus, 7)
    yield _Column('how', lambda move: str(move.kind) if has_cold else '', 1)
    yield _Column(
        'time', lambda move: '' if move.seconds is None
        else rebalance_report.span(move.seconds), 5, is_number=True)
    yield _Column(
        'note', lambda move: 'moves on later' if move.is_parking else '')


def _cpus(move: plan_model.PlannedMove) -> str:
    """The CPUs that a guest gets, whichever vCPU has which."""
    if move.target_fit is None:
        return ''
    return str(cpuset.CpuSet(cpu for cell in move.target_fit.cells
                             for _vcpu, cpu in cell.pins))
