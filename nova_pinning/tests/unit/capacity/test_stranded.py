# SPDX-License-Identifier: Apache-2.0


import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.admission import host_occupancy
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import stranded
from nova_pinning import model
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.capacity import test_count
from nova_pinning.tests.unit import unit_base

Cause = count.CapacityCause


def _find(host, wanted):
    place = like_hosts.Numbering().host(host_occupancy.of_host(host))
    counters = [count.Counter(one) for one in wanted]
    return stranded.StrandedFinder(counters).on_host(
        place, [counter.count(place) for counter in counters])


def _least(occupancy, wanted, known):
    """The fewest CPUs and the least memory that guests can leave free."""
    cells = occupancy.engine.cells
    key = tuple((cell.pinned_cpus, cell.memory_used_mib) for cell in cells)
    if key not in known:
        cpus = sum(cell.free_count for cell in cells)
        memory_mib = sum(
            cell.memory_mib - cell.memory_used_mib for cell in cells)
        for one in wanted:
            fit = placing.verdict(occupancy, one)
            if fit:
                after = _least(
                    placing.with_guest(occupancy, one, fit), wanted, known)
                cpus = min(cpus, after[0])
                memory_mib = min(memory_mib, after[1])
        known[key] = cpus, memory_mib
    return known[key]


@strategies.composite
def _hosts(draw):
    cells, first = [], 0
    for number in range(draw(strategies.integers(1, 2))):
        cpus = range(first, first + 2 * draw(strategies.integers(1, 4)))
        first = cpus.stop
        cells.append(builders.host_cell(
            number, cpus, draw(strategies.sampled_from([1, 2])),
            pinned_cpus=draw(strategies.sets(
                strategies.sampled_from(cpus), max_size=3)),
            memory_mib=draw(strategies.sampled_from([500, 1000, 9000]))))
    return test_count.fleet_host(*cells)


_FLAVORS = strategies.lists(strategies.builds(
    lambda cells, vcpus, memory_mib, policy: test_count.wanted(
        builders.guest(*[(vcpus, memory_mib)] * cells,
                       thread_policy=policy)),
    strategies.sampled_from([1, 1, 2]), strategies.integers(1, 5),
    strategies.sampled_from([100, 300]),
    strategies.sampled_from([model.ThreadPolicy.PREFER,
                             model.ThreadPolicy.REQUIRE])),
    min_size=1, max_size=2)


class TestStranded(testtools.TestCase):

    @unit_base.settings(150)
    @hypothesis.given(_hosts(), _FLAVORS)
    def test_no_guests_leave_less(self, host, wanted):
        found = _find(host, wanted)
        cpus, memory_mib = _least(
            host_occupancy.of_host(host), wanted, {})
        self.assertLessEqual(found.stranded_cpus, cpus)
        self.assertLessEqual(sum(found.memory_mib.values()), memory_mib)

    @unit_base.settings(60)
    @hypothesis.given(_hosts(), strategies.sets(
        strategies.integers(1, 5), min_size=1, max_size=2))
    def test_exact_where_only_cpus_matter(self, host, sizes):
        wanted = [test_count.wanted(builders.guest((size, 1)))
                  for size in sizes]
        self.assertEqual(
            _least(host_occupancy.of_host(host), wanted, {})[0],
            _find(host, wanted).stranded_cpus)

    def _one(self, guest, **values):
        return _find(test_count.fleet_host(builders.host_cell(
            0, range(12), 2, pinned_cpus=[0, 2, 4, 6], **values)), [
                test_count.wanted(guest)])

    def test_causes(self):
        self.assertEqual(
            {Cause.CELLS: 2}, self._one(builders.guest((3, 1))).cpus)
        self.assertEqual(
            {Cause.CELLS: 8}, self._one(builders.guest((9, 1))).cpus)
        self.assertEqual({Cause.CORES: 8}, self._one(builders.guest(
            (6, 1), thread_policy=model.ThreadPolicy.REQUIRE)).cpus)
        self.assertEqual({Cause.MEMORY: 8}, self._one(
            builders.guest((2, 600)), memory_mib=500).cpus)
        self.assertEqual({Cause.MEMORY: 4}, self._one(
            builders.guest((2, 600)), memory_mib=1400).cpus)
        self.assertEqual({Cause.PAGES: 8}, self._one(
            builders.guest((2, 600, 2048))).cpus)

    def test_guest_on_other_cpus(self):
        host = test_count.fleet_host(builders.host_cell(
            0, range(12), 2, pinned_cpus=[0, 1, 90]))
        self.assertEqual({Cause.STRAY_PINS: 10}, _find(host, [
            test_count.wanted(builders.guest((2, 1)))]).cpus)

    def test_orphans_and_memory(self):
        found = self._one(builders.guest((4, 1000)), memory_mib=5000,
                          pages=(model.PagePool(4, 640000),
                                 model.PagePool(2048, 1250)))
        self.assertEqual(4, found.orphans)
        self.assertEqual({4: 500, 2048: 2500}, found.memory_mib)

    def test_odd_guests_on_whole_cores(self):
        """The thread beside the third vCPU is lost, but for others."""
        host = test_count.fleet_host(
            builders.host_cell(0, range(6), 2))
        wanted = [test_count.wanted(builders.guest(
            (3, 1), thread_policy=model.ThreadPolicy.REQUIRE))]
        self.assertEqual(3, _find(host, wanted).stranded_cpus)
        wanted.append(test_count.wanted(builders.guest((2, 1))))
        self.assertEqual(0, _find(host, wanted[1:]).stranded_cpus)
        self.assertEqual(0, _find(host, wanted).stranded_cpus)

    def test_like_cells_of_hosts_that_take_different_guests(self):
        hosts = [test_count.fleet_host(
            builders.host_cell(0, range(5)), name=name, disk_gib=disk_gib)
            for name, disk_gib in (('a', 100), ('b', 1), ('c', 0))]
        wanted = [
            test_count.wanted(builders.guest((2, 100)), disk_gib=1),
            test_count.wanted(builders.guest((5, 100)), disk_gib=50)]
        counters = [count.Counter(one) for one in wanted]
        finder = stranded.StrandedFinder(counters)
        self.assertEqual(
            [{}, {Cause.CELLS: 1}, {Cause.DISK: 5}],
            [finder.on_host(counted_host, [counter.count(counted_host)
                                           for counter in counters]).cpus
             for counted_host in map(
                 like_hosts.Numbering().host,
                 map(host_occupancy.of_host, hosts))])

    def test_no_flavor_may_use_the_host(self):
        host = test_count.fleet_host(
            builders.host_cell(0, range(4)), is_enabled=False)
        self.assertEqual({Cause.DISABLED: 4}, _find(host, [
            test_count.wanted(builders.guest((2, 100)))]).cpus)
