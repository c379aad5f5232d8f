#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The program nova-pinning."""

from collections.abc import Sequence
import contextlib
import importlib.metadata
import io
import os
import sys

from cliff import app
from cliff import commandmanager

from nova_pinning.cli import base


class _Commands(commandmanager.CommandManager):
    """Finds commands among this package's entry points, and nowhere else.

    cliff looks through all installed packages and loads each command that it
    finds, which takes longer than to run one.
    """

    def load_commands(self, namespace: str) -> None:
        found = importlib.metadata.distribution('nova-pinning').entry_points
        for entry_point in found.select(group=namespace):
            name = entry_point.name.replace('_', ' ')
            self.commands[name] = entry_point


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

    def interact(self) -> None:
        """Show the help; cliff would start a shell of its own."""
        with contextlib.suppress(SystemExit):
            self.run(['--help'])


def _prepare_output() -> None:
    """Have output that can be printed to, whatever the text is.

    There is none where it was closed, and what its encoding lacks is shown as
    an escape.
    """
    for name in ('stdout', 'stderr'):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, 'w'))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors='backslashreplace')


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    _prepare_output()
    program = NovaPinning()
    status = program.run(list(sys.argv[1:] if argv is None else argv))
    return base.BAD_INPUT if program.interactive_mode else status


if __name__ == '__main__':
    sys.exit(main())
