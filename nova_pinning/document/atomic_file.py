# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from nova_pinning import errors

#: Set to 1 in the environment: root follows symbolic links as well.
FOLLOW_LINKS = 'NOVA_PINNING_FOLLOW_LINKS'

# Where only the kernel and root make links.
_OF_KERNEL = frozenset({'dev', 'proc'})


def replace(path: str | os.PathLike[str], text: str,
            mode: int | None = None) -> None:
    """Write a text file, as :func:`replace_bytes` does."""
    replace_bytes(path, text.encode(), mode)


def replace_bytes(path: str | os.PathLike[str], data: bytes,
                  mode: int | None = None) -> None:
    """Write a file so that a reader finds all of the old one or the new one.

    A file that is there keeps its mode; a symbolic link keeps pointing at
    its file, which is the one that is replaced. Into a device such as
    /dev/null, or a pipe, it is written.

    :param mode: of a file that is not there yet; None for what the umask of
        the process leaves, which must have no other threads then
    :raises errors.InputError: if it cannot be written, or is a symbolic link
        that root does not follow; nothing has changed then
    """
    _refuse_link(path)
    try:
        _write(path, data, mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise errors.InputError(
            f'cannot be written: {reason}', errors.Location(os.fspath(path)),
        ) from error


def check(path: str | os.PathLike[str]) -> None:
    """Make sure, as far as can be told, that a file can be replaced.

    :raises errors.InputError: if it cannot
    """
    _refuse_link(path)
    directory = os.path.dirname(os.path.realpath(path))
    trouble = ''
    if is_stream(path):
        return
    if not os.path.isdir(directory):
        trouble = f'there is no directory {directory}'
    elif not os.access(directory, os.W_OK | os.X_OK):
        trouble = f'directory {directory} cannot be written to'
    elif os.path.isdir(path):
        trouble = 'it is a directory'
    if trouble:
        raise errors.InputError(f'cannot be written: {trouble}',
                                errors.Location(os.fspath(path)))


def check_all(*paths: str | os.PathLike[str] | None) -> None:
    """Make sure of several files, each of them another one.

    :param paths: None for what is not to be written
    :raises errors.InputError: naming the first that would take the place of
        one before it, else the first that cannot be replaced
    """
    given = [path for path in paths if path is not None]
    files = set()
    # That two are one is wrong wherever the command runs.
    for path in given:
        if is_stream(path):
            continue
        file = os.path.realpath(path)
        if file in files:
            raise errors.InputError(
                'is to be written twice, so that one would be lost',
                errors.Location(os.fspath(path)), 'name two files')
        files.add(file)
    for path in given:
        check(path)


def _refuse_link(path: str | os.PathLike[str]) -> None:
    """Refuse a symbolic link that leads root to a file of others' choice.

    The kernel's own (/dev/stdout) lead nowhere else than the process has
    been already.

    :raises errors.InputError: if it is one
    """
    # Not a working directory's own idea of where it is.
    directory = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    if (os.geteuid() != 0 or not os.path.islink(path)
            or os.environ.get(FOLLOW_LINKS) == '1'
            or directory.split('/')[1] in _OF_KERNEL):
        return
    target = os.path.realpath(path)
    raise errors.InputError(
        f'is a symbolic link, to {target}, which is not followed when run as '
        'root', errors.Location(os.fspath(path)),
        f'give {target}, or set {FOLLOW_LINKS}=1')


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether it is a pipe, or a device such as /dev/null or a terminal."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _write(path: str | os.PathLike[str], data: bytes,
           mode: int | None) -> None:
    if is_stream(path):
        # A new file would take its place for everybody.
        with open(path, 'wb', buffering=0) as stream:
            rest = memoryview(data)
            while rest:
                rest = rest[stream.write(rest):]
    else:
        _replace(os.path.realpath(path), data, mode)


def _replace(path: str, data: bytes, mode: int | None) -> None:
    try:
        present = os.stat(path).st_mode
    except FileNotFoundError:
        if mode is None:
            mode = 0o666 & ~_umask()
    else:
        if not stat.S_ISREG(present) and not stat.S_ISDIR(present):
            raise ValueError('it is a socket or a disk')
        mode = stat.S_IMODE(present)
    directory, name = os.path.split(path)
    descriptor, draft = tempfile.mkstemp(prefix=f'.{name[:64]}.',
                                         dir=directory)
    try:
        with open(descriptor, 'wb') as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    sync_directory(directory)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def sync_directory(directory: str) -> None:
    """Make the new name last through a power cut, where that can be done."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
