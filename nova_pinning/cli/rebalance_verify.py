# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance verify: whether a plan of moves still holds."""

import argparse

from nova_pinning.bridge import standalone
from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.presentation import plan_check_report
from nova_pinning.rebalance import plan_document


class VerifyPlan(display.Lister):
    """Verify that a plan of moves still holds.

    Each move is made on the snapshot, which may be newer than the plan, and
    has to end where the plan says. What cannot be made, or ends elsewhere, is
    told with what has changed.

    The exit status is 1 if the plan does not hold as it is.
    """

    epilog = """
        Examples::

          nova-pinning rebalance verify plan.json fleet.json.zst
          nova-pinning rebalance verify plan.json fleet.json.zst --claims
          nova-pinning rebalance verify plan.json fleet.json.zst -f csv \\
              -c guest -c outcome -c reason
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'plan', metavar='PLAN',
            help='of rebalance defragment or drain; - for the standard input')
        fleets.add_argument(parser)
        parser.add_argument(
            '--claims', action='store_true',
            help="have nova's own claim decide every move as well")
        rebalance_options.add_cloud(parser)
        return parser

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        from nova_pinning.rebalance import move_rules
        from nova_pinning.rebalance import plan_check

        rules = rebalance_options.rule_settings(parsed_args)
        plan = plan_document.read_plan(parsed_args.plan)
        fleet = fleets.load(parsed_args, warn=False)
        with fleets.progress('making the moves'):
            standalone.prepare()
            from nova_pinning.bridge import fleet_claim
            with fleets.without_collector():
                checked = plan_check.check_plan(
                    plan, fleet, move_rules.MoveRules(fleet, rules),
                    fleet_claim.predict_claim,
                    fleet_claim.claimed_fit if parsed_args.claims else None)
        if not checked.holds:
            self.status = base_command.FINDINGS
        self.status = max(self.status, fleets.status(fleet))
        return fleets.with_gaps(display.Answer(
            plan_check_report.COLUMNS, plan_check_report.rows(checked),
            lambda console: plan_check_report.show(checked, console),
            lambda: plan_check_report.as_dict(checked)), fleet)
