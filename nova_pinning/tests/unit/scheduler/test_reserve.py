# SPDX-License-Identifier: Apache-2.0
"""Hosts that are kept for guests of lost hosts."""

import subprocess
import sys
from unittest import mock
import uuid

import ddt
from nova import exception
from nova import objects
from nova.scheduler import filters as nova_filters

from nova_pinning.scheduler import filters
from nova_pinning.scheduler import reserve
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


def _state(name, use=None, cpus=4, **metadata):
    if use is not None:
        metadata['pinning__reserve'] = use
    return builders.host_state(
        name, builders.host_topology(oracle_cases.host_cell(0, range(cpus))),
        aggregates=[builders.aggregate(**metadata)])


def _spec(left='', **values):
    """A new guest, or one that leaves a host."""
    if left:
        values |= {'ignore_hosts': [left], 'requested_destination':
                   objects.Destination(cell=objects.CellMapping(
                       uuid=str(uuid.uuid4())))}
    return builders.spec(builders.guest_topology((2, 64)), **values)


@ddt.ddt
class TestReserve(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.filter = filters.PinnedTopologyFilter()
        self.addCleanup(reserve.forget)
        patch = mock.patch.object(
            reserve, '_is_down', lambda host: host == 'lost')
        patch.start()
        self.addCleanup(patch.stop)

    def left(self, spec, *states):
        return [state.host for state in
                nova_filters.HostFilterHandler().get_filtered_objects(
                    [self.filter], list(states), spec)]

    @ddt.data(
        ('evacuations', ['a']), ('last', ['a']), ('Last', ['a']),
        ('evacuation', ['a']))
    @ddt.unpack
    def test_beside_others(self, use, expected):
        self.assertEqual(expected, self.left(
            _spec(), _state('kept', use), _state('a')))
        # One that is moved off a host that is well is like a new one.
        self.assertEqual(expected, self.left(
            _spec('well'), _state('kept', use), _state('a')))

    @ddt.data(('evacuations', []), ('last', ['kept']), ('evacuation', []),
              ('', []))
    @ddt.unpack
    def test_where_no_other_is_left(self, use, expected):
        with unit_base.log_records() as records:
            self.assertEqual(expected, self.left(
                _spec(), _state('kept', use), _state('full', cpus=1)))
        said = ' '.join(record.getMessage() for record in records)
        self.assertIn('the host is kept for guests of lost hosts', said)

    @ddt.data('evacuations', 'last')
    def test_guests_of_a_lost_host(self, use):
        self.assertEqual(['kept', 'a'], self.left(
            _spec('lost'), _state('kept', use), _state('a')))
        self.assertEqual([], self.left(
            _spec('lost'), _state('kept', use, cpus=1)))

    def test_state_is_asked_once_for_a_request(self):
        with mock.patch.object(reserve, '_is_down',
                               return_value=False) as asked:
            self.left(_spec('well'), *[
                _state(name, 'evacuations') for name in 'abc'])
        self.assertEqual(1, asked.call_count)

    def test_several_reserves_of_one_host(self):
        state = _state('kept', 'last')
        state.aggregates.append(builders.aggregate(
            'other', pinning__reserve='evacuations'))
        self.assertEqual([], self.left(_spec(), state))

    def test_guests_without_numa_topology(self):
        """They are not pinned, and last choices are for who is."""
        spec = builders.spec(None)
        self.assertEqual(['a'], self.left(
            spec, _state('kept', 'last'), _state('a')))
        self.assertEqual([], self.left(
            builders.spec(None), _state('kept', 'last')))

    def test_nova_cannot_be_asked(self):
        """What goes by the option on_error, as for any other error."""
        with mock.patch.object(reserve, '_is_down', side_effect=OSError):
            self.assertEqual(['a'], self.left(
                _spec('lost'), _state('kept', 'last'), _state('a')))

    def test_is_loaded_for_those_who_keep_one(self):
        subprocess.run([sys.executable, '-W', 'ignore', '-c', (
            'import sys; from nova_pinning.scheduler import filters; '
            'assert "nova_pinning.scheduler.reserve" not in sys.modules')],
            check=True)


@ddt.ddt
class TestLostHosts(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()
        reserve.forget()
        self.addCleanup(reserve.forget)
        self.found = self.mock(objects.HostMapping, 'get_by_host')
        self.found.return_value = mock.Mock(cell_mapping=None)
        self.service = self.mock(objects.Service, 'get_by_compute_host')
        target = self.mock(reserve.nova_context, 'target_cell')
        target.return_value.__enter__.return_value = None
        self.is_up = self.mock(reserve.servicegroup, 'API')

    def mock(self, place, name):
        patch = mock.patch.object(place, name)
        self.addCleanup(patch.stop)
        return patch.start()

    @ddt.data(True, False)
    def test_state_of_the_service(self, is_up):
        self.is_up.return_value.service_is_up.return_value = is_up
        self.assertEqual([not is_up] * 2, [
            reserve.is_lost('h'), reserve.is_lost('h')])
        # One that is well may be lost at any moment.
        self.assertEqual(1 + is_up, self.found.call_count)
        reserve.is_lost('other')
        self.assertEqual(2 + is_up, self.found.call_count)

    def test_service_that_is_gone(self):
        self.service.return_value = None
        self.assertTrue(reserve.is_lost('h'))

    def test_host_that_nobody_knows(self):
        self.found.side_effect = exception.HostMappingNotFound(name='h')
        self.assertFalse(reserve.is_lost('h'))
