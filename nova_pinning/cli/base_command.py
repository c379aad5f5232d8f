# SPDX-License-Identifier: Apache-2.0
"""What all commands share, under nova-pinning and under openstack."""

import argparse
from collections.abc import Callable
from collections.abc import Sequence
import errno
import shutil
import sys
import textwrap
import typing

from cliff import command
from cliff import help
import rich.console

from nova_pinning import errors
from nova_pinning import extras

#: Exit statuses, for every command.
OK = 0
FINDINGS = 1
BAD_INPUT = 2
#: Columns of a terminal; in fewer nothing can be shown side by side.
_MIN_WIDTH = 40
#: A bug of ours: EX_SOFTWARE of sysexits.h, not to be taken for a finding.
BUG = 70

# Output for which there is no room, or no device any more.
_OUTPUT_FAILS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# Characters of an error: it may quote what is as long as a file.
_MAX_MESSAGE = 2000
# Of warnings and the like.
_MOST_TOLD = 20


def report_input_error(error: errors.InputError) -> int:
    """Say on the error output what is wrong; returns the exit status."""
    mistakes = (error.errors if isinstance(error, errors.InputErrors)
                else (error,))
    for mistake in mistakes:
        text = str(mistake)
        if len(text) > _MAX_MESSAGE:
            text = text[:_MAX_MESSAGE] + '...'
        print(f'error: {text}', file=sys.stderr)
    if isinstance(error, errors.InputErrors) and error.has_more:
        print(f'error: there are more than these {len(mistakes)}',
              file=sys.stderr)
    return BAD_INPUT


def tell(label: str, texts: Sequence[str]) -> None:
    """Say on the error output what is odd; not all of very many."""
    for text in texts[:_MOST_TOLD]:
        print(f'{label}: {text}', file=sys.stderr)
    if len(texts) > _MOST_TOLD:
        print(f'{label}: and {len(texts) - _MOST_TOLD:,} more like these',
              file=sys.stderr)


def run_reporting(run: Callable[[argparse.Namespace], int],
                  parsed_args: argparse.Namespace) -> int:
    """Run a command; what its user can mend is told on the error output.

    That is bad input, a package that is missing, and output for which there
    is no room, or no device any more. All else is raised.

    :returns: the exit status
    """
    told: errors.InputError | None
    try:
        status = run(parsed_args)
        sys.stdout.flush()
        return status
    except errors.InputError as error:
        told = error
    except ModuleNotFoundError as error:
        told = extras.missing(error)
        if told is None:
            raise
    except OSError as error:
        if error.errno not in _OUTPUT_FAILS:
            raise
        told = errors.InputError(
            f'the output cannot be written: {error.strerror}')
    return report_input_error(told)


class _Console(rich.console.Console):

    @property
    def file(self) -> typing.IO[str]:
        # Rich's own goes behind what a progress bar has put in the place of
        # the output, and prints into the bar's line.
        return self._file or sys.stdout

    @file.setter
    def file(self, file: typing.IO[str]) -> None:
        self._file = file

    def on_broken_pipe(self) -> None:
        # Rich would end the program with a status that means something else.
        raise


def console(stream: typing.TextIO | None = None,
            width: int = 0) -> rich.console.Console:
    """A console for people.

    It colours terminals only, and takes what is piped for as wide as COLUMNS
    says, or 100 columns, since tables that are cut off help nobody.

    :param width: in columns, if that is said
    """
    stream = stream or sys.stdout
    if width < 1:
        width = shutil.get_terminal_size(
            (80 if stream.isatty() else 100, 24)).columns
    return _Console(
        file=stream, width=max(width, _MIN_WIDTH), highlight=False,
        soft_wrap=False, emoji=False, markup=False)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves the lines of examples alone, which cliff's would fill.

    Examples are literal blocks of reST, since the documentation is made of
    them too.
    """

    def __init__(self, prog: str, **kwargs: typing.Any) -> None:
        width = min(shutil.get_terminal_size().columns, 100) - 2
        super().__init__(prog, width=width, **kwargs)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        # What an option takes is said once, also before Python 3.13: with
        # all its names it is wider than a terminal.
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        taken = self._format_args(
            action, self._get_default_metavar_for_optional(action))
        return f'{", ".join(action.option_strings)} {taken}'

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return super()._fill_text(
            text.replace('::\n\n', ':\n'), width, indent)


class DescribedCommand(command.Command):
    """A command of either program, whose docstring is its help.

    What it does comes first, then examples, as a literal block.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        about, heading, examples = self.get_description().partition(
            '\n\nExample')
        parser.formatter_class = _HelpFormatter
        parser.description = '\n\n'.join(
            textwrap.fill(' '.join(paragraph.split()), 78)
            for paragraph in about.split('\n\n'))
        parser.epilog = f'{heading}{examples}'.strip()
        # Else names could not stand after options, as in
        # flavor show FILE --format json NAME.
        parser.parse_args = (  # type: ignore[method-assign]
            parser.parse_intermixed_args)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options and arguments of the command."""


class OwnCommand(command.Command):
    """A command of this package, which no other adds anything to."""

    def __init__(self, app: typing.Any,
                 app_args: argparse.Namespace | None) -> None:
        # Without the command's name, for which cliff would look for hooks.
        super().__init__(app, app_args)

    def get_epilog(self) -> str:
        # cliff's own looks for the package that the command is from, which
        # takes longer than most commands.
        return ''


class FileCommand(DescribedCommand, OwnCommand):
    """A command of nova-pinning. Bad input ends in status 2."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return run_reporting(super().run, parsed_args)
        except (BrokenPipeError, help.HelpExit):
            raise
        except Exception as error:
            if self.app.options.debug:
                raise
            print(f'internal error: {type(error).__name__}: {error}; please '
                  'report it with what --debug shows', file=sys.stderr)
            return BUG


class Help(OwnCommand, help.HelpCommand):
    """What ``--help`` behind a command's name runs."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        words = parsed_args.cmd
        # cliff shows what begins like the first word; if nothing does, it
        # ends with the status of findings.
        if words and not any(name.startswith(words[0]) for name, _entry
                             in self.app.command_manager):
            print(f'error: there is no command {" ".join(words)!r}; '
                  f'{self.app.NAME} --help lists them', file=sys.stderr)
            return BAD_INPUT
        return super().take_action(parsed_args)
