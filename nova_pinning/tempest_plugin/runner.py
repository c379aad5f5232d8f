# SPDX-License-Identifier: Apache-2.0
"""Runs commands on compute hosts."""

from collections.abc import Mapping
from collections.abc import Sequence
import shlex
import subprocess

DEADLINE_SECONDS = 180.0


class CommandError(Exception):
    """A command on a host failed; the message has what it printed."""


class CommandRunner:
    """Runs commands on hosts, by a command that is configured.

    :param host_command: such as 'ssh {host}'; what is to be run is added as
        one more argument, quoted for a shell
    :param addresses: {host} by name, where it is not the name itself
    """

    def __init__(self, host_command: str, addresses: Mapping[str, str],
                 deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._host_command = shlex.split(host_command)
        self._addresses = addresses
        self._deadline_seconds = deadline_seconds

    def run(self, host: str, words: Sequence[str]) -> str:
        """Run a command and return what it prints.

        :raises CommandError: if it cannot be started, fails or takes too long
        """
        address = self._addresses.get(host, host)
        command = [word.replace('{host}', address)
                   for word in self._host_command]
        command.append(shlex.join(words))
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, errors='replace', timeout=self._deadline_seconds)
        except OSError as error:
            raise CommandError(
                f'{command[0]!r} of [pinning] host_command cannot be run: '
                f'{error.strerror}') from error
        except subprocess.TimeoutExpired as error:
            raise CommandError(
                f'a command on host {host} did not end within '
                f'{self._deadline_seconds:g} seconds: '
                f'{shlex.join(command)}') from error
        if done.returncode:
            raise CommandError(
                f'a command on host {host} ended with status '
                f'{done.returncode}: {shlex.join(command)}\n'
                f'{done.stderr.strip()}')
        return done.stdout

    def script(self, host: str, commands: str) -> str:
        """Run shell commands and return what they print.

        :raises CommandError: as run() does
        """
        return self.run(host, ['sh', '-c', commands])
