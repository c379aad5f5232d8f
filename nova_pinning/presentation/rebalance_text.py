# SPDX-License-Identifier: Apache-2.0
"""A plan of moves for people."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

import rich.console

from nova_pinning.document import quantities
from nova_pinning.host import words
from nova_pinning.presentation import console_drawing
from nova_pinning.presentation import printing
from nova_pinning.presentation import rebalance_drawing
from nova_pinning.presentation import rebalance_picture
from nova_pinning.presentation import rebalance_report
from nova_pinning.rebalance import plan_model


def show(plan: plan_model.RebalancePlan, console: rich.console.Console,
         picture: rebalance_picture.MovePicture | None = None,
         most: int | None = None) -> None:
    """Print what a plan gains and costs, its moves, and a drawing.

    :param picture: of the plan, None for no drawing
    :param most: hosts that are drawn, None for all
    """
    printing.title(rebalance_report.title(plan), console)
    for remark in rebalance_report.remarks(plan):
        printing.say(remark, console, '  ')
    if plan.stuck:
        printing.heading('What stands in the way', console)
        printing.table(
            ('guest', 'host', 'why'),
            [(guest.name or guest.guest, guest.host, guest.reason)
             for guest in plan.stuck], console)
    if plan.moves:
        printing.heading('Moves', console)
        moves(plan, console)
    if picture is not None and picture.hosts:
        printing.heading('Before and after', console)
        console_drawing.show(console, rebalance_drawing.draw(
            picture, console.width, most), rebalance_drawing.style)
        left = len(picture.hosts) - len(picture.hosts[:most])
        if left:
            printing.say(
                f'{words.count(left, "more host")} '
                f'{"is" if left == 1 else "are"} drawn with --drawing, or in '
                'a file with --svg', console, '  ')


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
    columns = list(_columns(plan))
    cells = {column.name: [column.shown(move) for move in plan.moves]
             for column in columns}
    # What is the same everywhere and empty tells nothing.
    columns = [column for column in columns if any(cells[column.name])]
    while True:
        names = [column.name for column in columns]
        rows: Sequence[Sequence[str]] = list(
            zip(*(cells[name] for name in names)))
        last = max(columns, key=lambda column: column.rank)
        if not last.rank or printing.has_room(names, rows, console):
            break
        columns.remove(last)
    printing.table(names, rows, console, [
        column.name for column in columns if column.is_number])


def _columns(plan: plan_model.RebalancePlan) -> Iterator[_Column]:
    letters = {guest.guest: guest.letter
               for guest in rebalance_picture.moved_guests(plan)}
    steps = iter(rebalance_report.steps(plan))
    has_cold = any(move.kind is plan_model.MigrationKind.COLD
                   for move in plan.moves)
    yield _Column('', lambda move: letters[move.guest])
    yield _Column('step', lambda move: str(next(steps)), is_number=True)
    yield _Column('guest', lambda move: move.name or move.guest)
    yield _Column('flavor', lambda move: move.flavor, 5)
    yield _Column('vCPUs', lambda move: str(move.vcpus), 1, is_number=True)
    yield _Column(
        'memory', lambda move: quantities.shown_memory(move.memory_mib), 3,
        is_number=True)
    yield _Column('from', lambda move: rebalance_report.on_host(
        move.source, move.source_fit))
    yield _Column('to', _target)
    yield _Column('CPUs there', lambda move: rebalance_report.cpus(
        move.target_fit), 6)
    yield _Column('how', lambda move: str(move.kind) if has_cold else '', 2)
    yield _Column(
        'time', lambda move: '' if move.seconds is None
        else rebalance_report.span(move.seconds), 4, is_number=True)


def _target(move: plan_model.PlannedMove) -> str:
    text = rebalance_report.on_host(move.target, move.target_fit)
    return f'{text}, for a time' if move.is_parking else text
