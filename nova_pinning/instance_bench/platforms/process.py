# SPDX-License-Identifier: Apache-2.0
"""Commands that run as processes of this host, in a namespace or not.

An instance on the host is all that is in one PID namespace. The first process
in it ends when the controller does, be it killed, since it waits for the end
of a pipe that nobody else holds; and with it the kernel ends all others, what
has made itself a daemon included.
"""

from collections.abc import Sequence
import os
import pathlib
import resource
import shlex
import subprocess
import tempfile
from typing import IO

from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import platform_interface

#: What the first process of an instance runs: it reaps what is orphaned, and
#: ends with the pipe that is its standard input.
KEEPER = 'exec 3<&0; cat <&3 >/dev/null & wait $!'
_IN_WORK = 'cd "$1" && exec /bin/sh -c "$2"'
_MOST_OUTPUT = 16 * 1024 * 1024
_SIGNALS = range(129, 193)


class ProcessJob:
    """A command of /bin/sh that runs in an instance.

    :param enter: what to put before a command so that it runs inside
    :param command: for /bin/sh
    :param work: the directory it runs in, as it is inside
    :param directory: for its output
    :raises bench_errors.InstanceError: if it cannot be started
    :ivar cpu_seconds: CPU time it took, once poll() has told how it ended
    """

    cpu_seconds = 0.0

    def __init__(self, *, enter: Sequence[str], command: str, work: str,
                 directory: pathlib.Path) -> None:
        try:
            self._stdout, self._stderr = (
                tempfile.TemporaryFile(dir=directory) for _stream in range(2))
            self._process = subprocess.Popen(
                [*enter, '/bin/sh', '-c', _IN_WORK, 'bench', work, command],
                stdin=subprocess.DEVNULL, stdout=self._stdout,
                stderr=self._stderr, start_new_session=True,
                env=environment(work))
        except OSError as error:
            raise bench_errors.InstanceError(
                f'{command!r} cannot be started: {error}') from None

    def poll(self) -> platform_interface.CommandOutcome | None:
        before = _children_seconds()
        status = self._process.poll()
        # It goes up when one is waited for.
        self.cpu_seconds += _children_seconds() - before
        return None if status is None else platform_interface.CommandOutcome(
            status=exit_status(status), stdout=_end_of(self._stdout),
            stderr=_end_of(self._stderr))

    def forget(self) -> None:
        """Be rid of it, once all that runs inside has ended."""
        # Where it had not got inside yet, nothing has ended it.
        self._process.kill()
        self._process.wait()
        self._stdout.close()
        self._stderr.close()


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end_of(output: IO[bytes]) -> str:
    """The output, or the end of it if there is very much."""
    # What the command has left behind may still write.
    start = max(0, os.fstat(output.fileno()).st_size - _MOST_OUTPUT)
    return os.pread(output.fileno(), _MOST_OUTPUT, start).decode(
        errors='replace')


def exit_status(status: int) -> int:
    """That of a command by what the shell says: negative for a signal."""
    return 128 - status if status in _SIGNALS else status


def said(text: str) -> str:
    """What a program has printed about its failure, in one line."""
    return (' '.join(text.split()).removeprefix('error: ')
            or 'it does not say why')


def environment(work: str) -> dict[str, str]:
    """What commands find in their environment, on every host the same."""
    return {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:'
                    '/sbin:/bin',
            'HOME': work, 'LC_ALL': 'C.UTF-8'}


def members(tree: machine_files.Tree, first: int) -> list[int]:
    """All processes in the PID namespace of one, ascending.

    Those that have ended, and wait for their parents to notice, are not.

    :param first: the namespace's first process, by the host's id
    """
    own = tree.link_name(f'/proc/{first}/ns/pid')
    return sorted(
        int(name) for name in tree.names('/proc') if own and name.isdecimal()
        and tree.link_name(f'/proc/{name}/ns/pid') == own
        and tree.link_name(f'/proc/{name}/exe'))


def untranslated() -> dict[str, str]:
    """The environment of a program whose words are read."""
    return {**os.environ, 'LC_ALL': 'C'}


def run(command: Sequence[str], seconds: float = 60.0,
        name: str = '') -> str:
    """Run a command of the controller's own.

    :param name: what errors call it, '' for all of its words
    :returns: what it printed
    :raises bench_errors.InstanceError: if it fails, with what it said
    """
    name = name or shlex.join(command)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors='replace', timeout=seconds, check=False,
            env=untranslated())
    except OSError as error:
        raise bench_errors.InstanceError(
            f'{name}: {error.strerror}') from error
    except subprocess.TimeoutExpired:
        raise bench_errors.InstanceError(
            f'{name} does not end within {seconds:g} s') from None
    if done.returncode:
        raise bench_errors.InstanceError(
            f'{name} ended with status {done.returncode}: '
            f'{said(done.stderr)}')
    return done.stdout
