# SPDX-License-Identifier: Apache-2.0
"""Calls that may never come back, made by a thread that is left behind then.

libvirt's client waits for an answer for ever, and cannot be interrupted.
"""

from collections.abc import Callable
import queue
import threading
import time
from typing import Any

#: How long a call may go without a sign of life.
PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.2


class _Call:
    """A call that is to be made.

    :ivar is_over: set once it has come back
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.is_over = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None


class BoundedCalls:
    """Makes calls, one at a time, and waits for none longer than it may.

    A call that is given up goes on, and no other is made before it has come
    back. Its thread is a daemon, so it does not keep the process from ending.
    It is not stopped either, so that it keeps what it works on: to close a
    connection could take for ever as well.

    :ivar meanwhile: asked, while a call is waited for, how long one may go
        without a sign of life, in seconds
    """

    def __init__(self) -> None:
        self.meanwhile: Callable[[], float] = lambda: PATIENCE_SECONDS
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._last: _Call | None = None
        self._alive = 0.0

    def run(self, function: Callable[[], Any]) -> Any:
        """Make a call; returns or raises what it does.

        :raises TimeoutError: if it has been given up, or one before it has
            and is still under way; it may yet be carried out
        """
        if self._last is None:
            threading.Thread(target=self._work, name='calls',
                             daemon=True).start()
        else:
            self._wait(self._last)
        call = self._last = _Call(function)
        self.sign_of_life()
        self._calls.put(call)
        self._wait(call)
        if call.error is not None:
            raise call.error
        return call.result

    def sign_of_life(self) -> None:
        """Say, from within a call, that it makes progress."""
        self._alive = time.monotonic()

    def _wait(self, call: _Call) -> None:
        while not call.is_over.wait(_LOOK_SECONDS):
            seconds = self.meanwhile()
            if time.monotonic() - self._alive > seconds:
                raise TimeoutError(f'no answer for {seconds:.0f} seconds'
                                   if seconds else 'it takes too long')

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                call.result = call.function()
            except BaseException as error:  # noqa: B902 - who waits gets it
                call.error = error
            call.is_over.set()
