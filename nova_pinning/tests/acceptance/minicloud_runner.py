# SPDX-License-Identifier: Apache-2.0
"""The cloud of tools/minicloud, for a test that needs a real one."""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

import fixtures

from minicloud import api
from minicloud import options
from minicloud import progress
from minicloud import settings

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = str(ROOT / 'tools' / 'minicloud')

# What a host of minicloud cannot answer for, since it is the machine's: its
# kernel and hardware (H2) and threads (H303, H304), its interrupts (H4,
# H702) and its huge pages (H5).
OF_MACHINE = ('H2', 'H303', 'H304', 'H4', 'H5', 'H702')

_BEGAN = time.monotonic()
_PATIENCE_SECONDS = 600
# Of migrations: nova does nothing more about these.
_GIVEN_UP = {'error', 'failed', 'cancelled'}


class MiniCloud(fixtures.Fixture):
    """A cloud that is up while the test runs.

    :param options: of ``minicloud up``
    :param state: directory for its files; None for the usual one
    """

    def __init__(self, *options, state=None):
        super().__init__()
        self.options = options
        self._program = [sys.executable, PROGRAM]
        if state is not None:
            self._program += ['--state', str(state)]

    def _setUp(self):
        # If it fails, it has cleaned up; or it is somebody else's cloud.
        self.up()
        self.addCleanup(self.call, 'down')
        self.environment = {
            **os.environ, **json.loads(self.call('env', '--format', 'json')),
            'PATH': os.pathsep.join([str(pathlib.Path(sys.executable).parent),
                                     os.environ['PATH']])}

    def up(self, *more):
        """Bring it up, or what has changed in these options."""
        self.call('up', *self.options, *more)

    def run_on(self, host, *command, statuses=(0,)):
        """Run a command on a compute host.

        :returns: what it printed
        :raises: AssertionError if it ends with another status
        """
        return self.call('exec', host, '--', *command, statuses=statuses)

    def run(self, command, *statuses, **options):
        """Run a command as a user of the cloud.

        :param command: str, as it would be typed into bash
        :param statuses: that it may end with, 0 if none are given
        :returns: what it printed
        :raises: AssertionError if it ends with another status
        """
        return run_command(['bash', '-c', command], statuses or (0,),
                           env=self.environment, **options)

    @property
    def state(self):
        """Where its files are."""
        return settings.State(options.parser().parse_args(
            [*self._program[2:], 'env']).state.resolve())

    def log(self, service):
        """Return the log of a service."""
        path = self.state.log / f'{service}.log'
        return path.read_text(errors='replace')

    def get(self, path):
        """Return what nova answers to a GET, as an administrator."""
        return api.Api(self.state, self.state.load()).get('nova', path)

    def wait(self, is_there, why_never=str):
        """Wait until a function without arguments returns something true.

        :param why_never: a function without arguments that returns why there
            is no point in waiting any longer, '' if there is
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_there():
            if reason := why_never():
                raise AssertionError(reason)
            if time.monotonic() > deadline:
                raise AssertionError('it took too long')
            time.sleep(1)

    def call(self, *arguments, statuses=(0,)):
        """Run a command of minicloud.

        :returns: what it printed
        :raises: AssertionError if it ends with another status
        """
        command = [*self._program, *arguments]
        if arguments[0] in ('up', 'down'):
            return _show(command, statuses)
        return run_command(command, statuses)


def why_not_moved(get, log, server_id):
    """Return why nova gave up moving a server, '' if it did not.

    :param get: returns what nova's API answers, by path
    :param log: returns the log of a service, by its name
    """
    failed = [migration for migration in get(
        f'/os-migrations?instance_uuid={server_id}')['migrations']
        if migration['status'] in _GIVEN_UP]
    if not failed:
        return ''
    actions = f'/servers/{server_id}/os-instance-actions'
    events = [
        event for action in get(actions)['instanceActions']
        for event in get(f'{actions}/{action["request_id"]}')[
            'instanceAction']['events']]
    if not all(event['finish_time'] for event in events):
        # What is not over has yet to say how it ended.
        return ''
    return '\n'.join([
        *('{migration_type} of {instance_uuid} from {source_compute} to '
          '{dest_compute}: {status}'.format(**migration)
          for migration in failed),
        *('{event} on {host}: {details}'.format(**event)
          for event in events if event['result'] == 'Error'),
        # A live migration goes on when its event is over.
        *(f'{host}: {line}'
          for host in {migration['source_compute'] for migration in failed}
          for line in log(f'nova-compute-{host}').splitlines()
          if ' ERROR ' in line and ' req-' in line and server_id in line)])


def _show(command, statuses):
    """Run a command that tells itself how far it is."""
    print(_told(command), file=sys.__stderr__, flush=True)
    lines = []
    with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True) as running:
        for line in running.stdout:
            lines.append(line)
            print(f'    {line}', end='', file=sys.__stderr__, flush=True)
    said = ''.join(lines)
    if running.returncode not in statuses:
        raise AssertionError(
            f'{shlex.join(command)} ended with status {running.returncode}, '
            f'not {" or ".join(map(str, statuses))}\n{said}')
    return said


def _told(command):
    """What is said to be done: a test's own output comes when it has ended."""
    words = ' '.join(shlex.join(command).split())
    return f'[{time.monotonic() - _BEGAN:4.0f} s] {words[:200]}'


def run_command(command, statuses=(0,), timeout=900, **options):
    """Run a command, and tell so.

    :param timeout: seconds
    :returns: what it printed
    :raises: AssertionError if it ends with another status
    """
    with (progress.Progress('done', sys.__stderr__) as shown,
          shown.doing(_told(command))):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=timeout, **options)
    if done.returncode not in statuses:
        raise AssertionError(
            f'{shlex.join(command)} ended with status {done.returncode}, not '
            f'{" or ".join(map(str, statuses))}\n{done.stdout}\n'
            f'{done.stderr}')
    return done.stdout
