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

"""Checking flavors: what the commands for a file and for a cloud share."""

import argparse
from collections.abc import Callable
from collections.abc import Sequence
import json

from nova_pinning.bridge import standalone
from nova_pinning.cli import base
from nova_pinning.cli import options
from nova_pinning.flavors import model
from nova_pinning.host import model as host_model


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what a check can be told."""
    parser.add_argument('names', metavar='NAME', nargs='*',
                        help='flavors or families to check; all if none is '
                             'named')
    options.add_image_properties(parser)
    parser.add_argument('--hosts', metavar='DIR',
                        help='check against the host files in this directory '
                             'as well')
    parser.add_argument('--strict', action='store_true',
                        help='have notes count for the exit status, too')
    options.add_format(parser, 'table', 'json', 'sarif')


def run(read_flavors: Callable[[], Sequence[model.Flavor]],
        parsed_args: argparse.Namespace) -> int:
    """Check flavors and print what was found.

    :param read_flavors: called once the options are known to be good
    :returns: the exit status
    """
    properties = options.image_properties(parsed_args)
    hosts: tuple[host_model.HostDescription, ...] = ()
    if parsed_args.hosts:
        from nova_pinning.host import load
        hosts = load.load_directory(parsed_args.hosts)
    flavors = read_flavors()
    # The checks load most of nova, so not before all files are known to be
    # good.
    standalone.prepare()
    from nova_pinning.flavors import checks
    from nova_pinning.flavors import report
    from nova_pinning.flavors import sarif
    found = checks.check(flavors, hosts, properties)
    if parsed_args.format == 'json':
        print(json.dumps(report.as_dict(found, len(flavors)), indent=2))
    elif parsed_args.format == 'sarif':
        print(json.dumps(sarif.as_sarif(found, checks.RULES), indent=2))
    else:
        report.show(found, len(flavors), base.console())
    return report.exit_status(found, parsed_args.strict)
