# SPDX-License-Identifier: Apache-2.0
"""One guest cell on one host cell: what it lacks, or which CPUs it gets."""

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning.fit import cell_check
from nova_pinning import model
from nova_pinning.model import outcome
from nova_pinning.model import PagePool
from nova_pinning.model import Reason
from nova_pinning.model import ThreadPolicy
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

PREFER, REQUIRE, ISOLATE = ThreadPolicy
MIXED = model.CpuPolicy.MIXED
GIB = 1048576


def _mixed(dedicated, shared, memory_mib=1024, **values):
    vcpus = range(dedicated + shared)
    return model.Guest((model.GuestCell(
        tuple(vcpus[:dedicated]), tuple(vcpus[dedicated:]), memory_mib),),
        MIXED, **values)


class TestShortage(oslotest.BaseTestCase):

    def _assert_lacks(self, reason, need, have, cell, guest, **ratios):
        found = cell_check.shortage(
            cell, builders.host(cell, **ratios), guest, guest.demands[0])
        self.assertEqual(
            model.Shortage(cell.id, reason, need, have), found)

    def _assert_fits(self, cell, guest, **ratios):
        self.assertIsNone(cell_check.shortage(
            cell, builders.host(cell, **ratios), guest, guest.demands[0]))

    def test_free_cpus(self):
        cell = builders.host_cell(
            5, range(8), 2, pinned_cpus=[0, 1, 2])
        self._assert_fits(cell, builders.guest((5, 1)))
        self._assert_lacks(
            Reason.FREE_CPUS, 6, 5, cell, builders.guest((6, 1)))
        # The CPU for emulator threads is one of those needed.
        isolated = {'emulator_isolated': True}
        self._assert_fits(cell, builders.guest((4, 1), **isolated))
        self._assert_lacks(
            Reason.FREE_CPUS, 6, 5, cell, builders.guest((5, 1), **isolated))

    def test_cell_too_small(self):
        cell = builders.host_cell(0, range(4), pinned_cpus=[1])
        self._assert_lacks(
            Reason.FREE_CPUS, 4, 3, cell, builders.guest((4, 1)))
        self._assert_lacks(
            Reason.CELL_TOO_SMALL, 5, 4, cell, builders.guest((5, 1)))

    def test_free_cores(self):
        # Free threads by core: 2, 1, 2, 0.
        cell = builders.host_cell(0, range(8), 2, pinned_cpus=[2, 6, 7])
        for policy, fits, too_much in (
                (PREFER, 5, None), (REQUIRE, 4, 5)):
            self._assert_fits(
                cell, builders.guest((fits, 1), thread_policy=policy))
            if too_much:
                self._assert_lacks(
                    Reason.FREE_CORES, too_much, fits, cell,
                    builders.guest((too_much, 1), thread_policy=policy))

    def test_free_cores_of_four_threads(self):
        # Free threads by core: 4, 3, 2, 1. Nova takes as many of each core,
        # so 3 of two cores or 2 of three.
        cell = builders.host_cell(
            0, range(16), 4, pinned_cpus=[7, 10, 11, 13, 14, 15])
        self._assert_fits(cell, builders.guest((6, 1), thread_policy=REQUIRE))
        self._assert_lacks(
            Reason.FREE_CORES, 7, 6, cell,
            builders.guest((7, 1), thread_policy=REQUIRE))

    def test_require_without_pairs(self):
        cell = builders.host_cell(0, range(4), 2, pinned_cpus=[1, 2])
        self._assert_lacks(
            Reason.FREE_CORES, 1, 0, cell,
            builders.guest((1, 1), thread_policy=REQUIRE))

    def test_isolate_without_whole_cores(self):
        # Floating and pinned vCPUs use the same CPUs, so isolate is possible.
        cell = builders.host_cell(
            0, range(6), 2, shared_cpus=range(6), pinned_cpus=[2])
        self._assert_fits(cell, builders.guest((2, 1), thread_policy=ISOLATE))
        self._assert_lacks(
            Reason.FREE_CORES, 3, 2, cell,
            builders.guest((3, 1), thread_policy=ISOLATE))

    def test_no_threads(self):
        self._assert_lacks(
            Reason.NO_THREADS, 0, 0, builders.host_cell(0, range(4)),
            builders.guest((1, 1), thread_policy=REQUIRE))

    def test_isolate_on_threads(self):
        guest = builders.guest((1, 1), thread_policy=ISOLATE)
        self._assert_lacks(
            Reason.ISOLATE_ON_THREADS, 0, 0,
            builders.host_cell(0, range(4), 2), guest)
        self._assert_fits(builders.host_cell(0, range(4)), guest)

    def test_emulator_cpu(self):
        guest = builders.guest(
            (1, 1), thread_policy=ISOLATE, emulator_isolated=True)
        shared = {'shared_cpus': range(4)}
        self._assert_fits(builders.host_cell(0, range(4), 2, **shared), guest)
        # Core 1 has a CPU left, but another guest has its sibling.
        self._assert_lacks(
            Reason.EMULATOR_CPU, 0, 0,
            builders.host_cell(0, range(4), 2, pinned_cpus=[2], **shared),
            guest)
        # Here the core of the emulator threads comes before that of the vCPU.
        self._assert_lacks(
            Reason.EMULATOR_CPU, 0, 0,
            builders.host_cell(0, range(4), 2, pinned_cpus=[0], **shared),
            guest)
        # There are no more CPUs than those for the vCPUs' cores.
        self._assert_lacks(
            Reason.EMULATOR_CPU, 0, 0,
            builders.host_cell(0, range(2), 2, shared_cpus=range(2)), guest)

    def test_no_dedicated_vcpus(self):
        cell = builders.host_cell(
            0, range(4), shared_cpus=range(4, 8))
        for guest in (_mixed(0, 2, thread_policy=ISOLATE),
                      _mixed(0, 2, emulator_isolated=True)):
            self._assert_lacks(
                Reason.NO_DEDICATED_VCPUS, 0, 0, cell, guest)
        # Under require only where no core has two free threads.
        full = builders.host_cell(
            0, range(4), 2, shared_cpus=range(4, 8), pinned_cpus=[0, 2])
        guest = _mixed(0, 2, thread_policy=REQUIRE)
        self._assert_lacks(Reason.NO_DEDICATED_VCPUS, 0, 0, full, guest)
        self._assert_fits(
            builders.host_cell(0, range(4), 2, shared_cpus=range(4, 8)),
            guest)
        self._assert_fits(cell, _mixed(0, 2))

    def test_cores_unknown(self):
        guest = builders.guest((2, 1))
        for cores in ((), ((), ()), ((0, 1), (1, 2)), ((0,), (7, 8))):
            self._assert_lacks(
                Reason.CORES_UNKNOWN, 0, 0,
                builders.host_cell(0, range(4), cores=cores), guest)

    def test_stray_pins(self):
        """Whether or not what is left would be enough."""
        for pinned in ([9], [9, 10, 11]):
            cell = builders.host_cell(0, range(4), pinned_cpus=pinned)
            self._assert_lacks(
                Reason.STRAY_PINS, 0, 0, cell, builders.guest((2, 1)))
            self._assert_fits(
                builders.host_cell(
                    0, range(4), shared_cpus=[20], pinned_cpus=pinned),
                builders.floating_guest((1, 1)))

    def test_shared_cpus(self):
        cell = builders.host_cell(
            0, range(4), shared_cpus=range(4, 7))
        self._assert_fits(cell, builders.floating_guest((3, 1)))
        self._assert_lacks(
            Reason.SHARED_CPUS, 4, 3, cell, builders.floating_guest((4, 1)))
        self._assert_fits(cell, _mixed(4, 3))
        self._assert_lacks(Reason.SHARED_CPUS, 4, 3, cell, _mixed(1, 4))
        self._assert_fits(cell, builders.guest((4, 1)))

    def test_cpu_ratio(self):
        cell = builders.host_cell(shared_cpus=range(4), shared_used=5)
        ratio = {'cpu_allocation_ratio': 2.0}
        self._assert_fits(cell, builders.floating_guest((3, 1)), **ratio)
        self._assert_lacks(
            Reason.CPU_RATIO, 4, 3, cell, builders.floating_guest((4, 1)),
            **ratio)
        self._assert_fits(cell, builders.floating_guest((4, 1)))
        # What is overcommitted already is not less than nothing.
        self._assert_lacks(
            Reason.CPU_RATIO, 1, 0, cell, builders.floating_guest((1, 1)),
            cpu_allocation_ratio=1.0)
        # Pinned vCPUs know no ratio.
        self._assert_fits(
            builders.host_cell(0, range(4), shared_used=99),
            builders.guest((4, 1)), cpu_allocation_ratio=1.0)

    def test_memory_ratio(self):
        cell = builders.host_cell(
            shared_cpus=range(4), memory_mib=1000, memory_used_mib=1100)
        ratio = {'ram_allocation_ratio': 1.5}
        self._assert_fits(cell, builders.floating_guest((1, 400)), **ratio)
        self._assert_lacks(
            Reason.MEMORY_RATIO, 401, 400, cell,
            builders.floating_guest((1, 401)), **ratio)
        self._assert_lacks(
            Reason.MEMORY_RATIO, 401, 0, cell,
            builders.floating_guest((1, 401)), ram_allocation_ratio=1.0)
        self._assert_lacks(
            Reason.MEMORY_RATIO, 401, 400,
            builders.host_cell(0, range(4), shared_cpus=range(4, 8),
                               memory_mib=1000, memory_used_mib=1100),
            _mixed(1, 1, 401), **ratio)

    def test_memory(self):
        used = {'memory_mib': 1000, 'memory_used_mib': 300}
        pinned = builders.host_cell(0, range(4), **used)
        self._assert_fits(pinned, builders.guest((1, 700)))
        self._assert_lacks(
            Reason.MEMORY, 701, 700, pinned, builders.guest((1, 701)))
        # A floating guest must fit the cell, but not what is left of it.
        floating = builders.host_cell(shared_cpus=range(4), **used)
        self._assert_fits(floating, builders.floating_guest((1, 1000)))
        self._assert_lacks(
            Reason.MEMORY, 1001, 1000, floating,
            builders.floating_guest((1, 1001)))

    def test_memory_of_smallest_pages(self):
        """Where a host has pools, these count, not the figures beside."""
        pages = (PagePool(GIB, 9),
                 PagePool(2048, 10, used=3, reserved=2))
        pinned = builders.host_cell(0, range(4), pages=pages)
        self._assert_fits(pinned, builders.guest((1, 10)))
        self._assert_lacks(
            Reason.MEMORY, 12, 10, pinned, builders.guest((1, 12)))
        floating = builders.host_cell(shared_cpus=range(4), pages=pages)
        self._assert_fits(floating, builders.floating_guest((1, 20)))
        self._assert_lacks(
            Reason.MEMORY, 22, 20, floating,
            builders.floating_guest((1, 22)))

    def test_page_multiple(self):
        cell = builders.host_cell(
            0, range(4), pages=(PagePool(2048, 1000), PagePool(GIB, 9)))
        self._assert_lacks(
            Reason.PAGE_MULTIPLE, 3, 2048, cell, builders.guest((1, 3)))
        self._assert_lacks(
            Reason.PAGE_MULTIPLE, 1025, GIB, cell,
            builders.guest((1, 1025, GIB)))
        self._assert_lacks(
            Reason.PAGE_MULTIPLE, 3, 2048, cell,
            builders.guest((1, 3, model.PAGES_ANY)))

    def test_page_size(self):
        cell = builders.host_cell(0, range(4), pages=(PagePool(4, 10 ** 6),))
        for size in (2048, model.PAGES_LARGE):
            self._assert_lacks(
                Reason.PAGE_SIZE, 0, 0, cell, builders.guest((1, 1, size)))
        for size in (4, model.PAGES_LARGE, model.PAGES_SMALL,
                     model.PAGES_ANY):
            self._assert_lacks(
                Reason.PAGE_SIZE, 0, 0, builders.host_cell(0, range(4)),
                builders.guest((1, 1, size)))

    def test_pages(self):
        cell = builders.host_cell(0, range(4), pages=(
            PagePool(4, 1024), PagePool(2048, 10, used=3, reserved=2),
            PagePool(GIB, 2, used=2)))
        for size, room in (
                (4, 4), (2048, 10), (model.PAGES_SMALL, 4),
                (model.PAGES_LARGE, 10), (model.PAGES_ANY, 10)):
            self._assert_fits(cell, builders.guest((1, room, size)))
            self._assert_lacks(
                Reason.PAGES, room + 2, room, cell,
                builders.guest((1, room + 2, size)))
        self._assert_lacks(
            Reason.PAGES, 1024, 0, cell, builders.guest((1, 1024, GIB)))

    def test_every_reason_of_a_cell_has_a_test(self):
        covered = ' '.join(dir(self))
        for reason in outcome._CELL_SENTENCES:
            self.assertIn(f'test_{reason.name.lower()}', covered)


