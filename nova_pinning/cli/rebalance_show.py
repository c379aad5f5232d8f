# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance show: a plan of moves, and whether it still holds."""

import argparse
from collections.abc import Sequence
import dataclasses
import shlex
import sys

import rich.console

from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning.cli import rebalance_output
from nova_pinning import errors
from nova_pinning.presentation import plan_check_report
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import slot_size


class ShowPlan(display.Lister):
    """Show a plan of moves, and whether it still holds.

    With a snapshot each move is made on that, which may be newer than the
    plan, and has to end where the plan says. What cannot be made, or ends
    elsewhere, is told with what has changed, and with how much room there is
    now, and would be. What may be moved is judged by what the plan was asked
    for with, but for options that are given here. The exit status is 1 if the
    plan does not hold as it is.

    With the very snapshot that it was made for its hosts are drawn, before
    and after: some of them, or all in the formats drawing and svg.

    Examples::

      nova-pinning rebalance show plan.json
      nova-pinning rebalance show plan.json -f csv -c guest -c target
      nova-pinning rebalance show plan.json fleet.json.zst --nova-claim
      nova-pinning rebalance show plan.json fleet.json.zst -f svg > plan.svg
      nova-pinning rebalance show plan.json fleet.json.zst -f csv \\
          -c guest -c outcome -c reason
    """
    pages, texts = rebalance_output.PAGES, rebalance_output.TEXTS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'plan', metavar='PLAN',
            help='of rebalance plan; - for the standard input')
        fleets.add_argument(parser, required=False)
        parser.add_argument(
            '--nova-claim', action='store_true',
            help="have nova's own claim decide every move as well")
        rebalance_options.add_cloud(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        is_drawn = parsed_args.formatter in (*self.pages, *self.texts)
        if is_drawn and parsed_args.fleet is None:
            raise errors.InputError(
                'needs FLEET, the snapshot that the plan was made for',
                errors.Location(f'--format {parsed_args.formatter}'))
        plan = plan_document.read_plan(parsed_args.plan)
        if parsed_args.fleet is None:
            return rebalance_output.answer(parsed_args, plan, None)
        if is_drawn:
            fleet = fleets.load(parsed_args, warn=False)
            rebalance_output.check_state(plan, fleet, parsed_args.plan)
            return rebalance_output.answer(parsed_args, plan, fleet)
        return self._checked(parsed_args, plan)

    def _checked(self, parsed_args: argparse.Namespace,
                 plan: plan_model.RebalancePlan) -> display.Answer:
        """Whether it holds."""
        from nova_pinning.rebalance import move_rules
        from nova_pinning.rebalance import plan_check

        given = rebalance_options.rule_settings(parsed_args)
        fleet = fleets.load(parsed_args, warn=False)
        sizes: Sequence[slot_size.SlotSize] = ()
        rules, excluded, dirty_limit_mib = given, frozenset[str](), None
        if plan.request is None:
            print('warning: the plan does not say what it was asked for '
                  'with: it is verified by the usual rules and the options '
                  'that are given here, and the room is not counted',
                  file=sys.stderr)
        else:
            request = plan.request
            rules = _overridden(request.rules, given)
            excluded = frozenset(request.excluded)
            dirty_limit_mib = request.cost.dirty_limit_mib
            if isinstance(request.goal, plan_request.MakeRoom):
                sizes = request.goal.sizes
        with fleets.progress('making the moves'), fleets.without_collector():
            checked = plan_check.check_plan(
                plan, fleet, move_rules.MoveRules(
                    fleet, rules, dirty_limit_mib),
                deferred_claim.predict_claim,
                deferred_claim.claimed_fit if parsed_args.nova_claim else None,
                sizes, excluded)
        again = ''
        if not checked.holds:
            self.status = base_command.FINDINGS
            if plan.request is not None:
                again = shlex.join((
                    'nova-pinning', 'rebalance', 'plan', parsed_args.fleet,
                    '--request', parsed_args.plan))
        hosts = rebalance_output.doubtful_hosts(plan, fleet)
        self.status = max(self.status, fleets.status(hosts))

        def show(console: rich.console.Console) -> None:
            if checked.is_same_state:
                rebalance_output.answer(parsed_args, plan, fleet).page(console)
                console.print()
            plan_check_report.show(checked, plan, console, again)

        return fleets.with_gaps(display.Answer(
            plan_check_report.moves(checked, checked.moves), show,
            lambda: plan_check_report.as_dict(checked)), hosts)


def _overridden(
    settings: plan_request.RuleSettings, given: plan_request.RuleSettings,
) -> plan_request.RuleSettings:
    """Settings, but for those that are given otherwise than by default."""
    usual = plan_request.RuleSettings()
    return dataclasses.replace(settings, **{
        field.name: value for field in dataclasses.fields(given)
        if (value := getattr(given, field.name))
        != getattr(usual, field.name)})
