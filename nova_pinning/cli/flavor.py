# SPDX-License-Identifier: Apache-2.0
"""nova-pinning flavor show, flavor diff: a catalogue as flavors."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import rich.box
import rich.console
import rich.table
import rich.text

from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import select
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import commands
from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import listing
from nova_pinning.presentation import flavor_changes
from nova_pinning.presentation import typed_table


class ShowFlavors(display.Lister):
    """Show the flavors that a catalogue stands for.

    Examples::

      nova-pinning flavor show flavors.yaml
      nova-pinning flavor show flavors.yaml enterprise.large --commands
      nova-pinning flavor show flavors.yaml -f value -c name -c vcpus
    """
    texts = ('commands',)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('catalogue', metavar='CATALOGUE',
                            help='catalogue file (YAML or JSON)')
        parser.add_argument('names', metavar='NAME', nargs='*',
                            help='flavors or families to show; all if none '
                                 'is named')
        parser.add_argument('--commands', action='store_const',
                            dest='formatter', const='commands',
                            help='print the openstack commands that would '
                                 'create them, as --format commands does')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        sold = catalogue.load(parsed_args.catalogue)
        flavors = select.named_flavors(sold.flavors, parsed_args.names,
                                       parsed_args.catalogue)
        rows = [listing.as_dict(flavor) for flavor in flavors]
        return display.Answer(
            typed_table.of_keys(listing.FIELDS, rows),
            lambda console: show_tables(flavors, console),
            lambda: {'version': 1, 'catalogue': sold.name, 'flavors': rows},
            {'commands': lambda: ''.join(
                f'{command}\n' for flavor in flavors
                for command in commands.create_commands(flavor))})


class DiffCatalogues(display.Lister):
    """Show how the flavors of two catalogues differ.

    The exit status is 1 if they do.

    Example::

      git show HEAD:flavors.yaml > old.yaml
      nova-pinning flavor diff old.yaml flavors.yaml
    """
    page_name = 'text'

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('before', metavar='OLD',
                            help='catalogue file (YAML or JSON)')
        parser.add_argument('after', metavar='NEW',
                            help='another, or the same at another time')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        before, after = (
            {flavor.name: flavor for flavor in catalogue.load(path).flavors}
            for path in (parsed_args.before, parsed_args.after))
        pairs = [(before.get(name), after.get(name))
                 for name in dict.fromkeys((*before, *after))]
        changes = [pair for pair in pairs
                   if difference.differences(*pair)]
        if changes:
            self.status = base_command.FINDINGS
        rows = [_change_as_dict(*pair) for pair in changes]
        return display.Answer(
            typed_table.of_keys(('action', 'name', 'differences'), rows),
            lambda console: _print_changes(
                changes, len(pairs) - len(changes), console),
            lambda: {'version': 1, 'changes': rows})


_Pair = tuple[flavor_model.Flavor | None, flavor_model.Flavor | None]


def _verb(before: flavor_model.Flavor | None,
          after: flavor_model.Flavor | None) -> str:
    """What apply would do about it."""
    if before is None:
        return 'create'
    if after is None:
        return 'retire'
    if difference.shape_changes(before, after):
        return 'replace'
    return 'update'


def _change_as_dict(before: flavor_model.Flavor | None,
                    after: flavor_model.Flavor | None) -> dict[str, Any]:
    return {
        'action': _verb(before, after),
        'name': (after or before).name,  # type: ignore[union-attr]
        'differences': [changed.as_dict()
                        for changed in difference.differences(before, after)]}


def _print_changes(changes: Sequence[_Pair], unchanged: int,
                   console: rich.console.Console) -> None:
    for before, after in changes:
        flavor = after or before
        flavor_changes.show(
            console,
            f'{_verb(before, after)} '
            f'{flavor.name}',  # type: ignore[union-attr]
            'bold', difference.differences(before, after))
    console.print(f'{len(changes)} changed, {unchanged} unchanged')


def show_tables(flavors: Iterable[flavor_model.Flavor],
                console: rich.console.Console) -> None:
    """Print a table a family, as wide as the console allows."""
    for number, table in enumerate(listing.family_tables(flavors)):
        if number:
            console.print()
        count = len(table.columns)
        console.print(rich.text.Text(
            f'{table.family or "flavors"}: '
            f'{count} {"flavor" if count == 1 else "flavors"}'
            + (f', {table.prefix}*' if table.prefix else ''), 'bold'))
        size = max((len(key) for key, _value in table.common), default=0)
        for key, value in table.common:
            console.print(f'  {key.ljust(size)}  {value}', soft_wrap=True)
        for part in _parts(table, console.width):
            console.print(part)


def _parts(table: listing.FamilyTable,
           width: int) -> list[rich.table.Table]:
    """The table, cut into as many as it takes to fit the width."""
    grid = [('', table.columns), *table.rows]
    head = max(len(heading) for heading, _values in grid)
    sizes = [max(len(line) for _heading, values in grid
                 for line in values[column].split('\n'))
             for column in range(len(table.columns))]
    parts: list[list[int]] = []
    left = 0
    for column, size in enumerate(sizes):
        # A cell has a space on either side.
        if not parts or left < size + 2:
            parts.append([])
            left = width - head - 2
        parts[-1].append(column)
        left -= size + 2
    return [_part(table, columns) for columns in parts]


def _part(table: listing.FamilyTable,
          columns: Sequence[int]) -> rich.table.Table:
    part = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=True,
                            show_edge=False, padding=(0, 1))
    part.add_column('', no_wrap=True)
    for column in columns:
        part.add_column(table.columns[column], justify='right',
                        no_wrap=True)
    for heading, values in table.rows:
        if any(values[column] for column in columns):
            part.add_row(heading, *(values[column] for column in columns))
    return part
