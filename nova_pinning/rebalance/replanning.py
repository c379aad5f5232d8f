# SPDX-License-Identifier: Apache-2.0
"""A plan made anew, when the cloud is no longer as the first took it to be."""

from collections.abc import Sequence
import dataclasses

from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import planning


def again(
    plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
    done: Sequence[plan_model.PlannedMove] = (),
    ask_nova: fit.AskNova | None = None,
) -> plan_model.RebalancePlan:
    """A plan with the goal of another one, for the fleet as it is now.

    :param done: moves of the other, by which less may be moved now
    :param ask_nova: decides the claims of guests that only nova can tell
    :raises errors.InputError: if the plan does not say what it was asked for
        with, nothing is left of its limits, or a host that was drained is
        gone
    """
    return planning.make_plan(left(plan, fleet, done), fleet, ask_nova)


def left(plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
         done: Sequence[plan_model.PlannedMove]) -> plan_request.PlanRequest:
    """What may still be asked for, so that it is no more than was agreed to.

    A drain without a limit may take as many moves as it needs; room is made
    with no more than the plan had.

    :param done: moves of the plan
    :raises errors.InputError: if that is nothing, or the plan does not
        say what it was asked for with
    """
    request = plan.known_request()
    limits = planning.limits_of(request, fleet)
    moves, memory_mib = limits.moves, limits.memory_mib
    if isinstance(request.goal, plan_request.MakeRoom):
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
    return dataclasses.replace(request, moves=moves, share_percent=None,
                               memory_mib=memory_mib)
