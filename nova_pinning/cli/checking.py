# SPDX-License-Identifier: Apache-2.0
"""What all commands that check have in common."""

import argparse
from collections.abc import Callable
import dataclasses
import json
import re
import time

from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.checks import waiver
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.presentation import findings_text

# Of a rule; a file that is called so can be named with its directory.
_CODE = re.compile('[A-Z][0-9]+')


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what all checks have, such as --fail-on and --format."""
    parser.add_argument('--fail-on',
                        choices=list(map(str, check_rule.Severity)),
                        default='warning',
                        help='the least severity that makes the exit '
                        'status 1 (default: %(default)s)')
    common_options.add_format(
        parser, 'table', 'json', 'prometheus',
        note='; prometheus is for the textfile collector')
    parser.add_argument('--ignore', action='append', default=[],
                        metavar='WHAT',
                        help='leave out what rules with a code such as P105 '
                        'find, or what was found before, which is a file that '
                        'the same check wrote with --format json; may be '
                        'given several times')


def run(parsed_args: argparse.Namespace,
        check: Callable[[], report.CheckReport]) -> int:
    """Check, and write what was found in the format that was asked for.

    :returns: the exit status
    :raises errors.InputError: for a file that is no check's, or if figures
        of a part would be taken for those of the whole
    """
    if parsed_args.format == 'prometheus' and getattr(
            parsed_args, 'names', None):
        raise errors.InputError(
            'the figures of those that are named would be taken for those of '
            'the whole', errors.Location('--format prometheus'),
            'leave the names out')
    codes = [what for what in parsed_args.ignore if _CODE.fullmatch(what)]
    # Before it takes long.
    known = {mark: f'found before ({path})' for path in parsed_args.ignore
             if path not in codes
             for mark in waiver.baseline(source.read(path), path)}
    started, begun = time.time(), time.monotonic()
    checked = dataclasses.replace(
        check(), started=started, duration_seconds=time.monotonic() - begun)
    waiver.check_codes(codes, checked.rules, errors.Location('--ignore'))
    kept, waived = waiver.sort_out(
        checked.findings, dict.fromkeys(codes, '--ignore'), known)
    checked = dataclasses.replace(checked, findings=kept,
                                  waived=(*checked.waived, *waived))
    _write(checked, parsed_args)
    return check_rule.exit_status(checked.findings,
                                  check_rule.Severity(parsed_args.fail_on))


def _write(checked: report.CheckReport,
           parsed_args: argparse.Namespace) -> None:
    match parsed_args.format:
        case 'json':
            print(json.dumps(checked.as_dict(), indent=2))
        case 'prometheus':
            # Only here, for it takes a while to load.
            from nova_pinning.checks import metrics
            print(metrics.exposition(checked), end='')
        case _:
            findings_text.show(
                checked, base_command.console(), check_rule.Severity(
                    getattr(parsed_args, 'severity', 'note')))
