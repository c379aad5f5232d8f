# SPDX-License-Identifier: Apache-2.0
"""Whether a plan of moves still holds, for people and for machines."""

from collections.abc import Iterator
from typing import Any

import rich.console

from nova_pinning.host import words
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import printing
from nova_pinning.presentation import rebalance_report
from nova_pinning.rebalance import plan_check
from nova_pinning.rebalance import plan_model

#: The columns of :func:`rows`.
COLUMNS = ('move', 'guest', 'name', 'source', 'target', 'outcome', 'reason')


def rows(checked: plan_check.PlanCheck) -> Iterator[dict[str, Any]]:
    """One for each move, in their order."""
    for check in checked.moves:
        move = check.move
        yield {'move': check.number, 'guest': move.guest, 'name': move.name,
               'source': move.source, 'target': move.target,
               'outcome': str(check.outcome), 'reason': check.reason}


def as_dict(checked: plan_check.PlanCheck) -> dict[str, Any]:
    """All of it for JSON."""
    return {
        'version': 1,
        'holds': checked.holds,
        'is_same_state': checked.is_same_state,
        'moves': list(rows(checked)),
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
        letters = moves_drawing.letters(
            check.move.guest for check in checked.moves)
        printing.table(
            ('', 'guest', 'from', 'to', 'move', 'because'),
            [(letters[check.move.guest], check.move.name or check.move.guest,
              check.move.source, check.move.target, str(check.outcome),
              check.reason) for check in odd], console)
    if checked.staying:
        printing.heading('Guests that would stay on hosts to be emptied',
                         console)
        printing.table(('guest', 'host'), [
            (guest.name or guest.uuid, guest.host)
            for guest in checked.staying], console)
    if again:
        printing.heading('To plan anew by the same wishes', console)
        # In one line, to be copied.
        console.print(again, soft_wrap=True, markup=False, highlight=False)
