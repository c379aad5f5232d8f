# SPDX-License-Identifier: Apache-2.0
"""How much a request may do of what can take long."""

from collections.abc import Iterator
import contextlib

#: What is reckoned for a step: a set of host cells looked at for devices or
#: networks, or a claim of nova's followed for up to 64 permutations that
#: matter. Measured: 0.03 to 0.3 ms.
SECONDS_PER_STEP = 0.0001


class RequestBudget:
    """The steps that one request may take in searches, over all its hosts.

    They are counted and not timed, so that the answer to a request does not
    hang on what else the machine does.

    :param seconds: for how long there may be steps, by SECONDS_PER_STEP; 0
        for no limit
    :ivar is_exceeded: whether there was a step too many
    :ivar longest_seconds: for one host, reckoned likewise; 0 if no host took a
        search
    """

    __slots__ = ('_host_steps', '_limit', '_seconds', '_steps', 'is_exceeded',
                 'longest_seconds')

    def __init__(self, seconds: float) -> None:
        self._seconds = self._limit = seconds
        self._steps = self._host_steps = 0
        self.is_exceeded = False
        self.longest_seconds = 0.0

    @contextlib.contextmanager
    def for_second_tier(self) -> Iterator[None]:
        """Give hosts of that tier as much again."""
        self._limit = 2 * self._seconds
        try:
            yield
        finally:
            self._limit = self._seconds

    def start_host(self) -> None:
        """Count the steps of another host; most hosts take none."""
        self._host_steps = 0

    def is_over(self) -> bool:
        """Whether there may be no more steps; if not, one is taken."""
        self._host_steps += 1
        self.longest_seconds = max(
            self.longest_seconds, self._host_steps * SECONDS_PER_STEP)
        if self._seconds and (
                self._steps + 1) * SECONDS_PER_STEP > self._limit:
            self.is_exceeded = True
            return True
        self._steps += 1
        return False
