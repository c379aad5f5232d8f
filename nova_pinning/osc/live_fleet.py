# SPDX-License-Identifier: Apache-2.0
"""openstack pinning capacity, explain and rebalance plan: a cloud as it is."""

import argparse
import contextlib
import os
import urllib.parse

from keystoneauth1 import exceptions

from nova_pinning.cli import base_command
from nova_pinning.cli import capacity_command
from nova_pinning.cli import common_options
from nova_pinning.cli import explain
from nova_pinning.cli import fleets
from nova_pinning.cli import nova_options
from nova_pinning.cli import rebalance_plan
from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.osc import fleet_import

_VARIABLE = 'OS_PINNING_EXPORTER'
#: Where nova-pinning exporter serves the fleet as it was read last.
_PATH = 'fleet.json.zst'
_TIMEOUT_SECONDS = 120


class LiveFleet(fleet_import.CloudFleetReader, fleets.FleetAnswer):
    """Has a fleet from nova-pinning exporter, or from the cloud's API."""

    def add_fleet(self, parser: argparse.ArgumentParser,
                  required: bool = True) -> None:
        # Where there can be no fleet, the commands ask whether there is.
        parser.set_defaults(fleet='the cloud')
        parser.add_argument(
            '--exporter', metavar='URL', default=os.environ.get(_VARIABLE),
            help='have hosts and guests from nova-pinning exporter, which '
            'reads them all the time: http://controller:9896/, with user and '
            'password if it asks for them. Without, the compute API and '
            f'Placement are asked, which takes long (default: {_VARIABLE} of '
            'the environment)')
        common_options.add_host_files(
            parser, "hosts' cells and CPUs where there is no exporter")

    def load_fleet(self, parsed_args: argparse.Namespace) -> snapshot.Fleet:
        """The cloud's hosts and guests.

        :raises errors.CloudError: if nobody tells them
        """
        if parsed_args.exporter:
            fleet = self._of_exporter(parsed_args.exporter)
        else:
            fleet, notes = self.read_fleet(parsed_args.host_files)
            base_command.tell('warning', notes)
        fleets.warn_of(problems.find(fleet))
        return nova_options.with_options(parsed_args, fleet)

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


class ShowCloudCapacity(LiveFleet, capacity_command.CapacityAnswer):
    """Show how much can still be sold of a cloud.

    What nova-pinning capacity shows of a snapshot, for the cloud as it is
    now: the exact number of further guests of each flavor that nova will
    place, beside what the free CPUs of each host as a whole promise, and what
    is in the way.

    Hosts and guests come from nova-pinning exporter where --exporter says
    where it is, in a moment and with all that nova's databases tell.
    Otherwise they are read through the compute API and Placement, which tell
    neither PCI devices nor, without --host-files, the cells of hosts.

    Examples::

      openstack pinning capacity --exporter http://controller:9896/
      openstack --os-cloud north pinning capacity --per-class \\
          --host-files hosts/
      openstack pinning capacity --flavor enterprise.4xlarge -f json
    """


class ExplainCloud(LiveFleet, explain.ExplanationAnswer):
    """Explain why a guest does not fit on the hosts of a cloud.

    What nova-pinning explain tells of a snapshot, for the cloud as it is now:
    the verdict on each host with its reason, what Placement alone would
    exclude, and what would make the guest fit. The exit status is 1 if the
    guest fits nowhere.

    Hosts and guests come from where openstack pinning capacity has them. For
    --server and --request-id nova's databases have to be in reach.

    Examples::

      openstack pinning explain --flavor enterprise.4xlarge \\
          --exporter http://controller:9896/
      openstack --os-cloud north pinning explain --host-files hosts/ \\
          --flavor 'vcpus=16 ram=64GiB hw:cpu_policy=dedicated'
    """


class PlanCloudMoves(LiveFleet, rebalance_plan.PlanAnswer):
    """Plan moves in a cloud that make room for further guests, or empty hosts.

    What nova-pinning rebalance plan makes of a snapshot, for the cloud as it
    is now. Nothing is moved; openstack pinning rebalance apply does that.

    Hosts and guests come from where openstack pinning capacity has them.

    Examples::

      openstack pinning rebalance plan --drain cmp-17 -o plan.json \\
          --exporter http://controller:9896/
      openstack --os-cloud north pinning rebalance plan --for 16 \\
          --host-files hosts/ --moves 25 -o plan.json
    """