class TestPageSize(oslotest.BaseTestCase):

    def test_the_largest_with_room(self):
        pages = (PagePool(4, 10 ** 7), PagePool(GIB, 4, used=2),
                 PagePool(2048, 4096))
        cell = builders.host_cell(pages=pages)
        for wanted, memory_mib, size in (
                (None, 1024, None),
                (4, 1024, 4), (2048, 1024, 2048), (GIB, 2048, GIB),
                (model.PAGES_SMALL, 1024, 4),
                (model.PAGES_LARGE, 1024, GIB),
                (model.PAGES_ANY, 1024, GIB),
                # No multiple of a GiB, or more of them than there are.
                (model.PAGES_LARGE, 1026, 2048),
                (model.PAGES_ANY, 3072, 2048),
                (model.PAGES_ANY, 9000, 4),
                (model.PAGES_LARGE, 9000, None),
                (GIB, 3072, None),
                (16, 1024, None)):
            demand = model.Demand(1, 0, 0, memory_mib, wanted)
            self.assertEqual(
                size, cell_check.page_size_kib(cell, demand),
                (wanted, memory_mib))

    def test_a_size_listed_twice_is_what_comes_first(self):
        cell = builders.host_cell(
            pages=(PagePool(4, 0), PagePool(4, 10 ** 6)))
        self.assertIsNone(cell_check.page_size_kib(
            cell, model.Demand(1, 0, 0, 1, 4)))


