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

"""nova-pinning flavor check: the mistakes in a catalogue."""

import argparse

from nova_pinning.cli import base
from nova_pinning.cli import checking
from nova_pinning.cli import select
from nova_pinning.flavors import catalogue


class CheckFlavors(base.Command):
    """Look for mistakes in a catalogue's flavors.

    Nova's own validators and constraints, and rules for what nova takes
    without a word. The exit status is 1 if there are errors or warnings.
    """

    epilog = """
        Examples::

          nova-pinning flavor check flavors.yaml --hosts hosts/
          nova-pinning flavor check flavors.yaml enterprise \\
              --image-property hw_cpu_policy=shared --format sarif
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('catalogue', metavar='CATALOGUE',
                            help='catalogue file (YAML or JSON)')
        checking.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        path = parsed_args.catalogue
        return checking.run(
            lambda: select.flavors(catalogue.load(path).flavors,
                                   parsed_args.names, path), parsed_args)
