# SPDX-License-Identifier: Apache-2.0

import itertools
import sys
from unittest import mock

from minicloud import errors
from minicloud import process
from minicloud import service
from minicloud import settings
from nova_pinning.tests.unit.minicloud import minicloud_case


class Fake(service.Service):
    """A process that does nothing, ready as the test says."""

    name = 'fake'
    code = 'import signal; signal.pause()'
    text = 'a'

    def __init__(self, state, checks):
        super().__init__(state, settings.Settings(hosts=()))
        self.checks = iter(checks)

    def config(self):
        return {self.state.etc / 'fake' / 'fake.conf': self.text}

    def command(self):
        return [sys.executable, '-c', self.code]

    def check(self):
        if not next(self.checks):
            raise errors.NotReady('it yawns')


class ServiceTestCase(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        # Time passes by a second with each look at the clock.
        clock = mock.patch.object(service, 'time').start()
        mock.patch.object(service, 'POLL_SECONDS', 0).start()
        self.addCleanup(mock.patch.stopall)
        clock.monotonic.side_effect = itertools.count()


class TestService(ServiceTestCase):

    def fake(self, *checks):
        made = Fake(self.state, itertools.chain(
            checks, itertools.repeat(checks[-1])))
        self.addCleanup(made.down)
        return made

    def test_up_and_down(self):
        fake = self.fake(False, False, True)
        fake.up()
        self.assertTrue(fake.running())
        path = self.state.etc / 'fake' / 'fake.conf'
        self.assertEqual('a', path.read_text())
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        fake.down()
        self.assertFalse(fake.running())

    def test_up_again_leaves_it(self):
        fake = self.fake(True)
        fake.up()
        before = process.read(fake.record)
        self.fake(True).up()
        self.assertEqual(before, process.read(fake.record))

    def test_up_again_after_a_change(self):
        fake = self.fake(True)
        fake.up()
        before = process.read(fake.record)
        changed = self.fake(True)
        changed.text = 'b'
        changed.up()
        self.assertFalse(before.alive())
        self.assertTrue(changed.running())

    def test_up_again_after_a_crash(self):
        fake = self.fake(True)
        fake.up()
        process.stop(fake.record)
        self.assertFalse(fake.running())
        fake.up()
        self.assertTrue(fake.running())

    def test_too_slow(self):
        fake = self.fake(False)
        error = self.assertRaises(errors.MiniCloudError, fake.up)
        self.assertIn('fake was not ready within 60 seconds: it yawns',
                      str(error))

    def test_ends(self):
        fake = self.fake(False)
        fake.deadline_seconds = 10 ** 9
        fake.code = 'print("no way"); raise SystemExit(3)'
        error = self.assertRaises(errors.MiniCloudError, fake.up)
        self.assertIn('fake ended while it was starting', str(error))
        self.assertIn('  no way', str(error))

    def test_another_answers_for_it(self):
        fake = self.fake(True)
        fake.code = 'raise SystemExit("port in use")'
        with mock.patch.object(fake, 'running', return_value=False):
            error = self.assertRaises(errors.MiniCloudError, fake.up)
        self.assertIn('fake ended while it was starting', str(error))

    def test_files_are_replaced_whole(self):
        fake = self.fake(True)
        fake.up()
        changed = self.fake(True)
        changed.text = 'b'
        with mock.patch.object(service.files.os, 'replace',
                               side_effect=OSError):
            self.assertRaises(OSError, changed.up)
        path = self.state.etc / 'fake' / 'fake.conf'
        self.assertEqual('a', path.read_text())

    def test_given_up(self):
        fake = self.fake(False)
        fake.given_up.set()
        error = self.assertRaises(errors.MiniCloudError, fake.up)
        self.assertEqual('fake was given up', str(error))

    def test_find_in_log(self):
        log = self.state.log / 'some.log'
        self.assertRaises(
            errors.NotReady, service.find_in_log, log, 'words')
        log.write_text('other words\n')
        service.find_in_log(log, 'words')
        self.assertRaises(
            errors.NotReady, service.find_in_log, log, 'swords')


class Hanging(Fake):
    """It is ready at one of its starts, and hangs before."""

    hang_seconds = (5.0, 10.0)
    starts = 0
    good = 2

    def prepare(self):
        self.starts += 1

    def check(self):
        if self.starts < self.good:
            raise errors.NotReady('it yawns')


class TestHangs(ServiceTestCase):

    def hanging(self):
        made = Hanging(self.state, ())
        self.addCleanup(made.down)
        return made

    def test_started_again(self):
        hanging = self.hanging()
        with mock.patch.object(service.process, 'start',
                               side_effect=process.start) as start:
            hanging.up()
        self.assertEqual(2, start.call_count)
        self.assertTrue(hanging.running())
        self.assertEqual('started again, as it was not ready within 5 seconds',
                         hanging.detail)

    def test_the_one_that_hangs_is_ended(self):
        hanging, records = self.hanging(), []
        hanging.good = 3

        def prepare():
            records.append(process.read(hanging.record))
            hanging.starts += 1

        with mock.patch.object(hanging, 'prepare', side_effect=prepare):
            hanging.up()
        # What had been started was gone before the next.
        self.assertEqual([None, None, None], records)
        self.assertEqual(
            'started again, as it was not ready within 10 seconds',
            hanging.detail)

    def test_not_for_ever(self):
        hanging = self.hanging()
        hanging.good = 9
        error = self.assertRaises(errors.MiniCloudError, hanging.up)
        self.assertEqual(3, hanging.starts)
        self.assertIn(
            'fake was not ready within 60 seconds: it yawns. It was started '
            'again, as it was not ready within 10 seconds', str(error))

    def test_one_that_was_there_is_left(self):
        """Whatever it is busy with, guests of a host run on."""
        there = self.hanging()
        there.good = 1
        there.up()
        before = process.read(there.record)
        hanging = self.hanging()
        error = self.assertRaises(errors.MiniCloudError, hanging.up)
        self.assertIn('fake was not ready within 60 seconds: it yawns',
                      str(error))
        self.assertEqual(0, hanging.starts)
        self.assertEqual(before, process.read(hanging.record))
        self.assertTrue(hanging.running())

    def test_one_that_ends_is_not_started_again(self):
        hanging = self.hanging()
        hanging.hang_seconds = (10.0 ** 9,)
        hanging.code = 'raise SystemExit(3)'
        error = self.assertRaises(errors.MiniCloudError, hanging.up)
        self.assertIn('fake ended while it was starting', str(error))
        self.assertEqual(1, hanging.starts)


class TestTask(ServiceTestCase):

    class Once(service.Task):
        name = 'once'
        times = 0
        error = None

        def do(self):
            self.times += 1
            if self.error:
                raise self.error

    def test_once(self):
        task = self.Once(self.state, None)
        task.up()
        task.up()
        self.assertEqual(1, task.times)
        task.down()
        task.up()
        self.assertEqual(2, task.times)

    def test_failed(self):
        task = self.Once(self.state, None)
        task.error = errors.NotReady('HTTP status 500')
        error = self.assertRaises(errors.MiniCloudError, task.up)
        self.assertEqual('once: HTTP status 500', str(error))
        task.error = None
        task.up()
        self.assertEqual(2, task.times)
