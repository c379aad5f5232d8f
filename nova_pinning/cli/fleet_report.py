# SPDX-License-Identifier: Apache-2.0
"""nova-pinning fleet report: a fleet as a page to look at."""

import argparse
import functools
from importlib import metadata
import sys
from typing import Any

from nova_pinning.admission import guest_request
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import fleets
from nova_pinning.cli import guest_options
from nova_pinning.cli import nova_options
from nova_pinning.cli import rebalance_output
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning import spelling

# Of the time that a page takes, what is counted first.
_COUNTING = 0.2


class ReportFleet(base_command.FileCommand):
    """Make a page of a fleet: what can be sold, hosts, will it fit.

    One HTML file that needs nothing else and asks nothing of any other place:
    what can still be sold of each flavor beside what host totals promise,
    what is stranded and why, each host with its guests in little and, opened,
    in large, and on which hosts a guest fits and why not on others, for
    flavors and for any size. With a plan of moves, that before and after.
    What has sold out, and what does next, is printed as well.

    Without --flavor, the flavors are those of the snapshot.

    Examples::

      nova-pinning fleet report fleet.json.zst -o page.html
      nova-pinning fleet report fleet.json.zst -o page.html \\
          --flavor flavors.yaml --config-file nova.conf
      nova-pinning fleet report fleet.json.zst -o page.html \\
          --move-plan plan.json
      nova-pinning fleet report today.json.zst -o page.html \\
          --earlier monday.json.zst --earlier tuesday.json.zst
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        parser.add_argument('-o', '--output', metavar='FILE', required=True,
                            help='replace this file with the page; - for '
                            'the standard output')
        guest_options.add_flavors(parser)
        common_options.add_image_properties(parser)
        nova_options.add_option(parser)
        parser.add_argument(
            '--move-plan', metavar='PLAN',
            help='show this plan of moves too, of rebalance plan, '
                 'made for this very snapshot')
        parser.add_argument(
            '--earlier', action='append', default=[], metavar='FLEET',
            help='a snapshot of the same fleet at an earlier time, for how '
                 'much was sold over time, and in how many days flavors are '
                 'sold out; may be given several times')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        common_options.check_output(parsed_args.output)
        from nova_pinning.presentation.fleet_page import page
        with fleets.without_collector():
            shown = _document(parsed_args)
            for line in shown['sales']['all']['lines']:
                print(spelling.printable(str(line)), file=sys.stderr)
            common_options.write_output(parsed_args.output, page.render(shown))
        return 0


def _document(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """What the page that is asked for shows.

    :raises errors.InputError: if a file or an option is no good
    """
    fleet = fleets.load(parsed_args)
    if not fleet.hosts:
        raise errors.InputError('has no hosts', fleet.where)
    plan = None
    if parsed_args.move_plan is not None:
        from nova_pinning.rebalance import plan_document
        plan = plan_document.read_plan(parsed_args.move_plan)
        rebalance_output.check_state(plan, fleet, parsed_args.move_plan)
    with fleets.progress('reading earlier snapshots'):
        earlier = [document.read(path) for path in parsed_args.earlier]
    for path, snapshot_then in zip(parsed_args.earlier, earlier):
        if not snapshot_then.taken_at:
            raise errors.InputError('does not say when it was taken',
                                    errors.Location(path))
    requests = _requests(parsed_args, fleet)

    read = functools.partial(guest_options.guest_request_for,
                             aliases=fleet.pci_aliases)
    from nova_pinning.bridge.offline import flavor_request
    from nova_pinning.capacity import capacity
    from nova_pinning.presentation.fleet_page import page_data
    from nova_pinning.presentation.fleet_page import sold_history
    with (flavor_request.batch(fleet.rules.pci_in_placement),
          fleets.progress('making the page') as tell):
        measured = capacity.measure(
            fleet, requests, progress=lambda done: tell(_COUNTING * done))
        return page_data.document(
            page_data.FleetPage(
                measured=measured, read=read, findings=problems.find(fleet),
                plan=plan,
                earlier=[capacity.measure(one, requests) for one in earlier],
                history=sold_history.history([*earlier, fleet])
                if earlier else ()),
            metadata.version('nova-pinning'),
            lambda done: tell(_COUNTING + (1 - _COUNTING) * done))


def _requests(
    parsed_args: argparse.Namespace, fleet: snapshot.Fleet,
) -> tuple[guest_request.GuestRequest, ...]:
    """One guest of each flavor; none if nobody names any."""
    if parsed_args.flavor or fleet.flavors:
        with fleets.progress('asking nova what the flavors are'):
            return guest_options.guest_requests(parsed_args, fleet)
    from nova_pinning.bridge.offline import standalone
    standalone.prepare()
    return ()
