# SPDX-License-Identifier: Apache-2.0
"""An initial file system for Linux, see the kernel's initramfs documents.

Uncompressed: QEMU reads it from memory, and a guest on TCG would need longer
to unpack it than to copy it.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import pathlib
import stat

# Of the newc format: see Documentation/driver-api/early-userspace/
# buffer-format.rst.
_MAGIC = b'070701'
_TRAILER = 'TRAILER!!!'


def archive(files: Mapping[str, bytes],
            directories: Iterable[str] = ()) -> bytes:
    """Return a cpio archive of newc format.

    :param files: contents by path, without a leading slash; all can be run
    :param directories: to be there besides those that files are in
    """
    parents = {str(parent) for path in files
               for parent in pathlib.PurePath(path).parents}
    entries = [
        *((path, stat.S_IFDIR | 0o755, b'')
          for path in sorted(parents.union(directories) - {'.'})),
        *((path, stat.S_IFREG | 0o755, content)
          for path, content in files.items()),
        (_TRAILER, 0, b'')]
    return b''.join(_record(inode, *entry)
                    for inode, entry in enumerate(entries, start=1))


def _record(inode: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b'\0'
    links = 2 if stat.S_ISDIR(mode) else 1
    # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor,
    # rdevmajor, rdevminor, namesize, check
    fields = (inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0,
              len(name), 0)
    header = _MAGIC + b''.join(b'%08x' % field for field in fields)
    return _padded(header + name) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def modules(root: pathlib.Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return what modprobe needs to load some modules: files by path.

    :param root: /lib/modules/RELEASE of the kernel, with a modules.dep
    :param names: of modules; those that the kernel has built in, or that are
        not there, are left to modprobe to know about
    """
    needs = _dependencies(root)
    paths = {need for path, needed in needs.items()
             if _name(path) in names for need in (path, *needed)}
    kept = [f'{path}: {" ".join(needs[path])}\n' for path in sorted(paths)]
    inside = f'lib/modules/{root.name}'
    return {f'{inside}/modules.dep': ''.join(kept).encode()} | {
        f'{inside}/{path}': (root / path).read_bytes()
        for path in sorted(paths)}


def _dependencies(root: pathlib.Path) -> dict[str, list[str]]:
    lines = (root / 'modules.dep').read_text().splitlines()
    split = (line.partition(':') for line in lines)
    return {path: needed.split() for path, _, needed in split}


def _name(path: str) -> str:
    return pathlib.PurePath(path).name.partition('.')[0].replace('-', '_')
