# SPDX-License-Identifier: Apache-2.0
"""The reader of Placement's traits: what it knows, and how it fails."""

import logging
import os
import signal
import threading
from unittest import mock

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
from keystoneauth1 import exceptions

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.unit.scheduler import scheduler_fakes
from nova_pinning.tests.unit import unit_base

DEDICATED, SHARED = hostclass.HostClass.DEDICATED, hostclass.HostClass.SHARED

#: Longer than anything here takes; only a test that fails waits for it.
_PATIENCE_S = 30

_STOPPED = errors.CloudError('Placement: connection refused')


class _Blocking(scheduler_fakes.Placement):
    """Does not answer before it is released."""

    def __init__(self, found=None):
        super().__init__(found)
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()

    def traits_by_provider(self, prefix):
        self.is_asked.set()
        self.may_answer.wait(_PATIENCE_S)
        return super().traits_by_provider(prefix)


def _said(records, level=logging.INFO):
    return [record.getMessage() for record in records
            if record.levelno >= level]


@ddt.ddt
class TestConnect(unit_base.TestCase):

    @ddt.data((None, 30), (7, 7))
    @ddt.unpack
    def test_it_neither_waits_for_ever_nor_tries_again(self, set_to, used):
        """For tokens as well: the session has the timeout."""
        self.options.config(group='placement', timeout=set_to)
        loading = self.useFixture(fixtures.MockPatchObject(
            traits_reader, 'ks_loading')).mock
        adapter = self.useFixture(fixtures.MockPatchObject(
            traits_reader.utils, 'get_ksa_adapter')).mock.return_value
        adapter.request.side_effect = exceptions.ConnectTimeout('no answer')

        self.assertRaises(errors.CloudError,
                          traits_reader.connect().known_traits,
                          placement_traits.PREFIX)

        session = loading.load_session_from_conf_options
        self.assertEqual(used, session.call_args.kwargs['timeout'])
        [request] = adapter.request.call_args_list
        self.assertEqual((0, 0), (request.kwargs['connect_retries'],
                                  request.kwargs['status_code_retries']))


class TestMarks(unit_base.TestCase):

    @unit_base.settings(100)
    @hypothesis.given(
        classes=strategies.sets(strategies.sampled_from(hostclass.HostClass)),
        l3_cpus=strategies.sets(strategies.integers(1, 999999), max_size=3),
        others=strategies.sets(strategies.sampled_from([
            'CUSTOM_PINNING_', 'CUSTOM_PINNING_L3_CPUS_0', 'CUSTOM_OTHER'])))
    def test_any_traits(self, classes, l3_cpus, others):
        names = {placement_traits.TRAIT_OF[one] for one in classes}
        names |= set(map(placement_traits.l3_trait, l3_cpus)) | others
        reader = scheduler_fakes.reader(
            scheduler_fakes.Placement({'uuid': names}))

        self.assertTrue(reader.refresh())

        self.assertEqual(
            {'uuid': traits_reader.ProviderMarks(
                classes=frozenset(classes),
                l3_cpus=min(l3_cpus, default=None))},
            reader.view().marks)


