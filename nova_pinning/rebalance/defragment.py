# SPDX-License-Identifier: Apache-2.0
"""The moves that make most room for guests of given sizes."""

from collections.abc import Sequence

from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings


def plan_defragmentation(
    fleet: snapshot.Fleet,
    sizes: Sequence[slot_size.SlotSize],
    limits: move_rules.MoveLimits,
    *,
    until: int | None = None,
    rules: move_rules.MoveRules | None = None,
    settings: solver_settings.SolverSettings = (
        solver_settings.SolverSettings()),
    tell: solver_settings.Tell = solver_settings.tell_nobody,
) -> plan_model.RebalancePlan:
    """The moves after which most guests of the sizes fit, none in vain.

    Of plans that make equal room it is one with the fewest moves, and of
    these one that copies the fewest bytes.

    :param sizes: at least one; the room for each counts by its weight
    :param until: make room for so many guests in all, of the one size or of
        the first, with as few moves as will do; None for as many as can be
    :param rules: which guests may go where, made of the fleet if not given
    :param tell: is told of the progress now and then
    :returns: a plan without moves if none gains anything; if ``until`` is
        out of reach, the plan that comes closest, and ``stopped`` says so
    :raises errors.InputError: if there are no sizes, a limit is below 1, or
        until is no more than 0
    """
    raise NotImplementedError
