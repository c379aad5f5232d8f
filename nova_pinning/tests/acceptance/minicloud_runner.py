# SPDX-License-Identifier: Apache-2.0
"""The cloud of tools/minicloud, for a test that needs a real one."""

import json
import os
import pathlib
import shlex
import subprocess
import sys

import fixtures

from minicloud import options
from minicloud import settings

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = str(ROOT / 'tools' / 'minicloud')


class MiniCloud(fixtures.Fixture):
    """A cloud that is up while the test runs.

    :param options: of ``minicloud up``
    """

    def __init__(self, *options):
        super().__init__()
        self.options = options

    def _setUp(self):
        # If it fails, it has cleaned up; or it is somebody else's cloud.
        self.up()
        self.addCleanup(self._call, 'down')
        self.environment = {
            **os.environ, **json.loads(self._call('env', '--format', 'json')),
            'PATH': os.pathsep.join([str(pathlib.Path(sys.executable).parent),
                                     os.environ['PATH']])}

    def up(self, *more):
        """Bring it up, or what has changed in these options."""
        self._call('up', *self.options, *more)

    def run_on(self, host, *command, statuses=(0,)):
        """Run a command on a compute host.

        :returns: what it printed
        :raises: AssertionError if it ends with another status
        """
        return self._call('exec', host, '--', *command, statuses=statuses)

    def run(self, command, status=0, **options):
        """Run a command as a user of the cloud.

        :param command: str, as it would be typed into bash
        :returns: what it printed
        :raises: AssertionError if it ends with another status
        """
        return _run(['bash', '-c', command], (status,), env=self.environment,
                    **options)

    @property
    def state(self):
        """Where its files are."""
        return settings.State(
            options.parser().parse_args(['env']).state.resolve())

    def log(self, service):
        """Return the log of a service."""
        path = self.state.log / f'{service}.log'
        return path.read_text(errors='replace')

    def _call(self, *arguments, statuses=(0,)):
        return _run([sys.executable, PROGRAM, *arguments], statuses)


def _run(command, statuses, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=900, **options)
    if done.returncode not in statuses:
        raise AssertionError(
            f'{shlex.join(command)} ended with status {done.returncode}, not '
            f'{" or ".join(map(str, statuses))}\n{done.stdout}\n'
            f'{done.stderr}')
    return done.stdout
