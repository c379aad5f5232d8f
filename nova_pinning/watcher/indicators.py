# SPDX-License-Identifier: Apache-2.0
"""What Watcher shows of a plan: figures, each with a name."""

from collections.abc import Iterator
import dataclasses

from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model

#: What Watcher's database keeps of a name and of a description.
_NAME_CHARACTERS = 63
_DESCRIPTION_CHARACTERS = 255


@dataclasses.dataclass(frozen=True, slots=True)
class PlanFigure:
    """One figure of a plan.

    :param unit: None if it is a number of things
    """

    name: str
    value: float
    description: str
    unit: str | None = None


def plan_figures(plan: plan_model.RebalancePlan) -> Iterator[PlanFigure]:
    """All that a plan costs and gains."""
    for gain in plan.gains:
        for when, value, words in (
                ('before', gain.before, 'without the moves'),
                ('after', gain.after, 'with the moves'),
                ('bound', gain.bound, 'with any plan of as many moves')):
            if value is not None:
                yield _figure(f'slots_{when}:{gain.size}', value,
                              f'Further guests of size {gain.size} that fit '
                              f'{words}.')
    yield _figure('moves', len(plan.moves), 'Moves of guests, those out of '
                  "others' way included.")
    yield _figure('parking_moves',
                  sum(move.is_parking for move in plan.moves),
                  "Moves of guests that are only out of others' way "
                  'meanwhile.')
    yield _figure('cold_moves', sum(
        move.kind is plan_model.MigrationKind.COLD for move in plan.moves),
        'Moves of guests that are stopped meanwhile.')
    yield _figure('memory_to_copy', plan.memory_mib,
                  'Memory of the guests that are moved, copied once.', 'MiB')
    yield _figure('proved', int(plan.is_optimal), '1 if it is proved that no '
                  'other plan of as many moves gains more, 0 if not.')


def gains(plan: plan_model.RebalancePlan) -> Iterator[PlanFigure]:
    """What a plan is good for, in a figure for each size or host."""
    for gain in plan.gains:
        yield _figure(f'slots_gained:{gain.size}', gain.after - gain.before,
                      f'How many more guests of size {gain.size} fit with the '
                      'moves.')
    if plan.drained:
        yield _figure('hosts_drained', len(plan.drained),
                      'Hosts without guests after the moves.')


def released_hosts(fleet: snapshot.Fleet,
                   plan: plan_model.RebalancePlan) -> int:
    """How many hosts that may be used lose their last guest."""
    before = {guest.uuid: guest.host for guest in fleet.guests}
    after = before | {move.guest: move.target for move in plan.moves}
    left = set(before.values()) - set(after.values())
    return sum(host.is_enabled and host.name in left for host in fleet.hosts)


def _figure(name: str, value: float, description: str,
            unit: str | None = None) -> PlanFigure:
    return PlanFigure(name[:_NAME_CHARACTERS], value,
                      description[:_DESCRIPTION_CHARACTERS], unit)
