# SPDX-License-Identifier: Apache-2.0
"""nova-pinning rebalance failover: does the fleet survive a lost host."""

import argparse

import rich.console

from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import rebalance_options
from nova_pinning import errors


class Failover(display.Lister):
    """Tell whether a fleet survives the loss of a host or rack.

    For each loss, whether all its guests come up on other hosts: shown by
    evacuations that were tried one after the other, or proved to be
    impossible, with the guests that would not come up and why. Then the least
    reserve of empty hosts that mends it. Nothing is moved.

    The exit status is 1 unless each loss is shown to be survived.

    Examples::

      nova-pinning rebalance failover fleet.json.zst
      nova-pinning rebalance failover fleet.json.zst --by rack
      nova-pinning rebalance failover fleet.json.zst --lost cmp-17 --all
      nova-pinning rebalance failover fleet.json.zst -f csv -c name -c down
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        parser.add_argument(
            '--by', metavar='WHAT', default='host',
            help='what is lost together: host (the default), aggregate, a key '
                 "of aggregates' metadata such as rack, or the name of one "
                 'aggregate')
        parser.add_argument(
            '--lost', metavar='NAME', action='append', default=[],
            help='look at the loss of this host, aggregate or rack only; may '
                 'be given several times')
        parser.add_argument(
            '--all', action='store_true',
            help='list the losses that are survived too, and all guests that '
                 'would not come up')
        parser.add_argument(
            '--no-reserve', action='store_true',
            help='do not look for the least reserve, which can take long')
        parser.add_argument(
            '--seconds', metavar='N', type=common_options.positive,
            default=5.0,
            help='that the proof may take for each loss (default: 5)')
        rebalance_options.add_cloud(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        from nova_pinning.presentation import failover_report
        from nova_pinning.rebalance import failover
        from nova_pinning.rebalance import failover_model
        from nova_pinning.rebalance import move_rules

        operator = rebalance_options.rule_settings(parsed_args)
        fleet = fleets.load(parsed_args)
        if not fleet.hosts:
            raise errors.InputError('has no hosts', fleet.where)
        only = parsed_args.lost
        if parsed_args.by == failover.BY_HOST:
            only = fleets.named_hosts(only, fleet, '--lost')
        with (fleets.progress('losing hosts') as tell,
              fleets.without_collector()):
            report = failover.check_failover(
                fleet, parsed_args.by,
                move_rules.MoveRules(fleet, operator),
                failover.FailoverSettings(
                    seconds=parsed_args.seconds,
                    has_reserve=not parsed_args.no_reserve,
                    ask_nova=deferred_claim.predict_claim),
                lambda done, total: tell(done / max(1, total)), only)
        if report.verdict is not failover_model.SurvivalVerdict.YES:
            self.status = base_command.FINDINGS

        def show(console: rich.console.Console) -> None:
            failover_report.show(report, console, parsed_args.all)

        self.status = max(self.status, fleets.status(fleet.hosts))
        return fleets.with_gaps(display.Answer(
            failover_report.losses(report, report.losses), show,
            lambda: failover_report.as_dict(report)), fleet.hosts)
