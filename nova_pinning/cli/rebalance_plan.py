# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance plan: moves that make room, or empty hosts."""

import argparse
import dataclasses

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_output
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_request


class PlanAnswer(display.ListDisplay):
    """A plan of moves for a fleet, which is a file.

    One that has the fleet from elsewhere overrides the next two methods.
    """

    pages, texts = rebalance_output.PAGES, rebalance_output.TEXTS

    def add_fleet(self, parser: argparse.ArgumentParser) -> None:
        """Add what says which fleet."""
        fleets.add_argument(parser)

    def load_fleet(self, parsed_args: argparse.Namespace) -> snapshot.Fleet:
        """Read it, and say on the error output what is odd about it.

        :raises errors.InputError: if it cannot be read
        """
        return fleets.load(parsed_args)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self.add_fleet(parser)
        rebalance_options.add_sizes(parser)
        parser.add_argument(
            '--until', metavar='N',
            type=common_options.number(1, 1_000_000_000),
            help='make room for so many guests in all, those that fit now '
                 'among them, with as few moves as will do; of several sizes '
                 'the first counts')
        parser.add_argument(
            '--drain', metavar='HOST', action='append', default=[],
            help='a host to be emptied; may be given several times')
        parser.add_argument(
            '--request', metavar='PLAN',
            help='a plan that was made before, or has no moves yet, whose '
                 'wishes count; of other options only --for goes with it')
        rebalance_output.add_plan(parser)
        rebalance_options.add_limits(parser)
        rebalance_options.add_cost(parser)
        rebalance_options.add_solver(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        rebalance_output.check(parsed_args)
        request = _request(parsed_args)
        fleet = self.load_fleet(parsed_args)
        if parsed_args.request is None:
            rebalance_options.check_names(request, fleet)
            # The plan may be made anew from a source that does not tell it.
            request = dataclasses.replace(request, rules=dataclasses.replace(
                request.rules, isolates=fleet.rules.isolates))
        answer, self.status = rebalance_output.planned(
            parsed_args, _with_sizes(parsed_args, request, fleet), fleet)
        return answer


class Plan(base_command.FileCommand, PlanAnswer):
    """Plan moves that make room for further guests, or empty hosts.

    With --for the moves that make most room for guests of these sizes; with
    --drain where the guests of hosts go that are to be emptied, for
    maintenance or for an upgrade in batches of hosts. None more than needed,
    each to where nova-compute's claim will put it, in an order in which each
    fits at the moment it is made. The plan says whether it is proved that as
    many moves cannot gain more, or that there is no way to empty a host, what
    the moves copy, and which can be made at the same time. Nothing is moved.

    With --request the goal, limits, rules and costs are those of another
    plan; guests and hosts that it names and that are gone do not matter.

    The exit status is 1 if --until is given and not reached, and if the hosts
    cannot be emptied.

    Examples::

      nova-pinning rebalance plan fleet.json.zst --for 16 --moves 25
      nova-pinning rebalance plan fleet.json.zst --for 16:3,8:1 \\
          --moves 3% --memory 2TiB -o plan.json -f svg > plan.svg
      nova-pinning rebalance plan fleet.json.zst --until 40 \\
          --for enterprise.4xlarge --live-only --min-age 7d
      nova-pinning rebalance plan fleet.json.zst --drain cmp-17 \\
          --drain cmp-18 --live-only -o plan.json
      nova-pinning rebalance plan fleet.json.zst --request plan.json \\
          -o plan-2.json
    """


def _request(parsed_args: argparse.Namespace) -> plan_request.PlanRequest:
    """What is asked for, without the sizes of --for.

    :raises errors.InputError: if that is not one thing
    """
    goals = [option for option, given in (
        ('--drain', parsed_args.drain), ('--request', parsed_args.request),
        ('--for', parsed_args.sizes)) if given]
    if goals not in (['--drain'], ['--request'], ['--for'],
                     ['--request', '--for']):
        raise errors.InputError(
            f'{" and ".join(goals)} do not go together' if goals else
            'nothing is asked for', advice='give --for SIZES, --drain HOST '
            'or --request PLAN')
    if parsed_args.until is not None and goals != ['--for']:
        raise errors.InputError('goes with --for only',
                                errors.Location('--until'))
    if parsed_args.request is not None:
        return plan_document.read_plan(parsed_args.request).known_request()
    return rebalance_options.request_of(
        parsed_args,
        plan_request.DrainHosts(hosts=tuple(dict.fromkeys(parsed_args.drain)))
        if parsed_args.drain
        else plan_request.MakeRoom(sizes=(), until=parsed_args.until))


def _with_sizes(
    parsed_args: argparse.Namespace, request: plan_request.PlanRequest,
    fleet: snapshot.Fleet,
) -> plan_request.PlanRequest:
    """The request with the sizes of --for, where it is for room."""
    goal = request.goal
    if not isinstance(goal, plan_request.MakeRoom):
        return request
    if parsed_args.sizes:
        return rebalance_options.with_sizes(parsed_args, request, goal, fleet)
    if not goal.sizes:
        raise errors.InputError(
            'does not say which guests to make room for',
            errors.Location(parsed_args.request), 'give --for')
    return request
