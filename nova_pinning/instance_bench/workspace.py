# SPDX-License-Identifier: Apache-2.0
"""A directory for what a platform leaves on disk, and for what is left over.

Whoever uses one holds a lock on it, flock(2), which ends with the process,
however that ends. So a directory without one is of a run that was killed, and
the next run clears it away.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import fcntl
import logging
import os
import pathlib
import re
import shutil
import stat
import tempfile

from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors

LOG = logging.getLogger(__name__)

_PREFIX = 'nova-pinning-bench-'
# As tempfile.mkdtemp makes names; no other directory is ever removed.
_NAME = re.compile(re.escape(_PREFIX) + '[a-z0-9_]{8}')
# Of a directory that was locked: until then it has that of mkdtemp. QEMU, and
# servers that are not root, are to reach what is theirs.
_MODE = 0o711
#: Where directories are: on a disk, which {work} is to be on, unlike /tmp.
PARENT = pathlib.Path('/var/tmp')


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Hold the lock on a directory.

    :raises BlockingIOError: if another does
    :raises OSError: if it cannot be opened
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(directory)


def left_over(parent: pathlib.Path | None = None) -> Iterator[pathlib.Path]:
    """Directories of runs that were killed; locked until the next is asked.

    Those of other users, which may not be opened, are left out.
    """
    for path in sorted((parent or PARENT).glob(f'{_PREFIX}*')):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if (_NAME.fullmatch(path.name) and found.st_uid == os.geteuid()
                    and found.st_mode == stat.S_IFDIR | _MODE):
                with locked(path):
                    yield path


def clear_left_over(clear: Callable[[pathlib.Path], None],
                    parent: pathlib.Path | None = None) -> None:
    """Clear away what runs have left that were killed.

    :param clear: removes one with all that belongs to it; what it cannot
        remove is told of, and stays
    """
    for path in left_over(parent):
        try:
            clear(path)
        except (OSError, bench_errors.BenchError) as error:
            LOG.warning('What a run that was killed has left in %s cannot be '
                        'removed: %s', path, error)


def remove(path: pathlib.Path) -> None:
    """Remove a directory, but nothing that is mounted in it.

    :raises bench_errors.BenchError: if something still is, before anything is
        removed
    """
    mounts = pathlib.Path('/proc/self/mounts').read_text()
    inside = f'{os.path.realpath(path)}/'
    for line in mounts.splitlines():
        if line.split()[1].startswith(inside):
            raise bench_errors.BenchError(
                f'{line.split()[1]} is still mounted',
                f'see what uses it, and then remove {path}')
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def temporary(
    clear: Callable[[pathlib.Path], None] = remove,
    parent: pathlib.Path | None = None,
) -> Iterator[pathlib.Path]:
    """A locked directory, for as long as the context lasts.

    :param clear: removes it with all that belongs to it, and before that
        what runs have left that were killed
    :raises errors.InputError: if there can be none
    """
    clear_left_over(clear, parent)
    parent = parent or PARENT
    with contextlib.ExitStack() as stack:
        try:
            path = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            stack.enter_context(locked(path))
            path.chmod(_MODE)
        except OSError as error:
            raise errors.InputError(
                f'{error.strerror}', errors.Location(str(parent)),
                'temporary files are made there') from None
        stack.callback(clear, path)
        yield path
