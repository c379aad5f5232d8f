# SPDX-License-Identifier: Apache-2.0
"""An initial file system for Linux, see the kernel's initramfs documents.

Uncompressed: QEMU reads it from memory, and a guest on TCG would need longer
to unpack it than to copy it.
"""

import dataclasses
import pathlib
import stat

# Of the newc format: see Documentation/driver-api/early-userspace/
# buffer-format.rst.
_MAGIC = b'070701'
_TRAILER = 'TRAILER!!!'


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory.

    :ivar path: str, without a leading slash
    :ivar mode: int, type and permissions, as in st_mode
    :ivar content: bytes
    """

    path: str
    mode: int
    content: bytes = b''


def directory(path: str) -> Entry:
    return Entry(path, stat.S_IFDIR | 0o755)


def file(path: str, content: bytes) -> Entry:
    return Entry(path, stat.S_IFREG | 0o755, content)


def archive(entries: list[Entry]) -> bytes:
    """Return a cpio archive of newc format.

    Directories that are not among the entries are put in.
    """
    known = {entry.path for entry in entries}
    parents = {str(parent) for entry in entries
               for parent in pathlib.PurePath(entry.path).parents}
    missing = sorted(parents - known - {'.'})
    everything = [*map(directory, missing), *entries, Entry(_TRAILER, 0)]
    return b''.join(_record(inode, entry)
                    for inode, entry in enumerate(everything, start=1))


def _record(inode: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b'\0'
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor,
    # rdevmajor, rdevminor, namesize, check
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, 0,
              0, len(name), 0)
    header = _MAGIC + b''.join(b'%08x' % field for field in fields)
    return _padded(header + name) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def modules(root: pathlib.Path, names: tuple[str, ...]) -> list[Entry]:
    """Return what modprobe needs to load some modules.

    :param root: /lib/modules/RELEASE of the kernel, with a modules.dep
    :param names: of modules; those that the kernel has built in, or that are
        not there, are left to modprobe to know about
    """
    needs = _dependencies(root)
    paths = {need for path, needed in needs.items()
             if _name(path) in names for need in (path, *needed)}
    kept = [f'{path}: {" ".join(needs[path])}\n' for path in sorted(paths)]
    inside = f'lib/modules/{root.name}'
    return [file(f'{inside}/modules.dep', ''.join(kept).encode()),
            *(file(f'{inside}/{path}', (root / path).read_bytes())
              for path in sorted(paths))]


def _dependencies(root: pathlib.Path) -> dict[str, list[str]]:
    lines = (root / 'modules.dep').read_text().splitlines()
    split = (line.partition(':') for line in lines)
    return {path: needed.split() for path, _, needed in split}


def _name(path: str) -> str:
    return pathlib.PurePath(path).name.partition('.')[0].replace('-', '_')
