#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import multiprocessing
import os
import threading

import fixtures
from oslotest import base

from nova_pinning.demo import one_cpu


def _hold(connection):
    """Another process: tell the CPU, and keep it until told to end."""
    with one_cpu.OneCpu():
        connection.send(os.sched_getaffinity(0))
        connection.recv()


class OneCpuTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        # Clouds of other tests may run at the same time.
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.demo.one_cpu._NAME', self.id()[-60:]))
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
