# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance show: a plan of moves, looked at again."""

import argparse

from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_output
from nova_pinning import errors
from nova_pinning.rebalance import plan_document


class ShowPlan(display.Lister):
    """Show a plan of moves.

    With the snapshot that it was made for its hosts are drawn, before and
    after.

    Examples::

      nova-pinning rebalance show plan.json
      nova-pinning rebalance show plan.json fleet.json.zst --svg plan.svg
      nova-pinning rebalance show plan.json -f csv -c guest -c target
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'plan', metavar='PLAN',
            help='of rebalance plan; - for the standard input')
        fleets.add_argument(parser, required=False)
        rebalance_output.add_options(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        rebalance_output.check(parsed_args)
        if parsed_args.fleet is None:
            for option, value in (('--svg', parsed_args.svg),
                                  ('--drawing', parsed_args.drawing)):
                if value:
                    raise errors.InputError(
                        'needs FLEET, the snapshot that the plan was made '
                        'for', errors.Location(option))
        plan = plan_document.read_plan(parsed_args.plan)
        fleet = None
        if parsed_args.fleet is not None:
            fleet = fleets.load(parsed_args, warn=False)
            rebalance_output.check_state(plan, fleet, parsed_args.plan)
        return rebalance_output.answer(parsed_args, plan, fleet)
