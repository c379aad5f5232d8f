# SPDX-License-Identifier: Apache-2.0


import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import scheduler_rules
from nova_pinning.capacity import count
from nova_pinning.capacity import flavor_mix
from nova_pinning.capacity import like_hosts
from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning import model
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.capacity import test_count
from nova_pinning.tests.unit import unit_base


def _mix(hosts, wanted, weights, rules=scheduler_rules.SchedulerRules()):
    places = list(map(like_hosts.Numbering().host,
                      map(host_occupancy.of_host, hosts)))
    counters = [count.Counter(one, judge.AdmissionJudge(rules))
                for one in wanted]
    return flavor_mix.mix(places, counters, [
        [counter.count(place) for place in places] for counter in counters],
        weights)


@strategies.composite
def _fleets(draw, memory_mib):
    hosts, first = [], 0
    for number in range(draw(strategies.integers(1, 3))):
        cells = []
        for cell in range(draw(strategies.integers(1, 2))):
            cpus = range(first, first + draw(strategies.integers(1, 9)))
            first = cpus.stop
            cells.append(builders.host_cell(
                cell, cpus, memory_mib=draw(memory_mib)))
        hosts.append(
            test_count.fleet_host(*cells, name=f'host{number}'))
    return hosts


def _rooms(hosts):
    return [fit.Room.of(cell) for host in hosts for cell in host.cells]


class TestMix(testtools.TestCase):

    def test_number_of_guests(self):
        """Filters count the guests of all flavors together."""
        hosts = [test_count.fleet_host(
            builders.host_cell(0, range(first, first + 20), memory_mib=9000),
            name=f'host{first}') for first in (0, 20)]
        found = _mix(
            hosts, [test_count.wanted(builders.guest((vcpus, 100)))
                    for vcpus in (1, 2)], [1, 1],
            scheduler_rules.SchedulerRules(
                enabled_filters=('NumInstancesFilter',),
                max_instances_per_host=3))
        self.assertEqual(flavor_mix.Mix((3, 3), 6), found)

    @unit_base.settings(150)
    @hypothesis.given(
        _fleets(strategies.sampled_from([400, 900, 5000])),
        strategies.lists(
            strategies.tuples(strategies.integers(1, 6),
                              strategies.sampled_from([100, 200]),
                              strategies.integers(1, 3)),
            min_size=1, max_size=3))
    def test_what_fits_lies_between(self, hosts, sizes):
        """An exact search, for small fleets, is the oracle."""
        found = _mix(
            hosts,
            [test_count.wanted(builders.guest((vcpus, memory_mib)))
             for vcpus, memory_mib, _weight in sizes],
            [weight for _vcpus, _memory_mib, weight in sizes])
        exact = sum(capacity.mix(
            _rooms(hosts), [fit.Size(vcpus, memory_mib)
                            for vcpus, memory_mib, _weight in sizes],
            [weight for _vcpus, _memory_mib, weight in sizes]))
        self.assertLessEqual(found.guests, exact)
        self.assertLessEqual(exact, found.bound)
        self.assertTrue(capacity.packs(
            _rooms(hosts), [fit.Size(vcpus, memory_mib)
                            for vcpus, memory_mib, _weight in sizes],
            found.counts))

    @unit_base.settings(100)
    @hypothesis.given(
        _fleets(strategies.just(10000)),
        strategies.sampled_from([(1, 2, 4), (2, 4, 8), (3, 6), (5,)]))
    def test_exact_where_sizes_divide_each_other(self, hosts, sizes):
        found = _mix(
            hosts, [test_count.wanted(builders.guest((vcpus, 10)))
                    for vcpus in sizes], [1] * len(sizes))
        self.assertTrue(found.is_exact)
        self.assertEqual(
            capacity.mix(_rooms(hosts), list(map(fit.Size, sizes)),
                         [1] * len(sizes)), found.counts)

    def test_each_where_it_leaves_the_least(self):
        host = test_count.fleet_host(
            builders.host_cell(0, range(8)), builders.host_cell(
                1, range(10, 16)))
        self.assertEqual(((2, 1), 3), _mix([host], [
            test_count.wanted(builders.guest((vcpus, 10)))
            for vcpus in (4, 6)], [2, 1]))

    def test_memory_bounds_the_mix(self):
        host = test_count.fleet_host(
            builders.host_cell(0, range(20), memory_mib=1000))
        found = _mix([host], [
            test_count.wanted(builders.guest((1, memory_mib)))
            for memory_mib in (100, 200)], [1, 1])
        self.assertEqual(((4, 3), 7), found)

    def test_guests_of_two_cells(self):
        host = test_count.fleet_host(*[
            builders.host_cell(number, range(10 * number, 10 * number + 8))
            for number in range(3)])
        found = _mix([host], [
            test_count.wanted(builders.guest((4, 10), (4, 10))),
            test_count.wanted(builders.guest((2, 10)))], [1, 1])
        self.assertEqual(((2, 2), 4), found)

    def test_whole_cores(self):
        """Guests with and without them are sure to fit beside each other."""
        host = test_count.fleet_host(builders.host_cell(
            0, range(8), 2, pinned_cpus=[0, 2]))
        found = _mix([host], [
            test_count.wanted(builders.guest(
                (2, 10), thread_policy=model.ThreadPolicy.REQUIRE)),
            test_count.wanted(builders.guest((1, 10)))], [1, 1])
        self.assertEqual(((1, 1), 4), found)

    def test_limits_of_placement(self):
        host = test_count.fleet_host(
            builders.host_cell(0, range(8), memory_mib=1000),
            reserved_memory_mib=500)
        found = _mix([host], [
            test_count.wanted(builders.guest((1, 100)))], [1])
        self.assertEqual(((5,), 5), found)

    def test_guests_without_topology(self):
        host = test_count.fleet_host(
            builders.host_cell(0, (), shared_cpus=range(4)),
            cpu_allocation_ratio=4.0)
        guests = [test_count.wanted(
            vcpus=vcpus, memory_mib=100, guest_class='shared')
            for vcpus in (2, 4)]
        self.assertEqual(((4, 2), 6), _mix([host], guests, [2, 1]))


class TestCanMix(testtools.TestCase):

    def _can(self, guest, requests=()):
        return flavor_mix.can_mix(count.Counter(
            test_count.wanted(guest, requests)))

    def test_which_can(self):
        self.assertTrue(self._can(builders.guest((2, 100), (2, 100))))
        self.assertTrue(self._can(builders.guest((2, 100, 2048))))
        self.assertFalse(self._can(builders.guest((2, 100), (4, 100))))
        self.assertFalse(self._can(builders.floating_guest((2, 100))))
        self.assertFalse(self._can(
            builders.guest((2, 100, model.PAGES_ANY))))
        self.assertFalse(self._can(builders.guest((2, 100)), [
            devices.PciRequest('nic', (), 1)]))
