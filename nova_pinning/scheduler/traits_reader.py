# SPDX-License-Identifier: Apache-2.0
"""The traits of hosts in Placement, read in the background.

Nova-scheduler's HostStates do not have them. One thread in each process that
schedules reads which providers carry CUSTOM_PINNING_ traits, one query a
trait however many hosts there are, and all filters and weighers look at what
it read last. While a request is scheduled nothing is asked of Placement;
only those that come before the first read has ended wait for it, and none
longer than ``FIRST_WAIT_SECONDS`` after the first of them.

Where none ever went well, a request is a reason to try again at once: it got
as far as a filter because Placement has just answered nova about it.

The thread is started by the first request and not with the filters: those
are made before nova-scheduler forks its workers, and threads do not live
through a fork.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
import dataclasses
import os
import threading
import time
from typing import NamedTuple

from keystoneauth1 import loading as ks_loading
from nova import utils
from oslo_log import log as logging

from nova_pinning import compat
from nova_pinning import conf
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.placement import provider_reader

CONF = conf.CONF
LOG = logging.getLogger(__name__)

#: How long the first requests of a process may wait for the first read to
#: end, counted from the very first of them.
FIRST_WAIT_SECONDS = 5.0

#: How long to wait for an answer where [placement] does not say: a slow
#: Placement still serves, one that hangs is noticed.
_TIMEOUT_SECONDS = 30

#: The least pause after a failure; a long one between refreshes is not a
#: reason to stay blind for that long.
_RETRY_SECONDS = 5

#: The least time between reads that requests are the reason for.
_HURRY_SECONDS = 1

#: How often the log says again that traits cannot be read.
_REMINDER_SECONDS = 600

#: How long to wait for the thread to end, which may be amid a query.
_STOP_SECONDS = 60


@compat.dataclass(frozen=True, slots=True)
class ProviderMarks:
    """What the traits of one provider say.

    :param classes: that they name: none, one, or by mistake both
    :param l3_cpus: host CPUs in each L3 domain, None if they do not tell
    """

    classes: frozenset[hostclass.HostClass] = frozenset()
    l3_cpus: int | None = None


@compat.dataclass(frozen=True, slots=True)
class TraitsView:
    """What is known while one request is scheduled.

    :param marks: by UUID of the provider, which is that of nova's compute
        node; one without CUSTOM_PINNING_ traits is not in it
    :param stale: why dedicated guests must not rely on it, in words for the
        log; '' if they may
    :param were_read: whether they have been read since the start
    """

    marks: Mapping[str,
                   ProviderMarks] = dataclasses.field(default_factory=dict)
    stale: str = ''
    were_read: bool = True


class _GoodRead(NamedTuple):
    """What one read has found.

    :param begun: when, by the reader's clock
    :param marked: the providers whose traits name a class, by UUID
    """

    begun: float
    marks: Mapping[str, ProviderMarks]
    marked: Collection[str]


#: For a scheduler that does not read traits.
_NOTHING = TraitsView()


@compat.dataclass(frozen=True, slots=True)
class TraitsSettings:
    """How often traits are read, how old they may be, how long is waited.

    The first two are options of group [pinning], with traits_ in front.
    """

    refresh_seconds: float
    max_age_seconds: float
    first_wait_seconds: float


class TraitsReader:
    """Reads the traits, again and again once it is started.

    :param connect: makes the client; called in the thread, and again after
        it failed. The client must not wait forever, nor try too often.
    :param clock: seconds since any moment, never going back
    :param listen: told after each read, unless it is still busy with an
        earlier one, which providers traits mark as of a class, by UUID. Runs
        in a thread of its own: the next read does not wait for it.
    """

    def __init__(
        self,
        connect: Callable[[], provider_reader.PlacementReader],
        settings: TraitsSettings,
        clock: Callable[[], float] = time.monotonic,
        listen: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        self._connect = connect
        self._listen = listen
        self._settings = settings
        self._clock = clock
        #: What a wait for the read under way is counted from.
        self._awaited_since = clock()
        self._hurried: threading.Thread | None = None
        self._telling: threading.Thread | None = None
        self._client: provider_reader.PlacementReader | None = None
        #: The last good one, replaced as a whole.
        self._last: _GoodRead | None = None
        self._error = ''
        self._reading = threading.Lock()
        self._hurrying = threading.Lock()
        self._tried = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing_since: float | None = None
        self._warned_at = 0.0
        self._warned_stale = False

    def start(self) -> None:
        """Read in a thread from now on; to be called once."""
        self._thread = threading.Thread(
            target=self._run, name='pinning-traits', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the threads; waits a minute at most for each."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        if self._telling is not None:
            self._telling.join(_STOP_SECONDS)

    def view(self) -> TraitsView:
        """What was read last; waits for the first read, within limits."""
        if self._last is None:
            self._try_again()
        if not self._tried.is_set():
            self._tried.wait(max(
                0.0, self._awaited_since + self._settings.first_wait_seconds
                - self._clock()))
        last = self._last
        return TraitsView(last.marks if last else {}, self._staleness(last),
                          last is not None)

    def _try_again(self) -> None:
        """Read at once, in a thread of its own, where none went well yet.

        Until that has ended it is waited for as for the first one.
        """
        with self._hurrying:
            now = self._clock()
            if (self._thread is None or not self._tried.is_set()
                    or self._stopping.is_set()
                    or now - self._awaited_since < _HURRY_SECONDS
                    or (self._hurried and self._hurried.is_alive())):
                return
            self._awaited_since = now
            self._tried.clear()
            self._hurried = threading.Thread(
                target=self.refresh, name='pinning-traits-again', daemon=True)
            self._hurried.start()

    def age_seconds(self) -> float | None:
        """How long ago the last good read began, None if there was none."""
        last = self._last
        return None if last is None else self._clock() - last.begun

    def refresh(self) -> bool:
        """Read now, in the calling thread. Never raises.

        :returns: whether it went well; the log has the reason if not
        """
        with self._reading:
            begun = self._clock()
            try:
                marks = self._read()
                self._last = _GoodRead(begun, marks, {
                    provider for provider, mark in marks.items()
                    if mark.classes})
                self._tell(self._last.marked)
            except Exception as error:
                self._note_failure(error)
                return False
            finally:
                # Who has waited for it looks at what was read.
                self._tried.set()
            self._note_success(len(marks))
            return True

    def _tell(self, marked: Collection[str]) -> None:
        if self._listen and not (self._telling and self._telling.is_alive()):
            telling = threading.Thread(
                target=self._listen, args=(marked,),
                name='pinning-traits-told', daemon=True)
            telling.start()
            self._telling = telling

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause = self._settings.refresh_seconds
            if not self.refresh():
                pause = min(pause, _RETRY_SECONDS)
            self._stopping.wait(pause)

    def _read(self) -> Mapping[str, ProviderMarks]:
        if self._client is None:
            self._client = self._connect()
        by_provider = self._client.traits_by_provider(placement_traits.PREFIX)
        return {provider: _marks(traits)
                for provider, traits in by_provider.items()}

    def _staleness(self, last: _GoodRead | None) -> str:
        """Why what was read last cannot be relied on; '' if it may."""
        limit = self._settings.max_age_seconds
        if not limit:
            return ''
        if last is None:
            said = 'not read since nova-scheduler was started'
        elif not last.marked:
            # No host had any: what tells their classes is something else.
            return ''
        else:
            age = self._clock() - last.begun
            if age <= limit:
                return ''
            said = f'last read {age:.0f} s ago'
        if self._error:
            said += f' ({self._error})'
        return f'{said}; [pinning] traits_max_age_seconds is {limit:g}'

    # What the log says.

    def _note_failure(self, error: Exception) -> None:
        is_expected = isinstance(error, errors.CloudError)
        self._error = str(error) if is_expected else repr(error)
        if self._stopping.is_set():
            return
        now = self._clock()
        last = self._last
        is_stale = bool(self._staleness(last))
        is_first = self._failing_since is None
        if is_first:
            self._failing_since = now
        elif (is_stale == self._warned_stale and
                now - self._warned_at < _REMINDER_SECONDS):
            return
        self._warned_at, self._warned_stale = now, is_stale
        what = 'None have been read so far'
        if last is not None:
            what = f'Those read {now - last.begun:.0f} s ago are used'
        if is_stale:
            telling = ('no aggregate names' if last is not None else
                       'neither an aggregate nor their topology tells')
            what += (', and dedicated guests are refused on hosts whose class '
                     f'{telling}: [pinning] traits_max_age_seconds is '
                     f'{self._settings.max_age_seconds:g}')
        LOG.warning('Cannot read the traits of hosts from Placement: %s. %s',
                    self._error, what,
                    exc_info=error if is_first and not is_expected else None)

    def _note_success(self, count: int) -> None:
        self._error = ''
        if self._failing_since is not None:
            LOG.info('Traits of hosts can be read from Placement again, after '
                     '%.0f s', self._clock() - self._failing_since)
            self._failing_since = None
        LOG.debug('Read the traits of %d providers', count)


def _marks(traits: frozenset[str]) -> ProviderMarks:
    return ProviderMarks(placement_traits.classes_of(traits),
                         placement_traits.l3_cpus(traits))


def connect() -> provider_reader.PlacementReader:
    """Placement as nova-scheduler is configured to reach it.

    As nova.utils.get_ksa_adapter does it by itself, but for the timeout,
    which has to hold for tokens from Keystone too. Nothing is asked yet.
    """
    auth = ks_loading.load_auth_from_conf_options(CONF, 'placement')
    session = ks_loading.load_session_from_conf_options(
        CONF, 'placement', auth=auth,
        timeout=CONF.placement.timeout or _TIMEOUT_SECONDS)
    return provider_reader.PlacementReader(
        utils.get_ksa_adapter('placement', auth, session), retries=0)


#: The one reader of this process, and what guards making it.
_reader: TraitsReader | None = None
_listener: Callable[[Collection[str]], None] | None = None
_making = threading.Lock()


def view() -> TraitsView:
    """What is known of all hosts; to be asked for once a request.

    The first call in a process starts the thread, unless traits are not to
    be read. Later ones return at once.
    """
    reader = _reader or _started()
    return reader.view() if reader else _NOTHING


def tell(listener: Callable[[Collection[str]], None]) -> None:
    """Have the reader of this process tell who is marked, once there is one.

    :param listener: as :class:`TraitsReader` has it; not to raise
    """
    global _listener
    _listener = listener


def _started() -> TraitsReader | None:
    global _reader
    options = CONF.pinning
    if not options.traits_refresh_seconds:
        return None
    with _making:
        if _reader is None:
            reader = TraitsReader(connect, TraitsSettings(
                options.traits_refresh_seconds,
                options.traits_max_age_seconds,
                FIRST_WAIT_SECONDS), listen=_listener)
            reader.start()
            _reader = reader
        return _reader


def use(reader: TraitsReader | None) -> None:
    """Replace the reader of this process, and stop the one before.

    :param reader: None for one that the next request makes, if need be
    """
    global _reader
    with _making:
        before, _reader = _reader, reader
    if before is not None:
        before.stop()


def refresh() -> bool:
    """Read now rather than in a while, if this process reads traits at all.

    :returns: whether all that Placement has is known now
    """
    return _reader is not None and _reader.refresh()


def age_seconds() -> float | None:
    """How old the traits are that this process goes by.

    :returns: None if it has read none yet, or never does
    """
    reader = _reader
    return None if reader is None else reader.age_seconds()


def _forget() -> None:
    """Begin anew: a forked process has neither the thread nor who locked."""
    global _reader, _making
    _reader = None
    _making = threading.Lock()


os.register_at_fork(after_in_child=_forget)
