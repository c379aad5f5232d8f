# SPDX-License-Identifier: Apache-2.0
"""Peers: servers on the host that commands in instances talk to."""

from collections.abc import Iterator
import contextlib
import os
import signal
import subprocess
import tempfile
import typing

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors

# The reader of the pipe on standard input, which ends when the controller
# does however that ends, takes all others in its process group with it.
_TIED = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec 3<&- </dev/null'
_MOST_SAID = 500


class PeerServer:
    """A server that runs."""

    def __init__(self, command: str, process: subprocess.Popen[bytes],
                 output: typing.BinaryIO) -> None:
        self._command = command
        self._process = process
        self._output = output

    def check(self) -> None:
        """See that it still runs.

        :raises bench_errors.WorkloadError: with what it said at its end
        """
        status = self._process.poll()
        if status is not None:
            self._output.seek(0)
            said = self._output.read()[-_MOST_SAID:].decode(errors='replace')
            raise bench_errors.WorkloadError(
                f'the peer on the host has ended, status {status}: '
                f'{" ".join(said.split()) or "it said nothing"}; its command '
                f'is {self._command}', 'see whether its port is taken')


@contextlib.contextmanager
def running(command: str, cpus: cpuset.CpuSet) -> Iterator[PeerServer]:
    """A peer, for as long as the context lasts; it is killed at its end.

    :param command: for /bin/sh
    :param cpus: where it runs
    :raises bench_errors.WorkloadError: if it cannot be started
    """
    with (tempfile.TemporaryDirectory(prefix='nova-pinning-peer-') as work,
          tempfile.TemporaryFile() as output):
        try:
            process = subprocess.Popen(
                ['taskset', '--cpu-list', str(cpus),
                 '/bin/sh', '-c', f'{_TIED}\n{command}'], cwd=work,
                stdin=subprocess.PIPE, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise bench_errors.WorkloadError(
                f'the peer on the host cannot be started: {error.strerror}',
            ) from None
        try:
            yield PeerServer(command, process, output)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
