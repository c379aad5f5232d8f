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

    def start(self):
        """Return the CPUs of another process that stays."""
        fork = multiprocessing.get_context('fork')
        mine, others = fork.Pipe()
        process = fork.Process(target=_hold, args=(others,))
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(mine.send, None)
        return mine.recv()

    def test_as_few_on_each_as_can_be(self):
        """A CPU is shared only when each has one, and by two at most then."""
        cpus = list(self.before)[:2]
        os.sched_setaffinity(0, cpus)
        self.addCleanup(os.sched_setaffinity, 0, self.before)
        for _turn in range(2):
            taken = [self.start() for _cpu in cpus]
            self.assertCountEqual([{cpu} for cpu in cpus], taken)

    def test_one_within_another(self):
        with one_cpu.OneCpu():
            here = os.sched_getaffinity(0)
            with one_cpu.OneCpu():
                self.assertEqual(here, os.sched_getaffinity(0))
            self.assertEqual(here, os.sched_getaffinity(0))
