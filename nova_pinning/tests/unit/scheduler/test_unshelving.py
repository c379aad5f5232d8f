# SPDX-License-Identifier: Apache-2.0
"""Servers that are unshelved with what their last claim has left them."""

import contextlib
from unittest import mock
import uuid

from nova import context as nova_context
from nova import objects
from nova.scheduler import filters as nova_filters
from oslo_db import exception as db_exception

from nova_pinning import model
from nova_pinning.scheduler import filters
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_CROSSED = [oracle_cases.host_cell(0, range(4)),
            oracle_cases.host_cell(1, range(4, 6))]
_EASY = [oracle_cases.host_cell(0, range(2)),
         oracle_cases.host_cell(1, range(2, 6))]
_UNEVEN = [(2, 256), (4, 256)]


def _paged(size_kib):
    return [oracle_cases.host_cell(0, range(2), pages=[
        [4, 1048576, 0, 0], [size_kib, 4194304 // size_kib, 0, 0]])]


class TestUnshelving(unit_base.TestCase, oracle_cases.TestCase):

    def _read(self, answer):
        """Stand in for the database of a cell: a server, or an error."""
        self.enterContext(mock.patch.object(
            nova_context, 'target_cell',
            lambda context, cell: contextlib.nullcontext(context)))
        return self.enterContext(mock.patch.object(
            objects.Instance, 'get_by_uuid', side_effect=[answer]))

    def _left(self, topology, **hosts):
        """Names of the hosts that pass, and what was said last."""
        spec = builders.spec(
            topology, requested_destination=objects.Destination(
                cell=objects.CellMapping(uuid=str(uuid.uuid4()))))
        spec._context = nova_context.get_admin_context()
        states = [builders.host_state(name, builders.host_topology(*cells))
                  for name, cells in hosts.items()]
        with unit_base.log_records() as records:
            left = nova_filters.HostFilterHandler().get_filtered_objects(
                [filters.PinnedTopologyFilter()], states, spec)
        self.said = ' '.join(record.getMessage() for record in records)
        return [state.host for state in left or ()]

    def _server(self, cells, ids, vm_state='shelved_offloaded', **values):
        topology = builders.guest_topology(*cells, **values)
        for cell, cell_id in zip(topology.cells, ids):
            cell.id = cell_id
        return objects.Instance(vm_state=vm_state, numa_topology=topology)

    def test_host_cells_of_the_last_host(self):
        """By these ids nova knows the guest's cells."""
        reading = self._read(self._server(_UNEVEN, [1, 0]))
        self.assertEqual(['easy'], self._left(
            builders.guest_topology(*_UNEVEN), one=_CROSSED, easy=_EASY,
            two=_CROSSED))
        reading.assert_called_once()

    def test_nowhere(self):
        self._read(self._server(_UNEVEN, [-1, -1]))
        self.assertEqual([], self._left(
            builders.guest_topology(*_UNEVEN), host=_CROSSED))
        self.assertIn(model.summarise(model.Reason.NOVA_WRONG), self.said)

    def test_page_size_of_the_last_host(self):
        self._read(self._server([(1, 1024)], [0], pagesize=1048576))
        self.assertEqual(['large'], self._left(
            builders.guest_topology((1, 1024), pagesize=model.PAGES_LARGE),
            small=_paged(2048), large=_paged(1048576)))

    def test_other_moves(self):
        """They claim with what the flavor and the image say."""
        self._read(self._server(_UNEVEN, [1, 0], 'active'))
        self.assertEqual(['host'], self._left(
            builders.guest_topology(*_UNEVEN), host=_CROSSED))

    def test_nothing_is_read_where_it_makes_no_difference(self):
        reading = self._read(None)
        self.assertEqual(['host'], self._left(
            builders.guest_topology((1, 1024), pagesize=2048),
            host=_paged(2048)))
        self.assertEqual(['host'], self._left(None, host=_CROSSED))
        reading.assert_not_called()

    def test_a_database_that_cannot_be_read(self):
        """It is asked once, and no host is taken on trust."""
        reading = self._read(db_exception.DBConnectionError('gone away'))
        self.assertEqual([], self._left(
            builders.guest_topology(*_UNEVEN), one=_EASY, two=_EASY))
        reading.assert_called_once()
        self.assertIn('whether it is unshelved cannot be told', self.said)
        self.assertIn('gone away', self.said)
