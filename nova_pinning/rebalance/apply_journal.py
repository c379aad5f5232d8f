# SPDX-License-Identifier: Apache-2.0
"""What was done of a plan, written down as it happens.

A file of one JSON object a line, which is only ever added to, and reaches the
disk before what it announces is asked of the cloud. So of whatever nova may be
at, there is a line. What has come of it the cloud knows better, and is asked.
"""

from collections.abc import Callable
import datetime
import json
import types
from typing import Any
from typing import Self

from nova_pinning.document import line_log
from nova_pinning import errors

VERSION = 1
#: Added to a plan's name.
SUFFIX = '.journal'
#: More is not read: no plan makes files of this size.
MAX_BYTES = 256 * 1024 * 1024


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class ApplyJournal:
    """The journal of one plan, open and locked until it is closed.

    :param path: of the file, which is made if it is not there
    :param plan: a digest of the plan
    :param now: tells the time in UTC
    :raises errors.InputError: if it is of another plan, another process has
        it open, or it cannot be read or written
    """

    def __init__(self, path: str, plan: str,
                 now: Callable[[], datetime.datetime] = _now) -> None:
        self.path = path
        self._now = now
        self._log = line_log.LineLog(
            path, ('another process is carrying this plan out',
                   'wait until it has ended'), MAX_BYTES)
        try:
            self.entries = self._read()
            if not self.entries:
                self.write('begun', version=VERSION, plan=plan)
            self._check(plan)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: types.TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and the lock."""
        self._log.close()

    def write(self, event: str, **content: Any) -> None:
        """Add a line, and wait until the disk has it.

        :param event: what has happened, or is about to
        :raises errors.InputError: if it cannot be written
        """
        entry = {'at': f'{self._now():%Y-%m-%dT%H:%M:%S.%fZ}',
                 'event': event, **content}
        self._log.add(json.dumps(entry))
        self.entries.append(entry)

    def last(self, move: int, *events: str) -> dict[str, Any] | None:
        """The last line about a move.

        :param move: its position in the plan
        :param events: only lines of these
        """
        return next((entry for entry in reversed(self.entries)
                     if entry.get('move') == move
                     and entry['event'] in events), None)

    def _read(self) -> list[dict[str, Any]]:
        # What a crash has cut off says nothing that counts: what it announced
        # was not asked for yet.
        entries = []
        for number, line in enumerate(self._log.lines.splitlines(), 1):
            try:
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise ValueError('not an object')
                entry['event'].split()
            except (ValueError, LookupError, AttributeError,
                    RecursionError) as error:
                raise errors.InputError(
                    'is not a line of a journal',
                    errors.Location(self.path, number),
                    'move the file away; what is done is then told by the '
                    'cloud alone') from error
            entries.append(entry)
        return entries

    def _check(self, plan: str) -> None:
        head = self.entries[0]
        if head.get('version') != VERSION:
            raise errors.InputError(
                f'is of version {head.get("version")}, not {VERSION}',
                errors.Location(self.path, 1),
                'move it away; what is done is then told by the cloud alone')
        if head.get('plan') != plan:
            raise errors.InputError(
                'is the journal of another plan, which had the same name',
                errors.Location(self.path, 1), 'move it away')
