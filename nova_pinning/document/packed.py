# SPDX-License-Identifier: Apache-2.0
"""Text files of programs: many megabytes, packed if the name says so.

A name that ends in ``.zst`` is a file of Zstandard (RFC 8878), ``-`` is the
standard input or output. What begins as such files do is unpacked whatever its
name.
"""

import io
import os
import sys
import typing

from nova_pinning.document import atomic_file
from nova_pinning.document import source
from nova_pinning import errors

#: Of a text, unpacked. What is read of it takes many times as much memory.
MAX_BYTES = 256 * 1024 * 1024
STANDARD = '-'
_SUFFIX = '.zst'
# RFC 8878, section 3.1.1.
_MAGIC = b'\x28\xb5\x2f\xfd'
# Unpacked, a chunk is at most 32,000 times as long.
_CHUNK_BYTES = 4096
# Of a window that unpacking keeps in memory.
_MAX_WINDOW_BYTES = 128 * 1024 * 1024


def name(path: str | os.PathLike[str]) -> str:
    """What errors call a file."""
    name_or_number = os.fspath(path)
    return 'standard input' if name_or_number == STANDARD else name_or_number


def read(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> str:
    """The text of a file.

    :raises errors.InputError: if it cannot be read, is larger than max_bytes,
        is cut off or damaged (as far as packing can tell), or is not UTF-8
    """
    where = errors.Location(name(path))
    try:
        if os.fspath(path) == STANDARD:
            data = _data(sys.stdin.buffer, False, max_bytes, where)
        else:
            with open(path, 'rb') as file:
                data = _data(file, _is_packed(path), max_bytes, where)
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise errors.InputError(f'cannot be read: {reason}', where) from None
    return source.decode(data, where.source)


def write(path: str | os.PathLike[str], text: str,
          max_bytes: int = MAX_BYTES) -> None:
    """Replace a file as a whole.

    :raises errors.InputError: if it cannot be written, or is larger than
        max_bytes, so that :func:`read` would refuse it
    """
    data = text.encode()
    if len(data) > max_bytes:
        raise errors.InputError(
            f'would be larger than {max_bytes >> 20:,} MiB, and could not be '
            'read again', errors.Location(
                'standard output' if os.fspath(path) == STANDARD
                else os.fspath(path)))
    if os.fspath(path) == STANDARD:
        sys.stdout.write(text)
        return
    if _is_packed(path):
        data = pack(data)
    atomic_file.replace_bytes(path, data)


def pack(data: bytes) -> bytes:
    """What stands in a file that is packed."""
    # It takes a while to load.
    import zstandard
    packed: bytes = zstandard.ZstdCompressor(
        level=6, write_checksum=True).compress(data)
    return packed


def unpack(data: bytes, source_name: str) -> str:
    """The text of what stands in a file, packed or not.

    :raises errors.InputError: as :func:`read` does
    """
    where = errors.Location(source_name)
    return source.decode(
        _data(io.BytesIO(data), False, MAX_BYTES, where), source_name)


def _is_packed(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(_SUFFIX)


def _data(file: typing.BinaryIO, is_packed: bool, max_bytes: int,
          where: errors.Location) -> bytes:
    head = file.read(len(_MAGIC))
    if is_packed or head == _MAGIC:
        return _unpacked(head, file, max_bytes, where)
    data = head + file.read(max_bytes + 1 - len(head))
    if len(data) > max_bytes:
        raise _too_large(max_bytes, where)
    return data


def _unpacked(head: bytes, file: typing.BinaryIO, max_bytes: int,
              where: errors.Location) -> bytes:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(
        max_window_size=_MAX_WINDOW_BYTES).decompressobj()
    unpacked = io.BytesIO()
    try:
        chunk = head
        while not unpacker.eof and chunk:
            unpacked.write(unpacker.decompress(chunk))
            if unpacked.tell() > max_bytes:
                raise _too_large(max_bytes, where)
            chunk = b'' if unpacker.eof else file.read(_CHUNK_BYTES)
        more = unpacker.unused_data or file.read(1)
    except zstandard.ZstdError as error:
        raise errors.InputError(
            f'cannot be unpacked: {error}', where,
            '' if unpacked.tell()
            else 'what ends in .zst is taken to be packed') from None
    if not unpacker.eof:
        raise errors.InputError(
            'is cut off' if unpacked.tell() else 'is cut off, or empty', where)
    if more:
        raise errors.InputError('has more after the end of what is packed',
                                where)
    return unpacked.getvalue()


def _too_large(max_bytes: int, where: errors.Location) -> errors.InputError:
    return errors.InputError(f'is larger than {max_bytes >> 20:,} MiB', where)