@strategies.composite
def _cells(draw):
    """A cell of up to 6 cores, partly used, ids in no special order."""
    threads = draw(strategies.sampled_from([1, 2, 4]))
    ids = draw(strategies.permutations(range(
        threads * draw(strategies.integers(1, 6)))))
    cores = [ids[first:first + threads]
             for first in range(0, len(ids), threads)]
    if draw(strategies.booleans()):
        # A thread kept for the host: cores that differ in size.
        cores[0] = cores[0][1:] or cores[0]
    cpus = [cpu for core in cores for cpu in core]
    return builders.host_cell(
        0, dedicated_cpus=cpus, cores=tuple(map(tuple, cores)),
        shared_cpus=draw(strategies.sampled_from([(), cpus])),
        pinned_cpus=draw(strategies.sets(strategies.sampled_from(cpus))))


class TestPickCpus(oslotest.BaseTestCase):

    @unit_base.settings(200)
    @hypothesis.given(
        _cells(), strategies.integers(1, 8), strategies.booleans(),
        strategies.sampled_from(list(ThreadPolicy)))
    def test_what_holds_of_any_choice(self, cell, vcpus, emulator, policy):
        hypothesis.assume(vcpus <= cell.free_count)
        guest = builders.guest(
            (vcpus, 1), thread_policy=policy, emulator_isolated=emulator)
        demand, = guest.demands
        hypothesis.assume(cell_check.shortage(
            cell, builders.host(cell), guest, demand) is None)
        cpus, emulator_cpus = cell_check.pick_cpus(cell, policy, demand)
        self.assertEqual((vcpus, emulator), (len(cpus), len(emulator_cpus)))
        self.assertEqual(vcpus + emulator, len({*cpus, *emulator_cpus}))
        self.assertEqual(
            set(), {*cpus, *emulator_cpus} - set(cell.free_cpus))
        used = [len(set(core) & set(cpus)) for core in cell.cores]
        if policy is REQUIRE:
            # At most the last vCPU sits on a core by itself.
            self.assertLessEqual(used.count(1), vcpus % 2 or int(
                max(map(len, cell.cores)) > 2))
        if policy is ISOLATE:
            whole = max(map(len, cell.cores))
            for core, count in zip(cell.cores, used):
                if count:
                    self.assertEqual(
                        (1, whole),
                        (count, len(set(core) & set(cell.free_cpus))))
            for core in cell.cores:
                if set(core) & set(emulator_cpus):
                    self.assertEqual(set(), set(core) & set(cpus))
                    self.assertEqual(set(), set(core) & set(
                        cell.pinned_cpus))

    def _pick(self, cell, policy, vcpus, emulator=0):
        return cell_check.pick_cpus(
            cell, policy, model.Demand(vcpus, 0, emulator, 1, None))

    def test_whole_cores_first(self):
        cell = builders.host_cell(0, range(8), 2, pinned_cpus=[0])
        for policy in (PREFER, REQUIRE):
            self.assertEqual(((2, 3), ()), self._pick(cell, policy, 2))
            self.assertEqual(
                ((2, 3, 4, 5), (1,)), self._pick(cell, policy, 4, 1))
            self.assertEqual(((2, 3, 4), (1,)), self._pick(
                cell, policy, 3, 1))

    def test_prefer_takes_single_threads_if_it_must(self):
        cell = builders.host_cell(0, range(8), 2, pinned_cpus=[0, 2, 4])
        # Three cores with one thread and one with two: one of each of four.
        self.assertEqual(
            ((1, 3, 5, 6), ()), self._pick(cell, PREFER, 4))
        # All five: no even share, so whatever is free in order.
        self.assertEqual(
            ((1, 3, 5, 6, 7), ()), self._pick(cell, PREFER, 5))

    def test_as_many_threads_of_each_core(self):
        # Free threads by core: 4, 3, 2.
        cell = builders.host_cell(0, range(12), 4, pinned_cpus=[7, 10, 11])
        for vcpus, cpus in (
                (4, (0, 1, 2, 3)),
                (5, (0, 1, 2, 4, 5)),
                (6, (0, 1, 2, 4, 5, 6))):
            self.assertEqual((cpus, ()), self._pick(cell, REQUIRE, vcpus))

    def test_isolate(self):
        cell = builders.host_cell(
            0, range(8), 2, shared_cpus=range(8), pinned_cpus=[2, 3])
        self.assertEqual(((0, 4), (6,)), self._pick(cell, ISOLATE, 2, 1))
