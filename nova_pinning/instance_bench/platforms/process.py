# SPDX-License-Identifier: Apache-2.0
"""Commands that run as processes of this host, in a namespace or not.

An instance on the host is all that is in one PID namespace. The first process
in it ends when the controller does, be it killed, since it waits for the end
of a pipe that nobody else holds; and with it the kernel ends all others, what
has made itself a daemon included.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import itertools
import os
import pathlib
import selectors
import shlex
import signal
import subprocess

from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import polling

#: What the first process of an instance runs: it reaps what is orphaned, and
#: ends with the pipe that is its standard input.
KEEPER = 'exec 3<&0; cat <&3 >/dev/null & wait $!'
_IN_WORK = 'cd "$1" && exec /bin/sh -c "$2"'
_MARK = 'NOVA_PINNING_BENCH_JOB'
_MOST_OUTPUT = 16 * 1024 * 1024
_END_SECONDS = 10.0
_CLEAR_LOOKS = 2
_BARE_LOOKS = 50
_LOOK_SECONDS = 0.02
_SIGNALS = range(129, 193)

_numbers = itertools.count(1)


class ProcessJob:
    """A command of /bin/sh that runs in an instance.

    :param enter: what to put before a command so that it runs inside, given
        environment variables
    :param command: for /bin/sh
    :param work: the directory it runs in, as it is inside
    :param directory: an empty one for its output
    :param members: the processes of the instance now, by the host's ids
    :raises bench_errors.InstanceError: if it cannot be started
    """

    def __init__(
        self, *, enter: Callable[[Mapping[str, str]], Sequence[str]],
        command: str, work: str, directory: pathlib.Path,
        members: Callable[[], Collection[int]],
    ) -> None:
        self._mark = f'{os.getpid()}-{next(_numbers)}'
        self._directory = directory
        self._members = members
        self._outcome: platform_interface.CommandOutcome | None = None
        arguments = [
            *enter(environment(work) | {_MARK: self._mark}),
            '/bin/sh', '-c', _IN_WORK, 'bench', work, command]
        with contextlib.ExitStack() as stack:
            try:
                stdout, stderr = (
                    stack.enter_context((directory / name).open('wb'))
                    for name in ('stdout', 'stderr'))
                self._process = subprocess.Popen(
                    arguments, stdin=subprocess.DEVNULL, stdout=stdout,
                    stderr=stderr, start_new_session=True,
                    env=environment(work) | {_MARK: self._mark})
            except OSError as error:
                raise bench_errors.InstanceError(
                    f'{command!r} cannot be started: {error}') from None

    def poll(self) -> platform_interface.CommandOutcome | None:
        status = self._process.poll()
        if status is None:
            return None
        if self._outcome is None:
            self._outcome = platform_interface.CommandOutcome(
                status=exit_status(status),
                stdout=self._read('stdout'), stderr=self._read('stderr'))
        return self._outcome

    def stop(self) -> None:
        """End it with all that came of it and still has its environment."""
        if self.poll() is not None:
            return
        # A process that is just replacing its program has no environment for
        # a moment, and some have none at all: these are looked at for longer.
        clear = 0
        for _look in polling.looks(_END_SECONDS, _LOOK_SECONDS):
            environments = _environments(self._members())
            left = _having(environments, f'{_MARK}={self._mark}')
            clear = (0 if left or self._process.poll() is None
                     else clear + 1)
            if clear >= (_CLEAR_LOOKS if all(environments.values())
                         else _BARE_LOOKS):
                return
            kill(left)
            # What gets a command inside ends when the command does; where it
            # has not got so far, it has to be told.
            if not left:
                self._process.kill()
        raise bench_errors.InstanceError(
            f'process {self._process.pid} does not end, nor do {left}',
            'kill them by hand')

    def _read(self, name: str) -> str:
        """The output, or the end of it if there is very much."""
        with (self._directory / name).open('rb') as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MOST_OUTPUT))
            return file.read().decode(errors='replace')


def exit_status(status: int) -> int:
    """That of a command by what the shell says: negative for a signal."""
    return 128 - status if status in _SIGNALS else status


def said(text: str) -> str:
    """What a program has printed about its failure, in one line."""
    return ' '.join(text.split()) or 'it does not say why'


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


def _environments(pids: Collection[int]) -> dict[int, bytes]:
    """The environments of those processes that have not ended."""
    environments = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            environments[pid] = pathlib.Path(
                f'/proc/{pid}/environ').read_bytes()
    return environments


def _having(environments: Mapping[int, bytes], variable: str) -> list[int]:
    return [pid for pid, environment in environments.items()
            if variable.encode() in environment.split(b'\0')]


def kill(pids: Collection[int]) -> None:
    """Kill processes; those that have already ended are ignored."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def watched(pid: int) -> Iterator[Callable[[], None]]:
    """Watch a process, be it a child or not.

    The kernel tells of the end of a PID namespace's first process when the
    others have ended: see ``zap_pid_ns_processes`` in kernel/pid_namespace.c.

    :param pid: it may have ended; 0 is none, and that has ended
    :returns: waits for its end, and raises
        :class:`bench_errors.InstanceError` if it does not come
    """
    try:
        descriptor = os.pidfd_open(pid) if pid else None
    except ProcessLookupError:
        descriptor = None
    if descriptor is None:
        yield lambda: None
        return

    def wait() -> None:
        # Not select.poll(), which eventlet takes away; nova before 2026.1
        # has it patch the whole process.
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            if not selector.select(_END_SECONDS):
                raise bench_errors.InstanceError(
                    f'process {pid} does not end', 'kill it by hand')

    try:
        yield wait
    finally:
        os.close(descriptor)


def untranslated() -> dict[str, str]:
    """The environment of a program whose words are read."""
    return {**os.environ, 'LC_ALL': 'C'}


def run(command: Sequence[str], seconds: float = 60.0) -> str:
    """Run a command of the controller's own.

    :returns: what it printed
    :raises bench_errors.InstanceError: if it fails, with what it said
    """
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors='replace', timeout=seconds, check=False,
            env=untranslated())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise bench_errors.InstanceError(
            f'{shlex.join(command)}: {error}') from error
    if done.returncode:
        raise bench_errors.InstanceError(
            f'{shlex.join(command)} ended with status {done.returncode}: '
            f'{said(done.stderr)}')
    return done.stdout
