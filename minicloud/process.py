# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the command that started them.

Each is recorded by pid and by the time it started, since pids are used again.
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time
import typing

from minicloud import errors
from minicloud import files

# Before a command that must not go on when this program is killed.
ENDS_WITH_US = ('setpriv', '--pdeathsig', 'KILL', '--')

# In the environment of all that a recorded process starts, the record's path.
MARK = 'MINICLOUD_RECORD'

# Of a log, when its service does not start.
TAIL_LINES = 15

POLL_SECONDS = 0.05

# The kernel needs a moment even for those that it kills, and a busy machine
# longer.
KILL_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """What is known of a process that was started.

    :ivar pid: int; it leads a process group of the same number
    :ivar start_ticks: int, field 22 of /proc/PID/stat, see proc(5)
    :ivar made_from: str, digest of the command and the files it reads
    """

    pid: int
    start_ticks: int
    made_from: str

    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """Return when a process started, None if it is gone or a zombie."""
    return _start_ticks(_stat(pid))


def _stat(pid: int | str) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on, [] if gone."""
    try:
        text = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return []
    # The name may hold blanks and brackets: what counts comes after it.
    return text.rpartition(')')[2].split()


def _start_ticks(fields: list[str]) -> int | None:
    """Return when a process started, None if it is gone or a zombie.

    The first thread of a process can be one while others are still there,
    which keep the process's files and ports.

    :param fields: of _stat(): among them are the 20th, the number of threads,
        and the 22nd, the start; see proc(5)
    """
    if not fields or (fields[0] in 'ZX' and int(fields[17]) < 2):
        return None
    return int(fields[19])


def read(path: pathlib.Path) -> Record | None:
    """Return what was recorded, None if nothing was or it cannot be read."""
    try:
        return Record(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def start(command: list[str], record: pathlib.Path, log: pathlib.Path,
          made_from: str, environment: dict[str, str]) -> Record:
    """Start a process in its own session and record it.

    Its log starts anew; that of the last run is kept beside it.

    :raises: MiniCloudError if the program is not there
    """
    if log.exists():
        log.replace(log.with_suffix('.log.1'))
    try:
        with log.open('w') as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, cwd='/',
                env={**environment, MARK: str(record)})
    except FileNotFoundError as e:
        raise errors.MiniCloudError(
            f'{command[0]} is not installed',
            'Run: tools/minicloud deps') from e
    made = Record(child.pid, start_ticks(child.pid) or 0, made_from)
    files.write(record, json.dumps(dataclasses.asdict(made)))
    return made


def run(command: list[str], failure: str, advice: str = '', *,
        missing: str = 'Run: tools/minicloud deps', text: str = '',
        directory: pathlib.Path | None = None) -> str:
    """Run a command to its end.

    :param failure: what to say if it fails, with advice
    :param missing: advice if it is not there
    :param text: for its input
    :returns: what it said
    :raises: MiniCloudError
    """
    try:
        done = subprocess.run(
            command, input=text, text=True, cwd=directory,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError as e:
        raise errors.MiniCloudError(
            f'{command[0]} is not installed', missing) from e
    if done.returncode:
        raise errors.MiniCloudError(failure, advice, done.stdout[-2000:])
    return done.stdout


def stop(path: pathlib.Path, grace_seconds: float = 15.0) -> bool:
    """End a recorded process with its group, and forget it.

    :returns: whether it, or something that it left behind, was running
    :raises: MiniCloudError if something of it cannot be ended
    """
    record = read(path)
    members: dict[int, int] = {}
    if record is not None and record.alive():
        members = _group(record)
        _signal(record, signal.SIGTERM)
        _wait_for(record.alive, grace_seconds)
        # Also what its leader has left behind.
        members |= _group(record)
    elif record is not None:
        members = _left_behind(record, path)
    if record is not None and members:
        _signal(record, signal.SIGKILL)
        # Until all of them are gone, their ports are not free.
        _wait_for(lambda: _alive(members), KILL_SECONDS)
        _reap(record)
        if left := _alive(members):
            raise errors.MiniCloudError(
                f'{path.stem} was killed, and after {KILL_SECONDS:.0f} '
                'seconds is not gone; its processes are '
                + ', '.join(map(str, left)), 'Try again later')
    path.unlink(missing_ok=True)
    return bool(members)


def _alive(members: dict[int, int]) -> list[int]:
    """Return which processes are still there.

    :param members: when each started, by its pid
    """
    return [pid for pid, ticks in members.items()
            if start_ticks(pid) == ticks]


def _group(record: Record) -> dict[int, int]:
    """Find the processes of a group.

    :returns: when each started, by its pid
    """
    # Field 5 of proc(5) is the group.
    return {pid: ticks for pid, fields in _stats()
            if int(fields[2]) == record.pid
            and (ticks := _start_ticks(fields)) is not None}


def _left_behind(record: Record, path: pathlib.Path) -> dict[int, int]:
    """Find what is left of a group whose leader is gone.

    The number may be a stranger's by now, who has no such mark.

    :returns: when each started, by its pid
    """
    mark = f'{MARK}={path}'.encode()
    left = {}
    for pid, ticks in _group(record).items():
        try:
            environment = pathlib.Path(f'/proc/{pid}/environ').read_bytes()
        except OSError:
            continue
        if mark in environment.split(b'\0'):
            left[pid] = ticks
    return left


def _stats() -> typing.Iterator[tuple[int, list[str]]]:
    """Yield the pid of each process, and /proc/PID/stat after the name."""
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        if fields := _stat(path.name):
            yield int(path.name), fields


def _signal(record: Record, number: signal.Signals) -> None:
    try:
        os.killpg(record.pid, number)
    except ProcessLookupError:
        pass


def _wait_for(lives: typing.Callable[[], object],
              limit_seconds: float) -> None:
    limit = time.monotonic() + limit_seconds
    while lives() and time.monotonic() < limit:
        time.sleep(POLL_SECONDS)


def _reap(record: Record) -> None:
    try:
        # Only this very command's children can be, and have to be, reaped.
        os.waitpid(record.pid, os.WNOHANG)
    except ChildProcessError:
        pass


def tail(log: pathlib.Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log, with its path on top."""
    try:
        text = log.read_text(errors='replace')
    except OSError:
        return ''
    kept = text.rstrip().splitlines()[-lines:]
    return '\n'.join([f'The end of {log}:', *(f'  {line}' for line in kept)])
