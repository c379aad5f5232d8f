# SPDX-License-Identifier: Apache-2.0
"""On how many L3 caches guests will lie."""

import dataclasses
import itertools
from unittest import mock

import ddt
from oslotest import base

from nova_pinning.admission import l3_layout
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.fleet import shapes
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.simulation import cache_forecast
from nova_pinning.simulation import simulation_run
from nova_pinning.tests.oracle import nova_replay


def _study(sizes, guests=40, cores=16, l3_cores=4, threads=1, sockets=1,
           **options):
    """A study of a few small hosts.

    :param cores: of a socket
    """
    shape = dataclasses.replace(
        shapes.SHAPES['two-socket-80'], sockets=sockets, cores=cores,
        threads=threads, l3_cores=l3_cores)
    asked = plan_request.PlanOptions(
        sizes=plan_request.parse_sizes(sizes, errors.Location('--for')),
        **{'host_cpus': 1} | options)
    return cache_forecast.study(
        planner.plan(shape.hardware(), asked), asked, guests_at_full=guests)


def _forecast(share=1.0, ratio=1.0, sold=1.0, cells=4):
    """:param cells: of guests among 32 of hosts; claims of eight take hours"""
    return cache_forecast.CacheForecast(
        setting=cache_forecast.SETTINGS[0], host_cells=32, guests=1,
        sizes=(cache_forecast.SizeCaches(
            plan_model.GuestSize(16, cells=cells),
            l3_layout.GuestCaches(cells, cells), l3_layout.CacheSum()),),
        full=l3_layout.CacheSum(
            1000, round(1000 * ratio), 1000, round(1000 * share)),
        limits=(sold,), nova_limits=(sold,), slow_claims=0.01)


class TestStudy(base.BaseTestCase):

    def test_settings(self):
        found = _study('2:60,4:30,8:10', cores=32).forecasts
        by_name = {forecast.setting.name: forecast for forecast in found}
        self.assertEqual(
            ['as found', 'NPS4', 'L3', 'in order', 'NPS4, in order'],
            list(by_name))
        apart, together = found[0], by_name['L3']
        self.assertEqual(1, apart.host_cells)
        self.assertEqual(8, together.host_cells)
        self.assertEqual((1.0, 1.0), (together.on_fewest, together.ratio))
        # Guests larger than a cache are in several cells then.
        self.assertEqual(
            [(2, 1, (1, 1)), (4, 1, (1, 1)), (8, 2, (2, 2))],
            [(size.size.vcpus, size.size.cells, size.empty)
             for size in together.sizes])
        ordered = by_name['in order']
        self.assertLess(1.0, ordered.ratio)
        for forecast in found:
            self.assertTrue(0.5 < forecast.sold <= 1.0)
            for size in forecast.sizes:
                self.assertLessEqual(size.empty.fewest, size.empty.caches)
                self.assertLess(0, size.full.guests)
            self.assertEqual(forecast.full.caches, sum(
                size.full.caches for size in forecast.sizes))

    def test_order_of_cores(self):
        """Where threads are siblings, nova has cores by their hashes.

        The first guest of 8 vCPUs on cores 1 to 4 in order, those of the
        second cache among them, as CPU 0 and 16 stay with the host.
        """
        # With four caches, NPS4 is a node for each.
        reported, _caches, ordered = _study(
            '8', threads=2, host_cpus=2).forecasts
        self.assertEqual((3, 1), reported.sizes[0].empty)
        self.assertEqual((2, 1), ordered.sizes[0].empty)
        self.assertLess(ordered.ratio, reported.ratio)

    def test_one_cache_to_a_node(self):
        study = _study('2,4', l3_cores=16, sockets=2)
        forecast, = study.forecasts
        self.assertEqual((1.0, 1.0), (forecast.on_fewest, forecast.ratio))
        self.assertIs(forecast, study.proposed)

    def test_size_that_does_not_fit(self):
        """One cell is asked for, which has more CPUs than a cache."""
        study = _study('2:9,8x1:1')
        self.assertEqual(
            ['as found', 'in order'],
            [found.setting.name for found in study.forecasts])
        self.assertIn('a guest of 8 vCPUs in 1 cell does not fit',
                      study.impossible['L3'])

    def test_slow_claims(self):
        """Eight cells of a guest among 16, of which the fullest come first.

        Where the emptiest do, claims are quick, and a little less is sold.
        """
        study = _study('2:80,32:20', cores=64, l3_cores=4)
        by_name = {forecast.setting.name: forecast
                   for forecast in study.forecasts}
        packed, spread = by_name['L3'], by_name['L3, spread']
        self.assertLess(0.0, packed.slow_claims)
        self.assertEqual((0.0, 1.0), (spread.slow_claims, spread.on_fewest))
        self.assertLess(60, packed.worst_claim_seconds)
        self.assertFalse(packed.is_good)
        self.assertTrue(spread.is_good)

    def test_no_pinned_guests(self):
        shape = shapes.SHAPES['two-socket-80']
        self.assertRaisesRegex(
            errors.InputError, 'has no plan for pinned guests',
            cache_forecast.study, shape.hardware(), plan_request.PlanOptions())

    def test_caches_not_known(self):
        hardware = shapes.SHAPES['two-socket-80'].hardware()
        planned = planner.plan(dataclasses.replace(hardware, nodes=tuple(
            dataclasses.replace(node, l3_domains=())
            for node in hardware.nodes)), plan_request.PlanOptions())
        self.assertRaisesRegex(
            errors.InputError, 'which CPUs share an L3 cache',
            cache_forecast.study, planned, plan_request.PlanOptions())

    def test_nova_decides_the_same(self):
        """Its own classes and claims, on the hosts of each setting."""
        simulated = []

        def both(fleet, arrivals, configuration, *, factory, **options):
            first = list(itertools.islice(arrivals, 16))
            by_engine, by_nova = [
                run(fleet, first, configuration, factory=one, **options)
                for one in (factory, nova_replay.NovaReplay)]
            self.assertEqual(by_engine.digest, by_nova.digest)
            self.assertLess(0, by_engine.final_vcpus)
            simulated.append(configuration.packs_cells)
            return by_engine

        run = simulation_run.run
        with mock.patch.object(simulation_run, 'run', both):
            _study('2:80,16:20', guests=10, cores=32, threads=2, host_cpus=2)
        self.assertEqual(10, len(simulated))


