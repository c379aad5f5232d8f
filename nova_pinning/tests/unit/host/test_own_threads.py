# SPDX-License-Identifier: Apache-2.0
"""Threads of the controller, with those of these tests."""

import os
import subprocess
import threading

from nova_pinning import cpuset
from nova_pinning.host import own_threads
from nova_pinning.tests.unit import unit_base


class BoundTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.before = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, self.before)
        self.cpu = max(self.before)
        self.ended = threading.Event()
        self.other = self.start()
        self.addCleanup(self.ended.set)

    def start(self):
        thread = threading.Thread(target=self.ended.wait, daemon=True)
        thread.start()
        return thread.native_id

    def assert_on(self, cpus, *threads):
        for thread in (0, *threads):
            self.assertEqual(cpus, os.sched_getaffinity(thread))

    def test_all_threads_until_it_is_left(self):
        with own_threads.keeping_to(cpuset.CpuSet([self.cpu])) as trouble:
            self.assertEqual('', trouble)
            self.assert_on({self.cpu}, self.other)
            # As what looks into guests, and one that is started meanwhile.
            self.assertIn(f'list:\t{self.cpu}\n', subprocess.check_output(
                ['grep', 'Cpus_allowed_list', '/proc/self/status'],
                text=True))
            later = self.start()
        self.assert_on(self.before, self.other, later)

    def test_whatever_happens(self):
        def fail():
            with own_threads.keeping_to(cpuset.CpuSet([self.cpu])):
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, fail)
        self.assert_on(self.before, self.other)

    def test_cpus_that_it_may_not_use(self):
        """It is told, and nothing else."""
        with own_threads.keeping_to(cpuset.CpuSet([4095])) as trouble:
            self.assert_on(self.before, self.other)
        self.assertEqual('invalid argument', trouble)
        self.assert_on(self.before, self.other)

    def test_no_cpus(self):
        with own_threads.keeping_to(cpuset.CpuSet()):
            self.assert_on(self.before, self.other)
        self.assert_on(self.before, self.other)

    def test_whoever_was_bound_is_no_wider(self):
        os.sched_setaffinity(0, {self.cpu})
        with own_threads.keeping_to(cpuset.CpuSet(self.before)):
            self.assert_on({self.cpu})
        self.assert_on({self.cpu})
