# SPDX-License-Identifier: Apache-2.0
"""nova-pinning flavor convert: flavors in the words of another tool."""

import argparse

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import select
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import convert
from nova_pinning.flavors import export


class ConvertFlavors(base_command.FileCommand):
    """Print flavors as a catalogue, or as another tool has them.

    FILE can be a catalogue, what 'openstack flavor list --long -f json' or
    'flavor show -f json' prints, a plain list, SCS' definitions, or a file of
    Terraform, Ansible or Heat. What the other tool has no word for is an
    error.

    Examples::

      nova-pinning flavor convert flavors.yaml --format terraform
      openstack flavor list --long --all -f json > north.json
      nova-pinning flavor convert north.json --name north > north.yaml
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('catalogue', metavar='FILE',
                            help='flavors, in any form that is known')
        parser.add_argument('names', metavar='NAME', nargs='*',
                            help='flavors or families; all if none is named')
        common_options.add_format(parser, *convert.FORMS)
        parser.add_argument('--name', metavar='NAME',
                            help='name of the catalogue')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.name and parsed_args.format != 'catalogue':
            raise errors.InputError(
                f'does not go with --format {parsed_args.format}',
                errors.Location('--name'))
        path = parsed_args.catalogue
        flavors = select.named_flavors(
            catalogue.load(path).flavors, parsed_args.names, path)
        print(export.catalogue_text(flavors, parsed_args.name)
              if parsed_args.format == 'catalogue'
              else convert.text(flavors, parsed_args.format), end='')
        return base_command.OK
