# SPDX-License-Identifier: Apache-2.0
"""Which nova.conf a command reads."""

import argparse
import functools

_NOVA_API = {
    '--config-file': (
        'nova.conf as nova-api is given it; may be given several times '
        '(default: those that nova reads by default)'),
    '--config-dir': (
        'a directory of such files, whose names end in .conf, as nova-api is '
        'given it; may be given several times'),
}


def add_options(parser: argparse.ArgumentParser,
                about: str = '') -> None:
    """Add --config-file and --config-dir, as nova's own programs have them.

    :param about: for the help of both, '' for those of nova-api
    """
    for option, what in (('--config-file', 'FILE'), ('--config-dir', 'DIR')):
        parser.add_argument(
            option, metavar=what, action='append', default=[],
            # Together, since their order counts.
            dest='nova_arguments', type=functools.partial(_pair, option),
            help=about or _NOVA_API[option])


def arguments(parsed_args: argparse.Namespace) -> list[str]:
    """What they say, as nova's own programs would be told."""
    return [word for pair in parsed_args.nova_arguments for word in pair]


def _pair(option: str, value: str) -> tuple[str, str]:
    return option, value
