# SPDX-License-Identifier: Apache-2.0
"""openstack pinning fleet import."""

import argparse
import functools

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import fleet_import_nova
from nova_pinning.cli import fleets
from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_loader
from nova_pinning.importers import compute_api
from nova_pinning.importers import compute_run
from nova_pinning.osc import applying
from nova_pinning.osc import base


class CloudFleetReader(base.CloudCommand):
    """Reads the fleet of a cloud through its compute API and Placement."""

    @functools.cached_property
    def fleet_cloud(self) -> compute_api.ComputeCloud:
        """The cloud to read."""
        return compute_api.ComputeCloud(
            self.app.client_manager.sdk_connection, self.cloud.name)

    def read_fleet(
        self, host_files: str | None,
    ) -> tuple[snapshot.Fleet, list[str]]:
        """Read it, with what is odd about it, a sentence each.

        :param host_files: a directory of them, None for none
        :raises errors.InputError: if a host file is wrong
        :raises errors.CloudError: if the cloud cannot be worked with
        """
        descriptions = host_loader.by_name(host_files)
        fleet, notes = compute_run.read(
            self.fleet_cloud, descriptions, applying.with_progress)
        return fleet, [*notes, *fleet_import_nova.unmatched(
            descriptions, (host.name for host in fleet.hosts))]


class CloudFleetCommand(CloudFleetReader):
    """A command with --host-files.

    :cvar tells: what the files tell that the API does not
    """

    tells = "hosts' cells and CPUs"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        common_options.add_host_files(parser, self.tells)


class ImportFleet(CloudFleetCommand):
    """Take a snapshot of a cloud through its compute API and Placement.

    For those who cannot read nova's database, which nova-pinning fleet import
    nova does, and faster. Asks for the servers of all projects, and for each
    that may have pinned CPUs, where they are; for each host, what Placement
    has of it, and has allocated. The API does not tell the cells of hosts, so
    these come from host files; without them it is known for certain only what
    fits of guests that float, and of others how many at most. Where a host
    file says other than Placement, that is told, and the smaller is counted.

    What is odd is told on the error output.

    Examples::

      openstack --os-cloud north pinning fleet import --host-files hosts/ \\
          --output fleet.json.zst
    """

    tells = "hosts' cells, CPUs and L3 domains"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        fleets.add_output(parser)
        parser.add_argument('fleet', metavar='FLEET', nargs='?',
                            help='the same as --output FLEET')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.fleet is not None:
            if parsed_args.output != packed.STANDARD:
                raise errors.InputError(
                    f'is given as {parsed_args.output} and as '
                    f'{parsed_args.fleet}', errors.Location('--output'))
            parsed_args.output = parsed_args.fleet
        fleets.check_output(parsed_args)
        fleet, notes = self.read_fleet(parsed_args.host_files)
        left_out = fleet_import_nova.save(parsed_args, fleet)
        base_command.tell('warning', [*notes, *left_out])
        return base_command.OK
