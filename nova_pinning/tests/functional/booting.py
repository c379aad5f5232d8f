# SPDX-License-Identifier: Apache-2.0
"""Two boots, on native threads and on eventlet's.

No test runner finds these: test_thread_modes runs each in a process of its
own, since a process has one kind of threads or the other from its start.
"""

import pathlib
import sys
import threading

import fixtures
from nova import monkey_patch

from nova_pinning import conf
from nova_pinning.scheduler import metrics
from nova_pinning.tests.functional import functional_base

_PREFIX = 'nova_pinning_scheduler_'


class _TestCase(functional_base.TestCase):

    def setUp(self):
        # Before the scheduler, whose filters make the recorder.
        directory = fixtures.TempDir()
        directory.setUp()
        self.addCleanup(directory.cleanUp)
        self.directory = pathlib.Path(directory.path)
        for name, value in (('metrics_directory', directory.path),
                            ('metrics_interval_seconds', 1)):
            conf.CONF.set_override(name, value, 'pinning')
        self.addCleanup(metrics.use, None)
        super().setUp()

    def _has_written(self, *series):
        """Whether the file of metrics has these, by name and labels."""
        lines = [line for path in self.directory.glob('*.prom')
                 for line in path.read_text().splitlines()]
        return all(
            any(line.startswith(_PREFIX + name) and line.endswith(' 1.0') and
                all(label in line for label in labels) for line in lines)
            for name, *labels in series)

    def check_boots(self):
        self.nova.start_host('host', functional_base.small_host(
            sockets=2, cores_per_cell=2))
        specs = {'hw:cpu_policy': 'dedicated'}
        first = self.nova.boot('first', self.nova.create_flavor(
            'small', 3, functional_base.GIB, specs))
        self.assert_active([first], 'host')
        self.assertEqual(
            self.pinned_cpus(first), self.host_pinned_cpus('host'))
        self.assertEqual(3, len(self.pinned_cpus(first)))
        # Placement still finds room for it.
        second = self.nova.boot('second', self.nova.create_flavor(
            'large', 5, functional_base.GIB, specs))
        self.assert_refused(second, 'PinnedTopologyFilter refused 1 host')
        pinned = 'filter="PinnedTopologyFilter"'
        self.nova._wait('the metrics', lambda: self._has_written(
            ('self_test_passed',), ('filter_hosts_passed_total', pinned),
            ('no_host_total',)))


class TestNativeThreads(_TestCase):

    def test_boots(self):
        self.assertFalse(monkey_patch.is_patched())
        self.assertNotIn('eventlet', sys.modules)
        self.check_boots()
        self.assertIn('pinning-metrics', [
            thread.name for thread in threading.enumerate()])


class TestEventlet(_TestCase):

    def test_boots(self):
        from eventlet import patcher
        self.assertTrue(patcher.is_monkey_patched('thread'))
        self.check_boots()
