# SPDX-License-Identifier: Apache-2.0
"""What was done of a plan, written down as it happens.

A file of one JSON object a line, which is only ever added to, and reaches the
disk before what it announces is asked of the cloud. So of whatever nova may be
at, there is a line. What has come of it the cloud knows better, and is asked.

Whoever has it open holds a lock on it.
"""

from collections.abc import Callable
import contextlib
import datetime
import errno
import fcntl
import json
import os
import types
from typing import Any
from typing import Self

from nova_pinning import errors

VERSION = 1
#: Added to a plan's name.
SUFFIX = '.journal'


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class ApplyJournal:
    """The journal of one plan, open and locked until it is closed.

    :param path: of the file, which is made if it is not there
    :param plan: a digest of the plan
    :param now: tells the time in UTC
    :raises errors.InputError: if it is of another plan, another process has
        it open, or it cannot be read or written
    """

    def __init__(self, path: str, plan: str,
                 now: Callable[[], datetime.datetime] = _now) -> None:
        self.path = path
        self._now = now
        with _told(path, 'opened'):
            is_new = not os.path.exists(path)
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o644)
        try:
            self._lock()
            with _told(path, 'read'):
                self.entries = self._read()
            if not self.entries:
                self.write('begun', version=VERSION, plan=plan)
            if is_new:
                _sync_directory(os.path.dirname(os.path.abspath(path)))
            self._check(plan)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: types.TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def write(self, event: str, **content: Any) -> None:
        """Add a line, and wait until the disk has it.

        :param event: what has happened, or is about to
        :raises errors.InputError: if it cannot be written
        """
        entry = {'at': f'{self._now():%Y-%m-%dT%H:%M:%S.%fZ}',
                 'event': event, **content}
        with _told(self.path, 'written'):
            data = json.dumps(entry).encode() + b'\n'
            # A file may be full in the middle of a line.
            end = os.fstat(self._descriptor).st_size
            try:
                if os.write(self._descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._descriptor)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, end)
                raise
        self.entries.append(entry)

    def last(self, move: int, *events: str) -> dict[str, Any] | None:
        """The last line about a move.

        :param move: its position in the plan
        :param events: only lines of these
        """
        return next((entry for entry in reversed(self.entries)
                     if entry.get('move') == move
                     and entry['event'] in events), None)

    def replaced_by(self) -> str:
        """The file of the plan that took this one's place, '' if none did."""
        return next((entry['by'] for entry in reversed(self.entries)
                     if entry['event'] == 'replaced'), '')

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.InputError(
                'another process is carrying this plan out',
                errors.Location(self.path),
                'wait until it has ended') from None
        except OSError as error:
            raise errors.InputError(
                f'it cannot be locked: {error.strerror}',
                errors.Location(self.path),
                'put the plan on a file system with locks') from error

    def _read(self) -> list[dict[str, Any]]:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, 'rb', closefd=False) as file:
            data = file.read()
        # What a crash has cut off says nothing that counts: what it announced
        # was not asked for yet.
        whole = data.rfind(b'\n') + 1
        if whole < len(data):
            os.ftruncate(self._descriptor, whole)
        entries = []
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise ValueError('not an object')
                entry['event'].split()
            except (ValueError, LookupError, AttributeError,
                    RecursionError) as error:
                raise errors.InputError(
                    'is not a line of a journal',
                    errors.Location(self.path, number),
                    'move the file away; what is done is then told by the '
                    'cloud alone') from error
            entries.append(entry)
        return entries

    def _check(self, plan: str) -> None:
        head = self.entries[0]
        if head.get('version') != VERSION:
            raise errors.InputError(
                f'is of version {head.get("version")}, not {VERSION}',
                errors.Location(self.path, 1),
                'move it away; what is done is then told by the cloud alone')
        if head.get('plan') != plan:
            raise errors.InputError(
                'is the journal of another plan, which had the same name',
                errors.Location(self.path, 1), 'move it away')


@contextlib.contextmanager
def _told(path: str, what: str) -> Any:
    try:
        yield
    except OSError as error:
        raise errors.InputError(
            f'cannot be {what}: {error.strerror}',
            errors.Location(path)) from error


def _sync_directory(directory: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
