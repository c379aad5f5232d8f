# SPDX-License-Identifier: Apache-2.0
"""What every part of a cloud has in common."""

import hashlib
import os
import pathlib
import threading
import time

from minicloud import errors
from minicloud import files
from minicloud import process
from minicloud import settings

POLL_SECONDS = 0.2

# A heap for each thread is memory that is never used again.
LEAN = {'MALLOC_ARENA_MAX': '2', 'MALLOC_TRIM_THRESHOLD_': '131072'}


class Part:
    """A node of the graph that ``up`` works through.

    :cvar name: str, unique in a cloud
    :cvar requires: names of the parts that have to be ready before; what a
        cloud does not have is passed over
    :ivar remark: str, what is wrong with it although it is ready, and what to
        do about it; '' if nothing is
    :ivar detail: str, what there is to say about its way up; '' for nothing
    """

    name: str
    requires: tuple[str, ...] = ()
    remark = ''
    detail = ''

    def __init__(self, state: settings.State,
                 settings: settings.Settings) -> None:
        self.state = state
        self.settings = settings
        # Set when there is no point in waiting any longer.
        self.given_up = threading.Event()

    @property
    def release(self) -> str:
        """Of OpenStack, such as '2025.1'."""
        return self.settings.release

    def up(self) -> None:
        """Bring it up, or leave it as it is if it is up already.

        :raises: MiniCloudError
        """
        raise NotImplementedError

    def down(self) -> None:
        """Undo what ``up`` did; nothing if it has not been done."""


class Service(Part):
    """A process that is kept running.

    :cvar deadline_seconds: how long it may take until it is ready
    :cvar hang_seconds: the same of starts that are made before, each of which
        is taken for one that hangs if it takes longer
    """

    deadline_seconds = 60.0
    hang_seconds: tuple[float, ...] = ()
    grace_seconds = 15.0

    @property
    def record(self) -> pathlib.Path:
        return self.state.run / f'{self.name}.json'

    @property
    def log(self) -> pathlib.Path:
        return self.state.log / f'{self.name}.log'

    def config(self) -> dict[pathlib.Path, str]:
        """Return the files that it reads: text by path."""
        return {}

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return what is added to the environment of this command."""
        return {}

    def prepare(self) -> None:
        """Do what has to be done before each start."""

    def check(self) -> None:
        """Ask the service whether it is ready.

        :raises: NotReady
        """
        raise NotImplementedError

    def made_from(self) -> str:
        """Return a digest of all that the process is started with."""
        parts = [*self.command(), *sorted(
            f'{key}={value}' for key, value in self.environment().items())]
        parts += [f'{path}\n{text}' for path, text in self.config().items()]
        return hashlib.sha256('\0'.join(parts).encode()).hexdigest()

    def running(self) -> bool:
        record = process.read(self.record)
        return record is not None and record.alive()

    def up(self) -> None:
        record = process.read(self.record)
        if (record is None or not record.alive()
                or record.made_from != self.made_from()):
            for seconds in self.hang_seconds:
                self._start()
                try:
                    self._wait(seconds)
                except errors.TooLate:
                    self.detail = ('started again, as it was not ready within '
                                   f'{seconds:.0f} seconds')
                else:
                    return
            self._start()
        self._wait(self.deadline_seconds)

    def down(self) -> None:
        process.stop(self.record, self.grace_seconds)

    def _start(self) -> None:
        process.stop(self.record, self.grace_seconds)
        for path, text in self.config().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Some share a file, and one of them may be reading it.
            files.write(path, text)
        self.prepare()
        process.start(
            self.command(), self.record, self.log, self.made_from(),
            {**os.environ, **LEAN, **self.environment()})

    def _wait(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while True:
            reason = ''
            try:
                self.check()
            except errors.NotReady as e:
                reason = str(e)
            # Else it is somebody else who answers.
            if self.running() and not reason:
                return
            if not self.running():
                raise errors.MiniCloudError(
                    f'{self.name} ended while it was starting',
                    detail=process.tail(self.log))
            if time.monotonic() > limit:
                raise errors.TooLate(
                    f'{self.name} was not ready within {seconds:.0f} seconds: '
                    f'{reason}',
                    f'It was {self.detail}' if self.detail else '',
                    process.tail(self.log))
            if self.given_up.wait(POLL_SECONDS):
                raise errors.MiniCloudError(f'{self.name} was given up')


class Task(Part):
    """Something to be done once for a cloud, such as to register an image."""

    def done(self) -> bool:
        """Tell whether it has been done already."""
        return self._mark.exists()

    def do(self) -> None:
        raise NotImplementedError

    def up(self) -> None:
        if not self.done():
            try:
                self.do()
            except errors.NotReady as e:
                raise errors.MiniCloudError(f'{self.name}: {e}') from e
            self._mark.touch()

    def down(self) -> None:
        self._mark.unlink(missing_ok=True)

    @property
    def _mark(self) -> pathlib.Path:
        return self.state.run / f'{self.name}.done'


def find_in_log(log: pathlib.Path, words: str) -> None:
    """Look for a line in the log of a service.

    :raises: NotReady
    """
    try:
        is_said = words in log.read_text(errors='replace')
    except FileNotFoundError:
        is_said = False
    if not is_said:
        raise errors.NotReady(f'{log} does not say "{words}" yet')
