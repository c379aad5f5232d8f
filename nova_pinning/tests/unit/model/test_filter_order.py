# SPDX-License-Identifier: Apache-2.0

import ddt
from oslotest import base

from nova_pinning.model import filter_order


@ddt.ddt
class TestFilterOrder(base.BaseTestCase):

    @ddt.data([], ['NUMATopologyFilter', 'HostClassFilter'],
              ['PinnedTopologyFilter'],
              ['NUMATopologyFilter', 'PinnedTopologyFilter'],
              ['PinnedTopologyFilter', 'PinnedTopologyFilter'])
    def test_an_order_that_is_right(self, names):
        self.assertEqual('', filter_order.what_is_wrong(names))

    @ddt.data(
        (['A', 'PinnedTopologyFilter', 'B'], 'enabled_filters has B',
         'A, B, PinnedTopologyFilter'),
        (['PinnedTopologyFilter', 'HostClassFilter', 'NUMATopologyFilter'],
         'enabled_filters has HostClassFilter, NUMATopologyFilter',
         'HostClassFilter, PinnedTopologyFilter'),
        # It runs twice, and the first time counts.
        (['PinnedTopologyFilter', 'A', 'PinnedTopologyFilter'],
         'enabled_filters has A', 'A, PinnedTopologyFilter'))
    @ddt.unpack
    def test_filters_that_come_later(self, names, what, line):
        wrong = filter_order.what_is_wrong(names)
        self.assertEqual(
            f'{what} after PinnedTopologyFilter, which has to be the last: '
            f'write enabled_filters = {line}', wrong)
        self.assertEqual('', filter_order.what_is_wrong(line.split(', ')))
