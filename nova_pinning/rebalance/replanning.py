# SPDX-License-Identifier: Apache-2.0
"""A plan made anew, when the cloud is no longer as the first took it to be."""

from collections.abc import Sequence

from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import defragment
from nova_pinning.rebalance import drain
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings


def again(plan: plan_model.RebalancePlan, moves_left: int,
          fleet: snapshot.Fleet, sizes: Sequence[slot_size.SlotSize],
          settings: solver_settings.SolverSettings,
          ) -> plan_model.RebalancePlan:
    """A plan with the goal of another one, for the fleet as it is now.

    A drain may take as many moves as it needs. Room is made with no more
    moves than are left, so that in all there are no more than were agreed to.
    Of other limits a plan does not tell.

    :param sizes: that the other plan makes room for; not used for a drain
    :raises errors.InputError: if there is nothing to make room for, or a
        host that was drained is gone
    """
    if plan.goal is plan_model.PlanGoal.DRAIN:
        return drain.plan_drain(
            fleet, plan.drained, move_rules.MoveLimits(), settings=settings)
    return defragment.plan_defragmentation(
        fleet, sizes, move_rules.MoveLimits(moves=moves_left),
        until=plan.until, settings=settings)
