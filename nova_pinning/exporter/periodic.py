# SPDX-License-Identifier: Apache-2.0
"""A thread that does something again and again."""

from collections.abc import Callable
import threading

#: How long to wait for a thread that is to end, in seconds.
_STOP_SECONDS = 5.0


class PeriodicThread:
    """Calls an action that does not raise, with pauses.

    :param interval_seconds: from the end of a call to the next one
    """

    def __init__(self, name: str, action: Callable[[], object],
                 interval_seconds: float) -> None:
        self._action = action
        self._interval_seconds = interval_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """To be called once."""
        self._thread.start()

    def stop(self) -> None:
        """Call no more; a call that goes on is waited for, but not long."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._action()
            self._stopping.wait(self._interval_seconds)
