# SPDX-License-Identifier: Apache-2.0

import multiprocessing
import os
import threading

import fixtures
from oslotest import base

from demo import one_cpu


def _hold(connection):
    """Another process: tell the CPU, and keep it until told to end."""
    with one_cpu.OneCpu():
        connection.send(os.sched_getaffinity(0))
        connection.recv()


class OneCpuTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        # Clouds of other tests may run at the same time, and these tests.
        self.useFixture(fixtures.MonkeyPatch(
            'demo.one_cpu._NAME', f'{self.id()[-60:]}-{os.getpid()}'))
        self.before = os.sched_getaffinity(0)

    def test_this_thread_and_what_it_starts(self):
        with one_cpu.OneCpu():
            here = os.sched_getaffinity(0)
            self.assertEqual(1, len(here))
            self.assertLessEqual(here, self.before)
            found = []
            thread = threading.Thread(
                target=lambda: found.append(os.sched_getaffinity(0)))
            thread.start()
            thread.join()
            self.assertEqual([here], found)
        self.assertEqual(self.before, os.sched_getaffinity(0))

    def test_each_has_another(self):
        mine, others = multiprocessing.get_context('fork').Pipe()
        process = multiprocessing.get_context('fork').Process(
            target=_hold, args=(others,))
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(mine.send, None)
        taken = mine.recv()

        with one_cpu.OneCpu():
            here = os.sched_getaffinity(0)

        self.assertEqual(1, len(taken))
        if len(self.before) > 1:
            self.assertTrue(taken.isdisjoint(here))
        else:
            self.assertEqual(self.before, here)

    def test_one_within_another(self):
        with one_cpu.OneCpu():
            here = os.sched_getaffinity(0)
            with one_cpu.OneCpu():
                self.assertEqual(here, os.sched_getaffinity(0))
            self.assertEqual(here, os.sched_getaffinity(0))
