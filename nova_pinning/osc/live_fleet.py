# SPDX-License-Identifier: Apache-2.0
"""openstack pinning rebalance plan: for a cloud as it is."""

import argparse

from nova_pinning.cli import base_command
from nova_pinning.cli import fleets
from nova_pinning.cli import nova_options
from nova_pinning.cli import rebalance_plan
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.osc import fleet_import


class PlanCloudMoves(fleet_import.CloudFleetReader, rebalance_plan.PlanAnswer):
    """Plan moves in a cloud that make room for further guests, or empty hosts.

    What nova-pinning rebalance plan makes of a snapshot, for the cloud as it
    is now. Nothing is moved; openstack pinning rebalance apply does that.

    Hosts and guests come from where openstack pinning fleet import has them.

    Examples::

      openstack pinning rebalance plan --drain cmp-17 -o plan.json \\
          --exporter http://controller:9896/
      openstack --os-cloud north pinning rebalance plan --for 16 \\
          --host-files hosts/ --moves 25 -o plan.json
    """

    def add_fleet(self, parser: argparse.ArgumentParser) -> None:
        self.add_source(parser)

    def load_fleet(self, parsed_args: argparse.Namespace) -> snapshot.Fleet:
        """The cloud's hosts and guests.

        :raises errors.CloudError: if nobody tells them
        """
        fleet, notes = self.read_source(parsed_args)
        base_command.tell('warning', notes)
        fleets.warn_of(problems.find(fleet))
        return nova_options.with_options(parsed_args, fleet)
