# SPDX-License-Identifier: Apache-2.0

import ddt
from nova.scheduler import filters
from oslotest import base

from minicloud import nova
from nova_pinning import errors
from nova_pinning.fleet import filter_names

WHERE = errors.Location('nova.conf')


@ddt.ddt
class TestFilterNames(base.BaseTestCase):

    def test_all_that_there_are(self):
        """None of any release is taken for a misspelt one."""
        shipped = [one.__name__ for one in filters.all_filters()]
        self.assertIn('NUMATopologyFilter', shipped)
        for name in (*shipped, *nova.FILTERS):
            filter_names.check([name], WHERE)

    @ddt.data('AggregateTopologyFilter', 'SocketTopologyFilter',
              'HostStateFilter', 'GoldHostFilter', '')
    def test_those_of_others(self, name):
        filter_names.check([name], WHERE)

    @ddt.data(
        ('HostClasFilter', 'HostClassFilter'),
        ('HostsClassFilter', 'HostClassFilter'),
        ('HostclassFilter', 'HostClassFilter'),
        ('hostclassfilter', 'HostClassFilter'),
        ('HostClassFilters', 'HostClassFilter'),
        ('PinedTopologyFilter', 'PinnedTopologyFilter'),
        ('PinnedToplogyFilter', 'PinnedTopologyFilter'),
        ('NumaTopologyFilter', 'NUMATopologyFilter'),
        ('NUMATopologFilter', 'NUMATopologyFilter'))
    @ddt.unpack
    def test_misspelt(self, name, right):
        error = self.assertRaises(
            errors.InputError, filter_names.check,
            ['ComputeFilter', name, 'PinnedTopologyFilter'], WHERE)
        self.assertEqual(WHERE, error.where)
        self.assertIn(name, error.message)
        self.assertEqual(f'write {right}', error.advice)

    @ddt.data(
        ('nova_pinning.scheduler.filters.HostClassFilter', 'HostClassFilter'),
        ('nova_pinning.scheduler.filters.HostClasFilter', 'HostClassFilter'),
        ('nova.scheduler.filters.compute_filter.ComputeFilter',
         'ComputeFilter'))
    @ddt.unpack
    def test_with_their_modules(self, name, right):
        """Nova-scheduler does not start with these."""
        error = self.assertRaises(
            errors.InputError, filter_names.check, [name], WHERE)
        self.assertIn('without their modules', error.message)
        self.assertEqual(f'write {right}', error.advice)
