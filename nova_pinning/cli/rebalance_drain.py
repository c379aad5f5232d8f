# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance drain: moves that leave hosts without guests."""

import argparse

from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_output
from nova_pinning.rebalance import plan_request


class Drain(display.Lister):
    """Plan where the guests of hosts go that are to be emptied.

    For maintenance, or for an upgrade in batches of hosts: the fewest moves,
    with moves elsewhere where they are needed, or what stands in the way and
    whether it is proved that there is no way. Nothing is moved.

    The exit status is 1 if the hosts cannot be emptied.

    Examples::

      nova-pinning rebalance drain fleet.json.zst --host cmp-17
      nova-pinning rebalance drain fleet.json.zst --host cmp-17 \\
          --host cmp-18 --live-only -o plan.json
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        parser.add_argument(
            '--host', metavar='HOST', action='append', required=True,
            help='to be emptied; may be given several times')
        rebalance_output.add_plan(parser)
        rebalance_output.add_options(parser)
        rebalance_options.add_limits(parser)
        rebalance_options.add_cost(parser)
        rebalance_options.add_solver(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        rebalance_output.check(parsed_args)
        request = rebalance_options.request_of(
            parsed_args, plan_request.DrainHosts(
                hosts=tuple(dict.fromkeys(parsed_args.host))))
        fleet = fleets.load(parsed_args)
        rebalance_options.check_names(request, fleet)
        answer, self.status = rebalance_output.planned(
            parsed_args, request, fleet)
        return answer
