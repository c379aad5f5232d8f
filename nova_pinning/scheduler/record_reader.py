# SPDX-License-Identifier: Apache-2.0
"""Records of refused requests, read by who looks into what was refused.

No part of the plugin: nova-scheduler only writes them.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import glob
import os
from typing import Annotated

from nova_pinning.document import codec
from nova_pinning.document import json_text
from nova_pinning.document import packed
from nova_pinning.document import terms
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.scheduler import record


def loads(text: str, source_name: str = '') -> record.ProcessRecord:
    """What a process remembers, from the text of its document.

    :param source_name: what errors call it
    :raises errors.InputError: if it is something else, or of another version
    """
    # As now() gives it: such texts are in the order of the times.
    time = Annotated[str, codec.Limit(
        title='a time in UTC such as 2026-01-31T12:00:00.000Z',
        pattern='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}'
                '[.][0-9]{3}Z$')]
    cause = Annotated[record.RecordedCause, codec.Fields(hosts=terms.Amount)]
    refusal = Annotated[record.NoHost, codec.Fields(
        time=time, refused=Mapping[str, tuple[cause, ...]])]
    found: record.ProcessRecord = typed_document.read(
        Annotated[record.ProcessRecord, codec.Fields(
            process=terms.Count, since=time, limit=terms.Amount,
            forgotten=terms.Amount, refusals=tuple[refusal, ...])],
        json_text.parse(text, source_name), version=1)
    return found


def read(
        directory: str
) -> Iterator[tuple[str, record.ProcessRecord | errors.InputError]]:
    """What all processes remember that have written into a directory.

    :returns: by path; for a file that cannot be read or is not one of ours,
        why
    :raises errors.InputError: if the directory cannot be read
    """
    try:
        os.listdir(directory)
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise errors.InputError(
            f'cannot be read: {reason}',
            errors.Location(directory)) from error
    for path in sorted(glob.glob(
            os.path.join(glob.escape(directory), record.PATTERN))):
        found = _read(path)
        if found is not None:
            yield path, found


def _read(path: str) -> record.ProcessRecord | errors.InputError | None:
    """None for one that has gone in the meantime, as its process did."""
    with contextlib.suppress(FileNotFoundError):
        if not os.path.isfile(path):
            os.stat(path)
            # A named pipe would never end.
            return errors.InputError('is not a regular file',
                                     errors.Location(path))
        try:
            return loads(packed.read(path), path)
        except errors.InputError as error:
            return error
    return None
