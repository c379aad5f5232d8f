# SPDX-License-Identifier: Apache-2.0

import dataclasses
import gc
import pathlib
import threading
import weakref

import fixtures

from nova_pinning import errors
from nova_pinning.exporter import fleet_sources
from nova_pinning.exporter import fleet_watch
from nova_pinning.exporter import periodic
from nova_pinning.exporter import task_metrics
from nova_pinning.fleet import document
from nova_pinning.tests import runner
from nova_pinning.tests.unit.exporter import test_fleet_tally
from nova_pinning.tests.unit import unit_base

_LAST = 'nova_pinning_exporter_last_success_timestamp_seconds'
_ERRORS = 'nova_pinning_exporter_errors_total'


class Source:
    """Gives what it is told to, or raises it."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.error = None

    def read(self):
        if self.error is not None:
            raise self.error
        return self.fleet


class WatchTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet = dataclasses.replace(
            test_fleet_tally.make_fleet(4), taken_at='2026-11-23T12:00:00Z')
        self.source = Source(self.fleet)
        self.now = 1000.0
        self.tasks = task_metrics.TaskMetrics(lambda: self.now)
        self.watch = self.make_watch()
        runner.freeze(self)

    def make_watch(self, *choice):
        return fleet_watch.FleetWatch(
            self.source, *choice, tasks=self.tasks)

    def metric(self, name, **labels):
        text = self.watch.text() + self.tasks.text()
        return test_fleet_tally.series(text).get(
            (name, tuple(sorted(labels.items()))))

    def test_before_anything_was_read(self):
        self.assertEqual('', self.watch.text())
        self.assertIsNone(self.watch.fleet)
        self.assertEqual(0, self.metric(_LAST, task='read'))
        self.assertEqual(0, self.metric(_ERRORS, task='read'))

    def test_reads_and_counts(self):
        self.watch.refresh()
        self.assertEqual(1795435200, self.metric(
            'nova_pinning_cloud_taken_timestamp_seconds'))
        self.assertEqual(1000, self.metric(_LAST, task='count'))
        self.assertEqual(
            4, self.metric('nova_pinning_exporter_hosts_recounted_total'))
        self.watch.refresh()
        self.assertEqual(
            4, self.metric('nova_pinning_exporter_hosts_recounted_total'))

    def test_source_that_never_was_there(self):
        self.source.error = errors.InputError('gone')
        with unit_base.log_records() as logged:
            self.watch.refresh()
        self.assertEqual(['read failed: gone'], [
            one.getMessage() for one in logged if one.levelname == 'ERROR'])

    def test_source_goes_away_and_comes_back(self):
        self.watch.refresh()
        text = self.watch.text()
        for error in (errors.InputError('gone'), errors.CloudError('gone'),
                      ZeroDivisionError()):
            self.now += 60
            self.source.error = error
            with unit_base.log_records() as logged:
                self.watch.refresh()
                self.watch.refresh()
            # Said once, if it is not what was said before.
            self.assertLessEqual(len([
                one for one in logged if one.levelname == 'ERROR']), 1)
            for one in logged:
                if one.levelname == 'ERROR':
                    self.assertIn('the last figures', one.getMessage())
            self.assertEqual(text, self.watch.text())
            self.assertEqual(1000, self.metric(_LAST, task='read'))
        self.assertEqual(6, self.metric(_ERRORS, task='read'))
        self.source.error = None
        self.source.fleet = dataclasses.replace(self.fleet, guests=())
        with unit_base.log_records() as logged:
            self.watch.refresh()
        self.assertIn('read works again',
                      [one.getMessage() for one in logged])
        self.assertNotEqual(text, self.watch.text())
        self.assertEqual(1180, self.metric(_LAST, task='read'))

    def test_garbage_is_not_kept(self):
        """That of a reading, and that of readings before once it is let go."""
        class Cycle:
            def __init__(self):
                self.itself = self

        thresholds = gc.get_threshold()
        session, passing = Cycle(), []

        def read():
            passing.append(weakref.ref(Cycle()))
            return self.fleet

        self.source.read = read
        self.watch.refresh()
        frozen, session = weakref.ref(session), None
        self.assertIsNotNone(frozen())
        gc.unfreeze()
        self.watch.refresh()
        self.assertEqual([None] * 3, [
            one() for one in (*passing, frozen)])
        self.assertEqual(thresholds, gc.get_threshold())

    def test_counting_fails(self):
        """What was counted halfway is not taken for a count."""
        self.watch.refresh()
        text = self.watch.text()
        broken = dataclasses.replace(self.fleet.hosts[1], pci_pools=None)
        first = dataclasses.replace(self.fleet.hosts[0], is_enabled=False)
        self.source.fleet = dataclasses.replace(
            self.fleet, hosts=(first, broken, *self.fleet.hosts[2:]))
        self.watch.refresh()
        self.assertEqual(1, self.metric(_ERRORS, task='count'))
        self.assertEqual(text, self.watch.text())
        self.source.fleet = self.fleet
        self.watch.refresh()
        self.assertEqual(text, self.watch.text())

    def test_flavors_change(self):
        self.watch.refresh()
        name = self.fleet.flavors[0].name
        self.assertIn(f'flavor="{name}"', self.watch.text())
        self.source.fleet = dataclasses.replace(
            self.fleet, flavors=self.fleet.flavors[1:])
        self.watch.refresh()
        self.assertNotIn(f'flavor="{name}"', self.watch.text())

    def test_flavors_that_nova_refuses(self):
        flavor = dataclasses.replace(
            self.fleet.flavors[0], name='odd',
            extra_specs={'hw:cpu_policy': 'no such'})
        self.source.fleet = dataclasses.replace(
            self.fleet, flavors=(*self.fleet.flavors, flavor))
        self.watch.refresh()
        self.assertEqual(
            1, self.metric('nova_pinning_exporter_flavors_left_out'))
        self.assertNotIn('odd', self.watch.text())

    def test_few_flavors(self):
        """There is an end to the number of series."""
        self.watch = self.make_watch((), 2)
        self.watch.refresh()
        names = {dict(labels).get('flavor') for _name, labels
                 in test_fleet_tally.series(self.watch.text())} - {None}
        self.assertEqual(3, len(names))
        self.assertIn('other', names)
        self.assertEqual(
            len(self.fleet.flavors) - 2,
            self.metric('nova_pinning_exporter_flavors_left_out'))

    def test_patterns(self):
        name = self.fleet.flavors[0].name
        self.watch = self.make_watch((name[:-1] + '*', 'none.*'), 200)
        self.watch.refresh()
        self.assertIn(f'flavor="{name}"', self.watch.text())
        self.assertEqual(
            0, self.metric('nova_pinning_exporter_flavors_left_out'))

    def test_no_time(self):
        self.source.fleet = dataclasses.replace(self.fleet, taken_at='')
        self.watch.refresh()
        self.assertIsNone(self.metric(
            'nova_pinning_cloud_taken_timestamp_seconds'))

    def test_names_are_escaped(self):
        """Names of flavors are what somebody chose."""
        flavor = dataclasses.replace(
            self.fleet.flavors[0], name='x"} 1\nevil_metric 1\\')
        self.source.fleet = dataclasses.replace(
            self.fleet, flavors=(flavor,))
        self.watch.refresh()
        names = {name for name, _labels
                 in test_fleet_tally.series(self.watch.text())}
        self.assertNotIn('evil_metric', names)
        self.assertIn('nova_pinning_capacity_guests', names)


class SnapshotFileTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / 'fleet.json'
        self.source = fleet_sources.SnapshotFile(str(self.path))

    def test_replaced(self):
        fleet = test_fleet_tally.make_fleet(2)
        document.write(self.path, fleet)
        first = self.source.read()
        self.assertEqual(fleet, first)
        self.assertIs(first, self.source.read())
        document.write(self.path, dataclasses.replace(fleet, guests=()))
        self.assertEqual((), self.source.read().guests)

    def test_missing_or_damaged(self):
        self.assertRaises(errors.InputError, self.source.read)
        self.path.write_text('{')
        self.assertRaises(errors.InputError, self.source.read)
        document.write(self.path, test_fleet_tally.make_fleet(2))
        self.assertEqual(2, len(self.source.read().hosts))


class PeriodicTestCase(unit_base.TestCase):

    def test_again_and_again(self):
        calls, enough = [], threading.Event()

        def action():
            calls.append(threading.current_thread().name)
            if len(calls) == 3:
                enough.set()

        thread = periodic.PeriodicThread('reader', action, 0.001)
        thread.start()
        self.assertTrue(enough.wait(30))
        thread.stop()
        self.assertEqual({'reader'}, set(calls))
        number = len(calls)
        thread.stop()
        self.assertEqual(number, len(calls))

    def test_stopped_in_a_pause(self):
        """Nobody waits until the pause is over."""
        called = threading.Event()
        thread = periodic.PeriodicThread('reader', called.set, 3600)
        thread.start()
        self.assertTrue(called.wait(30))
        thread.stop()
        self.assertFalse(thread._thread.is_alive())
