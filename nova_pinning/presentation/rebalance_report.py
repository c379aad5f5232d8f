# SPDX-License-Identifier: Apache-2.0
"""A plan of moves: what it gains, what it costs, and each of its moves."""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import TypeVar

import rich.console

from nova_pinning import cpuset
from nova_pinning.document import cpu_sequence
from nova_pinning.document import quantities
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.presentation import drawing
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import printing
from nova_pinning.presentation import terminal_drawing
from nova_pinning.presentation import typed_table
from nova_pinning.rebalance import move_cost
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request

_Key = TypeVar('_Key')
# Hosts, and guests that are alike, that are named before others are counted.
_HOSTS_NAMED = 3
_GUESTS_NAMED = 6


def steps(plan: plan_model.RebalancePlan) -> tuple[int, ...]:
    """The step that each move is done in, counted from 1.

    Moves of a step can be done at the same time, once those of the steps
    before are done.
    """
    found: list[int] = []
    for move in plan.moves:
        found.append(1 + max((found[place] for place in move.after),
                             default=0))
    return tuple(found)


def moves(plan: plan_model.RebalancePlan) -> typed_table.Table:
    """A row for each move, in their order."""
    letters = moves_drawing.letters(move.guest for move in plan.moves)
    has_cold = any(move.kind is plan_model.MigrationKind.COLD
                   for move in plan.moves)
    column, kind = typed_table.Column, typed_table.ColumnKind
    return typed_table.Table((
        column('move'),
        column('', '', of=lambda row: letters[row['guest']]),
        column('step', 'step', kind.COUNT),
        column('guest'),
        column('name'),
        column('', 'guest', of=lambda row: row['name'] or row['guest']),
        column('flavor', 'flavor', rank=6),
        column('vcpus', 'vCPUs', kind.COUNT, rank=1),
        column('memory_mib', 'memory', kind.MEMORY, rank=3),
        column('disk_gib'),
        column('source', 'from'),
        column('source_cells', 'cell', of=lambda row: cells(
            row['source_fit']), rank=4),
        column('target', 'to'),
        column('target_cells', 'cell', of=lambda row: cells(
            row['target_fit']), rank=2),
        column('target_cpus', of=lambda row: _cpus(row['target_fit'])),
        # Whichever vCPU has which.
        column('', 'CPUs', of=lambda row: str(cpuset.CpuSet(
            cpu for _vcpu, cpu in _pins(row['target_fit']))), rank=7),
        column('kind', 'how' if has_cold else None, rank=1),
        column('seconds', 'time', kind.SPAN, rank=5),
        column('is_parking'),
        column('', 'note', of=lambda row: (
            'moves on later' if row['is_parking'] else '')),
    ), [{'move': number, 'step': step,
         **{name: getattr(move, name) for name in move.__slots__}}
        for number, (move, step) in enumerate(zip(plan.moves, steps(plan)))],
        is_whole=True)


def cells(fit: model.Fit | None) -> str:
    """The host cells of a guest's cells: '0,1'; '' for a floating guest."""
    return '' if fit is None else ','.join(
        str(cell.host_cell) for cell in fit.cells)


def _pins(fit: model.Fit | None) -> list[tuple[int, int]]:
    """A guest's vCPUs, each with its host CPU."""
    return [pin for cell in fit.cells for pin in cell.pins] if fit else []


def _cpus(fit: model.Fit | None) -> str:
    """The host CPUs of a guest's vCPUs, in the order of these."""
    return cpu_sequence.text_of(tuple(cpu for _vcpu, cpu in _pins(fit)))


def title(plan: plan_model.RebalancePlan) -> str:
    """What the plan is, in a line."""
    if plan.goal is plan_model.PlanGoal.DRAIN:
        return _drain_title(plan)
    if not plan.moves:
        return _nothing_title(plan)
    gained = [(gain.size, gain.after - gain.before) for gain in plan.gains]
    if not gained:
        return _moves(plan)
    if len(gained) == 1:
        (size, more), = gained
        verb = 'makes' if len(plan.moves) == 1 else 'make'
        return (f'{_moves(plan)} {verb} room for {more:,} more '
                f'{"guest" if more == 1 else "guests"} of {size_name(size)}')
    return f'{_moves(plan)}: ' + ', '.join(
        f'{more:+,} of {size_name(size)}' for size, more in gained)


def _nothing_title(plan: plan_model.RebalancePlan) -> str:
    if plan.until is not None and plan.gains and (
            plan.gains[0].before >= plan.until):
        return 'No moves are needed'
    return ('No move makes more room'
            if plan.is_optimal and plan.until is None
            else 'No moves were found that make more room')


def _drain_title(plan: plan_model.RebalancePlan) -> str:
    hosts = words.listed(plan.drained, _HOSTS_NAMED)
    if plan.stuck:
        return (f'{hosts} cannot be drained' if plan.is_optimal
                else f'No way was found to drain {hosts}')
    if not plan.moves:
        return f'{hosts} {"is" if len(plan.drained) == 1 else "are"} empty'
    verb = 'empties' if len(plan.moves) == 1 else 'empty'
    return f'{_moves(plan)} {verb} {hosts}'


def _moves(plan: plan_model.RebalancePlan) -> str:
    return words.count(len(plan.moves), 'move')


