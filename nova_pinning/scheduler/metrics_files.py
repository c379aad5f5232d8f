# SPDX-License-Identifier: Apache-2.0


"""The files that each process of nova-scheduler keeps about itself.

``nova-pinning-PID.prom`` is for Prometheus, ``nova-pinning-PID.json`` for
``nova-pinning explain``. A thread writes them, so that no request ever waits
for a disk.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
import contextlib
import os
import re
import stat
import threading
from typing import Any
from typing import NamedTuple

from oslo_log import log as logging

from nova_pinning.document import atomic_file
from nova_pinning import errors

LOG = logging.getLogger(__name__)

PROM, JSON = 'prom', 'json'
_MODE = 0o640
# A name of ours, or that of a draft which files.replace did not get to
# rename. No pid has more digits: see PID_MAX_LIMIT of the kernel.
_NAME = re.compile(
    r'nova-pinning-([1-9]\d{0,6})\.(prom|json)|'
    r'\.nova-pinning-([1-9]\d{0,6})\.(prom|json)\.\w{8}')
#: How long a process that ends waits for a disk, in seconds.
_STOP_SECONDS = 5


class FileContent(NamedTuple):
    """What stands in a file.

    :param state: what it depends on; the file is written when that is
        another one than last time
    :param text: of the file, made of the state
    """

    state: Callable[[], Any]
    text: Callable[[Any], str]


class ProcessFilesWriter:
    """Keeps the files of this process as they should be. Never raises.

    :param directory: that all processes share
    :param interval_seconds: how often to look whether anything has changed
    :param contents: by PROM and JSON
    """

    def __init__(self, directory: str, interval_seconds: float,
                 contents: Mapping[str, FileContent]) -> None:
        self._directory = directory
        self._interval_seconds = interval_seconds
        self._contents = contents
        self._written: dict[str, Any] = {}
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
        """End the thread; what it has learnt of refusals stays in its file.

        The metrics go: they would be taken for those of a process that runs.
        Waits a few seconds at most for a disk.
        """
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        if not self._writing.acquire(timeout=_STOP_SECONDS):
            return
        try:
            self._write((JSON,))
            with contextlib.suppress(OSError):
                os.unlink(self._path(PROM))
        finally:
            self._writing.release()

    def write(self) -> None:
        """Write now what has changed, in the calling thread."""
        with self._writing:
            if not self._stopping.is_set():
                self._has_swept = self._has_swept or sweep(
                    self._directory, (PROM, JSON))
                self._write((PROM, JSON))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.write()
            self._stopping.wait(self._interval_seconds)

    def _write(self, kinds: Collection[str]) -> None:
        trouble = ''
        for kind in kinds:
            try:
                self._write_one(kind)
            except errors.InputError as error:
                trouble = trouble or str(error)
            except Exception as error:
                trouble = trouble or f'{self._path(kind)}: {error!r}'
        self._note(trouble)

    def _write_one(self, kind: str) -> None:
        content = self._contents[kind]
        path = self._path(kind)
        state = content.state()
        # Somebody may have cleared the directory.
        if (kind not in self._written or self._written[kind] != state or
                not os.path.exists(path)):
            atomic_file.replace(path, content.text(state), _MODE)
            self._written[kind] = state

    def _path(self, kind: str) -> str:
        return os.path.join(
            self._directory, f'nova-pinning-{os.getpid()}.{kind}')

    def _note(self, trouble: str) -> None:
        """Say that writing fails, when it begins to or fails differently."""
        if trouble == self._trouble:
            return
        if trouble:
            LOG.error(
                'Metrics and refusals of nova-pinning are not written: %s. '
                'nova-scheduler goes on, and tries again. [pinning] '
                'metrics_directory must exist, have room, and be writable for '
                "nova-scheduler's user", trouble)
        else:
            LOG.info('Metrics and refusals of nova-pinning are written to %s '
                     'again', self._directory)
        self._trouble = trouble


def sweep(directory: str, kinds: Collection[str]) -> bool:
    """Remove what processes have left that run no more. Never raises.

    Files of other users stay, and so do those of other names.

    :param kinds: of files: PROM, JSON
    :returns: whether the directory could be read
    """
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        process, kind = match[1] or match[3], match[2] or match[4]
        path = os.path.join(directory, name)
        with contextlib.suppress(OSError):
            if (kind in kinds and not _runs(int(process)) and
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
