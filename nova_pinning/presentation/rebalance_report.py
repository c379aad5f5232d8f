# SPDX-License-Identifier: Apache-2.0
"""A plan of moves in words and rows: what it gains, what it costs."""

from collections.abc import Iterator
from typing import Any

from nova_pinning.document import quantities
from nova_pinning.fleet import cpu_sequence
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.rebalance import plan_model

#: The columns of :func:`rows`.
COLUMNS = ('move', 'step', 'guest', 'name', 'flavor', 'vcpus', 'memory_mib',
           'disk_gib', 'source', 'source_cells', 'target', 'target_cells',
           'target_cpus', 'kind', 'seconds', 'is_parking')
_HOSTS_NAMED = 3


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


def rows(plan: plan_model.RebalancePlan) -> Iterator[dict[str, Any]]:
    """One for each move, in their order."""
    for number, (move, step) in enumerate(zip(plan.moves, steps(plan))):
        yield {
            'move': number, 'step': step, 'guest': move.guest,
            'name': move.name, 'flavor': move.flavor, 'vcpus': move.vcpus,
            'memory_mib': move.memory_mib, 'disk_gib': move.disk_gib,
            'source': move.source, 'source_cells': cells(move.source_fit),
            'target': move.target, 'target_cells': cells(move.target_fit),
            'target_cpus': cpus(move.target_fit), 'kind': str(move.kind),
            'seconds': move.seconds, 'is_parking': move.is_parking}


def cells(fit: model.Fit | None) -> str:
    """The host cells of a guest's cells: '0,1'; '' for a floating guest."""
    return '' if fit is None else ','.join(
        str(cell.host_cell) for cell in fit.cells)


def cpus(fit: model.Fit | None) -> str:
    """The host CPUs of a guest's vCPUs, in the order of these."""
    return '' if fit is None else cpu_sequence.text_of(tuple(
        cpu for cell in fit.cells for _vcpu, cpu in cell.pins))


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
    named = plan.drained[:_HOSTS_NAMED]
    hosts = words.listed(named)
    if len(plan.drained) > len(named):
        hosts = f'{", ".join(named)} and {len(plan.drained) - len(named)} more'
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
    in_steps = words.count(max(steps(plan)), 'step')
    spans = [move.seconds for move in plan.moves if move.seconds is not None]
    if len(spans) < len(plan.moves):
        yield f'{in_steps}; moves of a step can be done at the same time.'
    else:
        yield (f'About {span(sum(spans))} one after the other; in {in_steps}, '
               f'those of a step at the same time, {span(_longest(plan))}.')


def _longest(plan: plan_model.RebalancePlan) -> float:
    """Seconds, if each move begins as soon as those before it are done."""
    ends: list[float] = []
    for move in plan.moves:
        ends.append((move.seconds or 0) + max(
            (ends[place] for place in move.after), default=0))
    return max(ends, default=0)


def amount(mib: int) -> str:
    """A sum of memory: '640 MiB', '1,234 GiB'."""
    return f'{mib / 1024:,.0f} GiB' if mib >= 10240 else (
        quantities.shown_memory(mib))


def span(seconds: float) -> str:
    """About how long: '45 s', '12 min', '3 h 20 min'."""
    if seconds < 90:
        return f'{seconds:.0f} s'
    minutes = round(seconds / 60)
    if minutes < 90:
        return f'{minutes} min'
    hours, minutes = divmod(minutes, 60)
    return f'{hours:,} h' + (f' {minutes} min' if minutes else '')
