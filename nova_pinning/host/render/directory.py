# SPDX-License-Identifier: Apache-2.0
"""A directory of rendered files, which remembers what it was given.

A manifest in it says which files render has written, and what was in them, so
that a later rendering replaces those and no others. Files are replaced one by
one, each as a whole. What is cut off in between can be done again: before
anything is written, the manifest knows the old contents and the new ones.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import difflib
import hashlib
import itertools
import json
import os
import pathlib
import stat

from nova_pinning.document import atomic_file
from nova_pinning import errors
from nova_pinning.host.render import manifest

#: The file that says what render has written.
MANIFEST = '.nova-pinning-render.json'

_VERSION = 1

_Known = Mapping[str, frozenset[str]]

#: What a rendering does to files: paths relative to the directory, by
#: 'added', 'changed' and 'removed'.
DirectoryChanges = Mapping[str, tuple[str, ...]]


def difference(directory: str,
               files: Mapping[str, manifest.RenderedFile]) -> Iterator[str]:
    """What :func:`write` would change, line by line, as diff -u shows it.

    :raises errors.InputError: if :func:`write` would refuse
    """
    root = pathlib.Path(directory)
    changes = _compare(root, files, _known(root))
    for path in sorted(itertools.chain.from_iterable(changes.values())):
        new = files[path].text if path in files else ''
        yield from difflib.unified_diff(
            (_read(root / path) or '').splitlines(), new.splitlines(),
            '/dev/null' if path in changes['added'] else path,
            '/dev/null' if path in changes['removed'] else path, lineterm='')


def write(directory: str,
          files: Mapping[str, manifest.RenderedFile]) -> DirectoryChanges:
    """Have a directory hold these files.

    :param directory: new, empty, or one that was written by this before
    :raises errors.InputError: if it holds files of others, files of ours
        that were changed since, or cannot be written; in the first two cases
        nothing has changed
    """
    root = pathlib.Path(directory)
    known = _known(root)
    changes = _compare(root, files, known)
    new = {path: frozenset({_digest(rendered.text)})
           for path, rendered in files.items()}
    try:
        root.mkdir(parents=True, exist_ok=True)
        _write_manifest(root, {
            path: known.get(path, frozenset()) | new.get(path, frozenset())
            for path in (*new, *changes['removed'])})
        for path, rendered in files.items():
            _write_file(root / path, rendered)
        for path in changes['removed']:
            _remove(root, path)
        _write_manifest(root, new)
    except OSError as error:
        raise errors.InputError(
            f'cannot be written: {error.strerror}',
            errors.Location(error.filename or directory)) from error
    return changes


def _compare(root: pathlib.Path, files: Mapping[str, manifest.RenderedFile],
             known: _Known) -> DirectoryChanges:
    changes: dict[str, tuple[str, ...]] = {
        'added': (), 'changed': (), 'removed': ()}
    for path in (*files, *sorted(known.keys() - files.keys())):
        _check_place(root, path)
        old, new = _read(root / path), files.get(path)
        wrong = change = ''
        if old is None:
            change = 'added' if new else ''
        elif path not in known:
            wrong = 'is in the way: render has not written this file'
        elif _digest(old) not in known[path] and (
                new is None or old != new.text):
            wrong = 'was changed since it was rendered'
        elif new is None:
            change = 'removed'
        elif old != new.text or _is_executable(root / path) != new.executable:
            change = 'changed'
        if wrong:
            raise errors.InputError(
                wrong, errors.Location(str(root / path)),
                'move it away, or name another directory')
        if change:
            changes[change] += (path,)
    return changes


def _known(root: pathlib.Path) -> _Known:
    """What the manifest says: digests by path.

    :raises errors.InputError: if the directory belongs to others
    """
    manifest = root / MANIFEST
    where = errors.Location(str(root))
    try:
        if not root.exists() or not any(root.iterdir()):
            return {}
        text = manifest.read_text()
    except FileNotFoundError:
        raise errors.InputError(
            'holds files that render has not written', where,
            'name a directory that is new or empty') from None
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise errors.InputError(f'cannot be read: {reason}', where) from error
    return _parse(text, errors.Location(str(manifest)))


def _parse(text: str, where: errors.Location) -> _Known:
    try:
        content = json.loads(text)
        if content['version'] != _VERSION:
            raise ValueError('another version')
        known = {path: frozenset(map(str, digests))
                 for path, digests in content['files'].items()}
    except (ValueError, KeyError, TypeError, AttributeError,
            RecursionError):
        raise errors.InputError(
            'this is not what render writes', where,
            'name a directory that is new or empty') from None
    for path in known:
        pure = pathlib.PurePosixPath(path)
        if pure.is_absolute() or '..' in pure.parts or not pure.parts:
            raise errors.InputError(f'{path!r} lies outside of the directory',
                                    where)
    return known


def _check_place(root: pathlib.Path, path: str) -> None:
    """Refuse what is where a directory of ours has to be.

    A symbolic link would carry a file out of the directory.
    """
    parts = pathlib.PurePosixPath(path).parts
    place = root
    for number, part in enumerate(parts, 1):
        place /= part
        is_link = place.is_symlink()
        if is_link or number < len(parts) and place.is_file():
            reason = ('render writes no symbolic links' if is_link
                      else 'it is not a directory')
            raise errors.InputError(f'is in the way: {reason}',
                                    errors.Location(str(place)),
                                    'move it away')


def _read(path: pathlib.Path) -> str | None:
    """The content of a file, None if there is none.

    :raises errors.InputError: if it is something else, or cannot be read
    """
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return path.read_bytes().decode(errors='surrogateescape')
        reason = 'is in the way: it is not a regular file'
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reason = f'cannot be read: {error.strerror}'
    raise errors.InputError(reason, errors.Location(str(path)))


def _is_executable(path: pathlib.Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()


def _write_file(path: pathlib.Path, rendered: manifest.RenderedFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if _read(path) != rendered.text:
        atomic_file.replace(path, rendered.text)
    mode = stat.S_IMODE(path.stat().st_mode)
    # Who may read it may run it.
    runnable = (mode & 0o444) >> 2 if rendered.executable else 0
    if mode & 0o111 != runnable:
        path.chmod(mode & ~0o111 | runnable)


def _write_manifest(root: pathlib.Path, known: _Known) -> None:
    atomic_file.replace(root / MANIFEST, json.dumps({
        'version': _VERSION,
        'files': {path: sorted(digests)
                  for path, digests in sorted(known.items())},
    }, indent=1) + '\n')


def _remove(root: pathlib.Path, path: str) -> None:
    """Remove a file, and the directories that are empty then."""
    place = root / path
    place.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        while place.parent != root:
            place = place.parent
            os.rmdir(place)
