# SPDX-License-Identifier: Apache-2.0
"""openstack pinning upgrade check."""

import argparse

from nova_pinning.cli import base_command
from nova_pinning.cli import upgrade_check
from nova_pinning.fleet import snapshot
from nova_pinning.osc import fleet_import


class CheckCloudUpgrade(fleet_import.CloudFleetCommand):
    """Tell which guests and hosts of a cloud an upgrade of nova hits.

    Reads hosts and servers of all projects through the compute API and
    Placement, as openstack pinning fleet import does, and checks them as
    nova-pinning upgrade check does. The API does not tell which nova a host
    runs, so --from is taken for all of them, nor PCI devices, nor the cells
    of hosts without --host-files; a snapshot from nova's databases tells all
    that.

    Examples::

      openstack pinning upgrade check --from 2025.1 --to 2026.1
      openstack --os-cloud north pinning upgrade check --host-files hosts/ \\
          --from 2025.1 --to 2026.1 --format json
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        upgrade_check.add_options(parser, tells_releases=False)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        upgrade_check.check_options(parsed_args)
        return upgrade_check.check(
            parsed_args, lambda: self._read(parsed_args))

    def _read(
        self, parsed_args: argparse.Namespace,
    ) -> tuple[snapshot.Fleet, str]:
        fleet, notes = self.read_fleet(parsed_args.host_files)
        base_command.tell('warning', notes)
        return fleet, f'cloud {self.cloud.name}'
