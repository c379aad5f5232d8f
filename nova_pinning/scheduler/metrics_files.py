# SPDX-License-Identifier: Apache-2.0


"""The file that each process of nova-scheduler keeps about itself.

``nova-pinning-PID.prom`` is for Prometheus. A thread writes it, so that no
request ever waits for a disk.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import os
import re
import stat
import threading

from oslo_log import log as logging

from nova_pinning.document import atomic_file
from nova_pinning import errors

LOG = logging.getLogger(__name__)

_MODE = 0o640
# A name of ours, or that of a draft which files.replace did not get to
# rename. No pid has more digits: see PID_MAX_LIMIT of the kernel.
_NAME = re.compile(r'nova-pinning-([1-9]\d{0,6})\.prom|'
                   r'\.nova-pinning-([1-9]\d{0,6})\.prom\.\w{8}')
#: How long a process that ends waits for a disk, in seconds.
_STOP_SECONDS = 5


class ProcessFileWriter:
    """Keeps the file of this process as it should be. Never raises.

    :param directory: that all processes share
    :param interval_seconds: how often to look whether anything has changed
    :param state: what the file depends on; it is written when that is another
        one than last time
    :param text: of the file, made of the state
    """

    def __init__(self, directory: str, interval_seconds: float,
                 state: Callable[[], str], text: Callable[[str], str]) -> None:
        self._directory = directory
        self._interval_seconds = interval_seconds
        self._state = state
        self._text = text
        self._written: str | None = None
        self._has_swept = False
        self._trouble = ''
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name='pinning-metrics', daemon=True)

    def start(self) -> None:
        """Write in a thread from now on; to be called once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and remove the file.

        It would be taken for that of a process that runs. Waits a few seconds
        at most for a disk.
        """
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        if self._writing.acquire(timeout=_STOP_SECONDS):
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._writing.release()

    def write(self) -> None:
        """Write now what has changed, in the calling thread."""
        with self._writing:
            if not self._stopping.is_set():
                self._has_swept = self._has_swept or sweep(self._directory)
                self._write()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.write()
            self._stopping.wait(self._interval_seconds)

    def _write(self) -> None:
        trouble = ''
        try:
            state = self._state()
            # Somebody may have cleared the directory.
            if self._written != state or not os.path.exists(self._path):
                atomic_file.replace(self._path, self._text(state), _MODE)
                self._written = state
        except errors.InputError as error:
            trouble = str(error)
        except Exception as error:
            trouble = f'{self._path}: {error!r}'
        self._note(trouble)

    @property
    def _path(self) -> str:
        return os.path.join(
            self._directory, f'nova-pinning-{os.getpid()}.prom')

    def _note(self, trouble: str) -> None:
        """Say that writing fails, when it begins to or fails differently."""
        if trouble == self._trouble:
            return
        if trouble:
            LOG.error(
                'Metrics of nova-pinning are not written: %s. '
                'nova-scheduler goes on, and tries again. [pinning] '
                'metrics_directory must exist, have room, and be writable for '
                "nova-scheduler's user", trouble)
        else:
            LOG.info('Metrics of nova-pinning are written to %s again',
                     self._directory)
        self._trouble = trouble


def sweep(directory: str) -> bool:
    """Remove what processes have left that run no more. Never raises.

    Files of other users stay, and so do those of other names.

    :returns: whether the directory could be read
    """
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    for match in filter(None, map(_NAME.fullmatch, names)):
        path = os.path.join(directory, match[0])
        with contextlib.suppress(OSError):
            if not _runs(int(match[1] or match[2])) and (
                    _is_ours(os.lstat(path))):
                os.unlink(path)
    return True


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Somebody else's.
        pass
    return True


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
