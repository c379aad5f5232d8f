# SPDX-License-Identifier: Apache-2.0
"""openstack pinning fleet import."""

import argparse
import contextlib
import functools
import os
import urllib.parse

from keystoneauth1 import exceptions

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import fleet_import_nova
from nova_pinning.cli import fleets
from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_loader
from nova_pinning.importers import compute_api
from nova_pinning.importers import compute_run
from nova_pinning.osc import applying
from nova_pinning.osc import base

_VARIABLE = 'OS_PINNING_EXPORTER'
#: Where nova-pinning exporter serves the fleet as it was read last.
_PATH = 'fleet.json.zst'
_TIMEOUT_SECONDS = 120


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

    def add_source(self, parser: argparse.ArgumentParser) -> None:
        """Add what says where hosts and guests are read."""
        parser.add_argument(
            '--exporter', metavar='URL', default=os.environ.get(_VARIABLE),
            help='have hosts and guests from nova-pinning exporter, which '
            'reads them all the time: http://controller:9896/, with user and '
            'password if it asks for them. Without, the compute API and '
            f'Placement are asked, which takes long (default: {_VARIABLE} of '
            'the environment)')
        common_options.add_host_files(
            parser, "hosts' cells, CPUs and L3 domains where there is no "
            'exporter')

    def read_source(
        self, parsed_args: argparse.Namespace,
    ) -> tuple[snapshot.Fleet, list[str]]:
        """Read it from there, with what is odd about it, a sentence each.

        :raises errors.CloudError: if nobody tells it
        """
        if parsed_args.exporter:
            return self._of_exporter(parsed_args.exporter), []
        return self.read_fleet(parsed_args.host_files)

    def _of_exporter(self, url: str) -> snapshot.Fleet:
        shown = _without_password(_parsed(url))
        session = self.app.client_manager.sdk_connection.session
        try:
            answer = session.get(
                f'{url.rstrip("/")}/{_PATH}', authenticated=False,
                raise_exc=False, redirect=False, timeout=_TIMEOUT_SECONDS,
                log=False)
        except exceptions.ClientException as error:
            raise errors.CloudError(
                f'nova-pinning exporter at {shown} does not answer '
                f'({type(error).__name__}); without --exporter and '
                f'{_VARIABLE} the cloud itself is asked') from error
        if answer.status_code != 200:
            raise errors.CloudError(
                f'nova-pinning exporter at {shown} answers with status '
                f'{answer.status_code}; {_ADVICE.get(answer.status_code, "")}'
                f'without --exporter and {_VARIABLE} the cloud itself is '
                'asked')
        return document.loads(packed.unpack(answer.content, shown), shown)


_ADVICE = {
    401: 'write the URL with user and password; ',
    404: '[pinning_exporter] serve_snapshot is not set there; ',
    503: 'it has not read the fleet yet; '}


def _parsed(url: str) -> urllib.parse.SplitResult:
    """A URL that an exporter can be at, unlike a host without http://.

    :raises errors.InputError: if it is none
    """
    with contextlib.suppress(ValueError):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme in ('http', 'https') and parts.hostname:
            return parts
    raise errors.InputError(
        'is not a URL', errors.Location(f'--exporter, or {_VARIABLE}'),
        'write it like http://controller:9896/')


def _without_password(parts: urllib.parse.SplitResult) -> str:
    """A URL as it may be shown."""
    return parts._replace(
        netloc=parts.netloc.rpartition('@')[2]).geturl()


class ImportFleet(CloudFleetReader):
    """Take a snapshot of a cloud through its compute API and Placement.

    For those who cannot read nova's database, which nova-pinning fleet import
    nova does, and faster. Asks for the servers of all projects, and for each
    that may have pinned CPUs, where they are; for each host, what Placement
    has of it, and has allocated. The API does not tell the cells of hosts, so
    these come from host files; without them it is known for certain only what
    fits of guests that float, and of others how many at most. Where a host
    file says other than Placement, that is told, and the smaller is counted.

    From nova-pinning exporter, where --exporter says where it is, it comes in
    a moment, and with all that nova's databases tell.

    What is odd is told on the error output.

    Examples::

      openstack --os-cloud north pinning fleet import --host-files hosts/ \\
          --output fleet.json.zst
      openstack pinning fleet import --exporter http://controller:9896/ \\
          | nova-pinning capacity -
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self.add_source(parser)
        fleets.add_output(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        common_options.check_output(parsed_args.output)
        fleet, notes = self.read_source(parsed_args)
        left_out = fleet_import_nova.save(parsed_args, fleet)
        base_command.tell('warning', [*notes, *left_out])
        return base_command.OK
