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

    def add_jobs(self, parser: argparse.ArgumentParser) -> None:
        """Add --jobs."""
        parser.add_argument(
            '--jobs', metavar='N',
            type=common_options.number(1, compute_run.MOST_JOBS),
            default=compute_run.JOBS,
            help='requests that are made at once, up to '
            f'{compute_run.MOST_JOBS} (default: %(default)s)')

    def read_fleet(self, host_files: str | None,
                   jobs: int) -> tuple[snapshot.Fleet, list[str]]:
        """Read it, with what is odd about it, a sentence each.

        :param host_files: a directory of them, None for none
        :raises errors.InputError: if a host file is wrong
        :raises errors.CloudError: if the cloud cannot be worked with
        """
        descriptions = host_loader.by_name(host_files)
        fleet, notes = compute_run.read(
            self.fleet_cloud, descriptions, applying.with_progress, jobs)
        return fleet, [*notes, *fleet_import_nova.unmatched(
            descriptions, (host.name for host in fleet.hosts))]


class CloudFleetCommand(CloudFleetReader):
    """A command with --hosts and --jobs.

    :cvar tells: what the files of --hosts tell that the API does not
    """

    tells = 'cells and CPUs'

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleet_import_nova.add_hosts(parser, self.tells)
        self.add_jobs(parser)


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

      openstack --os-cloud north pinning fleet import --hosts hosts/ \\
          --output fleet.json.zst
    """

    tells = 'cells, CPUs and L3 domains'

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
        fleet, notes = self.read_fleet(parsed_args.hosts, parsed_args.jobs)
        left_out = fleet_import_nova.save(parsed_args, fleet)
        base_command.tell('warning', [*notes, *left_out])
        return base_command.OK
