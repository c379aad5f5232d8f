# SPDX-License-Identifier: Apache-2.0
"""Where OpenStackClient finds the commands: ``flavor.ApplyFlavors`` and so on.

The first part is a module of this package. OpenStackClient loads the commands
of all its plugins before it runs one, be it ``server list``, and leaves out
what cannot be imported. So it is given something that imports the module only
when the command is made. Where an extra is missing or Python is too old, it
makes one that says so.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from typing import Any

from osc_lib.command import command

from nova_pinning import extras


class _CommandModule:
    """A module of commands that is imported when one of them is made."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, command_name: str) -> type[Any]:
        if command_name.startswith('_'):
            raise AttributeError(command_name)
        module_name = self._name

        class DeferredCommand:
            """What makes a command, in the place of its class."""

            # cliff looks at the arguments of __init__.
            def __init__(self, app: Any, app_args: Any,
                         cmd_name: str | None = None) -> None:
                """Never called: another class makes the object."""

            def __new__(cls, app: Any, app_args: Any,
                        cmd_name: str | None = None) -> Any:
                return _command_class(module_name, command_name)(
                    app, app_args, cmd_name=cmd_name)

        return DeferredCommand


def _command_class(module: str, name: str) -> type[command.Command]:
    try:
        extras.need_python()
        found: type[command.Command] = getattr(
            importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        return _missing(error)
    return found


def _missing(error: ModuleNotFoundError) -> type[command.Command]:
    class MissingCommand(command.Command):
        """Not there: it needs nova-pinning[tools], and Python 3.11."""

        # Nothing is asked of the cloud.
        auth_required = False

        def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
            parser = super().get_parser(prog_name)
            parser.parse_args = lambda *args, **kwargs: extras.end(error)
            return parser

        def take_action(self, parsed_args: argparse.Namespace) -> None:
            extras.end(error)

    return MissingCommand


def __getattr__(name: str) -> Any:
    module = f'{__package__}.{name}'
    if name.startswith('__') or importlib.util.find_spec(module) is None:
        raise AttributeError(name)
    return _CommandModule(module)
