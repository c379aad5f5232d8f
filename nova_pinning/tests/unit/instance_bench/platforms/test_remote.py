# SPDX-License-Identifier: Apache-2.0

import itertools
from unittest import mock

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes
from nova_pinning.tests.unit import unit_base


class TestOutcome(unit_base.TestCase):

    def test_cut_off(self):
        for status, printed in (0, ''), (255, '0\nout'), (0, 'what\n'):
            error = self.assertRaises(
                bench_errors.InstanceError, remote.outcome, 'guest-0',
                status, printed, 'broken pipe')
            self.assertIn('broken pipe', str(error))


class TestWait(unit_base.TestCase):

    def wait(self, job):
        self.useFixture(platform_fakes.PassingTime())
        return remote.wait(job, 5, 'it')

    def test_its_end(self):
        self.assertEqual(3, self.wait(platform_fakes.Job(2, status=3)).status)

    def test_no_end(self):
        job = platform_fakes.Job(None)
        error = self.assertRaises(bench_errors.InstanceError, self.wait, job)
        self.assertEqual('it within 5 s', str(error))


class World:
    """A clock of this host, one of a guest, and how long it takes to ask.

    :param trips: seconds there and back, for each time that it is asked
    :param steps: by how much this host's clock is set meanwhile
    """

    def __init__(self, trips, steps=(0.0,), ahead=0.0):
        self.elapsed = 0.0
        self.set = 1000.0
        self._trips = iter(trips)
        self._steps = itertools.cycle(steps)
        self._ahead = ahead

    def ask(self):
        trip = next(self._trips)
        self.elapsed += trip / 2
        inside = 1000.0 + self.elapsed + self._ahead
        self.elapsed += trip / 2
        self.set += next(self._steps)
        return inside

    def time(self):
        return self.set + self.elapsed

    def monotonic(self):
        return self.elapsed

    def reading(self):
        with mock.patch.object(remote, 'time', self):
            return remote.handshake('guest-0', self.ask)


class TestHandshake(unit_base.TestCase):

    def test_the_quickest_counts(self):
        reading = World([1, 0.5, 0.02, 2, 3], ahead=7).reading()
        self.assertAlmostEqual(7, reading.offset)
        self.assertAlmostEqual(0.01, reading.uncertainty)

    def test_one_during_which_the_clock_was_set_does_not_count(self):
        for step in 0.5, -0.5, -60.0:
            reading = World([0.01, 1, 1, 0.8, 1],
                            [step, 0, 0, 0, 0]).reading()
            self.assertAlmostEqual(0.4, reading.uncertainty)

    def test_a_clock_that_is_set_all_the_time(self):
        error = self.assertRaises(bench_errors.InstanceError,
                                  World([1] * 5, [0.5, -0.5]).reading)
        self.assertIn('clock of this host is being set', str(error))

    def test_it_does_not_answer(self):
        error = bench_errors.InstanceError('silent')

        def ask():
            raise error

        self.assertIs(error, self.assertRaises(
            bench_errors.InstanceError, remote.handshake, 'guest-0', ask))
