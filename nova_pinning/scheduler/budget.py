# SPDX-License-Identifier: Apache-2.0
"""How long a request may take with what can take long."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import time


class RequestBudget:
    """The time that one request has for searches, over all its hosts.

    :param seconds: 0 for no limit
    :param clock: seconds since any moment, never going back
    :ivar is_exceeded: whether anything was told that the time is up
    :ivar longest_seconds: that it was counted at a stretch, so for one host;
        0 if no host took a search
    """

    __slots__ = ('_clock', '_limit', '_seconds', '_spent', '_started',
                 'is_exceeded', 'longest_seconds')

    def __init__(self, seconds: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._spent = 0.0
        self._started: float | None = None
        self._limit = seconds
        self.is_exceeded = False
        self.longest_seconds = 0.0

    @contextlib.contextmanager
    def for_second_tier(self) -> Iterator[None]:
        """Give hosts of that tier as long again."""
        self._limit = 2 * self._seconds
        try:
            yield
        finally:
            self._limit = self._seconds

    def resume(self) -> None:
        """Count the time from now on."""
        if self._started is None:
            self._started = self._clock()

    def pause(self) -> None:
        """Count it no longer; most hosts never come to where it is."""
        if self._started is not None:
            seconds = self._clock() - self._started
            self._spent += seconds
            self.longest_seconds = max(self.longest_seconds, seconds)
            self._started = None

    def is_over(self) -> bool:
        """Whether the time is up; whoever asks is at a search."""
        self.resume()
        if not self._seconds:
            return False
        assert self._started is not None
        if self._spent + self._clock() - self._started <= self._limit:
            return False
        self.is_exceeded = True
        return True
