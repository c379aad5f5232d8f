# SPDX-License-Identifier: Apache-2.0
"""nova-pinning flavor show: a catalogue as flavors."""

import argparse
from collections.abc import Iterable
import functools

import rich.console

from nova_pinning.cli import display
from nova_pinning.cli import select
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import commands
from nova_pinning.flavors import convert
from nova_pinning.flavors import export
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import listing
from nova_pinning.host import words
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table


class ShowFlavors(display.Lister):
    """Show the flavors that a catalogue stands for.

    The format commands has the openstack commands that would create them;
    others have them as a catalogue, or as another tool does. What that has no
    word for is an error.

    CATALOGUE can also be what 'openstack flavor list --long -f json' or
    'flavor show -f json' prints, a plain list, SCS' definitions, or a file of
    Terraform, Ansible or Heat.

    Examples::

      nova-pinning flavor show flavors.yaml
      nova-pinning flavor show flavors.yaml enterprise.large -f commands
      nova-pinning flavor show flavors.yaml -f terraform
      openstack flavor list --long --all -f json > north.json
      nova-pinning flavor show north.json -f catalogue --name north
      nova-pinning flavor show flavors.yaml -f value -c name -c vcpus
    """
    texts = ('commands', 'catalogue', *convert.FORMS)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('catalogue', metavar='CATALOGUE',
                            help='catalogue, or another file of flavors')
        parser.add_argument('names', metavar='NAME', nargs='*',
                            help='flavors or families to show; all if none '
                                 'is named')
        parser.add_argument('--name', metavar='NAME',
                            help='name of the catalogue, in the format '
                                 'catalogue')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        sold = catalogue.load(parsed_args.catalogue)
        if parsed_args.name and parsed_args.formatter != 'catalogue':
            raise errors.InputError(
                f'does not go with --format {parsed_args.formatter}',
                errors.Location('--name'))
        flavors = select.named_flavors(sold.flavors, parsed_args.names,
                                       parsed_args.catalogue)
        rows = [listing.as_dict(flavor) for flavor in flavors]
        return display.Answer(
            typed_table.of_keys(listing.FIELDS, rows),
            lambda console: show_tables(flavors, console),
            lambda: {'version': 1, 'catalogue': sold.name, 'flavors': rows},
            {'commands': lambda: ''.join(
                f'{command}\n' for flavor in flavors
                for command in commands.create_commands(flavor)),
             **{form: functools.partial(convert.text, flavors, form)
                for form in convert.FORMS},
             'catalogue': lambda: export.catalogue_text(
                 flavors, parsed_args.name)})


def show_tables(flavors: Iterable[flavor_model.Flavor],
                console: rich.console.Console) -> None:
    """Print a table a family, cut into as many as it takes to fit."""
    for number, family in enumerate(listing.family_tables(flavors)):
        if number:
            console.print()
        printing.title(
            f'{family.family or "flavors"}: '
            + words.count(len(family.columns), 'flavor')
            + (f', {family.prefix}*' if family.prefix else ''), console)
        printing.pairs(family.common, console)
        shown = 0
        while shown < len(family.columns):
            left_out = typed_table.Table(
                ('', *(_column(family.columns[place], place, place - shown)
                       for place in range(shown, len(family.columns)))),
                family.rows, is_whole=True).show(console)
            shown = len(family.columns) - len(left_out)


def _column(title: str, place: int, rank: int) -> typed_table.Column:
    # The first stays, however little room there is.
    return typed_table.Column(
        title=title, kind=typed_table.ColumnKind.COUNT,
        of=lambda row: row[1][place], rank=rank)
