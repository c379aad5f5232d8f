# SPDX-License-Identifier: Apache-2.0
"""Peers: servers on the host that commands in instances talk to."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import os
import signal
import subprocess
import tempfile

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors

# The reader of the pipe on standard input, which ends when the controller
# does however that ends, takes all others in its process group with it.
_TIED = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec 3<&- </dev/null'
_MOST_SAID = 500


@contextlib.contextmanager
def running(command: str,
            cpus: cpuset.CpuSet) -> Iterator[Callable[[], None]]:
    """A peer, for as long as the context lasts; it is killed at its end.

    :param command: for /bin/sh
    :param cpus: where it runs
    :returns: sees that it still runs, and raises
        :class:`bench_errors.WorkloadError` with what it said at its end
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

        def check() -> None:
            status = process.poll()
            if status is not None:
                output.seek(0)
                said = output.read()[-_MOST_SAID:].decode(errors='replace')
                raise bench_errors.WorkloadError(
                    f'the peer on the host has ended, status {status}: '
                    f'{" ".join(said.split()) or "it said nothing"}; its '
                    f'command is {command}', 'see whether its port is taken')

        try:
            yield check
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
