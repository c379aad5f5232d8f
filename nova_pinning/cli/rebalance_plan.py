# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance plan: moves for a request that is a file."""

import argparse

from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_output
from nova_pinning import errors
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_request


class Plan(display.Lister):
    """Plan moves by the wishes of another plan.

    The goal, limits, rules and costs are those of PLAN, which is one that
    rebalance defragment or drain has made, or that has no moves yet; guests
    and hosts that it names and that are gone do not matter. Nothing is moved.

    The exit status is 1 if the goal is not reached.

    Examples::

      nova-pinning rebalance plan fleet.json.zst --request plan.json \\
          -o plan-2.json
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        parser.add_argument(
            '--request', metavar='PLAN', required=True,
            help='the plan whose wishes count')
        rebalance_options.add_sizes(parser, 'if not those of PLAN, ')
        rebalance_output.add_plan(parser)
        rebalance_output.add_options(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        rebalance_output.check(parsed_args)
        request = plan_document.read_plan(parsed_args.request).known_request()
        goal, fleet = request.goal, fleets.load(parsed_args)
        if isinstance(goal, plan_request.MakeRoom):
            if parsed_args.sizes:
                request = rebalance_options.with_sizes(
                    parsed_args, request, goal, fleet)
            elif not goal.sizes:
                raise errors.InputError(
                    'does not say which guests to make room for',
                    errors.Location(parsed_args.request), 'give --for')
        answer, self.status = rebalance_output.planned(
            parsed_args, request, fleet)
        return answer
