# SPDX-License-Identifier: Apache-2.0
"""Commands in guests through OpenSSH.

One connection is made and shared, so that a command does not wait for keys to
be exchanged. Keys of hosts that are new are kept in a file of our own.
"""

from collections.abc import Sequence
import contextlib
import os
import pathlib
import shlex
import subprocess
import tempfile
import typing

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.instance_bench.platforms import settings

_LOOK_SECONDS = 0.5
_STOP_SECONDS = 60.0
_CONNECT_SECONDS = 5
_CLOCK_SECONDS = 60.0
#: ssh itself fails with this one.
_OWN_STATUS = 255


class Ssh:
    """A guest that OpenSSH leads to.

    :param how: ssh_user, and ssh_key, '' for those that ssh finds itself
    :param address: of the guest
    :param name: of the instance, for errors
    :ivar target: who is spoken to: 'root@198.18.0.2'
    """

    def __init__(self, how: settings.PlatformSettings, address: str,
                 name: str) -> None:
        self.name = name
        self.target = f'{how.ssh_user}@{address}'
        self._key = how.ssh_key
        # The path of a socket may have 108 bytes.
        self._directory = tempfile.TemporaryDirectory(
            prefix='npb-ssh-', dir='/tmp')

    @property
    def directory(self) -> pathlib.Path:
        """A directory of its own, for the outputs of commands."""
        return pathlib.Path(self._directory.name)

    def command(self, arguments: Sequence[str]) -> list[str]:
        """How ssh is called to run something inside."""
        directory = self._directory.name
        options = {
            'BatchMode': 'yes',
            'ControlMaster': 'auto',
            'ControlPath': f'{directory}/control',
            'ControlPersist': '60',
            'UserKnownHostsFile': f'{directory}/known_hosts',
            'GlobalKnownHostsFile': '/dev/null',
            'StrictHostKeyChecking': 'accept-new',
            'ConnectTimeout': str(_CONNECT_SECONDS),
            'ServerAliveInterval': '15',
            'LogLevel': 'ERROR'}
        if self._key:
            options |= {'IdentityFile': self._key, 'IdentitiesOnly': 'yes'}
        return ['ssh', '-T',
                *(f'-o{key}={value}' for key, value in options.items()),
                self.target, '--', shlex.join(arguments)]

    def await_ready(self, seconds: float) -> None:
        for _look in polling.looks(seconds, _LOOK_SECONDS):
            done = self.run(('true',), _CONNECT_SECONDS * 4)
            if not done.returncode:
                return
        raise bench_errors.InstanceError(
            f'{self.name}: {self.target} did not accept a login after '
            f'{seconds:g} s: {process.said(done.stderr)}',
            'see whether its console shows that sshd is running, and whether '
            'it accepts the key')

    def run(self, arguments: Sequence[str],
            seconds: float) -> subprocess.CompletedProcess[str]:
        """Run something inside, and wait for its end."""
        line = self.command(arguments)
        # The first ssh leaves the shared connection behind, which would hold
        # a pipe open.
        with self._file() as printed, self._file() as said:
            try:
                done = subprocess.run(
                    line, stdin=subprocess.DEVNULL, stdout=printed,
                    stderr=said, timeout=seconds, start_new_session=True)
                status = done.returncode
            except subprocess.TimeoutExpired:
                return subprocess.CompletedProcess(
                    line, _OWN_STATUS, '', 'it does not answer')
            except OSError as error:
                raise bench_errors.InstanceError(
                    f'{line[0]}: {error.strerror}',
                    'install it with: apt-get install openssh-client',
                ) from None
            printed.seek(0)
            said.seek(0)
            return subprocess.CompletedProcess(
                line, status, printed.read(), said.read())

    def _file(self) -> typing.IO[str]:
        return tempfile.TemporaryFile(
            'w+', errors='replace', dir=self.directory)

    def start(self, command: str) -> 'SshJob':
        """Run a command of /bin/sh inside.

        :raises errors.InstanceError: if it cannot be started
        """
        return SshJob(self, remote.script(command))

    def clock(self) -> bench_model.ClockReading:
        """The clock inside and ours.

        :raises errors.InstanceError: if it does not answer
        """
        return remote.handshake(self.name, self._date)

    def _date(self) -> float:
        done = self.run(('date', '+%s%N'), _CLOCK_SECONDS)
        try:
            return int(done.stdout) / 1e9
        except ValueError:
            raise bench_errors.InstanceError(
                f'{self.name}: {self.target} does not tell its time: '
                f'{process.said(done.stderr)}') from None

    def close(self) -> None:
        """End the shared connection."""
        if not os.path.isdir(self._directory.name):
            return
        line = self.command(())
        at = line.index(self.target)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run([*line[:at], '-O', 'exit', line[at]],
                           stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=_STOP_SECONDS)
        self._directory.cleanup()


class SshJob:
    """A command that ssh runs."""

    def __init__(self, ssh: Ssh, script: remote.Script) -> None:
        self._ssh = ssh
        self._script = script
        self._outcome: platform_interface.CommandOutcome | None = None
        at = tempfile.mkdtemp(dir=ssh.directory)
        self._stdout = pathlib.Path(at) / 'stdout'
        self._stderr = pathlib.Path(at) / 'stderr'
        with self._stdout.open('wb') as out, self._stderr.open('wb') as err:
            try:
                self._process = subprocess.Popen(
                    ssh.command(script.start), stdin=subprocess.DEVNULL,
                    stdout=out, stderr=err, start_new_session=True)
            except OSError as error:
                raise bench_errors.InstanceError(
                    f'{ssh.name}: ssh: {error.strerror}') from None

    def poll(self) -> platform_interface.CommandOutcome | None:
        if self._outcome is not None:
            return self._outcome
        status = self._process.poll()
        if status is None:
            return None
        stdout, stderr = (path.read_bytes().decode(errors='replace')
                          for path in (self._stdout, self._stderr))
        self._outcome = remote.outcome(
            self._ssh.name, status, stdout, stderr)
        return self._outcome

    def stop(self) -> None:
        if self._outcome is None and self._process.poll() is None:
            self._ssh.run(self._script.stop, _STOP_SECONDS)
            self._process.kill()
            self._process.wait()
