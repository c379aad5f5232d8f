# SPDX-License-Identifier: Apache-2.0
"""The moves that leave hosts without guests."""

from collections.abc import Sequence

from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import solver_settings


def plan_drain(
    fleet: snapshot.Fleet,
    hosts: Sequence[str],
    limits: move_rules.MoveLimits,
    *,
    rules: move_rules.MoveRules | None = None,
    settings: solver_settings.SolverSettings = (
        solver_settings.SolverSettings()),
    tell: solver_settings.Tell = solver_settings.tell_nobody,
) -> plan_model.RebalancePlan:
    """The fewest moves that empty hosts, with moves elsewhere if needed.

    No guest goes to any of the hosts. For a fleet that is upgraded in
    batches, call it for each batch with the fleet as it is by then
    (``replay.fleet_after``).

    :param hosts: names, each one of the fleet
    :returns: all or nothing: if not all guests can leave, a plan without
        moves, of which ``stuck`` says what stands in the way and
        ``is_optimal`` whether it is proved that there is no way
    :raises errors.InputError: if a host is not one of the fleet or given
        twice, there is none, or a limit is below 1
    """
    raise NotImplementedError
