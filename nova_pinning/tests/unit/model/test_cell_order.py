# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from oslotest import base as oslotest

from nova_pinning.model import cell_order
from nova_pinning.model.cell_order import CellOrder
from nova_pinning.model import nova_release


class TestCellOrder(oslotest.BaseTestCase):

    def test_releases(self):
        """What each release's own claims showed; see release_claims."""
        self.assertEqual(
            {'2024.1': CellOrder.ANY_DEVICES, '2024.2': CellOrder.ANY_DEVICES,
             '2025.1': CellOrder.ANY_DEVICES, '2025.2': CellOrder.ANY_DEVICES,
             '2026.1': CellOrder.ANY_DEVICES,
             '2026.2': CellOrder.FEWEST_DEVICES},
            {release.name: cell_order.of_release(release.name)
             for release in nova_release.RELEASES})

    def test_versions_that_no_release_has(self):
        for version, order in (
                (None, CellOrder.UNKNOWN), (0, CellOrder.ANY_DEVICES),
                (69, CellOrder.ANY_DEVICES), (71, CellOrder.ANY_DEVICES),
                (73, CellOrder.UNKNOWN), (75, CellOrder.FEWEST_DEVICES)):
            self.assertIs(order, cell_order.of_service_version(version),
                          version)

    def test_no_release_is_taken_for_the_newest(self):
        self.assertIs(CellOrder.FEWEST_DEVICES, cell_order.of_release(None))

    def test_where_point_releases_differ(self):
        """The service version does not tell which of them it is."""
        with mock.patch.object(cell_order, 'PARTLY_FIXED', frozenset(
                [nova_release.of_name('2026.1')])):
            self.assertIs(CellOrder.UNKNOWN,
                          cell_order.of_service_version(72))
            self.assertIs(CellOrder.ANY_DEVICES,
                          cell_order.of_service_version(70))
