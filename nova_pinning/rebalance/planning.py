# SPDX-License-Identifier: Apache-2.0
"""Plans of moves, made as a request says."""

from collections.abc import Iterator
import dataclasses
import math

from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import defragment
from nova_pinning.rebalance import drain
from nova_pinning.rebalance import fleet_digest
from nova_pinning.rebalance import move_cost
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import solver_settings


def make_plan(
    request: plan_request.PlanRequest, fleet: snapshot.Fleet,
    ask_nova: fit.AskNova | None = None,
    tell: solver_settings.Tell = solver_settings.tell_nobody,
) -> plan_model.RebalancePlan:
    """The plan that a request asks for.

    :param ask_nova: decides the claims of guests that only nova can tell
    :raises errors.InputError: if nothing is left to plan with, or a move
        takes longer than a window
    """
    planned = without_excluded(fleet, request)
    rules = rules_of(planned, request)
    limits = limits_of(request, fleet)
    settings = solver_settings.SolverSettings(
        seconds=request.seconds, ask_nova=ask_nova)
    goal = request.goal
    if isinstance(goal, plan_request.DrainHosts):
        plan = drain.plan_drain(planned, goal.hosts, limits, rules=rules,
                                settings=settings, tell=tell)
    else:
        plan = dataclasses.replace(defragment.plan_defragmentation(
            planned, goal.sizes, limits, until=goal.until, rules=rules,
            settings=settings, tell=tell), until=goal.until)
    plan = move_cost.priced(plan, request.cost, fleet)
    return dataclasses.replace(
        plan, moves=tuple(_explained(plan, fleet, rules)), request=request,
        fleet=plan_model.FleetState(digest=fleet_digest.of_fleet(fleet),
                                    taken_at=fleet.taken_at))


def without_excluded(fleet: snapshot.Fleet,
                     request: plan_request.PlanRequest) -> snapshot.Fleet:
    """The fleet without the hosts that are excluded, and their guests.

    :raises errors.InputError: if no host is left
    """
    excluded = frozenset(request.excluded)
    hosts = tuple(host for host in fleet.hosts if host.name not in excluded)
    if len(hosts) == len(fleet.hosts):
        return fleet
    if not hosts:
        raise errors.InputError('all hosts are excluded', fleet.where)
    return dataclasses.replace(fleet, hosts=hosts, guests=tuple(
        guest for guest in fleet.guests if guest.host not in excluded))


def rules_of(fleet: snapshot.Fleet,
             request: plan_request.PlanRequest) -> move_rules.MoveRules:
    """The rules of a fleet, as a request has them.

    :raises errors.InputError: as MoveRules does
    """
    return move_rules.MoveRules(fleet, request.rules,
                                request.cost.dirty_limit_mib)


def limits_of(request: plan_request.PlanRequest,
              fleet: snapshot.Fleet) -> move_rules.MoveLimits:
    """How much of a fleet a request lets be moved."""
    moves = request.moves
    if request.share_percent is not None:
        # Of 2,089 guests 3% are 63 moves: what is asked for, if not more.
        share = math.ceil(
            len(fleet.guests) * request.share_percent / 100 - 1e-9)
        moves = share if moves is None else min(moves, share)
    fixed = frozenset(request.fixed)
    return move_rules.MoveLimits(
        moves=moves, memory_mib=request.memory_mib,
        # All of one name: to move one by mistake is worse than not to.
        fixed=frozenset(guest.uuid for guest in fleet.guests
                        if not fixed.isdisjoint((guest.uuid, guest.name))))


def _explained(
    plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
    rules: move_rules.MoveRules,
) -> Iterator[plan_model.PlannedMove]:
    """The moves, the cold ones with why they are not live."""
    hosts = {host.name: host for host in fleet.hosts}
    guests = {guest.uuid: guest for guest in fleet.guests}
    for move in plan.moves:
        if move.kind is plan_model.MigrationKind.COLD:
            guest = dataclasses.replace(guests[move.guest], host=move.source)
            move = dataclasses.replace(move, cold_reason=rules.cold_reason(
                guest, hosts[move.target]))
        yield move
