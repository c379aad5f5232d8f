# SPDX-License-Identifier: Apache-2.0
"""The agent as a service: one at a time, until it is told to stop."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import fcntl
import logging
import os
import signal
import threading
import time
from types import FrameType

from nova_pinning.agent import agent_metrics
from nova_pinning.agent import bounded_calls
from nova_pinning.agent import host_agent
from nova_pinning.agent import libvirt_guests
from nova_pinning.agent import service_manager
from nova_pinning.document import atomic_file
from nova_pinning import errors
from nova_pinning import signals

LOG = logging.getLogger(__name__)
# Events of one guest come in bunches, and those of many after each other.
_SETTLE_SECONDS = 0.5
_MOST_SETTLE_SECONDS = 10.0
# How often it is looked whether it is to end, and the watchdog is told.
_LOOK_SECONDS = 0.5
# Once all is to be put back: how long libvirt may go without a sign of life,
# and how long it may take in all, since a service manager does not wait.
_HURRY_SECONDS = 2.0
_MOST_HURRY_SECONDS = 20.0


@contextlib.contextmanager
def alone(path: str) -> Iterator[None]:
    """Hold the lock that every agent of a host takes.

    :param path: of the record, beside which the lock is
    :raises errors.InputError: if another agent has it
    """
    lock = f'{path}.lock'
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
                             0o644)
    except OSError as error:
        raise errors.InputError(
            f'cannot be opened: {(error.strerror or "").lower()}',
            errors.Location(lock),
            'the agent has to be started as root, and the directory has to '
            'be there') from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.InputError(
                f'another agent runs, with process id {_holder(descriptor)}',
                errors.Location(lock), 'stop it first') from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f'{os.getpid()}\n'.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def running(path: str) -> str:
    """The process id of the agent that runs, '' if none does.

    :param path: of its record
    """
    try:
        descriptor = os.open(f'{path}.lock', os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ''
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(descriptor)
    finally:
        os.close(descriptor)
    return ''


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode().strip() or 'unknown'


class AgentService:
    """Runs rounds when something happens, and now and then.

    :param listen: asks for a call of :meth:`wake` when guests change
    :param metrics_file: '' for none
    """

    def __init__(self, agent: host_agent.HostAgent, interval_seconds: float,
                 listen: Callable[[], None], metrics_file: str = '') -> None:
        self._agent = agent
        self._interval_seconds = interval_seconds
        self._listen = listen
        self._metrics_file = metrics_file
        self._wake = threading.Event()
        self._stopping = False
        self._stopped_at = 0.0
        self._told: set[str] = set()
        self._is_listening = False
        self._last = host_agent.Round()
        self._looked_at = 0.0

    def wake(self) -> None:
        """Have the next round begin at once."""
        self._wake.set()

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """End after this round, or soon; handles signals too."""
        # Not more: a handler that comes while the event is looked at would
        # wait for its lock for ever.
        self._stopping, self._stopped_at = True, time.monotonic()

    def meanwhile(self) -> float:
        """See to the watchdog while libvirt is waited for.

        :returns: how many seconds it may go without a sign of life
        """
        service_manager.notify(WATCHDOG=1)
        if not self._stopping:
            return bounded_calls.PATIENCE_SECONDS
        is_late = time.monotonic() > self._stopped_at + _MOST_HURRY_SECONDS
        return 0.0 if is_late else _HURRY_SECONDS

    def serve(self) -> host_agent.Round:
        """Run until told to stop, and put everything back then.

        :returns: what came of that
        """
        with signals.handled((signal.SIGTERM, signal.SIGINT), self.stop):
            while not self._stopping:
                self._wake.clear()
                status = self.round()
                service_manager.notify(STATUS=status, READY=1)
                self._wait()
            service_manager.notify(STOPPING=1)
            released = self._agent.release()
            self._tell(released)
        return released

    def round(self) -> str:
        """One round; returns what there is to say in a line."""
        try:
            if not self._is_listening:
                self._listen()
                self._is_listening = True
            done = self._agent.reconcile()
        except libvirt_guests.LibvirtGone as error:
            text = f'libvirt does not answer, so nothing is changed: {error}'
            self._tell_once({text})
            self._write_metrics(has_answered=False)
            return text
        self._last, self._looked_at = done, time.time()
        self._tell(done)
        self._write_metrics(has_answered=True)
        return (f'{len(done.guests)} guests, {len(done.waiting)} of them '
                f'waiting, {len(done.trouble)} troubles')

    def _wait(self) -> None:
        """Until something happens, or it is time for another round."""
        until = time.monotonic() + self._interval_seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            service_manager.notify(WATCHDOG=1)
            if self._wake.wait(min(left, _LOOK_SECONDS)):
                self._settle()
                return

    def _settle(self) -> None:
        """Until nothing has happened for a moment, but not for ever."""
        until = time.monotonic() + _MOST_SETTLE_SECONDS
        while not self._stopping and time.monotonic() < until:
            self._wake.clear()
            if not self._wake.wait(_SETTLE_SECONDS):
                return

    def _tell(self, done: host_agent.Round) -> None:
        for text in done.done:
            LOG.info('%s', text)
        self._tell_once({*done.waiting, *done.trouble})

    def _tell_once(self, texts: set[str]) -> None:
        """What is as it was in the last round is not told again."""
        for text in sorted(texts - self._told):
            LOG.warning('%s', text)
        self._told = texts

    def _write_metrics(self, has_answered: bool) -> None:
        """What the last round came to, and whether libvirt answers now."""
        if not self._metrics_file:
            return
        text = agent_metrics.exposition(
            self._last, self._agent.monitoring.uses(self._last.guests),
            len(self._agent.record.moves), self._looked_at, has_answered)
        try:
            atomic_file.replace(self._metrics_file, text, mode=0o644)
        except errors.InputError as error:
            self._tell_once(self._told | {str(error)})
