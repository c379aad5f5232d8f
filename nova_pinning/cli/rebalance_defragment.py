# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance defragment: moves that make room for guests."""

import argparse
import dataclasses

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_output
from nova_pinning.cli import rebalance_wishes
from nova_pinning import errors


class Defragment(display.Lister):
    """Plan the moves of guests that make most room for further ones.

    None more than needed, each to where nova-compute's claim will put it, in
    an order in which each fits at the moment it is made. The plan says whether
    it is proved that as many moves cannot gain more, what they copy, and which
    can be made at the same time. Nothing is moved.

    The exit status is 1 if --until is given and not reached.
    """

    epilog = """
        Examples::

          nova-pinning rebalance defragment fleet.json.zst --for 16 --moves 25
          nova-pinning rebalance defragment fleet.json.zst --for 16:3,8:1 \\
              --moves 3% --memory 2TiB -o plan.json --svg plan.svg
          nova-pinning rebalance defragment fleet.json.zst --until 40 \\
              --for enterprise.4xlarge --live-only --min-age 7d
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
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
        return parser

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        from nova_pinning.rebalance import defragment
        from nova_pinning.rebalance import move_cost
        from nova_pinning.rebalance import move_rules

        rebalance_output.check(parsed_args)
        cost = rebalance_options.cost_settings(parsed_args)
        operator = rebalance_options.rule_settings(parsed_args, cost)
        fleet = fleets.load(parsed_args)
        if not fleet.hosts:
            raise errors.InputError('has no hosts', fleet.where)
        limits = rebalance_options.limits(parsed_args, fleet)
        planned = rebalance_options.planned_fleet(parsed_args, fleet)
        rules = move_rules.MoveRules(planned, operator)
        with fleets.progress('asking nova what the flavors are'):
            sizes = rebalance_options.sizes(parsed_args, fleet)
        settings = rebalance_options.solver_settings_of(parsed_args)
        with fleets.progress('planning') as tell, fleets.without_collector():
            plan = defragment.plan_defragmentation(
                planned, sizes, limits, until=parsed_args.until,
                rules=rules,
                settings=settings, tell=tell)
            plan = dataclasses.replace(
                rebalance_output.made_for(
                    move_cost.priced(plan, cost, fleet), fleet, rules,
                    rebalance_wishes.request_of(parsed_args)),
                until=parsed_args.until)
        if parsed_args.check_claims and not rebalance_output.claims_agree(
                plan, planned, rules, settings.ask_nova):
            self.status = base_command.FINDINGS
        if parsed_args.until is not None and (
                not plan.gains or plan.gains[0].after < parsed_args.until):
            self.status = base_command.FINDINGS
        self.status = max(self.status, fleets.status(fleet))
        return fleets.with_gaps(rebalance_output.answer(
            parsed_args, plan, fleet,
            move_cost.total_seconds(plan, cost) if cost.parallel > 1
            else None), fleet)
