# SPDX-License-Identifier: Apache-2.0
"""A new directory of rendered files, which is there with all of them.

What was rendered before stays as it is: ``diff -ru`` tells what has changed.
"""

from collections.abc import Iterable
import os
import pathlib
import shutil

from nova_pinning import errors
from nova_pinning.host.render import manifest


def write(directory: str, files: Iterable[manifest.RenderedFile]) -> None:
    """Make a directory that holds these files.

    :raises errors.InputError: if there is something of that name, or it
        cannot be written; nothing has changed then
    """
    root = pathlib.Path(os.path.abspath(directory))
    if os.path.lexists(root):
        raise errors.InputError(
            'is there already', errors.Location(directory),
            'name a new directory; diff -ru tells how two of them differ')
    # What a process of this number has left that was killed is replaced.
    draft = root.with_name(f'.{root.name}.{os.getpid()}')
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        for rendered in files:
            path = draft / rendered.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(rendered.text, 'utf-8')
            if rendered.executable:
                # Who may read it may run it.
                mode = path.stat().st_mode
                path.chmod(mode | (mode & 0o444) >> 2)
        draft.rename(root)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise errors.InputError(
            f'cannot be written: {error.strerror}',
            errors.Location(error.filename or directory)) from error
