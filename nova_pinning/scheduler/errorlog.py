# SPDX-License-Identifier: Apache-2.0
"""Errors that nobody expected, logged so that they are seen and no flood."""

from __future__ import annotations

from collections.abc import Callable
import threading
import time
from types import TracebackType
from typing import Any

from nova_pinning import compat

_REMIND_SECONDS = 3600.0
#: Kinds that are told apart; those that come later count as one.
_MOST_KINDS = 100

#: Type of the error, and file and line where it was raised.
_Kind = tuple[str, str, int]
_OTHERS: _Kind = ('', '', 0)


@compat.dataclass(slots=True)
class _SeenError:
    """What was logged of a kind.

    :param logged: when, by the clock
    :param count: errors since then
    """

    logged: float
    count: int = 0


class ErrorLog:
    """Logs an error once for each kind, and how often it came every hour.

    Errors are of one kind if they are of one type and were raised at one
    place in the code. Threads may report at the same time.

    :param clock: seconds since any moment
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[_Kind, _SeenError] = {}

    def report(
        self, log: Any, message: str, *args: object, error: BaseException,
    ) -> None:
        """Log an error with its traceback, or count it.

        The first of a kind is logged. Of further ones, the first after an
        hour is, with how many there were since; that needs no traceback.

        :param log: a logger of the module that met it
        :param message: what went wrong and where, to be formatted with args
        """
        kind = _kind(error)
        with self._lock:
            now = self._clock()
            if kind not in self._seen and len(self._seen) >= _MOST_KINDS:
                kind = _OTHERS
            seen = self._seen.get(kind)
            if seen is None:
                self._seen[kind] = _SeenError(now)
            else:
                seen.count += 1
                if now - seen.logged < _REMIND_SECONDS:
                    return
                hours = (now - seen.logged) / 3600
                count, seen.count, seen.logged = seen.count, 0, now
        if seen is None:
            log.error(
                f'{message}; further errors of this kind are counted, and '
                'logged every hour', *args, exc_info=error)
        else:
            log.error(
                f'{message}: %s: %s; %d of this kind in the last %.1f hours',
                *args, type(error).__name__, error, count, hours)


def _kind(error: BaseException) -> _Kind:
    step: TracebackType | None = error.__traceback__
    if step is None:
        return type(error).__name__, '', 0
    while step.tb_next is not None:
        step = step.tb_next
    return (type(error).__name__, step.tb_frame.f_code.co_filename,
            step.tb_lineno)
