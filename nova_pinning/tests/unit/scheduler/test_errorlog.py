# SPDX-License-Identifier: Apache-2.0

import contextlib
import logging
import threading

from oslotest import base as oslotest

from nova_pinning.scheduler import errorlog
from nova_pinning.tests.unit.scheduler import scheduler_fakes
from nova_pinning.tests.unit import unit_base

LOG = logging.getLogger('nova_pinning.test')


def _caught(error):
    try:
        raise error
    except Exception as caught:
        return caught


def _elsewhere(error):
    try:
        raise error
    except Exception as caught:
        return caught


class TestErrorLog(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.clock = scheduler_fakes.Clock()
        self.errors = errorlog.ErrorLog(self.clock)
        self.records = self.enterContext(unit_base.log_records(LOG.name))

    def report(self, error=None, host='host-1'):
        self.errors.report(LOG, 'Unexpected error on host %s', host,
                           error=error or _caught(KeyError('cells')))

    def said(self):
        return [record.getMessage() for record in self.records]

    def test_once_a_kind_with_its_traceback(self):
        for number in range(3):
            self.report(_caught(KeyError(f'cells-{number}')), f'host-{number}')
        [record] = self.records
        self.assertEqual(logging.ERROR, record.levelno)
        self.assertIn('Unexpected error on host host-0', record.getMessage())
        self.assertIn('_caught', logging.Formatter().format(record))
        self.assertIn("KeyError: 'cells-0'", record.exc_text)

    def test_kinds(self):
        """By type and place."""
        for error in (_caught(KeyError()), _caught(ValueError()),
                      _elsewhere(KeyError()), KeyError()):
            for _again in range(2):
                self.report(error)
        self.assertEqual(4, len(self.records))

    def test_reminds_every_hour(self):
        self.report()
        for _second in range(3599):
            self.clock.now += 1
            self.report()
        self.assertEqual(1, len(self.records))
        self.clock.now += 1
        self.report(_caught(KeyError('pages')), 'host-2')
        self.assertEqual(
            "Unexpected error on host host-2: KeyError: 'pages'; 3600 of "
            'this kind in the last 1.0 hours', self.said()[1])
        self.clock.now += 7200
        self.report()
        self.assertIn('1 of this kind in the last 2.0 hours',
                      self.said()[2])

    def test_each_kind_has_hours_of_its_own(self):
        self.report()
        self.clock.now += 1800
        self.report(_caught(ValueError()))
        self.clock.now += 1800
        self.report()
        self.report(_caught(ValueError()))
        self.assertEqual(3, len(self.records))

    def test_kinds_without_end(self):
        """They cost neither memory nor a line each."""
        for number in range(1000):
            self.report(type(f'Error{number}', (Exception,), {})())
        self.assertLess(len(self.records), 110)
        self.assertLess(len(self.errors._seen), 110)
        self.clock.now += 3600
        self.report(type('Another', (Exception,), {})())
        self.assertIn('900 of', self.said()[-1])

    def test_threads(self):
        """Of all that report at once, one logs, and none is lost."""
        count, times = 16, 50
        barrier = threading.Barrier(count, timeout=60)

        def work():
            barrier.wait()
            for _time in range(times):
                self.report()

        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(self.records))
        self.clock.now += 3600
        self.report()
        self.assertIn(f'{count * times} of', self.said()[1])

    def test_two_threads_at_once(self):
        """One logs, even where both look before either has logged."""
        barrier = threading.Barrier(2)

        class Meeting(dict):

            def get(self, kind):
                found = super().get(kind)
                # Both come here only if nothing keeps the second out.
                with contextlib.suppress(threading.BrokenBarrierError):
                    barrier.wait(0.1)
                return found

        self.errors._seen = Meeting()
        threads = [threading.Thread(target=self.report) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(self.records))
