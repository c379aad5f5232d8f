# SPDX-License-Identifier: Apache-2.0
"""List and show commands: a page for people, rows and fields for programs.

They are cliff's, but for two formats: table is the whole page that a command
has, and json the whole document that its reference describes. With --column
or --sort-column both show rows or fields, as the other formats always do.
"""

import argparse
from collections.abc import Callable
from collections.abc import Iterable
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
           texts: Mapping[str, Callable[[], str]] | None = None) -> Answer:
    """What a show command has to say.

    Of a mapping within the document each key is a field.

    :param texts: as those of an answer
    """
    flat = dict(_flat(document))
    return Answer(typed_table.of_keys(flat, (flat,)), page, lambda: document,
                  texts or {})


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


class _WithoutOptions:
    """A formatter whose options have their defaults, or cliff's environment.

    With them each command would have five more than are of use to anybody.
    """

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        own = argparse.ArgumentParser(add_help=False)
        super().add_argument_group(own)  # type: ignore[misc]
        parser.set_defaults(**vars(own.parse_args([])))


class _JSONFormatter(_WithoutOptions, json_format.JSONFormatter):
    pass


class _TableFormatter(_WithoutOptions, table.TableFormatter):
    pass


class _ShellFormatter(_WithoutOptions, shell.ShellFormatter):
    pass


class _CSVFormatter(commaseparated.CSVLister):
    """Quotes only what has to be quoted."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(quote_mode='minimal')


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
        'json': _JSONFormatter, 'table': _TableFormatter,
        'value': value.ValueFormatter, 'yaml': yaml_format.YAMLFormatter}

    def _load_formatter_plugins(self) -> 'extension.ExtensionManager[Any]':
        # cliff would look through all installed packages for them.
        kinds: dict[str, type[formatters.Formatter]] = dict.fromkeys(
            (*self.texts, *self.pages), _WholeFormatter)
        return extension.ExtensionManager.make_test_instance([
            extension.Extension(name, metadata.EntryPoint(name, '', ''), kind,
                                kind())
            for name, kind in {**kinds, **self._formatters}.items()])

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        option, = (action for action in self._formatter_group._group_actions
                   if action.dest == 'formatter')
        # In the place of a metavar many do not fit into a line.
        option.metavar = 'FORMAT'
        option.help = f'%(choices)s (default: {self.formatter_default})'
        return parser

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
            stdout.write(json.dumps(data.document(), indent=2) + '\n')
        elif is_whole and name in self.texts:
            stdout.write(data.texts[name]())
        else:
            self.emit(parsed_args, column_names, data.rows(name))
        return base_command.OK

    def emit(self, parsed_args: argparse.Namespace,
             column_names: Sequence[str], rows: Iterator[list[Any]]) -> None:
        """Print rows, or the fields of the only one."""
        raise NotImplementedError

    def chosen(self, parsed_args: argparse.Namespace,
               column_names: Sequence[str]) -> list[int]:
        """The places of the columns that are to be shown, in their order.

        :raises errors.InputError: if none of those is there that were named
        """
        named = set(map(_key, parsed_args.columns))
        found = [place for place, name in enumerate(column_names)
                 if not named or _key(name) in named]
        if not found:
            raise _no_column('--column', parsed_args.columns, column_names)
        return found


def _key(column_name: str) -> str:
    """What all spellings of a column's name have in common."""
    return column_name.lower().strip().replace(' ', '_')


def _no_column(option: str, names: Sequence[str],
               column_names: Sequence[str]) -> errors.InputError:
    return errors.InputError(
        f'there is no column {" or ".join(names)}', errors.Location(option),
        f'there are {", ".join(column_names)}')


class ListDisplay(Display):
    """What makes a command list: an answer with a record for each row."""

    formatter_namespace, formatter_default = 'cliff.formatter.list', 'table'
    _formatters = {**Display._formatters, 'csv': _CSVFormatter}

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self._formatter_group.add_argument(
            '--sort-column', action='append', default=[], dest='sort_columns',
            metavar='COLUMN[:desc]',
            help='sort by this column, from the largest down with :desc; can '
                 'be repeated, the first counts most')
        return parser

    def emit(self, parsed_args: argparse.Namespace,
             column_names: Sequence[str], rows: Iterator[list[Any]]) -> None:
        ordered: Iterable[list[Any]] = rows
        for text in reversed(parsed_args.sort_columns):
            name, _colon, order = text.partition(':')
            keys = list(map(_key, column_names))
            if _key(name) not in keys or order not in ('', 'asc', 'desc'):
                raise _no_column('--sort-column', [text], column_names)
            place = keys.index(_key(name))
            # Texts, where a column has values of several kinds.
            ordered = sorted(ordered, key=lambda row: (
                row[place] is None, isinstance(row[place], (str, list, dict)),
                row[place] if isinstance(row[place], (int, float))
                else str(row[place])), reverse=order == 'desc')
        shown = self.chosen(parsed_args, column_names)
        self.formatter.emit_list(
            [column_names[place] for place in shown],
            [[row[place] for place in shown] for row in ordered],
            self.app.stdout, parsed_args)


class ShowDisplay(Display):
    """What makes a command show: an answer with one record."""

    formatter_namespace, formatter_default = 'cliff.formatter.show', 'table'
    _formatters = {**Display._formatters, 'shell': _ShellFormatter}

    def emit(self, parsed_args: argparse.Namespace,
             column_names: Sequence[str], rows: Iterator[list[Any]]) -> None:
        row = next(rows)
        shown = self.chosen(parsed_args, column_names)
        self.formatter.emit_one(
            [column_names[place] for place in shown],
            [row[place] for place in shown], self.app.stdout, parsed_args)


class Lister(base_command.FileCommand, ListDisplay):
    """A command of nova-pinning that lists."""


class ShowOne(base_command.FileCommand, ShowDisplay):
    """A command of nova-pinning that shows one thing."""
