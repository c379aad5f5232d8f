#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.fleet.capacity import count
from nova_pinning.fleet.capacity import stranded
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning import model
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet.capacity import test_count

Cause = count.Cause


def _find(host, wanted):
    (place,) = count.places([fleet_standing.of_host(host)])
    counters = [count.Counter(one) for one in wanted]
    return stranded.Finder(counters).on_host(
        place, [one.count(place) for one in counters])


def _least(standing, wanted, known):
    """The fewest CPUs and the least memory that guests can leave free."""
    cells = standing.engine.cells
    key = tuple((cell.pinned_cpus, cell.memory_used_mib) for cell in cells)
    if key not in known:
        cpus = sum(cell.free_count for cell in cells)
        memory_mib = sum(
            cell.memory_mib - cell.memory_used_mib for cell in cells)
        for one in wanted:
            fit = fleet_standing.verdict(standing, one)
            if fit:
                after = _least(standing.with_guest(one, fit), wanted, known)
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

    @base.settings(150)
    @hypothesis.given(_hosts(), _FLAVORS)
    def test_no_guests_leave_less(self, host, wanted):
        found = _find(host, wanted)
        cpus, memory_mib = _least(
            fleet_standing.of_host(host), wanted, {})
        self.assertLessEqual(found.stranded_cpus, cpus)
        self.assertLessEqual(sum(found.memory_mib.values()), memory_mib)

    @base.settings(60)
    @hypothesis.given(_hosts(), strategies.sets(
        strategies.integers(1, 5), min_size=1, max_size=2))
    def test_exact_where_only_cpus_matter(self, host, sizes):
        wanted = [test_count.wanted(builders.guest((size, 1)))
                  for size in sizes]
        self.assertEqual(
            _least(fleet_standing.of_host(host), wanted, {})[0],
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
        host = test_count.fleet_host(builders.host_cell(0, range(6), 2))
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
        wanted = [test_count.wanted(builders.guest((2, 100)), disk_gib=1),
                  test_count.wanted(builders.guest((5, 100)), disk_gib=50)]
        counters = [count.Counter(one) for one in wanted]
        finder = stranded.Finder(counters)
        self.assertEqual(
            [{}, {Cause.CELLS: 1}, {Cause.DISK: 5}],
            [finder.on_host(place, [one.count(place)
                                    for one in counters]).cpus
             for place in count.places(
                 map(fleet_standing.of_host, hosts))])

    def test_no_flavor_may_use_the_host(self):
        host = test_count.fleet_host(
            builders.host_cell(0, range(4)), is_enabled=False)
        self.assertEqual({Cause.DISABLED: 4}, _find(host, [
            test_count.wanted(builders.guest((2, 100)))]).cpus)
