# SPDX-License-Identifier: Apache-2.0
"""The agent as a service: one at a time, until it is told to stop."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import fcntl
import logging
import os
import signal
import socket
import time
from types import FrameType

from nova_pinning.agent import agent_metrics
from nova_pinning.agent import host_agent
from nova_pinning.agent import running_guests
from nova_pinning.document import atomic_file
from nova_pinning import errors
from nova_pinning import signals

LOG = logging.getLogger(__name__)
# How often it is looked whether guests have changed, or it is to end, and the
# watchdog is told.
_LOOK_SECONDS = 0.5
# Changes of one guest come in bunches, and those of many after each other.
_MOST_SETTLE_SECONDS = 10.0
# For the service manager.
_NOTIFY_SECONDS = 1.0


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


def notify(**variables: str | int) -> None:
    """Tell the service manager, if there is one: sd_notify(3).

    >>> notify(READY=1, STATUS='3 guests')
    """
    address = os.environ.get('NOTIFY_SOCKET', '')
    if not address:
        return
    if address.startswith('@'):
        address = '\0' + address[1:]
    text = '\n'.join(f'{name}={value}' for name, value in variables.items())
    # Nobody is to fail for it, or to wait for a manager that does not listen.
    with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(_NOTIFY_SECONDS)
        manager.connect(address)
        manager.sendall(text.encode())


class AgentService:
    """Runs rounds when something happens, and now and then.

    :param changed: what it tells is something else once guests have come,
        gone or changed
    :param metrics_file: '' for none
    """

    def __init__(self, agent: host_agent.HostAgent, interval_seconds: float,
                 changed: Callable[[], int], metrics_file: str = '') -> None:
        self._agent = agent
        self._interval_seconds = interval_seconds
        self._changed = changed
        self._seen = 0
        self._metrics_file = metrics_file
        self._stopping = False
        self._told: set[str] = set()

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """End after this round, or soon; handles signals too."""
        self._stopping = True

    def serve(self) -> host_agent.Round:
        """Run until told to stop, and put everything back then.

        :returns: what came of that
        """
        with signals.handled((signal.SIGTERM, signal.SIGINT), self.stop):
            while not self._stopping:
                self._seen = self._changed()
                status = self.round()
                notify(STATUS=status, READY=1)
                self._wait()
            notify(STOPPING=1)
            released = self._agent.release()
            self._tell(released)
        return released

    def round(self) -> str:
        """One round; returns what there is to say in a line."""
        try:
            done = self._agent.reconcile()
        except running_guests.GuestsUnknownError as error:
            text = ('it is not known which guests run, so nothing is changed: '
                    f'{error}')
            self._tell_once({text})
            return text
        self._tell(done)
        self._write_metrics(done)
        return (f'{len(done.guests)} guests, {len(done.waiting)} of them '
                f'waiting, {len(done.trouble)} troubles')

    def _wait(self) -> None:
        """Until something happens, or it is time for another round."""
        until = time.monotonic() + self._interval_seconds
        while not self._stopping and time.monotonic() < until:
            notify(WATCHDOG=1)
            if self._have_changed():
                # Until they have not for a moment, but not for ever.
                until = time.monotonic() + _MOST_SETTLE_SECONDS
                while (not self._stopping and time.monotonic() < until
                       and self._have_changed()):
                    pass
                return

    def _have_changed(self) -> bool:
        """Whether guests have, after some rest."""
        time.sleep(_LOOK_SECONDS)
        before, self._seen = self._seen, self._changed()
        return self._seen != before

    def _tell(self, done: host_agent.Round) -> None:
        for text in done.done:
            LOG.info('%s', text)
        self._tell_once({*done.waiting, *done.trouble})

    def _tell_once(self, texts: set[str]) -> None:
        """What is as it was in the last round is not told again."""
        for text in sorted(texts - self._told):
            LOG.warning('%s', text)
        self._told = texts

    def _write_metrics(self, done: host_agent.Round) -> None:
        if not self._metrics_file:
            return
        text = agent_metrics.exposition(
            done, self._agent.monitoring.uses(done.guests),
            len(self._agent.record.moves), time.time())
        try:
            atomic_file.replace(self._metrics_file, text, mode=0o644)
        except errors.InputError as error:
            self._tell_once(self._told | {str(error)})
