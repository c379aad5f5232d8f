# SPDX-License-Identifier: Apache-2.0
"""That nova-scheduler finds what the documentation says to configure."""

from nova import exception
from nova.scheduler import filters as nova_filters
from nova.scheduler import weights as nova_weights
from oslotest import base as oslotest

from nova_pinning.scheduler import filters
from nova_pinning.scheduler import weights


class TestLoading(oslotest.BaseTestCase):

    def _filters(self, *names):
        return nova_filters.HostFilterHandler().get_matching_classes(names)

    def _weighers(self, *names):
        return nova_weights.HostWeightHandler().get_matching_classes(names)

    def test_filters_one_by_one(self):
        path = 'nova_pinning.scheduler.filters'
        self.assertEqual(
            [filters.PinnedTopologyFilter, filters.HostClassFilter],
            self._filters(f'{path}.PinnedTopologyFilter',
                          f'{path}.HostClassFilter'))

    def test_all_filters(self):
        self.assertEqual(
            [filters.PinnedTopologyFilter, filters.HostClassFilter],
            self._filters('nova_pinning.scheduler.filters.all_filters'))

    def test_weighers_one_by_one(self):
        path = 'nova_pinning.scheduler.weights'
        self.assertEqual(
            [weights.FragmentationWeigher, weights.CacheLocalityWeigher],
            self._weighers(f'{path}.FragmentationWeigher',
                           f'{path}.CacheLocalityWeigher'))

    def test_all_weighers(self):
        found = self._weighers(
            'nova.scheduler.weights.all_weighers',
            'nova_pinning.scheduler.weights.all_weighers')
        self.assertEqual(
            [weights.FragmentationWeigher, weights.CacheLocalityWeigher],
            found[-2:])
        self.assertGreater(len(found), 2)

    def test_beside_novas_own(self):
        """Filters are enabled by the names of their classes."""
        found = self._filters(
            'nova.scheduler.filters.all_filters',
            'nova_pinning.scheduler.filters.all_filters')
        names = [one.__name__ for one in found]
        self.assertEqual(sorted(set(names)), sorted(names))
        self.assertIn('NUMATopologyFilter', names)

    def test_all_can_be_made(self):
        for kind in (*filters.all_filters(), *weights.all_weighers()):
            kind()

    def test_the_base_classes_are_none_to_load(self):
        path = 'nova_pinning.scheduler'
        self.assertRaises(TypeError, *self._filters(
            f'{path}.reasoned.ReasonedFilter'))
        self.assertRaises(
            exception.ClassNotFound, self._weighers,
            f'{path}.weights._FitWeigher')

    def test_run_when_novas_do(self):
        for kind in filters.all_filters():
            self.assertFalse(kind.RUN_ON_REBUILD)
            self.assertFalse(kind.run_filter_once_per_request)