def size_name(size: str) -> str:
    """A size for people: '16 vCPUs', or a flavor's name."""
    return f'{size} vCPUs' if size.isdigit() else size


def remarks(plan: plan_model.RebalancePlan) -> Iterator[str]:
    """What the plan is worth and what it costs, sentences."""
    yield from _worth(plan)
    if plan.moves:
        yield from _cost(plan)
    # Of a plan that empties hosts, the rest has said it.
    if plan.stopped and (plan.goal is plan_model.PlanGoal.DEFRAGMENT
                         or plan.stuck and not plan.is_optimal):
        yield f'It stops there: {plan.stopped}.'


def _worth(plan: plan_model.RebalancePlan) -> Iterator[str]:
    for gain in plan.gains:
        text = (f'{size_name(gain.size)}: {gain.before:,} fit before, '
                f'{gain.after:,} after')
        if gain.bound is not None and gain.bound > gain.after:
            text += (f'; no plan of as many moves makes room for more than '
                     f'{gain.bound:,}')
        yield text + '.'
    claim = _claim(plan)
    if claim:
        proof = 'is' if plan.is_optimal else 'is not'
        yield f'It {proof} proved that {claim}.'


def _claim(plan: plan_model.RebalancePlan) -> str:
    """What ``is_optimal`` is about."""
    if plan.goal is plan_model.PlanGoal.DEFRAGMENT:
        if not plan.gains or not plan.moves and plan.is_optimal:
            return ''
        if plan.until is None:
            return 'no plan of as many moves makes more room'
        if plan.gains[0].after < plan.until:
            # That is why it stops.
            return ''
    elif plan.stuck:
        return 'no plan does it'
    return 'fewer moves will not do' if plan.moves else ''


def _cost(plan: plan_model.RebalancePlan) -> Iterator[str]:
    text = f'{amount(plan.memory_mib)} of memory'
    disk_gib = sum(move.disk_gib for move in plan.moves)
    if disk_gib:
        text += f' and {disk_gib:,} GiB of disks'
    cold = sum(move.kind is plan_model.MigrationKind.COLD
               for move in plan.moves)
    kinds = 'all live' if not cold else (
        'all cold, which stops the guests' if cold == len(plan.moves) else
        f'{len(plan.moves) - cold:,} live and {cold:,} cold, which stops the '
        'guests')
    yield f'{text} to copy; {kinds}.'
    parked = sum(move.is_parking for move in plan.moves)
    if parked:
        verb = 'takes' if parked == 1 else 'take'
        yield (f'{words.count(parked, "move")} {verb} a guest out of the way '
               'for a time.')
    at_once = plan_request.CostSettings(parallel=len(plan.moves))
    in_steps = words.count(max(steps(plan)), 'step')
    spans = [move.seconds for move in plan.moves if move.seconds is not None]
    if len(spans) < len(plan.moves):
        yield f'{in_steps}; moves of a step can be done at the same time.'
    else:
        yield (f'About {words.span(sum(spans))} one after the other; in '
               f'{in_steps}, those of a step at the same time, '
               f'{words.span(move_cost.total_seconds(plan, at_once) or 0)}.')


def amount(mib: int) -> str:
    """A sum of memory: '640 MiB', '1,234 GiB'."""
    return f'{mib / 1024:,.0f} GiB' if mib >= 10240 else (
        quantities.shown_memory(mib))


def show(plan: plan_model.RebalancePlan, drawn: drawing.Drawing,
         console: rich.console.Console) -> None:
    """Print what a plan gains and costs, its moves, and a drawing.

    :param drawn: the plan, with its title and what is worth knowing of it
    """
    printing.title(drawn.title, console)
    for remark in drawn.remarks:
        printing.say(remark, console, '  ')
    if plan.stuck:
        printing.heading('What stands in the way', console)
        typed_table.show(
            ('guests', 'host', 'why'),
            [(guests, host, reason) for (host, reason), guests in _alike(
                ((guest.host, guest.reason), guest.name or guest.guest)
                for guest in plan.stuck)], console)
    if plan.moves:
        printing.heading('Moves', console)
        moves(plan).show(console)
        reasons = [(guests, reason) for reason, guests in _alike(
            (move.cold_reason, move.name or move.guest)
            for move in plan.moves if move.cold_reason)]
        if reasons:
            printing.heading('Why not live', console)
            typed_table.show(('guests', 'why'), reasons, console)
    if drawn.hosts:
        printing.heading('Before and after', console)
        terminal_drawing.show(moves_drawing.beside_table(drawn), console)
        left = len(moves_drawing.changed_hosts(plan)) - len(drawn.hosts)
        if left:
            printing.say(
                f'{words.count(left, "more host")} '
                f'{"is" if left == 1 else "are"} drawn with -f drawing, and '
                'with -f svg', console, '  ')


def _alike(named: Iterable[tuple[_Key, str]]) -> Iterator[tuple[_Key, str]]:
    """The names of what is alike, a few of each."""
    groups: dict[_Key, list[str]] = {}
    for key, name in named:
        groups.setdefault(key, []).append(name)
    for key, names in groups.items():
        yield key, words.listed(names, _GUESTS_NAMED)
