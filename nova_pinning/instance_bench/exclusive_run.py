# SPDX-License-Identifier: Apache-2.0
"""One run at a time on a host: two would measure each other.

Who measures has a lock on a file, flock(2), which ends with its process,
however that ends, and holds between containers of one file system, whatever
network they have. The file says who that is, and stays.

It is where all users can write to and what is set apart on one machine still
shares: not below /run, of which a host of the minicloud, like most containers,
has one of its own.
"""

from collections.abc import Iterator
import contextlib
import fcntl
import os
import pathlib

from nova_pinning import errors
from nova_pinning.instance_bench import workspace

NAME = 'nova-pinning-bench.lock'
_MOST_SAID = 20


@contextlib.contextmanager
def measuring() -> Iterator[None]:
    """Be the only one, on this host, that measures on it or from it.

    :raises errors.InputError: if another does
    """
    path = workspace.PARENT / NAME
    try:
        lock = _opened(path)
    except OSError as error:
        raise errors.InputError(
            f'cannot be opened: {error.strerror}', errors.Location(str(path)),
            'it is the lock of bench runs; see what it is, and remove it',
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.InputError(
                f'another bench run is measuring on this host'
                f'{_holder(lock)}, and each would disturb the other',
                errors.Location(str(path)), 'wait until it ends, or stop it',
            ) from None
        # It may be another user's that we may only read.
        with contextlib.suppress(OSError):
            os.ftruncate(lock, 0)
            os.pwrite(lock, f'{os.getpid()}\n'.encode(), 0)
        yield
    finally:
        os.close(lock)


def _opened(path: pathlib.Path) -> int:
    """The file, made if it is not there, for all users.

    Where links and files of others are protected (fs.protected_regular) one
    that is there must not be opened as if it might not be.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileExistsError):
        lock = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.fchmod(lock, 0o666)
        return lock
    try:
        return os.open(path, flags | os.O_RDWR)
    except PermissionError:
        return os.open(path, flags | os.O_RDONLY)


def _holder(lock: int) -> str:
    """', process 12' if it can be told."""
    said = os.pread(lock, _MOST_SAID, 0).strip()
    return f', process {said.decode()}' if said.isdigit() else ''
