# SPDX-License-Identifier: Apache-2.0
"""What the commands do with a plan of moves once they have one."""

import argparse
import dataclasses

import rich.console

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.document import atomic_file
from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning.presentation import drawing
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import rebalance_report
from nova_pinning.presentation import terminal_drawing
from nova_pinning.rebalance import fleet_digest
from nova_pinning.rebalance import move_cost
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request

#: Formats of plans besides: a drawing of all hosts that are other afterwards.
PAGES, TEXTS = ('drawing',), ('svg',)
# Hosts that are drawn unless all are asked for.
_DRAWN = 6


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add --output, for a command that makes a plan."""
    parser.add_argument(
        '-o', '--output', metavar='FILE',
        help='write the plan to this file, which rebalance show '
             'and openstack pinning rebalance apply read')
    parser.add_argument(
        '--fleet-after', metavar='FILE', type=common_options.file_path,
        help='write the snapshot as it will be after the plan to this file, '
             'for the plan that comes next, such as for the next hosts to be '
             'upgraded')


def check(parsed_args: argparse.Namespace) -> None:
    """Make sure that all files can be written, before it takes long.

    :raises errors.InputError: if one cannot
    """
    output = parsed_args.output
    if output == packed.STANDARD:
        # The plan in the place of the page, as --format json has it.
        parsed_args.formatter, parsed_args.output = 'json', None
        parsed_args.columns = parsed_args.sort_columns = output = None
    atomic_file.check_all(output, parsed_args.fleet_after)


def planned(
    parsed_args: argparse.Namespace, request: plan_request.PlanRequest,
    fleet: snapshot.Fleet,
) -> tuple[display.Answer, int]:
    """Make the plan that is asked for, and the files that go with it.

    :returns: what there is to say, and the exit status
    """
    # The solver takes a while to import.
    from nova_pinning.rebalance import planning

    with fleets.progress('planning') as tell, fleets.without_collector():
        plan = planning.make_plan(request, fleet,
                                  deferred_claim.predict_claim, tell)
    is_fine = _is_reached(plan, request, fleet)
    hosts = doubtful_hosts(plan, fleet)
    return (
        fleets.with_gaps(answer(parsed_args, plan, fleet), hosts),
        fleets.status(hosts) if is_fine else base_command.FINDINGS)


def doubtful_hosts(
    plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
) -> list[offered_host.OfferedHost]:
    """The hosts of a fleet, with those gaps that leave open what a plan says.

    A plan that empties hosts moves each guest to where it has a place for
    certain. All that stays open is whether there is more on these hosts than
    guests.
    """
    if plan.goal is not plan_model.PlanGoal.DRAIN or plan.stuck:
        return list(fleet.hosts)
    return [
        dataclasses.replace(host, gaps=tuple(
            gap for gap in host.gaps
            if gap.kind is outcome.DoubtKind.HELD))
        for host in fleet.hosts if host.name in plan.drained]


def _is_reached(
    plan: plan_model.RebalancePlan, request: plan_request.PlanRequest,
    fleet: snapshot.Fleet,
) -> bool:
    """Whether a plan does all that was asked for."""
    goal = request.goal
    if isinstance(goal, plan_request.MakeRoom):
        return goal.until is None or bool(
            plan.gains and plan.gains[0].after >= goal.until)
    leaving = {move.guest for move in plan.moves}
    return not plan.stuck and all(
        guest.host not in goal.hosts or guest.uuid in leaving
        for guest in fleet.guests)


def answer(
    parsed_args: argparse.Namespace, plan: plan_model.RebalancePlan,
    fleet: snapshot.Fleet | None,
) -> display.Answer:
    """Write the files that are asked for; what there is to say.

    :param fleet: that the plan is made for, None if it is not at hand
    """
    remarks = list(rebalance_report.remarks(plan))
    cost = plan.request.cost if plan.request else plan_request.CostSettings()
    seconds = move_cost.total_seconds(plan, cost)
    if cost.parallel > 1 and seconds is not None:
        remarks.append(
            f'About {words.span(seconds)} with '
            f'{cost.parallel} moves at a time at most.')
    title = rebalance_report.title(plan)

    def drawn(most: int | None = None) -> drawing.Drawing:
        if fleet is None or not plan.moves:
            return drawing.Drawing(title, tuple(remarks))
        return moves_drawing.draw(plan, fleet, title, remarks, most)

    if getattr(parsed_args, 'output', None) is not None:
        plan_document.write_plan(plan, parsed_args.output)
        common_options.tell_file(parsed_args.output)
    if getattr(parsed_args, 'fleet_after', None) is not None:
        from nova_pinning.rebalance import replay
        assert fleet is not None
        document.write(parsed_args.fleet_after,
                       replay.fleet_after(fleet, plan.moves))
        common_options.tell_file(parsed_args.fleet_after)
    most = None if parsed_args.formatter in PAGES else _DRAWN

    def show(console: rich.console.Console) -> None:
        rebalance_report.show(plan, drawn(most), console)

    return display.Answer(
        rebalance_report.moves(plan), show,
        lambda: plan_document.plan_to_json(plan),
        {'svg': lambda: terminal_drawing.svg(drawn())})


def check_state(plan: plan_model.RebalancePlan,
                fleet: snapshot.Fleet, path: str) -> None:
    """Make sure that a plan is for this very state of the fleet.

    :raises errors.InputError: if it is not
    """
    with fleets.without_collector():
        if plan.fleet.digest == fleet_digest.of_fleet(fleet):
            return
    made = f' of {plan.fleet.taken_at}' if plan.fleet.taken_at else ''
    now = f' of {fleet.taken_at}' if fleet.taken_at else ''
    raise errors.InputError(
        f'is for another state of the fleet{made} than the snapshot{now}',
        errors.Location(path),
        f'nova-pinning rebalance show {path} {fleet.where.source} tells '
        'what has changed')
