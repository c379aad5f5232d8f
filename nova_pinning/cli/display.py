# SPDX-License-Identifier: Apache-2.0
"""List and show commands: a page for people, rows and fields for programs.

They are cliff's, but for two formats: table is the whole page that a command
has, and json the whole document that its reference describes. With --column
or --sort-column both show rows or fields, as the other formats always do.
"""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from importlib import metadata
import json
import re
from typing import Any

from cliff import display
from cliff.formatters import base as formatters
from cliff.formatters import commaseparated
from cliff.formatters import json_format
from cliff.formatters import shell
from cliff.formatters import table
from cliff.formatters import value
from cliff.formatters import yaml_format
from cliff import lister
from cliff import show
import rich.console
from stevedore import extension

from nova_pinning.cli import base_command
from nova_pinning import errors
from nova_pinning.presentation import typed_table
from nova_pinning import spelling


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a list command has to say.

    :param table: of which programs are shown the records
    :param page: prints all of it for people
    :param document: all of it, for JSON
    :param texts: all of it in formats of the command's own, by their names
    """

    table: typed_table.Table
    page: Callable[[rich.console.Console], None]
    document: Callable[[], Mapping[str, Any]]
    texts: Mapping[str, Callable[[], str]] = dataclasses.field(
        default_factory=dict)

    def rows(self, form: str) -> Iterator[list[Any]]:
        """The rows as a format can show them."""
        for record in self.table.records():
            yield [_cell(content, form) for content in record.values()]


def fields(document: Mapping[str, Any],
           page: Callable[[rich.console.Console], None],
           record: Mapping[str, Any] | None = None) -> Answer:
    """What a show command has to say.

    :param record: what has its fields, if that is not the document; of a
        mapping within it each key is a field
    """
    flat = dict(_flat(document if record is None else record))
    return Answer(typed_table.of_keys(flat, (flat,)), page, lambda: document)


def _flat(record: Mapping[str, Any],
          prefix: str = '') -> Iterator[tuple[str, Any]]:
    for key, content in record.items():
        # Some keys are of files that others wrote, and a shell that reads
        # the format shell would run what is not a name.
        name = prefix + re.sub(r'\W', '_', key, flags=re.ASCII)
        if isinstance(content, Mapping) and content:
            yield from _flat(content, f'{name}_')
        else:
            yield name, content


_CLEAN: Mapping[str, Callable[[str], str]] = {
    # A spreadsheet takes such texts for formulas.
    'csv': lambda text: f"'{text}" if text[:1] in tuple('=+-@') else text,
    # A shell that reads them would run commands in them.
    'shell': lambda text: re.sub(r'[\\$`]', r'\\\g<0>', text),
    'table': spelling.printable,
    'value': str,
}


def _cell(content: Any, form: str) -> Any:
    """A value, as a format can show it: nested ones are JSON in a text."""
    if form not in _CLEAN:
        # YAML refuses members of enumerations.
        return json.loads(json.dumps(content))
    if isinstance(content, (dict, list, tuple)):
        content = json.dumps(content, ensure_ascii=False)
    return _CLEAN[form](content) if isinstance(content, str) else content


class _CSVFormatter(commaseparated.CSVLister):
    """Quotes only what has to be quoted, unless told otherwise."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group('CSV formatter')
        group.add_argument(
            '--quote', choices=sorted(self.QUOTE_MODES), dest='quote_mode',
            default='minimal',
            help='when to include quotes, defaults to minimal')


class _WholeFormatter(formatters.ListFormatter, formatters.SingleFormatter):
    """A format that has an answer as a whole or not at all."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        pass

    def emit_list(self, column_names: Sequence[str], data: Any, stdout: Any,
                  parsed_args: argparse.Namespace) -> None:
        raise errors.InputError(
            'has no columns to choose or to sort by',
            errors.Location(f'--format {parsed_args.formatter}'))

    emit_one = emit_list


# Before release 4.10 cliff does not say of what type its options are.
class Display(base_command.DescribedCommand, display.DisplayCommandBase):
    """Shows an Answer as a whole, unless columns were chosen."""

    #: Formats of a command's own: those of ``Answer.texts``.
    texts: Sequence[str] = ()
    #: Formats that the page has, besides table: the same, or parts of it.
    pages: Sequence[str] = ()
    #: The exit status, which ``answer`` may set.
    status = base_command.OK
    _formatters: Mapping[str, type[formatters.Formatter]] = {
        'json': json_format.JSONFormatter, 'table': table.TableFormatter,
        'value': value.ValueFormatter, 'yaml': yaml_format.YAMLFormatter}

    def _load_formatter_plugins(self) -> 'extension.ExtensionManager[Any]':
        # cliff would look through all installed packages for them.
        kinds: dict[str, type[formatters.Formatter]] = dict.fromkeys(
            (*self.texts, *self.pages), _WholeFormatter)
        return extension.ExtensionManager.make_test_instance([
            extension.Extension(name, metadata.EntryPoint(name, '', ''), kind,
                                kind())
            for name, kind in {**kinds, **self._formatters}.items()])

    def answer(self, parsed_args: argparse.Namespace) -> Answer:
        """What the command has to say."""
        raise NotImplementedError

    def take_action(
            self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        answer = self.answer(parsed_args)
        return answer.table.keys, answer

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or self.status

    def produce_output(self, parsed_args: argparse.Namespace,
                       column_names: Sequence[str], data: Answer) -> int:
        name, stdout = parsed_args.formatter, self.app.stdout
        is_whole = not (parsed_args.columns
                        or getattr(parsed_args, 'sort_columns', ()))
        if is_whole and name in ('table', *self.pages):
            data.page(base_command.console(stdout, parsed_args.max_width))
        elif is_whole and name == 'json':
            indent = None if parsed_args.noindent else 2
            stdout.write(json.dumps(data.document(), indent=indent) + '\n')
        elif is_whole and name in self.texts:
            stdout.write(data.texts[name]())
        else:
            rows = data.rows(name)
            super().produce_output(
                parsed_args, column_names,
                next(rows) if isinstance(self, show.ShowOne) else rows)
        return base_command.OK

    def _generate_columns_and_selector(
            self, parsed_args: argparse.Namespace,
            column_names: Sequence[str]) -> tuple[Any, Any]:
        try:
            return super()._generate_columns_and_selector(
                parsed_args, column_names)
        except ValueError as error:
            raise errors.InputError(
                f'there is no column {" or ".join(parsed_args.columns)}',
                errors.Location('--column'),
                f'there are {", ".join(column_names)}') from error


class ListDisplay(Display, lister.Lister):
    """What makes a command list: an answer with a record for each row."""

    _formatters = {**Display._formatters, 'csv': _CSVFormatter}


class ShowDisplay(Display, show.ShowOne):
    """What makes a command show: an answer with one record."""

    _formatters = {**Display._formatters, 'shell': shell.ShellFormatter}


class Lister(base_command.FileCommand, ListDisplay):
    """A command of nova-pinning that lists."""


class ShowOne(base_command.FileCommand, ShowDisplay):
    """A command of nova-pinning that shows one thing."""
