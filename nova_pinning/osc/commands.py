# SPDX-License-Identifier: Apache-2.0
"""Where OpenStackClient finds the commands: ``flavor.ApplyFlavors`` and so on.

The first part is a module of this package. OpenStackClient loads all commands
before it runs one, and leaves out what cannot be imported; so where an extra
is missing, something else takes the place of the module.
"""

import argparse
import importlib
from typing import Any

from osc_lib.command import command

from nova_pinning import extras


class _Missing:
    """A module that cannot be imported; whatever is in it says why."""

    def __init__(self, error: ModuleNotFoundError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> type[command.Command]:
        error = self._error

        class MissingCommand(command.Command):
            """Not there: nova-pinning[tools] is not installed."""

            # Nothing is asked of the cloud.
            auth_required = False

            def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
                parser = super().get_parser(prog_name)
                parser.parse_args = (
                    lambda *args, **kwargs: extras.end(error))
                return parser

            def take_action(self, parsed_args: argparse.Namespace) -> None:
                extras.end(error)

        return MissingCommand


def __getattr__(name: str) -> Any:
    try:
        return importlib.import_module(f'nova_pinning.osc.{name}')
    except ModuleNotFoundError as error:
        if error.name == f'nova_pinning.osc.{name}':
            raise AttributeError(name) from error
        return _Missing(error)
