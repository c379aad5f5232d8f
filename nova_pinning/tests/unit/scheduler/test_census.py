# SPDX-License-Identifier: Apache-2.0
"""The count of hosts where the database of a cell fails."""

import contextlib
import itertools
from unittest import mock

from nova import context as nova_context
from nova.db.main import api as main_db
from nova import objects
from oslo_utils.fixture import uuidsentinel

from nova_pinning.scheduler import census
from nova_pinning.tests.unit import unit_base

_KVM = {'hypervisor_type': 'QEMU', 'numa_topology': None}


class TestFailingCells(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()
        self.cells = [objects.CellMapping(
            id=number, uuid=objects.CellMapping.CELL0_UUID if name == 'cell0'
            else getattr(uuidsentinel, name), name=name, disabled=False)
            for number, name in enumerate(('cell0', 'north', 'south'))]
        for target, name, value in (
                (objects.CellMappingList, 'get_all',
                 lambda _context: self.cells),
                (objects.AggregateList, 'get_all', lambda _context: []),
                (nova_context, 'target_cell',
                 lambda _context, cell: contextlib.nullcontext(cell.name)),
                (main_db, 'compute_node_get_all_by_pagination', self._page)):
            self.enterContext(mock.patch.object(target, name, value))
        self.hosts = {'north': 2, 'south': 3}
        self.broken = {}
        self.census = census.HostCensus()

    def _page(self, name, limit, marker):
        """A page of one row, of a cell that may break after some rows."""
        number = (marker or 0) + 1
        if number > self.broken.get(name, 9):
            raise OSError(f'{name} is gone')
        return [{**_KVM, 'id': number, 'uuid': f'{name}-{number}',
                 'host': f'{name}-{number}'}][:number <= self.hosts[name]]

    def _note(self):
        """:returns: the lines of the log by level, and how many it counts"""
        with unit_base.log_records(census.__name__) as records:
            self.census.note(set())
        said = {level: [record.getMessage() for record in group]
                for level, group in itertools.groupby(
                    records, key=lambda record: record.levelname)}
        return said, self.census.counts and sum(self.census.counts.values())

    def test_the_others_count(self):
        self.broken['south'] = 1
        said, count = self._note()
        self.assertEqual(2, count)
        self.assertIn(f'of cell {uuidsentinel.south}(south)', said['ERROR'][0])
        self.assertIn('0 of 2 hosts are marked', said['WARNING'][0])
        self.assertIn('cannot be read, are missing or as they were before: '
                      f'{uuidsentinel.south}(south)', said['WARNING'][0])
        # Said once. It is tried again each time until it is there.
        self.assertEqual(({}, 2), self._note())
        self.broken.clear()
        said, count = self._note()
        self.assertEqual((['WARNING'], 5), (list(said), count))
        self.assertNotIn('south', said['WARNING'][0])

    def test_what_was_counted_before_stays(self):
        self.assertEqual(5, self._note()[1])
        self.broken['north'] = 0
        self.enterContext(mock.patch.object(census, '_PAUSE_SECONDS', 0))
        self.hosts['south'] = 4
        said, count = self._note()
        self.assertEqual(6, count)
        self.assertIn(f'{uuidsentinel.north}(north)', said['WARNING'][0])

    def test_none_can_be_read(self):
        self.broken.update(north=0, south=0)
        said, count = self._note()
        self.assertEqual((None, ['ERROR']), (count, list(said)))
        self.broken.clear()
        self.assertEqual(5, self._note()[1])

    def test_no_cells_yet(self):
        """What is found once there are some is the first that is said."""
        cells, self.cells = self.cells, []
        self.assertEqual(({}, None), self._note())
        self.cells = cells
        said, count = self._note()
        self.assertEqual((['WARNING'], 5), (list(said), count))
