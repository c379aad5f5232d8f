# SPDX-License-Identifier: Apache-2.0
"""What all commands that check have in common."""

import argparse
from collections.abc import Callable
import dataclasses
import io
import json
import time

from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.checks import waiver
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.document import atomic_file
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.presentation import findings_text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what all checks have: --fail-on, --ignore, --output and so on."""
    parser.add_argument('--fail-on',
                        choices=list(map(str, check_rule.Severity)),
                        default='warning',
                        help='the least severity that makes the exit '
                        'status 1 (default: %(default)s)')
    common_options.add_format(
        parser, 'table', 'json', 'sarif', 'prometheus',
        note='; sarif is for code review tools, prometheus for the textfile '
        'collector')
    parser.add_argument('--limit', metavar='N',
                        type=common_options.number(1, 10 ** 6),
                        default=findings_text.LIMIT,
                        help='findings of one code in the table '
                        '(default: %(default)s)')
    common_options.add_output(parser)
    parser.add_argument('--ignore', action='append', default=[],
                        metavar='CODE',
                        help='leave out what rules with this code find; may '
                        'be given several times')
    parser.add_argument('--baseline', metavar='FILE',
                        help='leave out what was found before: what the same '
                        'check wrote with --format json')


def run(parsed_args: argparse.Namespace,
        check: Callable[[], report.CheckReport]) -> int:
    """Check, and write what was found in the format that was asked for.

    :returns: the exit status
    :raises errors.InputError: if --output cannot be written, or if figures
        of a part would be taken for those of the whole
    """
    if parsed_args.format == 'prometheus' and getattr(
            parsed_args, 'names', None):
        raise errors.InputError(
            'the figures of those that are named would be taken for those of '
            'the whole', errors.Location('--format prometheus'),
            'leave the names out')
    if parsed_args.output:
        # Before it takes long.
        atomic_file.check(parsed_args.output)
    known: frozenset[waiver.Mark] = frozenset()
    if parsed_args.baseline:
        known = waiver.baseline(source.read(parsed_args.baseline),
                                parsed_args.baseline)
    started, begun = time.time(), time.monotonic()
    checked = dataclasses.replace(
        check(), started=started, duration_seconds=time.monotonic() - begun)
    waiver.check_codes(parsed_args.ignore, checked.rules,
                       errors.Location('--ignore'))
    kept, waived = waiver.sort_out(
        checked.findings, dict.fromkeys(parsed_args.ignore, '--ignore'),
        known, f'found before ({parsed_args.baseline})')
    checked = dataclasses.replace(checked, findings=kept,
                                  waived=(*checked.waived, *waived))
    _write(checked, parsed_args)
    return check_rule.exit_status(checked.findings,
                                  check_rule.Severity(parsed_args.fail_on))


def _write(checked: report.CheckReport,
           parsed_args: argparse.Namespace) -> None:
    if parsed_args.format == 'table' and not parsed_args.output:
        findings_text.show(checked, base_command.console(), parsed_args.limit)
        return
    text = _text(checked, parsed_args)
    if parsed_args.output:
        # The collector's file is written by timers, which mail what is said.
        common_options.write_output(
            parsed_args.output, text, parsed_args.format != 'prometheus')
    else:
        print(text, end='')


def _text(checked: report.CheckReport,
          parsed_args: argparse.Namespace) -> str:
    match parsed_args.format:
        case 'json':
            return json.dumps(checked.as_dict(), indent=2) + '\n'
        case 'sarif':
            # Only here, for they take a while to load.
            from nova_pinning.checks import sarif
            return json.dumps(sarif.as_sarif(checked), indent=2) + '\n'
        case 'prometheus':
            from nova_pinning.checks import metrics
            return metrics.exposition(checked)
    stream = io.StringIO()
    findings_text.show(
        checked, base_command.console(stream), parsed_args.limit)
    return stream.getvalue()
