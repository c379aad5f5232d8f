# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance drain: moves that leave hosts without guests."""

import argparse

from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_output
from nova_pinning.cli import rebalance_wishes
from nova_pinning import errors


class Drain(display.Lister):
    """Plan where the guests of hosts go that are to be emptied.

    For maintenance, or for an upgrade in batches of hosts: the fewest moves,
    with moves elsewhere where they are needed, or what stands in the way and
    whether it is proved that there is no way. Nothing is moved.

    The exit status is 1 if the hosts cannot be emptied.
    """

    epilog = """
        Examples::

          nova-pinning rebalance drain fleet.json.zst --host cmp-17
          nova-pinning rebalance drain fleet.json.zst --host cmp-17 \\
              --host cmp-18 --live-only -o plan.json
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        fleets.add_argument(parser)
        parser.add_argument(
            '--host', metavar='HOST', action='append', required=True,
            help='to be emptied; may be given several times')
        rebalance_output.add_plan(parser)
        rebalance_output.add_options(parser)
        rebalance_options.add_limits(parser)
        rebalance_options.add_cost(parser)
        rebalance_options.add_solver(parser)
        return parser

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        from nova_pinning.rebalance import drain
        from nova_pinning.rebalance import move_cost
        from nova_pinning.rebalance import move_rules

        rebalance_output.check(parsed_args)
        cost = rebalance_options.cost_settings(parsed_args)
        operator = rebalance_options.rule_settings(parsed_args, cost)
        fleet = fleets.load(parsed_args)
        hosts = fleets.named_hosts(parsed_args.host, fleet)
        limits = rebalance_options.limits(parsed_args, fleet)
        both = sorted(set(hosts) & set(parsed_args.exclude))
        if both:
            raise errors.InputError(
                f'{both[0]} is to be emptied (--host), and no guest may leave '
                'it', errors.Location('--exclude'))
        planned = rebalance_options.planned_fleet(parsed_args, fleet)
        rules = move_rules.MoveRules(planned, operator)
        settings = rebalance_options.solver_settings_of(parsed_args)
        with fleets.progress('planning') as tell, fleets.without_collector():
            plan = drain.plan_drain(
                planned, hosts, limits,
                rules=rules,
                settings=settings, tell=tell)
            plan = rebalance_output.made_for(
                move_cost.priced(plan, cost, fleet), fleet, rules,
                rebalance_wishes.request_of(parsed_args))
        if parsed_args.check_claims and not rebalance_output.claims_agree(
                plan, planned, rules, settings.ask_nova):
            self.status = base_command.FINDINGS
        leaving = {move.guest for move in plan.moves}
        if plan.stuck or any(
                guest.host in hosts and guest.uuid not in leaving
                for guest in fleet.guests):
            self.status = base_command.FINDINGS
        self.status = max(self.status, fleets.status(fleet))
        return fleets.with_gaps(rebalance_output.answer(
            parsed_args, plan, fleet,
            move_cost.total_seconds(plan, cost) if cost.parallel > 1
            else None), fleet)
