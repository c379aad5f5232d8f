# SPDX-License-Identifier: Apache-2.0
"""What a person is told while something takes its time."""

import collections.abc
import contextlib
import shutil
import sys
import threading
import time
import typing

from minicloud import service

# A terminal's line is written anew so often.
TERMINAL_SECONDS = 0.5

# Elsewhere there is a line after so long a silence, and then after twice as
# long each time: a log need not have one for each second.
SILENCE_SECONDS = 2.0
MAX_SILENCE_SECONDS = 30.0


class Progress:
    """A line for each part that is done, and what is waited for meanwhile.

    It is a context manager: it tells until that is left.

    :param done: what is said of a part that is done, such as 'ready'
    :param output: where to; None for the standard output
    :param clock: seconds
    """

    def __init__(self, done: str, output: typing.TextIO | None = None,
                 clock: typing.Callable[[], float] = time.monotonic) -> None:
        self._done = done
        self._output = output or sys.stdout
        self._clock = clock
        self._tty = self._output.isatty()
        self._waiting: dict[str, float] = {}
        self._details: dict[str, typing.Callable[[], str]] = {}
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._silence = SILENCE_SECONDS
        self._last = clock()

    def __enter__(self) -> typing.Self:
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        with self._lock:
            self._write('')

    def started(self, part: service.Part) -> None:
        with self._lock:
            self._waiting[part.name] = self._clock()
            self._details[part.name] = lambda: part.detail

    def ended(self, part: service.Part) -> None:
        with self._lock:
            seconds = self._clock() - self._waiting.pop(part.name)
            detail = self._details.pop(part.name)()
            self._write(f'{part.name:<28} {self._done} {seconds:5.1f} s'
                        f'{detail and ": "}{detail}\n')
            self._silence = SILENCE_SECONDS

    @contextlib.contextmanager
    def doing(self, what: str, detail: typing.Callable[[], str] = str
              ) -> collections.abc.Iterator[None]:
        """Do something that is no part.

        :param detail: what it is at, asked now and then
        """
        with self._lock:
            self._write(f'{what} ...\n')
            self._waiting[what] = self._clock()
            self._details[what] = detail
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[what], self._details[what]

    def look(self) -> None:
        """Tell what is waited for, if it is time to."""
        with self._lock:
            now = self._clock()
            if not self._waiting:
                return
            if self._tty:
                width = shutil.get_terminal_size().columns - 1
                self._write(self._text(now)[:width])
            elif now - self._last >= self._silence:
                self._write(f'{self._text(now)}\n')
                self._silence = min(2 * self._silence, MAX_SILENCE_SECONDS)

    def _text(self, now: float) -> str:
        """Return what is waited for, the longest first."""
        said = []
        for name, since in self._waiting.items():
            detail = self._details[name]()
            said.append(f'{name} ({now - since:.0f} s{detail and ": "}'
                        f'{detail})')
        return f'waiting for {", ".join(said)}'

    def _write(self, text: str) -> None:
        self._output.write(f'\r\x1b[K{text}' if self._tty else text)
        self._output.flush()
        self._last = self._clock()

    def _tell(self) -> None:
        while not self._ended.wait(TERMINAL_SECONDS):
            self.look()
