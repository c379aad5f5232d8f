# SPDX-License-Identifier: Apache-2.0
"""The program nova-pinning."""

import codecs
from collections.abc import Sequence
import contextlib
import importlib.metadata
import io
import os
import sys
from typing import Any

from nova_pinning import extras

try:
    extras.need_python()

    from cliff import app
    from cliff import commandmanager

    from nova_pinning.cli import base_command
    from nova_pinning.cli import completion
except ModuleNotFoundError as missing:
    extras.end(missing)


_PLAINLY = 'nova-pinning-plainly'
#: Of the signs that are printed here. None is longer, so that tables stay.
_PLAIN = str.maketrans('█░├└×±µ–’', '#.|`x~u-\'')


class _Commands(commandmanager.CommandManager):
    """Finds commands among this package's entry points, and nowhere else.

    cliff looks through all installed packages and loads each command that it
    finds, which takes longer than to run one.
    """

    def load_commands(self, namespace: str) -> None:
        own = importlib.metadata.distribution('nova-pinning')
        for entry_point in own.entry_points.select(group=namespace):
            name = entry_point.name.replace('_', ' ')
            self.commands[name] = entry_point

    def find_command(self, argv: list[str]) -> Any:
        try:
            return super().find_command(argv)
        except ModuleNotFoundError as error:
            extras.end(error)


class NovaPinning(app.App):
    """nova-pinning: what works without a cloud, on files alone."""

    # cliff reads it off sys.argv otherwise, also in tests.
    NAME = 'nova-pinning'
    # Warnings and errors; what nova has to say at INFO is not for people.
    DEFAULT_VERBOSE_LEVEL = 0

    def __init__(self) -> None:
        super().__init__(
            description='Sell dedicated CPUs with nova: flavors and guests, '
                        'without a cloud.',
            version=importlib.metadata.version('nova-pinning'),
            command_manager=_Commands('nova_pinning.cli'),
            deferred_help=True)
        self.command_manager.add_command('help', base_command.Help)
        self.command_manager.add_command('complete', completion.Complete)

    def configure_logging(self) -> None:
        """As cliff does; a --log-file it cannot write is wrong usage."""
        try:
            super().configure_logging()
        except OSError as error:
            self.parser.error(
                f'argument --log-file: {self.options.log_file} cannot be '
                f'written: {error.strerror}')

    def interact(self) -> None:
        """Show the help; cliff would start its own shell."""
        with contextlib.suppress(SystemExit):
            self.run(['--help'])


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks, by characters that are alike, or escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start:error.end].translate(_PLAIN)
    return (text.encode(error.encoding, 'backslashreplace').decode(
        error.encoding), error.end)


def _prepare_output() -> None:
    """Have output that can be printed to, whatever the text is.

    There is none where it was closed.
    """
    codecs.register_error(_PLAINLY, _plainly)
    for name in ('stdout', 'stderr'):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, 'w'))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAINLY)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    _prepare_output()
    program = NovaPinning()
    status = program.run(list(sys.argv[1:] if argv is None else argv))
    return base_command.BAD_INPUT if program.interactive_mode else status


if __name__ == '__main__':
    sys.exit(main())
