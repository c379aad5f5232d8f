# SPDX-License-Identifier: Apache-2.0

import itertools
import math
import statistics

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.bridge.offline import flavor_request
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests
from nova_pinning.tests.unit import unit_base

SMALL, LARGE = guests.plain(2, 4096), guests.plain(16, 32768)
MIX = ((SMALL, 3.0), (LARGE, 1.0))

EXPECTED = [
    (28.451, 'a0', 'dedicated-16x32768', 6694.641),
    (43.918, 'a1', 'dedicated-2x4096', 20003.312),
    (79.419, 'a2', 'dedicated-2x4096', 9751.108),
]


def _load(**values):
    return arrival_process.PoissonArrivals(
        **{'mix': MIX, 'count': 4000, 'rate_per_hour': 100.0,
           'lifetime_hours': 5.0, **values})


class TestArrivals(testtools.TestCase):

    def test_known_draws(self):
        # Pinned: the same seed gives the same arrivals on any machine.
        found = [(arrival.time_seconds, arrival.id, arrival.request.name,
                  arrival.lifetime_seconds)
                 for arrival in _load(count=3).arrivals(7)]
        self.assertEqual(EXPECTED, found)

    def test_seeds_differ(self):
        first, second = (list(_load().arrivals(seed)) for seed in (1, 2))
        self.assertNotEqual(first, second)
        self.assertEqual(first, list(_load().arrivals(1)))

    def test_mix_does_not_change_times(self):
        other = _load(mix=((SMALL, 1.0),))
        self.assertEqual(
            [(arrival.time_seconds, arrival.lifetime_seconds)
             for arrival in _load().arrivals(3)],
            [(arrival.time_seconds, arrival.lifetime_seconds)
             for arrival in other.arrivals(3)])

    def test_constant_rate(self):
        *_, last = _load().arrivals(1)
        # 4,000 arrivals take 40 hours; the deviation of their sum is 1.6 %.
        self.assertLess(abs(last.time_seconds / 3600 - 40), 2)

    def test_shares(self):
        found = list(_load().arrivals(1))
        small = sum(one.request is SMALL for one in found)
        self.assertLess(abs(small / len(found) - 0.75), 0.03)

    @hypothesis.given(strategies.integers(0, 10 ** 6),
                      strategies.sampled_from((0.2, 0.5, 1.0, 2.0, 5.0)))
    @unit_base.settings(40)
    def test_times_rise(self, seed, rises_to):
        times = [
            arrival.time_seconds
            for arrival in _load(count=200, rises_to=rises_to).arrivals(seed)]
        self.assertEqual(sorted(times), times)

    def test_rising_rate(self):
        # From 100 an hour to 300: 4,000 arrivals take 20 hours, of which a
        # half gets 1,500.
        times = [arrival.time_seconds / 3600
                 for arrival in _load(rises_to=3.0).arrivals(1)]
        self.assertLess(abs(times[-1] - 20), 1)
        self.assertLess(abs(sum(time < 10 for time in times) - 1500), 120)


@ddt.ddt
class TestLifetimes(testtools.TestCase):

    @ddt.data(arrival_process.EXPONENTIAL, arrival_process.LOG_NORMAL)
    def test_mean(self, lifetimes):
        found = [arrival.lifetime_seconds / 3600 for arrival in _load(
            lifetimes=lifetimes, count=20000, sigma=0.8).arrivals(1)]
        self.assertLess(abs(statistics.fmean(found) - 5), 0.2)
        self.assertGreaterEqual(min(found), 0)

    def test_spread(self):
        found = [math.log(arrival.lifetime_seconds) for arrival in _load(
            lifetimes=arrival_process.LOG_NORMAL, sigma=0.8).arrivals(1)]
        self.assertLess(abs(statistics.stdev(found) - 0.8), 0.05)

    def test_forever(self):
        self.assertEqual({None}, {
            arrival.lifetime_seconds for arrival in _load(
                lifetimes=arrival_process.FOREVER).arrivals(1)})


class TestRisingLoad(testtools.TestCase):

    def test_offered(self):
        load = arrival_process.rising_load(MIX, 1100, first=0.5, last=1.5,
                                           turnovers=10)
        # 5.5 vCPUs a guest: 200 guests are all the CPUs.
        self.assertEqual(100.0, load.rate_per_hour)
        self.assertEqual(3.0, load.rises_to)
        self.assertEqual(2000, load.count)


class TestPlain(testtools.TestCase):

    def test_dedicated(self):
        found = guests.plain(8, 4096, cells=2)
        self.assertEqual(
            [(4, 2048), (4, 2048)],
            [(demand.dedicated, demand.memory_mib)
             for demand in found.topology.demands])
        self.assertEqual(
            [{'PCPU': 8, 'MEMORY_MB': 4096}, {'VCPU': 8, 'MEMORY_MB': 4096}],
            [query.resources for query in found.queries])

    def test_shared(self):
        found = guests.plain(8, 4096, hostclass.HostClass.SHARED)
        self.assertIsNone(found.topology)
        self.assertEqual([{'VCPU': 8, 'MEMORY_MB': 4096}],
                         [query.resources for query in found.queries])

    def test_as_nova_reads_the_flavor(self):
        """The flavor that comes with it asks for the very same."""
        for guest_class, cells, page_size_kib in itertools.product(
                hostclass.HostClass, (1, 2), (None, -1, -2, -3, 2048)):
            found = guests.plain(8, 4096, guest_class, cells, page_size_kib)
            by_nova = flavor_request.request_for(flavor_model.Flavor(
                name=found.name, vcpus=8, memory_mib=4096,
                extra_specs=dict(found.extra_specs)))
            self.assertEqual(
                (by_nova.guest_class, by_nova.topology,
                 [query.resources for query in by_nova.queries]),
                (found.guest_class, found.topology,
                 [query.resources for query in found.queries]))

    def test_names(self):
        self.assertEqual(
            ['dedicated-8x4096', 'dedicated-8x4096-2-cells-1GiB-pages',
             'dedicated-8x4096-large-pages'],
            [guests.plain(8, 4096).name,
             guests.plain(8, 4096, cells=2, page_size_kib=1048576).name,
             guests.plain(8, 4096, page_size_kib=-2).name])
