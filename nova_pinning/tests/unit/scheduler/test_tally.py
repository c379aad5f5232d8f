# SPDX-License-Identifier: Apache-2.0
"""What is logged about a request: one line, and the reasons in it."""

import logging
from unittest import mock

from oslotest import base as oslotest

from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.scheduler import selftest
from nova_pinning.scheduler import tally
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


class TestTally(oslotest.BaseTestCase):

    def test_nothing(self):
        self.assertFalse(tally.RefusalTally())

    def test_a_host_that_passes_after_all_is_no_example(self):
        counts = tally.RefusalTally()
        for name in ('host1', 'host2', 'host3'):
            counts.add(name, model.Refusal(Reason.NOVA_SLOW))
        counts.discard('host1')
        self.assertIn('2 hosts: ', str(counts))
        self.assertIn('(host2)', str(counts))
        counts.discard('host3')
        self.assertIn('(host2)', str(counts))
        counts.discard('host2')
        self.assertFalse(counts)
        self.assertEqual('', str(counts))
        counts.add('host4', model.Refusal(Reason.NOVA_SLOW))
        self.assertIn('(host4)', str(counts))

    def test_counts_by_reason_the_most_frequent_first(self):
        counts = tally.RefusalTally()
        counts.add('host1', model.Refusal(Reason.PCI))
        for number in (2, 3):
            counts.add(f'host{number}', model.Refusal.of_cell(0, (
                model.Shortage(0, Reason.FREE_CPUS, 8, number),)))
        self.assertTrue(counts)
        self.assertEqual(
            '2 hosts: too few free dedicated CPUs in any one cell (host2: '
            'cell 0 has 2 free dedicated CPUs, 8 needed); '
            f'1 host: {model.summarise(Reason.PCI)} (host1)', str(counts))

    def test_every_reason(self):
        for reason in Reason:
            for refusal in (model.Refusal(reason),
                            model.Refusal(reason, detail='why')):
                counts = tally.RefusalTally()
                counts.add('host1', refusal)
                self.assertTrue(str(counts).startswith('1 host: '))
                self.assertIn(model.summarise(reason), str(counts))


class TestLog(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        # Whichever test of the process makes the first filter has its line.
        selftest.at_start_up()

    def _states(self, count, pinned=(0, 1)):
        return [
            builders.host_state(f'host{number}', builders.host_topology(
                oracle_cases.host_cell(0, [0, 1], pinned=list(pinned))))
            for number in range(count)]

    def _records(self, kind, states, spec):
        with unit_base.log_records() as records:
            left = list(kind().filter_all(states, spec))
        return left, records

    def test_one_line_for_any_number_of_hosts(self):
        for kind in filters.all_filters():
            lengths = set()
            for count in (1, 2, 300):
                spec = builders.spec(
                    builders.guest_topology((2, 1)),
                    {'pinning:class': 'shared'})
                left, records = self._records(
                    kind, self._states(count), spec)
                self.assertEqual([], left)
                line, = [record for record in records
                         if record.levelno > logging.DEBUG]
                self.assertEqual(logging.INFO, line.levelno)
                text = line.getMessage()
                self.assertIn(spec.instance_uuid, text)
                self.assertIn(kind.__name__, text)
                self.assertIn(f'{count} host', text)
                self.assertIn('host0: ', text)
                lengths.add(len(text))
            self.assertLess(max(lengths) - min(lengths), 5)

    def test_reasons_of_both_filters(self):
        """Those of the first, which left hosts, come with the last."""
        states = self._states(3)
        for state in states[:2]:
            state.aggregates = [builders.aggregate(pinning__class='shared')]
        spec = builders.spec(
            builders.guest_topology((2, 1)), {'hw:cpu_policy': 'dedicated'})
        recorder = mock.Mock(spec_set=metrics_recorder.MetricsRecorder())
        metrics.use(recorder)
        with unit_base.log_records() as records:
            left = list(filters.HostClassFilter().filter_all(states, spec))
            self.assertEqual(states[2:], left)
            self.assertEqual([], [
                record for record in records
                if record.levelno > logging.DEBUG])
            self.assertEqual([], list(
                filters.PinnedTopologyFilter().filter_all(left, spec)))
        line, = [record.getMessage() for record in records
                 if record.levelno > logging.DEBUG]
        self.assertIn('HostClassFilter refused 2 hosts', line)
        self.assertIn('PinnedTopologyFilter refused 1 host', line)
        self.assertIn('a shared host, a dedicated guest', line)
        self.assertIn('0 free dedicated CPUs, 2 needed', line)
        recorder.no_host.assert_called_once_with()

    def test_reasons_of_one_instance_only(self):
        """What another instance of the request met is not told again."""
        spec = builders.spec(
            builders.guest_topology((2, 1)), {'hw:cpu_policy': 'dedicated'})
        shared = self._states(1)
        shared[0].aggregates = [builders.aggregate(pinning__class='shared')]
        list(filters.HostClassFilter().filter_all(shared, spec))
        spec.instance_uuid = 'b6d2a4f0-5c3e-4b8a-9a5e-0d8f4b1c7e21'
        with unit_base.log_records() as records:
            list(filters.PinnedTopologyFilter().filter_all(
                self._states(1), spec))
        self.assertNotIn('HostClassFilter', records[-1].getMessage())
        self.assertIn(spec.instance_uuid, records[-1].getMessage())

    def test_nothing_if_a_host_is_left(self):
        for kind in filters.all_filters():
            states = self._states(3) + self._states(1, ())
            states[-1].aggregates = [
                builders.aggregate(pinning__class='shared')]
            left, records = self._records(kind, states, builders.spec(
                builders.guest_topology((2, 1)),
                {'pinning:class': 'shared'}))
            self.assertEqual(states[-1:], left)
            self.assertEqual([], [
                record for record in records
                if record.levelno > logging.DEBUG])

    def test_nothing_without_hosts(self):
        for kind in filters.all_filters():
            left, records = self._records(kind, [], builders.spec())
            self.assertEqual(([], []), (left, records))

    def test_a_line_a_host_for_those_who_debug(self):
        _left, records = self._records(
            filters.PinnedTopologyFilter, self._states(3),
            builders.spec(builders.guest_topology((2, 1))))
        self.assertEqual(
            ['host0', 'host1', 'host2'],
            [record.args[1] for record in records
             if record.levelno == logging.DEBUG])
        self.assertIn('cell 0 has 0 free dedicated CPUs, 2 needed',
                      records[0].getMessage())

    def test_hosts_are_passed_on_as_they_come(self):
        """Nova may ask for one host after the other."""
        states = self._states(1, ()) + self._states(1)
        found = filters.PinnedTopologyFilter().filter_all(
            iter(states), builders.spec(builders.guest_topology((2, 1))))
        self.assertIs(states[0], next(found))
        self.assertEqual([], list(found))
