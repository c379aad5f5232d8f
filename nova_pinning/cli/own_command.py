# SPDX-License-Identifier: Apache-2.0
"""Commands for which cliff does not look through all installed packages."""

import argparse
import sys
import typing

from cliff import command
from cliff import help


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
            return 2  # base_command.BAD_INPUT, which is imported later
        return super().take_action(parsed_args)
