# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance verify: whether a plan of moves still holds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import sys
import typing

from nova_pinning.bridge import deferred_claim
from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_wishes
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.presentation import plan_check_report
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning import spelling

if typing.TYPE_CHECKING:
    from nova_pinning.rebalance import slot_size


class VerifyPlan(display.Lister):
    """Verify that a plan of moves still holds.

    Each move is made on the snapshot, which may be newer than the plan, and
    has to end where the plan says. What cannot be made, or ends elsewhere, is
    told with what has changed, and with how much room there is now, and
    would be. What may be moved is judged by what the plan was asked for with,
    but for options that are given here.

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

        plan = plan_document.read_plan(parsed_args.plan)
        wishes = rebalance_wishes.parsed(plan, parsed_args.plan)
        rebalance_options.override_cloud(wishes, parsed_args)
        rules = rebalance_options.rule_settings(
            wishes, rebalance_options.cost_settings(wishes))
        fleet = fleets.load(parsed_args, warn=False)
        rebalance_wishes.still_there(wishes, fleet)
        with fleets.progress('making the moves'), fleets.without_collector():
            checked = plan_check.check_plan(
                plan, fleet, move_rules.MoveRules(fleet, rules),
                deferred_claim.predict_claim,
                deferred_claim.claimed_fit if parsed_args.claims else None,
                self._sizes(plan, wishes, fleet), wishes.exclude)
        again = ''
        if not checked.holds:
            self.status = base_command.FINDINGS
            again = rebalance_wishes.command(plan, parsed_args.fleet)
        self.status = max(self.status, fleets.status(fleet))
        return fleets.with_gaps(display.Answer(
            plan_check_report.COLUMNS, plan_check_report.rows(checked),
            lambda console: plan_check_report.show(
                checked, plan, console, again),
            lambda: plan_check_report.as_dict(checked)), fleet)

    @staticmethod
    def _sizes(
        plan: plan_model.RebalancePlan, wishes: argparse.Namespace,
        fleet: snapshot.Fleet,
    ) -> Sequence[slot_size.SlotSize]:
        """Of the guests that the plan makes room for."""
        if not plan.gains:
            return ()
        try:
            return rebalance_options.sizes(wishes, fleet)
        except errors.InputError as error:
            # A flavor that is gone does not keep guests from being moved.
            print(spelling.printable(
                f'warning: the room is not counted: {error}'),
                file=sys.stderr)
            return ()
