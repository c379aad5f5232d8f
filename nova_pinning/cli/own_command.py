# SPDX-License-Identifier: Apache-2.0
"""Commands for which cliff does not look through all installed packages."""

import argparse
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
