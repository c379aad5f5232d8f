# SPDX-License-Identifier: Apache-2.0
"""upgrade check: what an upgrade of nova breaks, before it does."""

import argparse
import datetime

from nova_pinning.admission import gaps
from nova_pinning.checks import report
from nova_pinning.cli import base_command
from nova_pinning.cli import checking
from nova_pinning.cli import fleets
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.upgrade import register
from nova_pinning.upgrade import upgrade_check


def _check_releases(parsed_args: argparse.Namespace) -> None:
    """Make sure of the releases before anything is read.

    :raises errors.InputError: for one that there is not
    """
    if parsed_args.before:
        upgrade_check.upgrade_of(
            snapshot.Fleet(hosts=()), parsed_args.before, parsed_args.after)
    else:
        register.shipped().version(parsed_args.after, '--to')


def _time(text: str) -> str:
    """A time as a snapshot has it.

    :raises errors.InputError: if it is none
    """
    if not text:
        return ''
    try:
        told = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise errors.InputError(
            f'{text!r} is not a time such as 2026-05-01T08:00:00Z',
            errors.Location('--upgraded-at')) from None
    if told.tzinfo is None:
        raise errors.InputError(
            f'{text!r} has no time zone', errors.Location('--upgraded-at'),
            'write Z for UTC')
    return f'{told.astimezone(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}'


class CheckUpgrade(base_command.FileCommand):
    """Tell which guests and hosts an upgrade of nova hits, and how.

    Goes through a register of nova's defects that concern pinned guests, NUMA
    cells, pages, emulator threads, PCI devices and CPU power, and lists whom
    each of them hits while the upgrade is under way and after it, with the
    bug, the reason, what to do before or after, and the versions of nova that
    are right. What the old release does wrong as well is a note, unless it is
    in the way of draining or restarting a host. Ends in status 1 if anything
    is found that --fail-on counts, or too little is known of hosts.

    Examples::

      nova-pinning upgrade check fleet.json.zst --from 2025.1 --to 2026.1
      nova-pinning upgrade check fleet.json --from 31.0.0 --to 33.0.2 \\
          --fail-on error --format json
      nova-pinning upgrade check fleet.json --to 2026.1 \\
          --upgraded-at 2026-05-01T08:00:00Z
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        parser.add_argument(
            '--from', metavar='RELEASE', dest='before', default='',
            help='what hosts run of which the fleet does not tell it, as '
                 'after an import through the compute API: 2025.1 for the '
                 'newest nova of that release, or a version such as 31.0.0 '
                 '(default: the oldest release that any host runs)')
        parser.add_argument(
            '--to', metavar='RELEASE', dest='after', required=True,
            help='what is upgraded to, likewise')
        parser.add_argument(
            '--upgraded-at', metavar='TIME', default='',
            help='when the last of the hosts that run it was upgraded, such '
                 'as 2026-05-01T08:00:00Z; guests on these that nova built '
                 'later are taken to have been started by it, so an earlier '
                 'time hides guests that are hit')
        checking.add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        upgraded_at = _time(parsed_args.upgraded_at)
        _check_releases(parsed_args)
        is_partial = False

        def check() -> report.CheckReport:
            nonlocal is_partial
            fleet = fleets.load(parsed_args)
            is_partial = gaps.are_bounds(fleet.hosts)
            upgrade = upgrade_check.upgrade_of(
                fleet, parsed_args.before, parsed_args.after, upgraded_at)
            with fleets.progress('checking'), fleets.without_collector():
                return upgrade_check.check(fleet, upgrade, parsed_args.fleet)

        status = checking.run(parsed_args, check)
        return max(status, base_command.FINDINGS) if is_partial else status
