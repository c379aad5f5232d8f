# SPDX-License-Identifier: Apache-2.0
"""openstack pinning reserve apply: hosts kept for guests of lost hosts."""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

import rich.console

from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.model import hostclass
from nova_pinning.osc import applying
from nova_pinning.osc import fleet_import
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning.rebalance import standing_reserve
from nova_pinning.segregation import segregation_model

_KEYS = ('hosts', 'joins', 'leaves', 'missing')


class ApplyReserve(fleet_import.CloudFleetReader, display.ListDisplay):
    """Keep hosts for guests of lost hosts.

    The file says what may be lost, or which guests there is to be room for.
    Empty hosts with which that holds are put into an aggregate for each
    reserve, whose pinning:reserve has PinnedTopologyFilter leave them to
    evacuations, or use them last. Those that guests came up on leave it once
    others take their place. Run it again when hosts come, go or were lost, and
    as often as you like: it asks first, and changes nothing without need.

    The exit status is 1 if hosts are missing, and with --dry-run if anything
    would change.

    Examples::

      openstack --os-cloud north pinning reserve apply reserve.yaml \\
          --exporter http://controller:9896/ --dry-run
      openstack --os-cloud north pinning reserve apply reserve.yaml --yes
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('reserve', metavar='RESERVE',
                            help='reserve file (YAML or JSON)')
        applying.add_options(parser, 'only show what would change')
        self.add_source(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        wanted = standing_reserve.load(parsed_args.reserve)
        fleet, notes = self.read_source(parsed_args)
        base_command.tell('warning', notes)
        with fleets.without_collector():
            made = standing_reserve.plan(fleet, wanted)
        found = {one.name: one for one in self.host_cloud.aggregates()}
        changes = [one for one in made
                   if _is_changed(one, found.get(one.name))]
        if changes and not parsed_args.dry_run:
            if not parsed_args.yes:
                _show(made, base_command.console())
            if parsed_args.yes or applying.is_agreed(
                    self.cloud.name, parsed_args.formatter):
                with applying.interruptible([], len(changes), 'reserves'):
                    made = tuple(self._applied(one) if one in changes else one
                                 for one in made)
        if any(one.missing for one in made) or (
                changes and parsed_args.dry_run):
            self.status = base_command.FINDINGS
        table = typed_table.Table(tuple(map(typed_table.Column, (
            'reserve', 'use', *_KEYS))), [(
                one.name, str(one.use),
                *(', '.join(getattr(one, key)) for key in _KEYS))
                for one in made])
        return display.Answer(
            table, lambda console: _show(made, console),
            lambda: self.document(reserves=list(table.records())))

    def _applied(
        self, one: standing_reserve.PlannedReserve,
    ) -> standing_reserve.PlannedReserve:
        """Make a reserve as it was planned, the new hosts first.

        A request that was under way may have put a guest on one of them.
        """
        cloud = self.host_cloud
        live = cloud.create_aggregate(one.name)
        cloud.set_metadata(live, {hostclass.RESERVE_KEY: str(one.use)})
        for host in one.joins:
            cloud.add_host(live, host)
        taken = [host for host in one.joins
                 if next(iter(cloud.servers(host)), None) is not None]
        for host in taken or one.leaves:
            cloud.remove_host(live, host)
        return dataclasses.replace(
            one, missing=(*one.missing, *(
                f'{host} has got a guest meanwhile; run the command again'
                for host in taken)))


def _is_changed(one: standing_reserve.PlannedReserve,
                live: segregation_model.HostAggregate | None) -> bool:
    return bool(one.joins or one.leaves) or live is None or (
        live.metadata.get(hostclass.RESERVE_KEY) != one.use)


def _show(made: Sequence[standing_reserve.PlannedReserve],
          console: rich.console.Console) -> None:
    def lines() -> Iterator[str]:
        for one in made:
            yield (f'{one.name} ({one.use}): '
                   f'{", ".join(one.hosts) or "no hosts"}')
            for sign, hosts in (('+', one.joins), ('-', one.leaves)):
                for host in hosts:
                    yield f'{sign} {host}'
            for text in one.missing:
                yield text

    for line in lines():
        printing.say(line, console)
