# SPDX-License-Identifier: Apache-2.0
"""Signals that a command handles itself, for as long as it runs."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import signal
import threading
import types


@contextlib.contextmanager
def handled(
    numbers: Iterable[int],
    handler: Callable[[int, types.FrameType | None], object],
) -> Iterator[None]:
    """Have signals call a handler, and what they called before afterwards.

    A handler that stayed would be inherited by processes that are forked
    later, which could then not be ended. Signals that are ignored stay so, as
    a hang-up under nohup. In other threads than the main one nothing is
    changed, since Python handles signals there only.
    """
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in numbers:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
