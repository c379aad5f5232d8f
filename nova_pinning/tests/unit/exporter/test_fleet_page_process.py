# SPDX-License-Identifier: Apache-2.0

import dataclasses
import importlib.metadata

from nova_pinning import errors
from nova_pinning.exporter import fleet_page_process
from nova_pinning.tests.unit.presentation.fleet_page import page_cases
from nova_pinning.tests.unit import unit_base


class TestFleetPageMaker(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        entry_points = importlib.metadata.distribution(
            'nova-pinning').entry_points
        if 'fleet_report' not in entry_points.names:
            self.skipTest('nova-pinning is installed without fleet report')

    def test_page(self):
        """As the command makes it, and kept while it is young."""
        fleet = page_cases.fleet(2)
        maker = fleet_page_process.FleetPageMaker(3600)
        made = maker(fleet)
        self.assertIn(fleet.hosts[0].name, made)
        self.assertIn('Content-Security-Policy', made)
        self.assertIs(made, maker(dataclasses.replace(fleet, guests=())))

    def test_failure(self):
        """It is told, and tried again the next time."""
        fleet = page_cases.fleet(2)
        maker = fleet_page_process.FleetPageMaker(3600)
        error = self.assertRaises(
            errors.InputError, maker,
            dataclasses.replace(fleet, hosts=(), guests=()))
        self.assertIn('has no hosts', str(error))
        self.assertIn(fleet.hosts[0].name, maker(fleet))
