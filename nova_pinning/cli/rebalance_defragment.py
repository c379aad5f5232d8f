# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance defragment: moves that make room for guests."""

import argparse

from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_output
from nova_pinning.rebalance import plan_request


class Defragment(display.Lister):
    """Plan the moves that make most room for further guests.

    None more than needed, each to where nova-compute's claim will put it, in
    an order in which each fits at the moment it is made. The plan says whether
    it is proved that as many moves cannot gain more, what they copy, and which
    can be made at the same time. Nothing is moved.

    The exit status is 1 if --until is given and not reached.

    Examples::

      nova-pinning rebalance defragment fleet.json.zst --for 16 --moves 25
      nova-pinning rebalance defragment fleet.json.zst --for 16:3,8:1 \\
          --moves 3% --memory 2TiB -o plan.json --svg plan.svg
      nova-pinning rebalance defragment fleet.json.zst --until 40 \\
          --for enterprise.4xlarge --live-only --min-age 7d
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        rebalance_options.add_sizes(parser)
        parser.add_argument(
            '--until', metavar='N',
            type=common_options.number(1, 1_000_000_000),
            help='make room for so many guests in all, those that fit now '
                 'among them, with as few moves as will do; of several sizes '
                 'the first counts')
        rebalance_output.add_plan(parser)
        rebalance_output.add_options(parser)
        rebalance_options.add_limits(parser)
        rebalance_options.add_cost(parser)
        rebalance_options.add_solver(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        rebalance_output.check(parsed_args)
        goal = plan_request.MakeRoom(sizes=(), until=parsed_args.until)
        request = rebalance_options.request_of(parsed_args, goal)
        fleet = fleets.load(parsed_args)
        rebalance_options.check_names(request, fleet)
        answer, self.status = rebalance_output.planned(
            parsed_args, rebalance_options.with_sizes(
                parsed_args, request, goal, fleet), fleet)
        return answer
