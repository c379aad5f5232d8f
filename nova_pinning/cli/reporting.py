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

"""Writing what a check has found: what commands that check have in common."""

import argparse
from collections.abc import Callable
import io
import json
from typing import Any

import rich.console

from nova_pinning.cli import base
from nova_pinning.cli import options
from nova_pinning.document import files
from nova_pinning.model import severity
from nova_pinning.reports import findings


def add_options(parser: argparse.ArgumentParser,
                has_metrics: bool = True) -> None:
    """Add --fail-on, --format, --limit and --output.

    :param has_metrics: whether prometheus is a format
    """
    parser.add_argument('--fail-on',
                        choices=list(map(str, severity.Severity)),
                        default='warning',
                        help='the least severity that makes the exit '
                        'status 1 (default: %(default)s)')
    if has_metrics:
        options.add_format(
            parser, 'table', 'json', 'prometheus',
            note='; prometheus is for the textfile collector')
    else:
        options.add_format(parser, 'table', 'json')
    parser.add_argument('--limit', metavar='N',
                        type=options.number(1, 10 ** 6),
                        default=findings.LIMIT,
                        help='findings of one code in the table '
                        '(default: %(default)s)')
    parser.add_argument('-o', '--output', metavar='FILE',
                        help='replace this file, as a whole and only when '
                        'the check has come to its end')


def check_output(parsed_args: argparse.Namespace) -> None:
    """Make sure that --output can be written, before it takes long.

    :raises errors.InputError: if it cannot
    """
    if parsed_args.output:
        files.check(parsed_args.output)


def write(parsed_args: argparse.Namespace, *,
          show: Callable[[rich.console.Console, int], None],
          as_dict: Callable[[], dict[str, Any]],
          exposition: Callable[[], str] = str) -> None:
    """Write what was found, in the format and to where it was asked for.

    :param show: prints the table, given --limit
    :raises errors.InputError: if --output cannot be written
    """
    if parsed_args.format == 'json':
        text = json.dumps(as_dict(), indent=2) + '\n'
    elif parsed_args.format == 'prometheus':
        text = exposition()
    elif parsed_args.output:
        stream = io.StringIO()
        show(base.console(stream), parsed_args.limit)
        text = stream.getvalue()
    else:
        show(base.console(), parsed_args.limit)
        return
    if parsed_args.output:
        files.replace(parsed_args.output, text)
    else:
        print(text, end='')
