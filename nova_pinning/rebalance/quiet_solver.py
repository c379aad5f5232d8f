# SPDX-License-Identifier: Apache-2.0
"""Keeps what the solver says of itself out of a command's output.

HiGHS has options for what it logs, and scipy switches that off, but it prints
some lines about its own troubles with printf
(HighsMipSolverData::transformNewIntegerFeasibleSolution), which no option
covers. They would end up in the middle of a JSON document.
"""

from collections.abc import Iterator
import contextlib
import ctypes
import os
import sys
import threading

_STDOUT = 1


class _QuietOutput:
    """The standard output of C, closed as long as a solver runs.

    Solvers may run in several threads at once. Nothing of our own is printed
    meanwhile: progress is shown on the error output.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._kept: int | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._users:
                self._close()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._reopen()

    def _close(self) -> None:
        _flush()
        try:
            self._kept = os.dup(_STDOUT)
        except OSError:
            # There is none.
            self._kept = None
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, _STDOUT)
        os.close(null)

    def _reopen(self) -> None:
        if self._kept is None:
            return
        _flush()
        os.dup2(self._kept, _STDOUT)
        os.close(self._kept)
        self._kept = None


def _flush() -> None:
    """Write out what Python and C have kept back of the output."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


#: To be entered while a solver runs.
quiet_output = _QuietOutput()
