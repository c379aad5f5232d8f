# SPDX-License-Identifier: Apache-2.0
"""nova-pinning's own commands on a fleet, in processes of their own.

So each has its own memory and its own options of nova, which are one for a
whole process, can be ended when it takes too long, and takes little from what
counts and answers scrapes.
"""

from collections.abc import Collection
import contextlib
import os
import subprocess
import sys
import threading

from nova_pinning import errors

_NICE = 19
#: Of a program that did not end as it should: the end of what it said.
_LAST_CHARACTERS = 500


class ChildCommands:
    """Runs commands until it is stopped, from any thread.

    A thread that asks for one then, or waits for one, ends without a word.
    """

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(self, snapshot: bytes, *arguments: str, limit_seconds: float,
            statuses: Collection[int] = (0,),
            advice: str = '') -> str:
        """What a command prints.

        :param snapshot: its standard input, packed
        :param statuses: with which it may end
        :param advice: what to do if it takes too long
        :raises errors.InputError: if it ends with another status, or takes
            too long
        :raises SystemExit: if all is to end
        """
        where = errors.Location(f'nova-pinning {" ".join(arguments[:2])}')
        with self._lock:
            if self._is_stopped:
                raise SystemExit
            process = subprocess.Popen(
                [sys.executable, '-m', 'nova_pinning.cli.shell', *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Eventlet warns about itself, and whoever imports it.
                env={**os.environ, 'PYTHONWARNINGS': 'ignore'})
            self._running.add(process)
        try:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
            out, said = process.communicate(snapshot, limit_seconds)
        except subprocess.TimeoutExpired as error:
            raise errors.InputError(
                f'it took more than {limit_seconds:g} s', where,
                advice) from error
        finally:
            process.kill()
            process.communicate()
            with self._lock:
                self._running.remove(process)
        if self._is_stopped:
            raise SystemExit
        if process.returncode not in statuses:
            raise errors.InputError(
                said.decode(errors='replace').strip().removeprefix(
                    'error: ')[-_LAST_CHARACTERS:]
                or f'it ended with status {process.returncode}', where)
        return out.decode()

    def stop(self) -> None:
        """End what runs, and run nothing more."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.kill()
