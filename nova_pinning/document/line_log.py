# SPDX-License-Identifier: Apache-2.0
"""Files that lines are added to, each on the disk before what comes next.

Whoever has one open holds a lock on it, so that no two add to it. A line
counts once its newline is there: what a crash has left of one is not among
the lines, and is cut off before another is added.
"""

import contextlib
import errno
import fcntl
import os
from typing import Self

from nova_pinning.document import atomic_file
from nova_pinning.document import source
from nova_pinning import errors


class LogWriteError(errors.InputError):
    """A line cannot be added; those that were are as they should be."""


class LineLog:
    """A file of lines, open and locked until it is closed.

    One that is made here is removed if nothing is added to it.

    :param path: of the file, which is made if it is not there
    :param taken: what to say, with advice, if another process has it open
    :param most_bytes: that are read
    :ivar lines: the whole lines that were there
    :raises errors.InputError: if another process has it open, or it cannot be
        read
    :raises LogWriteError: if it cannot be written to
    """

    def __init__(self, path: str | os.PathLike[str], taken: tuple[str, str],
                 most_bytes: int) -> None:
        self._path = path
        self._where = errors.Location(os.fspath(path))
        self._is_made = False
        self._length = 0
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise self._error(error) from error
        try:
            self._lock(*taken)
            data = source.read_bytes(path, most_bytes)
        except BaseException:
            self.close()
            raise
        self.lines = data[:data.rfind(b'\n') + 1]
        self._length = len(self.lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and the lock; nothing if that is done."""
        if self._descriptor < 0:
            return
        if self._is_made and not self._length:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = -1

    def add(self, line: str) -> None:
        """Add a line, and wait until the disk has it.

        :param line: without its newline
        :raises LogWriteError: if it cannot be added; nothing of it is there
        """
        data = line.encode() + b'\n'
        try:
            os.ftruncate(self._descriptor, self._length)
            # A file may be full in the middle of a line.
            if os.write(self._descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._descriptor)
        except BaseException as error:
            # If that fails too, it has no newline, and readers leave it out.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._length)
            if isinstance(error, OSError):
                raise self._error(error) from error
            raise
        self._length += len(data)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        try:
            made = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return os.open(self._path, flags)
        self._is_made = True
        atomic_file.sync_directory(
            os.path.dirname(os.path.abspath(self._path)))
        return made

    def _lock(self, taken: str, advice: str) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except BlockingIOError:
            is_locked = False
        except OSError as error:
            raise errors.InputError(
                f'cannot be locked: {error.strerror}', self._where,
                'put it on a file system with locks') from error
        # What another has made and removed meanwhile is lost on close.
        if not is_locked or not os.fstat(self._descriptor).st_nlink:
            # It is the other's, to remove as well.
            self._is_made = False
            raise errors.InputError(taken, self._where, advice)

    def _error(self, error: OSError) -> LogWriteError:
        return LogWriteError(f'cannot be written: {error.strerror}',
                             self._where)
