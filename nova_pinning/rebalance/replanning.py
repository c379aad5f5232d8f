# SPDX-License-Identifier: Apache-2.0
"""A plan made anew, when the cloud is no longer as the first took it to be."""

from collections.abc import Sequence
import dataclasses

from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import defragment
from nova_pinning.rebalance import drain
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings


def limits_left(
    plan: plan_model.RebalancePlan, done: Sequence[plan_model.PlannedMove],
    limits: move_rules.MoveLimits,
) -> move_rules.MoveLimits:
    """What may still be moved, so that it is no more than was agreed to.

    A drain without a limit may take as many moves as it needs; room is made
    with no more than the plan had.

    :param done: moves of the plan
    :param limits: that it was made with
    :raises errors.InputError: if that is nothing
    """
    moves, memory_mib = limits.moves, limits.memory_mib
    if plan.goal is plan_model.PlanGoal.DEFRAGMENT:
        moves = len(plan.moves)
    if moves is not None:
        moves -= len(done)
    if memory_mib is not None:
        memory_mib -= sum(move.memory_mib for move in done)
    if moves is not None and moves < 1 or (
            memory_mib is not None and memory_mib < 1):
        raise errors.InputError(
            'nothing is left of the limits of the plan for a new one',
            advice='plan anew with higher ones')
    return dataclasses.replace(limits, moves=moves, memory_mib=memory_mib)


def again(plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
          sizes: Sequence[slot_size.SlotSize],
          limits: move_rules.MoveLimits, rules: move_rules.MoveRules,
          settings: solver_settings.SolverSettings,
          ) -> plan_model.RebalancePlan:
    """A plan with the goal of another one, for the fleet as it is now.

    :param sizes: that the other plan makes room for; not used for a drain
    :raises errors.InputError: if there is nothing to make room for, or a
        host that was drained is gone
    """
    if plan.goal is plan_model.PlanGoal.DRAIN:
        return drain.plan_drain(fleet, plan.drained, limits, rules=rules,
                                settings=settings)
    return dataclasses.replace(
        defragment.plan_defragmentation(
            fleet, sizes, limits, until=plan.until, rules=rules,
            settings=settings), until=plan.until)
