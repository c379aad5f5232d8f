# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced as a whole, or not at all."""

import contextlib
import os
import stat
import tempfile

from nova_pinning import errors


def replace(path: str | os.PathLike[str], text: str,
            mode: int | None = None) -> None:
    """Write a text file, as :func:`replace_bytes` does."""
    replace_bytes(path, text.encode(), mode)


def replace_bytes(path: str | os.PathLike[str], data: bytes,
                  mode: int | None = None) -> None:
    """Write a file so that a reader finds all of the old one or the new one.

    A file that is there keeps its mode; a symbolic link keeps pointing at
    its file, which is the one that is replaced.

    :param mode: of a file that is not there yet; None for what the umask of
        the process leaves, which must have no other threads then
    :raises errors.InputError: if it cannot be written, or is there and is not
        a regular file, such as /dev/null; nothing has changed then
    """
    try:
        _replace(os.path.realpath(path), data, mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise errors.InputError(
            f'cannot be written: {reason}', errors.Location(os.fspath(path)),
        ) from error


def check(path: str | os.PathLike[str]) -> None:
    """Make sure, as far as can be told, that a file can be replaced.

    :raises errors.InputError: if it cannot
    """
    directory = os.path.dirname(os.path.realpath(path))
    trouble = ''
    if not os.path.isdir(directory):
        trouble = f'there is no directory {directory}'
    elif not os.access(directory, os.W_OK | os.X_OK):
        trouble = f'directory {directory} cannot be written to'
    elif os.path.isdir(path):
        trouble = 'it is a directory'
    if trouble:
        raise errors.InputError(f'cannot be written: {trouble}',
                                errors.Location(os.fspath(path)))


def _replace(path: str, data: bytes, mode: int | None) -> None:
    try:
        present = os.stat(path).st_mode
    except FileNotFoundError:
        if mode is None:
            mode = 0o666 & ~_umask()
    else:
        if not stat.S_ISREG(present) and not stat.S_ISDIR(present):
            # The new name would take a device's place for everybody.
            raise ValueError('it is not a regular file')
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
    _sync_directory(directory)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_directory(directory: str) -> None:
    """Make the new name last through a power cut, where that can be done."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
