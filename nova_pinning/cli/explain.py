#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""nova-pinning explain: why a guest does not fit, and what would help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import difflib
import functools
import json
import typing

from nova_pinning.bridge import standalone
from nova_pinning.cli import base
from nova_pinning.cli import explaining
from nova_pinning.cli import fleets
from nova_pinning.cli import nova_conf
from nova_pinning.cli import options
from nova_pinning.cli import wanted as cli_wanted
from nova_pinning import errors
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet.explain import explanation
from nova_pinning.fleet.explain import report
from nova_pinning.fleet.explain import ways
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import placement
from nova_pinning.fleet import wanted as fleet_wanted

if typing.TYPE_CHECKING:
    from nova_pinning.bridge import request_specs


class Explain(base.Command):
    """Explain why a guest does not fit on the hosts of a fleet.

    The verdict on each host with its reason, their sum in one sentence, what
    Placement alone would exclude before any filter, and what would make the
    guest fit: another property, a smaller size, a guest to move. Each of
    these was tried, none is guessed. The exit status is 1 if the guest fits
    nowhere.
    """

    epilog = """
        Examples::

          nova-pinning explain fleet.json.zst --flavor enterprise.4xlarge
          nova-pinning explain fleet.json.zst --host cmp-17 \\
              --flavor 'vcpus=16 ram=64GiB hw:cpu_policy=dedicated'
          nova-pinning explain fleet.json.zst \\
              --flavor flavors.yaml:enterprise.4xlarge --hosts
          nova-pinning explain fleet.json.zst \\
              --server 0b9f6ac1-50b3-4a3c-9d6a-7d4c1f6f3b52
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        fleets.add_argument(parser)
        what = parser.add_mutually_exclusive_group(required=True)
        cli_wanted.add_flavor(what, required=False)
        what.add_argument(
            '--server', metavar='UUID',
            help="a server's flavor and image, from the request that nova "
                 'keeps in its database')
        what.add_argument(
            '--request-id', metavar='REQ',
            help='the same by the request that made the server: req-...')
        nova_conf.add_options(parser)
        cli_wanted.add_order(parser)
        parser.add_argument(
            '--host', action='append', default=[], metavar='HOST',
            help='only this host, layer by layer and cell by cell; may be '
                 'given several times')
        parser.add_argument(
            '--availability-zone', metavar='ZONE',
            help='the zone that the guest is asked for in')
        parser.add_argument(
            '--project', metavar='ID',
            help='whose guest it is, for aggregates that are for certain '
                 'projects only (filter_tenant_id)')
        parser.add_argument(
            '--isolated-aggregates', action='store_true',
            help='have aggregates with trait:NAME=required take only guests '
                 'that require the trait, as under [scheduler] '
                 'enable_isolated_aggregate_filtering')
        parser.add_argument('--hosts', action='store_true',
                            help='print a line for each host as well')
        options.add_format(parser, 'table', 'json')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        options.image_properties(parsed_args)
        fleet = fleets.load(parsed_args)
        names = _hosts(parsed_args.host, fleet)
        aliases = cli_wanted.pci_aliases(parsed_args, fleet)
        asked = _asked(parsed_args, fleet)
        scope = _scope(asked, fleet, parsed_args.isolated_aggregates)
        # Loads nova, so not before all else is known to be good.
        standalone.prepare()
        from nova_pinning.bridge import foresight
        from nova_pinning.bridge import wanted as bridge_wanted
        from nova_pinning import conf
        judge = explanation.judge_of(fleet, scope, functools.partial(
            foresight.foresee, packs_cells=fleet.packs_cells,
            max_permutations=conf.CONF.pinning.nova_claim_max_permutations))

        def read(flavor: flavor_model.Flavor,
                 image: Mapping[str, str]) -> fleet_wanted.Wanted:
            return cli_wanted.read(flavor, image, aliases)

        with bridge_wanted.many(), fleets.progress('explaining') as tell:
            found = explanation.explain(
                fleet, judge, asked.order, read, names, tell)
        if parsed_args.format == 'json':
            print(json.dumps(report.as_dict(found, asked.remarks), indent=2))
        else:
            console = base.console()
            explaining.show(found, console, asked.remarks, parsed_args.hosts)
            for verdict in found.verdicts if names else ():
                explaining.show_host(
                    verdict, judge.standings[verdict.host], found.wanted,
                    console)
        return base.OK if found.fitting else base.FINDINGS


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for, on the command line or once of nova.

    :param remarks: what else is worth knowing
    """

    order: ways.Order
    availability_zone: str | None
    project: str | None
    remarks: tuple[str, ...] = ()


def _asked(parsed_args: argparse.Namespace,
           fleet: fleet_model.Fleet) -> _Asked:
    image = options.image_properties(parsed_args)
    zone, project = parsed_args.availability_zone, parsed_args.project
    if parsed_args.flavor is not None:
        flavor, = cli_wanted.flavors(parsed_args, fleet)
        return _Asked(ways.Order(flavor, image), zone, project)
    standalone.prepare()
    from nova_pinning.bridge import request_specs
    stored = request_specs.stored(
        server=parsed_args.server, request_id=parsed_args.request_id,
        arguments=nova_conf.arguments(parsed_args))
    return _Asked(
        ways.Order(stored.flavor, {**stored.image_properties, **image}),
        stored.availability_zone if zone is None else zone,
        stored.project_id if project is None else project,
        tuple(_remarks(stored, fleet)))


def _remarks(stored: request_specs.Stored,
             fleet: fleet_model.Fleet) -> Iterator[str]:
    """What else is worth knowing of a request that nova has stored."""
    if stored.fault:
        yield f'nova said of server {stored.server}: {stored.fault}'
    yield from stored.notes
    taken = f' of {fleet.taken_at}' if fleet.taken_at else ''
    yield (f'the hosts are those of the snapshot{taken}, not as they were '
           'when the request was made')
    host = next((guest.host for guest in fleet.guests
                 if guest.uuid == stored.server), None)
    if host is not None:
        yield (f'server {stored.server} is in the snapshot, on host {host}; '
               'what is explained is one more like it')


def _scope(asked: _Asked, fleet: fleet_model.Fleet,
           isolates: bool) -> placement.Scope:
    """Where the guest may go.

    :raises errors.InputError: for an availability zone that there is not
    """
    scope = placement.Scope(
        explanation.aggregates_of(fleet), project=asked.project,
        availability_zone=asked.availability_zone, isolates=isolates)
    zone = scope.availability_zone
    zones = {one.availability_zone for one in fleet.aggregates
             if one.availability_zone} | {scope.default_zone}
    if zone is not None and zone not in zones:
        raise errors.InputError(
            f'no aggregate makes an availability zone called {zone!r}',
            errors.Location('--availability-zone'),
            options.known(sorted(zones)))
    return scope


def _hosts(asked: list[str], fleet: fleet_model.Fleet) -> list[str]:
    """The hosts that are asked about, each once.

    :raises errors.InputError: for one that the fleet does not have
    """
    known = [one.name for one in fleet.hosts]
    if not known:
        raise errors.InputError('has no hosts', fleet.where)
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            raise errors.InputError(
                f'the fleet has no host called {name!r}',
                errors.Location('--host'), options.known(near or known))
    return list(dict.fromkeys(asked))
