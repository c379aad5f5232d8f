# SPDX-License-Identifier: Apache-2.0
"""Whether a plan of moves still holds, for people and for machines."""

from collections.abc import Sequence
from typing import Any

import rich.console

from nova_pinning.host import words
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import printing
from nova_pinning.presentation import rebalance_report
from nova_pinning.presentation import typed_table
from nova_pinning.rebalance import plan_check
from nova_pinning.rebalance import plan_model


def moves(checked: plan_check.PlanCheck,
          shown: Sequence[plan_check.MoveCheck]) -> typed_table.Table:
    """A row for each move that is to be shown."""
    letters = moves_drawing.letters(
        check.move.guest for check in checked.moves)
    column = typed_table.Column
    return typed_table.Table((
        column('move', of='number'),
        column('', '', of=lambda check: letters[check.move.guest]),
        column('guest', of='move.guest'),
        column('name', of='move.name'),
        column('', 'guest',
               of=lambda check: check.move.name or check.move.guest),
        column('source', 'from', of='move.source'),
        column('target', 'to', of='move.target'),
        column('outcome', 'move'),
        column('reason', 'because')), shown)


def as_dict(checked: plan_check.PlanCheck) -> dict[str, Any]:
    """All of it for JSON."""
    return {
        'version': 1,
        'holds': checked.holds,
        'is_same_state': checked.is_same_state,
        'moves': list(moves(checked, checked.moves).records()),
        'staying': [
            {'guest': guest.uuid, 'name': guest.name, 'host': guest.host}
            for guest in checked.staying],
        'gains': [{'size': gain.size, 'before': gain.before,
                   'after': gain.after} for gain in checked.gains]}


def show(checked: plan_check.PlanCheck, plan: plan_model.RebalancePlan,
         console: rich.console.Console, again: str = '') -> None:
    """Print whether it holds, and what does not.

    :param plan: that was checked
    :param again: the command that makes a new plan; '' to say none
    """
    if checked.is_other_fleet:
        printing.title('The plan is for another fleet', console)
        printing.say('None of its hosts is in this one.', console, '  ')
        return
    odd = [check for check in checked.moves if not check.is_sound]
    done = sum(check.outcome is plan_check.MoveOutcome.DONE
               for check in checked.moves)
    printing.title('The plan holds' if checked.holds
                   else 'The plan does not hold any more', console)
    if checked.moves:
        printing.say(
            f'{len(checked.moves) - len(odd):,} of '
            f'{words.count(len(checked.moves), "move")} '
            f'{"is" if len(checked.moves) - len(odd) == 1 else "are"} as '
            'planned' + (f', of which {done:,} '
                         f'{"is" if done == 1 else "are"} made already.'
                         if done else '.'), console, '  ')
    printing.say(
        'The fleet is in the state that the plan is made for.'
        if checked.is_same_state else
        'The fleet has changed since the plan was made.', console, '  ')
    planned = {gain.size: gain for gain in plan.gains}
    for gain in checked.gains:
        text = (f'{rebalance_report.size_name(gain.size)}: {gain.before:,} '
                f'fit now, {gain.after:,} after')
        was = planned.get(gain.size)
        if was and was.after != gain.after:
            text += (f' the moves that can be made; planned were '
                     f'{was.after:,}')
        printing.say(f'{text}.', console, '  ')
    if odd:
        printing.heading('Moves that are not as planned', console)
        moves(checked, odd).show(console)
    if checked.staying:
        printing.heading('Guests that would stay on hosts to be emptied',
                         console)
        typed_table.show(('guest', 'host'), [
            (guest.name or guest.uuid, guest.host)
            for guest in checked.staying], console)
    if again:
        printing.heading('To plan anew by the same wishes', console)
        # In one line, to be copied.
        console.print(again, soft_wrap=True, markup=False, highlight=False)