@ddt.ddt
class TestProposed(base.BaseTestCase):

    def _proposed(self, *forecasts):
        return forecasts.index(
            cache_forecast.CacheStudy(forecasts, {}).proposed)

    def test_good_as_it_is(self):
        self.assertEqual(0, self._proposed(
            _forecast(share=0.95, ratio=1.05), _forecast()))

    @ddt.data({'sold': 0.97}, {'cells': 8}, {'share': 0.94},
              {'ratio': 1.06})
    def test_first_that_is_good(self, lacking):
        self.assertEqual(2, self._proposed(
            _forecast(share=0.1, ratio=3.0), _forecast(**lacking),
            _forecast(), _forecast()))

    def test_none_is_good(self):
        """The fewest caches, if it sells as much, and claims are quick."""
        self.assertEqual(3, self._proposed(
            _forecast(share=0.1, ratio=3.0), _forecast(sold=0.9),
            _forecast(cells=8), _forecast(share=0.9, ratio=1.2),
            _forecast(share=0.8, ratio=1.3)))

    def test_nothing_is_known(self):
        """No guest came to hosts that were nearly full."""
        nothing = dataclasses.replace(
            _forecast(), full=l3_layout.CacheSum())
        self.assertEqual(0, self._proposed(nothing, nothing))


class TestHosts(base.BaseTestCase):

    def test_domains(self):
        """A cache that several nodes share counts once."""
        shape = dataclasses.replace(
            shapes.SHAPES['two-socket-80'], sockets=1, cells_per_socket=2,
            cores=4, threads=1, l3_cores=8)
        self.assertEqual([(cpuset.CpuSet(range(8)),)] * 2, [
            node.l3_domains for node in shape.hardware().nodes])