class TestRefresh(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.placement = scheduler_fakes.Placement(
            {'uuid': {placement_traits.DEDICATED}})
        self.clock = scheduler_fakes.Clock()

    def _reader(self, **settings):
        return scheduler_fakes.reader(self.placement, clock=self.clock,
                                      **settings)

    def test_what_was_read_last_is_seen(self):
        reader = self._reader()
        reader.refresh()
        before = reader.view()
        self.placement.traits = {'uuid': {placement_traits.SHARED}}
        self.assertEqual({DEDICATED}, reader.view().marks['uuid'].classes)

        self.assertTrue(reader.refresh())

        self.assertEqual({SHARED}, reader.view().marks['uuid'].classes)
        self.assertEqual({DEDICATED}, before.marks['uuid'].classes)

    def test_age(self):
        """Of the last good read, from when it began."""
        self.assertIsNone(traits_reader.age_seconds())
        reader = self._reader()
        traits_reader.use(reader)
        self.assertIsNone(traits_reader.age_seconds())
        self.placement.error = _STOPPED
        reader.refresh()
        self.assertIsNone(traits_reader.age_seconds())
        self.placement.error = None
        reader.refresh()
        self.clock.now += 40
        self.assertEqual(40, traits_reader.age_seconds())
        self.placement.error = _STOPPED
        reader.refresh()
        self.assertEqual(40, traits_reader.age_seconds())

    def test_the_last_good_read_serves(self):
        reader = self._reader()
        reader.refresh()
        for error in (_STOPPED, errors.RefusedError('no'), ValueError('odd'),
                      OSError(), KeyError('traits'), RecursionError()):
            self.placement.error = error
            self.assertFalse(reader.refresh())
            self.assertEqual({DEDICATED}, reader.view().marks['uuid'].classes)
            self.assertEqual('', reader.view().stale)

    def test_answers_of_another_shape(self):
        reader = self._reader()
        for answer in (None, [], {'uuid': None}, {'uuid': [None]}):
            with mock.patch.object(
                    self.placement, 'traits_by_provider',
                    return_value=answer):
                self.assertFalse(reader.refresh())
        self.assertEqual({}, reader.view().marks)
        self.assertTrue(reader.refresh())

    def test_connected_again_after_it_failed(self):
        answers = iter([_STOPPED, ValueError('auth_type'), self.placement])
        connected = []

        def connect():
            connected.append(True)
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        reader = traits_reader.TraitsReader(
            connect, traits_reader.TraitsSettings(60, 3600, 0), self.clock)
        self.assertEqual(
            [False, False, True, True],
            [reader.refresh() for _number in range(4)])
        self.assertEqual(3, len(connected))

    def test_age_is_counted_from_when_the_read_began(self):
        reader = self._reader(max_age_seconds=100)

        def slow_read(prefix):
            self.clock.now += 60
            return {'uuid': frozenset({placement_traits.SHARED})}

        with mock.patch.object(
                self.placement, 'traits_by_provider', slow_read):
            reader.refresh()
        self.clock.now += 40
        self.assertEqual('', reader.view().stale)
        self.clock.now += 1
        self.assertEqual(
            'last read 101 s ago; [pinning] traits_max_age_seconds is 100',
            reader.view().stale)

    def test_stale_says_why(self):
        reader = self._reader(max_age_seconds=100)
        reader.refresh()
        self.placement.error = _STOPPED
        self.clock.now += 100.5
        reader.refresh()
        self.assertEqual(
            'last read 100 s ago (Placement: connection refused); [pinning] '
            'traits_max_age_seconds is 100', reader.view().stale)
        self.placement.error = None
        reader.refresh()
        self.assertEqual('', reader.view().stale)
        # The error is not that of a read that takes long.
        self.clock.now += 101
        self.assertEqual(
            'last read 101 s ago; [pinning] traits_max_age_seconds is 100',
            reader.view().stale)

    def test_never_read(self):
        reader = self._reader()
        self.assertEqual(traits_reader.TraitsView(
            {}, 'not read since nova-scheduler was started; [pinning] '
                'traits_max_age_seconds is 3600', False), reader.view())
        self.placement.error = OSError()
        reader.refresh()
        self.assertEqual(traits_reader.TraitsView(
            {}, 'not read since nova-scheduler was started (OSError()); '
                '[pinning] traits_max_age_seconds is 3600', False),
            reader.view())

    def test_a_read_that_ends_while_it_is_looked_at(self):
        """Nothing known and yet not stale would be the worst of both."""
        reader = self._reader()

        class Settings:
            first_wait_seconds = 0

            @property
            def max_age_seconds(self):
                reader.refresh()
                return 100

        with mock.patch.object(reader, '_settings', Settings()):
            view = reader.view()
        self.assertEqual(bool(view.stale), not view.were_read)
        self.assertEqual(bool(view.marks), view.were_read)

    def test_traits_that_nobody_uses(self):
        """They do not get too old, whatever becomes of Placement."""
        self.placement.traits = {'uuid': {placement_traits.l3_trait(8)}}
        reader = self._reader()
        reader.refresh()
        self.clock.now += 10 ** 9
        self.placement.error = OSError()
        reader.refresh()
        self.assertEqual('', reader.view().stale)

    def test_no_limit(self):
        reader = self._reader(max_age_seconds=0)
        self.assertEqual('', reader.view().stale)
        reader.refresh()
        self.clock.now += 10 ** 9
        self.assertEqual('', reader.view().stale)
        self.assertIn('uuid', reader.view().marks)


class TestLog(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.placement = scheduler_fakes.Placement(
            {'uuid': {placement_traits.DEDICATED}})
        self.clock = scheduler_fakes.Clock()
        self.reader = scheduler_fakes.reader(
            self.placement, max_age_seconds=300, clock=self.clock)

    def _refresh(self, seconds=0):
        """Refresh after a while; what is said about it."""
        self.clock.now += seconds
        with unit_base.log_records() as records:
            self.reader.refresh()
        return _said(records)

    def test_all_is_well(self):
        self.assertEqual([], self._refresh())
        self.assertEqual([], self._refresh(60))

    def test_an_outage(self):
        self._refresh()
        self.placement.error = _STOPPED
        self.assertEqual(
            ['Cannot read the traits of hosts from Placement: Placement: '
             'connection refused. Those read 60 s ago are used'],
            self._refresh(60))
        self.assertEqual([], self._refresh(60))
        # Then they are too old, which matters more than how long ago it was
        # said that something is wrong.
        self.assertEqual(
            ['Cannot read the traits of hosts from Placement: Placement: '
             'connection refused. Those read 301 s ago are used, and '
             'dedicated guests are refused on hosts whose class no aggregate '
             'names: [pinning] traits_max_age_seconds is 300'],
            self._refresh(181))
        self.assertEqual([], self._refresh(599))
        [reminder] = self._refresh(1)
        self.assertIn('901 s ago', reminder)
        self.assertEqual([], self._refresh(599))

        self.placement.error = None
        self.assertEqual(
            ['Traits of hosts can be read from Placement again, after 1440 '
             's'], self._refresh())
        self.assertEqual([], self._refresh(60))

        # The next outage is a new one.
        self.placement.error = _STOPPED
        self.assertEqual(1, len(self._refresh(60)))

    def test_never_read(self):
        self.placement.error = _STOPPED
        [said] = self._refresh()
        self.assertIn('None have been read so far, and dedicated', said)

    def test_levels_and_tracebacks(self):
        for error, has_traceback in ((_STOPPED, False), (OSError('?'), True)):
            self.placement.error = error
            with unit_base.log_records() as records:
                self.reader.refresh()
                self.reader.refresh()
            [record] = [record for record in records
                        if record.levelno > logging.DEBUG]
            self.assertEqual(logging.WARNING, record.levelno)
            self.assertEqual(has_traceback, bool(record.exc_info))
            self.placement.error = None
            self.reader.refresh()

    def test_one_traceback_is_enough(self):
        self.placement.error = OSError('?')
        with unit_base.log_records() as records:
            for _number in range(3):
                self.clock.now += 600
                self.reader.refresh()
        self.assertEqual([True, False, False],
                         [bool(record.exc_info) for record in records])

    def test_requests_say_nothing(self):
        self.placement.error = _STOPPED
        self.reader.refresh()
        with unit_base.log_records() as records:
            for _request in range(3):
                self.assertTrue(self.reader.view().stale)
        self.assertEqual([], records)

    def test_silent_once_stopped(self):
        self.placement.error = _STOPPED
        self.reader.stop()
        self.assertEqual([], self._refresh())


@ddt.ddt
class TestFirstWait(unit_base.TestCase):

    def _started(self, placement, first_wait_seconds):
        reader = scheduler_fakes.reader(
            placement, first_wait_seconds=first_wait_seconds)
        self.addCleanup(reader.stop)
        self.addCleanup(placement.may_answer.set)
        reader.start()
        return reader

    def test_the_first_request_waits_for_the_first_read(self):
        placement = _Blocking({'uuid': {placement_traits.SHARED}})
        reader = self._started(placement, _PATIENCE_S)
        self.assertTrue(placement.is_asked.wait(_PATIENCE_S))
        # Answered once somebody waits for it.
        with mock.patch.object(
                reader, '_tried', mock.Mock(wraps=reader._tried)) as tried:
            tried.wait.side_effect = lambda seconds: (
                placement.may_answer.set(), mock.DEFAULT)[1]
            self.assertIn('uuid', reader.view().marks)
        tried.wait.assert_called_once_with(_PATIENCE_S)

    def test_who_has_waited_finds_what_was_read(self):
        reader = scheduler_fakes.reader(scheduler_fakes.Placement({
            'uuid': {placement_traits.SHARED}}))
        found = []
        with mock.patch.object(reader, '_tried') as tried:
            tried.set.side_effect = lambda: found.append(reader.view().marks)
            reader.refresh()
        self.assertEqual([{'uuid'}], [set(marks) for marks in found])

    @ddt.data(0, 0.05)
    def test_no_longer_than_configured(self, seconds):
        placement = _Blocking({'uuid': {placement_traits.SHARED}})
        reader = self._started(placement, seconds)

        view = reader.view()

        self.assertEqual({}, view.marks)
        self.assertIn('not read since', view.stale)
        self.assertEqual(0, placement.reads)

    @ddt.data((0, 5), (3, 2), (5, 0), (100, 0))
    @ddt.unpack
    def test_counted_from_the_first_request(self, passed, left):
        clock = scheduler_fakes.Clock()
        reader = scheduler_fakes.reader(
            scheduler_fakes.Placement(), first_wait_seconds=5, clock=clock)
        clock.now += passed
        with mock.patch.object(reader, '_tried') as tried:
            tried.is_set.return_value = False
            reader.view()
        tried.wait.assert_called_once_with(left)

    def test_tried_again_at_once(self):
        """What failed once is asked for by the next request, and awaited."""
        placement = scheduler_fakes.Placement({
            'uuid': {placement_traits.SHARED}})
        placement.error = _STOPPED
        clock = scheduler_fakes.Clock()
        reader = scheduler_fakes.reader(
            placement, first_wait_seconds=_PATIENCE_S, clock=clock)
        self.addCleanup(reader.stop)
        with mock.patch.object(reader, '_run'):
            reader.start()
        self.assertFalse(reader.refresh())
        self.assertTrue(reader.view().stale)
        self.assertEqual(1, placement.reads)
        clock.now += 1
        self.assertTrue(reader.view().stale)
        self.assertEqual(2, placement.reads)
        # No other begins as long as it lives.
        reader._hurried.join(_PATIENCE_S)
        placement.error = None
        clock.now += 1
        self.assertIn('uuid', reader.view().marks)
        clock.now += 1
        reader.view()
        self.assertEqual(3, placement.reads)

    def test_nobody_waits_after_the_first_read(self):
        for error in (None, _STOPPED):
            placement = scheduler_fakes.Placement()
            placement.error = error
            reader = scheduler_fakes.reader(
                placement, first_wait_seconds=_PATIENCE_S)
            reader.refresh()
            with mock.patch.object(reader._tried, 'wait') as wait:
                reader.view()
            wait.assert_not_called()


class _Pauses:
    """In the place of the event that stops a reader; no time passes."""

    def __init__(self, count, between=lambda number: None):
        self.seconds = []
        self._count = count
        self._between = between

    def is_set(self):
        return len(self.seconds) >= self._count

    def wait(self, seconds):
        self.seconds.append(seconds)
        self._between(len(self.seconds))


class TestThread(unit_base.TestCase):

    def _pauses(self, placement, count, between, **settings):
        reader = scheduler_fakes.reader(placement, **settings)
        pauses = _Pauses(count, between)
        with mock.patch.object(reader, '_stopping', pauses):
            reader._run()
        self.assertEqual(count, placement.reads)
        return pauses.seconds

    def test_pauses(self):
        placement = scheduler_fakes.Placement()

        def between(number):
            placement.error = {2: _STOPPED, 3: ValueError()}.get(number)

        self.assertEqual(
            [60, 60, 5, 5, 60],
            self._pauses(placement, 5, between, refresh_seconds=60))
        placement.reads, placement.error = 0, None
        self.assertEqual(
            [2, 2, 2, 2],
            self._pauses(placement, 4, between, refresh_seconds=2))

    def test_reads_until_it_is_stopped(self):
        done = threading.Event()
        placement = scheduler_fakes.Placement()
        read = placement.traits_by_provider

        def several(prefix):
            if placement.reads == 3:
                done.set()
            # Whatever befalls a read, there is a next one.
            placement.error = [None, KeyError(), _STOPPED][
                placement.reads % 3]
            return read(prefix)

        placement.traits_by_provider = several
        reader = scheduler_fakes.reader(placement, refresh_seconds=0)
        reader.start()
        self.addCleanup(reader.stop)
        self.assertTrue(reader._thread.daemon)
        self.assertTrue(done.wait(_PATIENCE_S))

        reader.stop()

        self.assertFalse(reader._thread.is_alive())

    def test_a_listener_that_hangs_holds_up_no_read(self):
        may_end = threading.Event()
        self.addCleanup(may_end.set)
        told = []

        def listen(marked):
            told.append((marked, may_end.wait(_PATIENCE_S)))

        placement = scheduler_fakes.Placement({
            'a': {placement_traits.DEDICATED}, 'b': {'CUSTOM_PINNING_X'}})
        reader = scheduler_fakes.reader(placement, listen=listen)
        self.assertTrue(reader.refresh())
        self.assertTrue(reader.refresh())
        may_end.set()
        reader.stop()
        # Never two at once.
        self.assertEqual([({'a'}, True)], told)
        reader.refresh()
        reader.stop()
        self.assertEqual([({'a'}, True)] * 2, told)

    def test_nobody_can_be_told(self):
        reader = scheduler_fakes.reader(
            scheduler_fakes.Placement({'a': {placement_traits.DEDICATED}}),
            listen=lambda marked: None)
        with mock.patch.object(threading.Thread, 'start',
                               side_effect=RuntimeError('no more threads')):
            self.assertFalse(reader.refresh())
        self.assertEqual({'a'}, set(reader.view().marks))
        reader.stop()

    def test_stopped_before_it_was_started(self):
        scheduler_fakes.reader(scheduler_fakes.Placement()).stop()


class TestProcess(unit_base.TestCase):
    """One reader in each process that schedules, made by a request."""

    def setUp(self):
        super().setUp()
        self.set_option('traits_refresh_seconds', 60)
        self.placement = scheduler_fakes.Placement(
            {'uuid': {placement_traits.DEDICATED}})
        self.connect = self.useFixture(fixtures.MockPatchObject(
            traits_reader, 'connect', return_value=self.placement)).mock

    def test_traits_are_not_to_be_read(self):
        self.set_option('traits_refresh_seconds', 0)
        self.assertEqual(traits_reader.TraitsView(), traits_reader.view())
        self.assertFalse(traits_reader.refresh())
        self.connect.assert_not_called()
        self.assertIsNone(traits_reader._reader)

    def test_one_reader_for_all_requests(self):
        count = 8
        barrier = threading.Barrier(count)
        views = []

        def request():
            barrier.wait(_PATIENCE_S)
            views.append(traits_reader.view())

        threads = [threading.Thread(target=request) for _one in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE_S)

        self.assertEqual([True] * count, ['uuid' in view.marks
                                          for view in views])
        self.connect.assert_called_once_with()
        self.assertEqual(1, self.placement.reads)

    def test_options(self):
        self.set_option('traits_max_age_seconds', 240)
        traits_reader.view()
        self.assertEqual(traits_reader.TraitsSettings(60, 240, 5.0),
                         traits_reader._reader._settings)

    def test_refresh(self):
        self.assertFalse(traits_reader.refresh())
        traits_reader.view()
        self.placement.traits = {}
        self.assertTrue(traits_reader.refresh())
        self.assertEqual({}, traits_reader.view().marks)

    def test_replaced(self):
        traits_reader.view()
        thread = traits_reader._reader._thread
        other = scheduler_fakes.reader(scheduler_fakes.Placement())
        traits_reader.use(other)
        self.assertFalse(thread.is_alive())
        self.assertEqual({}, traits_reader.view().marks)
        traits_reader.use(None)
        self.assertIn('uuid', traits_reader.view().marks)

    def test_no_thread_to_be_had(self):
        with mock.patch.object(traits_reader.TraitsReader, 'start',
                               side_effect=RuntimeError("can't start")):
            self.assertRaises(RuntimeError, traits_reader.view)
        self.assertIn('uuid', traits_reader.view().marks)

    def _in_child(self, check):
        """What a check, called in a forked process, says."""
        read_end, write_end = os.pipe()
        process = os.fork()
        if not process:
            signal.alarm(_PATIENCE_S)
            try:
                os.write(write_end, repr(check()).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        with open(read_end) as answer:
            said = answer.read()
        os.waitpid(process, 0)
        return said

    def test_a_fork_begins_anew(self):
        traits_reader.view()

        def check():
            self.placement.traits = {'other': {placement_traits.SHARED}}
            before = traits_reader._reader
            found = sorted(traits_reader.view().marks)
            return before, found, traits_reader._reader._thread.is_alive()

        self.assertEqual("(None, ['other'], True)", self._in_child(check))
        self.assertEqual(['uuid'], sorted(traits_reader.view().marks))

    def test_a_fork_while_the_reader_is_made(self):
        with traits_reader._making:
            self.assertEqual(
                "['uuid']", self._in_child(
                    lambda: sorted(traits_reader.view().marks)))
