# SPDX-License-Identifier: Apache-2.0
"""One fit for each host and request, whoever asks for it."""

import gc
from unittest import mock
import weakref

from nova.scheduler import filters as nova_filters
from nova.scheduler import weights as nova_weights

from nova_pinning.fit import _cells
from nova_pinning.fit import _pins
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import weights
from nova_pinning.tests import runner
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


class _Scheduler:
    """Nova's handlers with our filters and weighers."""

    def __init__(self):
        self.filters = [kind() for kind in filters.all_filters()]
        self.weighers = [kind() for kind in weights.all_weighers()]

    def select(self, states, spec):
        """The hosts that are left, best first."""
        left = nova_filters.HostFilterHandler().get_filtered_objects(
            self.filters, states, spec)
        return [weighed.obj for weighed in
                nova_weights.HostWeightHandler().get_weighed_objects(
                    self.weighers, left, spec)]


def _state(name, free=8):
    return builders.host_state(name, builders.host_topology(
        oracle_cases.host_cell(0, range(8), pinned=range(free, 8),
                               memory=8192),
        oracle_cases.host_cell(1, range(8, 16), pinned=range(8, 16),
                               memory=8192)))


def _spec(vcpus=4):
    return builders.spec(builders.guest_topology((vcpus, 256)))


class TestSharing(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.fits = self.enterContext(mock.patch.object(
            _cells, 'choose_cells', wraps=_cells.choose_cells))
        self.pins = self.enterContext(mock.patch.object(
            _pins, 'pin', wraps=_pins.pin))

    def test_one_fit_a_host(self):
        states = [_state(f'host{number}') for number in range(5)]
        found = _Scheduler().select([*states, _state('full', 0)], _spec())
        self.assertEqual({state.host for state in states},
                         {state.host for state in found})
        self.assertEqual(6, self.fits.call_count)
        # CPUs are chosen for hosts that passed, and once.
        self.assertEqual(5, self.pins.call_count)

    def test_a_request_anew_is_fitted_anew(self):
        states = [_state('host1'), _state('host2')]
        scheduler = _Scheduler()
        for _request in range(2):
            scheduler.select(states, _spec())
        self.assertEqual(4, self.fits.call_count)

    def test_without_the_filter_the_weighers_share(self):
        states = [_state('host1'), _state('host2')]
        scheduler = _Scheduler()
        scheduler.filters = []
        scheduler.select(states, _spec())
        self.assertEqual(2, self.fits.call_count)

    def test_asked_again_by_the_filter_itself(self):
        state, spec = _state('host1'), _spec()
        chosen = filters.PinnedTopologyFilter()
        for _again in range(3):
            self.assertTrue(chosen.host_passes(state, spec))
        self.assertEqual(1, self.fits.call_count)

    def test_several_instances_of_one_request(self):
        """Only the host that took one is looked at again."""
        states = [_state('host1'), _state('host2', 4)]
        spec = _spec()
        scheduler = _Scheduler()
        taken = []
        for _instance in range(3):
            best = scheduler.select(states, spec)[0]
            taken.append(best.host)
            best.consume_from_request(spec)
        self.assertEqual(['host1', 'host1', 'host2'], sorted(taken))
        self.assertEqual([], scheduler.select(states, spec))
        self.assertEqual(2 + 3, self.fits.call_count)
        for state in states:
            self.assertEqual(
                set(), state.numa_topology.cells[0].free_pcpus)

    def test_the_next_instance_asks_for_the_same(self):
        """Nova leaves its own answer in the request, or None if it had none.

        With that the next one would need the page size of the first.
        """
        large = [
            builders.host_state(name, builders.host_topology(
                oracle_cases.host_cell(0, range(4),
                                       pages=[[4, 1024, 0, 0], pool])))
            for name, pool in (('2M', [2048, 128, 0, 0]),
                               ('1G', [1048576, 1, 0, 0]))]
        spec = builders.spec(builders.guest_topology(
            (1, 256), pagesize=-2))
        found = _Scheduler().select(large[:1], spec)
        found[0].consume_from_request(spec)
        self.assertEqual(2048, spec.numa_topology.cells[0].pagesize)
        chosen = filters.PinnedTopologyFilter()
        large[1].numa_topology.cells[0].mempages[1].total = 1
        self.assertFalse(chosen.host_passes(large[1], spec))
        large[1].numa_topology = builders.host_topology(oracle_cases.host_cell(
            0, range(4), pages=[[4, 1024, 0, 0], [1024, 1024, 0, 0]]))
        self.assertTrue(chosen.host_passes(large[1], spec))
        spec.numa_topology = None
        self.assertFalse(chosen.host_passes(
            builders.host_state('none', None), spec))

    def test_a_topology_that_is_replaced(self):
        state, spec = _state('host1'), _spec()
        chosen = filters.PinnedTopologyFilter()
        self.assertTrue(chosen.host_passes(state, spec))
        state.numa_topology = _state('host1', 3).numa_topology
        self.assertFalse(chosen.host_passes(state, spec))
        self.assertEqual(2, self.fits.call_count)

    def test_candidates_are_fitted_each(self):
        state, spec = _state('host1'), _spec()
        state.allocation_candidates = [{'mappings': {}}] * 3
        filters.PinnedTopologyFilter().host_passes(state, spec)
        # Without devices in the request they cannot differ.
        self.assertEqual(1, self.fits.call_count)
        self.assertEqual(3, len(state.allocation_candidates))

    def test_nothing_is_kept_of_a_request_that_is_gone(self):
        runner.freeze(self)
        state, spec = _state('host1'), _spec()
        filters.PinnedTopologyFilter().host_passes(state, spec)
        known = weakref.ref(spec)
        before = len(requests._known)
        del spec
        gc.collect()
        self.assertIsNone(known())
        self.assertLess(len(requests._known), before)


class TestPlacement(unit_base.TestCase, oracle_cases.TestCase):

    def test_what_nova_would_do_is_what_is_weighed(self):
        """Where nova's answer differs from ours, weighers look at nova's."""
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0], memory=256,
                                    pages=[[4, 65536, 0, 0],
                                           [2048, 192, 0, 0]]),
             oracle_cases.host_cell(1, [], pages=[[4, 65536, 0, 0]])],
            oracle_cases.guest((1, 256), pagesize=-3), pack=True)
        with case.configured():
            state, spec = builders.scheduled(case)
            placement = fitting.fit_on_host(state, requests.read(spec))
        self.assertEqual(4, placement.fit.cells[0].page_size_kib)

    def test_no_topology_asked_for(self):
        self.assertIsNone(fitting.fit_on_host(
            builders.host_state(), requests.read(builders.spec())))

    def test_hosts_with_like_ratios_share_their_limits(self):
        request = requests.read(_spec())
        places = [fitting.fit_on_host(_state(name), request) for name in 'abc']
        self.assertIs(places[0].limits, places[1].limits)
        other = _state('d')
        other.cpu_allocation_ratio = 1.0
        limits = fitting.fit_on_host(other, request).limits
        self.assertEqual(1.0, limits.cpu_allocation_ratio)
        self.assertEqual(16.0, places[0].limits.cpu_allocation_ratio)
