# SPDX-License-Identifier: Apache-2.0
"""nova-pinning explain: why a guest does not fit, and what would help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
import dataclasses
import functools
import typing

import rich.console

from nova_pinning.admission import guest_request
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge.offline import standalone
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import guest_options
from nova_pinning.cli import nova_options
from nova_pinning import errors
from nova_pinning.explain import explanation
from nova_pinning.explain import flavor_alternatives
from nova_pinning import fit
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.presentation import explanation_report
from nova_pinning.presentation import typed_table

if typing.TYPE_CHECKING:
    from nova_pinning.bridge.importer import request_specs


class Explain(display.Lister):
    """Explain why a guest does not fit on the hosts of a fleet.

    The verdict on each host with its reason, their sum in one sentence, what
    Placement alone would exclude before any filter, and what would make the
    guest fit: another property, or a smaller size. Each of these was tried,
    none is guessed. The exit status is 1 if the guest fits
    nowhere, or only where too little is known of hosts to be certain.

    Examples::

      nova-pinning explain fleet.json.zst --flavor enterprise.4xlarge
      nova-pinning explain fleet.json.zst --host cmp-17 \\
          --flavor 'vcpus=16 ram=64GiB hw:cpu_policy=dedicated'
      nova-pinning explain fleet.json.zst \\
          --flavor flavors.yaml:enterprise.4xlarge --per-host
      nova-pinning explain fleet.json.zst \\
          --server 0b9f6ac1-50b3-4a3c-9d6a-7d4c1f6f3b52
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        what = parser.add_mutually_exclusive_group(required=True)
        guest_options.add_flavor(what)
        what.add_argument(
            '--server', metavar='UUID',
            help="a server's flavor and image, from the request that nova "
                 'keeps in its database; or req-..., the request that made '
                 'it')
        common_options.add_image_properties(parser)
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
        common_options.add_nova_conf(
            parser, 'nova.conf, or a directory of such files: what it sets of '
            'nova-scheduler outweighs the snapshot; for --server as nova-api '
            'is given it (default there: those that nova reads by default); '
            'may be given several times')
        common_options.add_assume(parser)
        parser.add_argument('--per-host', action='store_true',
                            help='print a line for each host as well')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        common_options.image_properties(parsed_args)
        fleet = fleets.load(parsed_args)
        filters = nova_options.enabled_filters(fleet)
        names = fleets.named_hosts(parsed_args.host, fleet)
        request = _explained_request(parsed_args, fleet)
        rules = dataclasses.replace(
            occupied.rules_of(fleet), enabled_filters=filters)
        wishes = _wishes(request, rules)
        # Loads nova, so not before all else is known to be good.
        standalone.prepare()
        from nova_pinning.bridge.offline import flavor_request
        from nova_pinning.bridge.offline import fleet_claim
        from nova_pinning import conf
        judge = explanation.judge_of(fleet, rules, wishes, fit.ClaimBounds(
            conf.CONF.pinning.nova_claim_max_seconds, is_retried=False,
            ask_nova=fleet_claim.predict_claim),
            common_options.assumed(parsed_args))

        read = functools.partial(
            guest_options.guest_request_for, aliases=fleet.pci_aliases)
        with (flavor_request.batch(rules.pci_in_placement),
              fleets.progress('explaining') as tell):
            explained = explanation.explain_guest(
                fleet, judge, request.order, read, names, tell)
        if not explained.fitting or not explained.is_certain:
            self.status = base_command.FINDINGS

        def show(console: rich.console.Console) -> None:
            explanation_report.show(explained, console, request.remarks,
                                    parsed_args.per_host)
            for verdict in explained.verdicts if names else ():
                explanation_report.show_host(
                    verdict, judge.occupancies[verdict.host],
                    explained.request, console, rules)

        return display.Answer(
            typed_table.of_keys(
                ('name', 'fits', 'layer', 'message', 'is_enabled',
                 'placement', 'unknown_traits', 'class', 'gaps'),
                map(explanation_report.verdict_as_dict, explained.verdicts)),
            show,
            lambda: explanation_report.as_dict(explained, request.remarks))


@dataclasses.dataclass(frozen=True, slots=True)
class _ExplainedRequest:
    """What is asked for, on the command line or once of nova.

    :param remarks: what else is worth knowing
    """

    order: flavor_alternatives.OrderedFlavor
    availability_zone: str | None
    project: str | None
    remarks: tuple[str, ...] = ()


def _explained_request(parsed_args: argparse.Namespace,
                       fleet: snapshot.Fleet) -> _ExplainedRequest:
    image = common_options.image_properties(parsed_args)
    zone, project = parsed_args.availability_zone, parsed_args.project
    if parsed_args.flavor is not None:
        flavor, = guest_options.requested_flavors(parsed_args, fleet)
        return _ExplainedRequest(
            flavor_alternatives.OrderedFlavor(flavor, image), zone, project)
    standalone.prepare()
    from nova_pinning.bridge.importer import request_specs
    stored = request_specs.stored_request(
        parsed_args.server, common_options.nova_arguments(parsed_args))
    return _ExplainedRequest(
        flavor_alternatives.OrderedFlavor(stored.flavor, {
            **stored.image_properties,
            **image}), stored.availability_zone if zone is None else zone,
        stored.project_id if project is None else project,
        tuple(_remarks(stored, fleet)))


def _remarks(stored: request_specs.StoredRequest,
             fleet: snapshot.Fleet) -> Iterator[str]:
    """What else is worth knowing about a request that nova has stored."""
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


def _wishes(
    explained: _ExplainedRequest, rules: scheduler_rules.SchedulerRules,
) -> guest_request.GuestWishes:
    """Where the guest may go.

    :raises errors.InputError: for an availability zone that there is not
    """
    zone = explained.availability_zone
    zones = {aggregate.availability_zone
             for aggregate in rules.aggregates.values()
             if aggregate.availability_zone} | {rules.default_zone}
    if zone is not None and zone not in zones:
        raise errors.InputError(
            f'no aggregate makes an availability zone called {zone!r}',
            errors.Location('--availability-zone'),
            common_options.known(sorted(zones)))
    return guest_request.GuestWishes(
        project=explained.project or '', availability_zone=zone)
