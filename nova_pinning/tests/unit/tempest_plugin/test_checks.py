# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.checks: they see what is wrong."""

import dataclasses

import ddt
import hypothesis
from hypothesis import strategies as st

from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process
from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import topology
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base

cpus = guest_samples.cpus
thread = guest_samples.thread


def all_of(guest, kept, policy=''):
    return checks.all_of(
        guest, kept, guest_samples.SETS, guest_samples.MACHINE, policy)


def moved_emulator(guest, where):
    """The guest with emulator and I/O threads elsewhere, in all places."""
    guest = guest_samples.change_xml(
        guest, emulator_pin=cpus(where), iothread_pins={1: cpus(where)})
    return guest_samples.change_qemu(
        guest, iothreads={1: thread(102, 'IO iothread1', where)},
        emulator=(thread(100, 'qemu', where),), vhost=())


def huge(guest, kept, size_kib=2048):
    """The guest with huge pages, in all places."""
    guest = guest_samples.change_xml(
        guest, huge_pages=(domain_xml.HugePages(size_kib, cpus('0')),))
    guest = guest_samples.change_qemu(guest, regions=(
        qemu_process.MemoryRegion(cpus('1'), {1: 9}, size_kib),))
    return guest, dataclasses.replace(kept, page_size_kib=size_kib)


class GoodTest(unit_base.TestCase):

    def test_dedicated(self):
        self.assertEqual([], all_of(*guest_samples.dedicated()))

    def test_shared(self):
        self.assertEqual([], all_of(*guest_samples.shared()))

    def test_mixed(self):
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_xml(
            guest, vcpu_pins={0: cpus('0-1'), 1: cpus('5')})
        guest = guest_samples.change_qemu(guest, vcpus={
            0: thread(103, 'CPU 0/KVM', '0-1'),
            1: thread(104, 'CPU 1/KVM', '5')})
        guest = moved_emulator(guest, '0-1,5')
        cell = dataclasses.replace(kept.cells[0], pins={1: 5})
        self.assertEqual([],
                         all_of(guest, topology.ServerTopology((cell,), None)))

    def test_emulator_policies(self):
        for policy, where in (('share', '0-1'), ('isolate', '2')):
            guest, kept = guest_samples.dedicated()
            self.assertEqual(
                [], all_of(moved_emulator(guest, where), kept, policy))

    def test_huge_pages(self):
        self.assertEqual([], all_of(*huge(*guest_samples.dedicated())))

    def test_small_pages_asked_for(self):
        guest, kept = guest_samples.dedicated()
        self.assertEqual(
            [], all_of(guest, dataclasses.replace(kept, page_size_kib=4)))

    def test_thread_that_sets_memory_up(self):
        """It is near its node, where only some of the guest's CPUs are."""
        guest, kept = guest_samples.dedicated()
        for where, is_good in (('4', True), ('4-5', True), ('3', False)):
            changed = guest_samples.change_qemu(guest, emulator=(
                thread(100, 'qemu', '4-5'),
                thread(101, 'TC tc-ram-node0', where)))
            self.assertEqual(is_good, not all_of(changed, kept), where)

    def test_vhost_on_some_of_the_emulators_cpus(self):
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_qemu(
            guest, vhost=(thread(110, 'vhost-100', '4'),))
        self.assertEqual([], all_of(guest, kept))


@ddt.ddt
class KernelTest(unit_base.TestCase):
    """The kernel does something else than the domain XML says."""

    @ddt.data(
        ({'vcpus': {0: thread(103, 'CPU 0/KVM', '4'),
                    1: thread(104, 'CPU 1/KVM', '6')}},
         "vCPU 1 (thread 104, 'CPU 1/KVM') runs on 6, the XML says 5"),
        ({'vcpus': {0: thread(103, 'CPU 0/KVM', '4'),
                    1: thread(104, 'CPU 1/KVM', '4-5')}},
         "vCPU 1 (thread 104, 'CPU 1/KVM') runs on 4-5, the XML says 5"),
        ({'emulator': (thread(100, 'qemu', '4-5'), thread(101, 'w', '3'))},
         "emulator (thread 101, 'w') runs on 3, the XML says 4-5"),
        ({'iothreads': {1: thread(102, 'IO iothread1', '4')}},
         "I/O thread 1 (thread 102, 'IO iothread1') runs on 4, the XML says "
         "4-5"),
        ({'vhost': (thread(110, 'vhost-100', '0'),)},
         "vhost (thread 110, 'vhost-100') runs on 0, the XML says 4-5"),
        ({'vcpus': {0: thread(103, 'CPU 0/KVM', '4'),
                    1: thread(104, 'CPU 1/KVM', '5', guest_samples.FIFO)}},
         'vCPU 1 (thread 104) is scheduled as fifo 1, the XML says other 0'),
        ({'vcpus': {0: thread(103, 'CPU 0/KVM', '4')}},
         'QEMU has threads for the vCPUs 0, not for all 2'),
        ({'iothreads': {}}, 'QEMU has 0 I/O threads, the XML has 1'),
    )
    @ddt.unpack
    def test_dedicated(self, changes, words):
        guest, kept = guest_samples.dedicated()
        self.assertEqual(
            [words], all_of(guest_samples.change_qemu(guest, **changes), kept))

    def test_emulator_thread_of_a_shared_guest(self):
        guest, kept = guest_samples.shared()
        guest = guest_samples.change_qemu(
            guest, emulator=(thread(100, 'qemu', '0-7'),))
        self.assertEqual(
            ["emulator (thread 100, 'qemu') runs on 0-7, the XML says 0-1"],
            all_of(guest, kept))

    def test_nothing_is_said_of_a_guest(self):
        """Such a guest runs anywhere, or else it is wrong."""
        guest, kept = guest_samples.shared()
        guest = guest_samples.change_xml(guest, floats_over=cpus(''))
        found = checks.affinities(guest, guest_samples.MACHINE.online)
        self.assertEqual(4, len(found))

    def test_not_running(self):
        guest, kept = guest_samples.dedicated()
        self.assertEqual(
            ['the guest does not run'],
            all_of(dataclasses.replace(guest, qemu=None), kept))

    @unit_base.settings(100)
    @hypothesis.given(st.sampled_from(range(6)),
                      st.sets(st.integers(0, 7), min_size=1))
    def test_any_thread_anywhere_else(self, number, where):
        """One thread elsewhere is one complaint, which names the thread."""
        guest, kept = guest_samples.dedicated()
        good = guest.qemu.threads[number]
        moved = dataclasses.replace(good, cpus=cpuset.CpuSet(where))
        qemu = dataclasses.replace(
            guest.qemu,
            vcpus=_replaced(guest.qemu.vcpus, good, moved),
            iothreads=_replaced(guest.qemu.iothreads, good, moved),
            emulator=tuple(moved if one == good else one
                           for one in guest.qemu.emulator),
            vhost=tuple(moved if one == good else one
                        for one in guest.qemu.vhost))
        found = all_of(dataclasses.replace(guest, qemu=qemu), kept)
        fine = (moved.cpus.issubset(good.cpus)
                if good in guest.qemu.vhost else moved.cpus == good.cpus)
        self.assertEqual(0 if fine else 1, len(found))
        if found:
            self.assertIn(f'thread {good.tid},', found[0])


def _replaced(threads, good, moved):
    return {number: moved if one == good else one
            for number, one in threads.items()}


@ddt.ddt
class AgreementTest(unit_base.TestCase):
    """The domain XML has something else than nova keeps."""

    @ddt.data(
        ({'vcpu_pins': {0: cpus('4'), 1: cpus('6')}},
         'vCPU 1 is pinned to 6, for nova it is on 5'),
        ({'vcpu_pins': {0: cpus('4')}},
         'vCPU 1 is pinned to none, for nova it is on 5'),
        ({'cells': ()}, 'the XML has 0 NUMA cells, nova 1'),
        ({'cells': (
            domain_xml.DomainCell(0, cpus('0'), 65536, cpus('1'), 'strict'),)},
         'cell 0 has the vCPUs 0, for nova 0-1'),
        ({'cells': (domain_xml.DomainCell(0, cpus('0-1'), 1024, cpus('1'),
                                          'strict'),)},
         'cell 0 has 1024 KiB, for nova 64 MiB'),
        ({'cells': (domain_xml.DomainCell(0, cpus('0-1'), 65536, cpus('0'),
                                          'strict'),)},
         'memory of cell 0 comes from nodes 0 (mode strict), it must come '
         'from node 1'),
        ({'cells': (domain_xml.DomainCell(0, cpus('0-1'), 65536, cpus('1'),
                                          'preferred'),)},
         'memory of cell 0 comes from nodes 1 (mode preferred), it must come '
         'from node 1'),
        ({'cells': (domain_xml.DomainCell(0, cpus('0-1'), 65536),)},
         'memory of cell 0 comes from nodes none (mode none), it must come '
         'from node 1'),
    )
    @ddt.unpack
    def test_dedicated(self, changes, words):
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_xml(guest, **changes)
        self.assertEqual([words], checks.agreement(
            guest.live, kept, guest_samples.MACHINE))

    @ddt.data(
        ({'vcpu_pins': {0: cpus('4')}},
         'vCPUs are pinned that float for nova'),
        ({'cells': (domain_xml.DomainCell(0, cpus('0-1'), 65536),)},
         'the XML has 1 NUMA cells, nova none'),
        ({'memory_nodes': cpus('0'), 'memory_mode': 'strict'},
         'memory comes from nodes 0, for nova from any'),
        ({'huge_pages': (domain_xml.HugePages(2048),)},
         'the XML has huge pages of [2048] KiB, nova of no KiB'),
    )
    @ddt.unpack
    def test_shared_guest_with_something_stale(self, changes, words):
        guest, kept = guest_samples.shared()
        guest = guest_samples.change_xml(guest, **changes)
        self.assertEqual([words], checks.agreement(
            guest.live, kept, guest_samples.MACHINE))

    @ddt.data(
        ({'vcpu_pins': {0: cpus('4'), 1: cpus('5'), 2: cpus('6')}},
         'the vCPUs 2 are pinned, of which the guest has only 2'),
        ({'memory_nodes': cpus('0')},
         'memory comes from nodes 0 (mode strict), it must come from nodes '
         '1'),
        ({'memory_nodes': cpus(''), 'memory_mode': ''},
         'memory comes from nodes none (mode none), it must come from nodes '
         '1'),
        ({'memory_mode': 'preferred'},
         'memory comes from nodes 1 (mode preferred), it must come from '
         'nodes 1'),
        ({'huge_pages': (domain_xml.HugePages(2048),)},
         'the XML has huge pages of [2048] KiB, nova of no KiB'),
    )
    @ddt.unpack
    def test_now_and_at_the_next_start(self, changes, words):
        """What is stale in both is seen, and in one of them as well."""
        guest, kept = guest_samples.dedicated()
        both = guest_samples.change_xml(guest, **changes)
        self.assertEqual([words], all_of(both, kept))
        later = dataclasses.replace(guest, persistent=both.live)
        found = all_of(later, kept)
        self.assertEqual(len(changes), len(found))
        for name in changes:
            self.assertTrue(any(
                one.startswith(f'{name} is ') for one in found), found)

    @ddt.data(
        ((), 'the XML has huge pages of [] KiB, nova of 2048 KiB'),
        ((domain_xml.HugePages(1048576, cpus('0')),),
         'the XML has huge pages of [1048576] KiB, nova of 2048 KiB'),
        ((domain_xml.HugePages(2048, cpus('1')),),
         'only the cells 1 of 0 have huge pages'),
    )
    @ddt.unpack
    def test_huge_pages(self, pages, words):
        guest, kept = huge(*guest_samples.dedicated())
        self.assertEqual(
            [words],
            all_of(guest_samples.change_xml(guest, huge_pages=pages), kept))

    def test_stale_pin_at_the_next_start(self):
        guest, kept = guest_samples.dedicated()
        old = dataclasses.replace(
            guest.live, vcpu_pins={0: cpus('2'), 1: cpus('3')})
        found, = all_of(dataclasses.replace(guest, persistent=old), kept)
        self.assertTrue(found.startswith('vcpu_pins is '))

    def test_what_may_differ_at_the_next_start(self):
        guest, _kept = guest_samples.dedicated()
        later = dataclasses.replace(guest.live, iotunes={'vda': {}})
        self.assertEqual([], checks.persistence(
            dataclasses.replace(guest, persistent=later)))


class WithinTest(unit_base.TestCase):
    """vCPUs are on CPUs of the other kind."""

    def _within(self, guest, pins):
        kept = topology.ServerTopology(
            (topology.ServerCell(1, cpus('0-1'), 64, pins),), None)
        return checks.within(guest.live, kept, guest_samples.SETS)

    def test_pinned_to_a_shared_cpu(self):
        guest, _kept = guest_samples.dedicated()
        self.assertEqual(
            ['vCPU 0 is pinned to 1, which is not among the dedicated CPUs '
             '2-7'], self._within(guest, {0: 1, 1: 5}))

    def test_two_on_one(self):
        guest, _kept = guest_samples.dedicated()
        self.assertEqual(['vCPUs 0 and 1 are both pinned to 4'],
                         self._within(guest, {0: 4, 1: 4}))

    def test_floating_over_dedicated_cpus(self):
        guest, kept = guest_samples.shared()
        guest = guest_samples.change_xml(guest, floats_over=cpus('1-2'))
        self.assertEqual(
            [f'vCPU {vcpu} floats over 1-2, which are not all shared CPUs '
             f'(0-1)' for vcpu in range(2)],
            checks.within(guest.live, kept, guest_samples.SETS))

    def test_floating_anywhere(self):
        guest, kept = guest_samples.shared()
        guest = guest_samples.change_xml(guest, floats_over=cpus(''))
        self.assertEqual(2, len(
            checks.within(guest.live, kept, guest_samples.SETS)))

    def test_guests_that_overlap(self):
        self.assertEqual(
            ['a and c both have 3'],
            checks.disjoint({'c': cpus('3-4'), 'b': cpus('5'),
                             'a': cpus('2-3')}))


@ddt.ddt
class EmulatorTest(unit_base.TestCase):

    @ddt.data(('share', '0-1', ''), ('isolate', '2', ''), ('', '4-5', ''),
              ('share', '4-5', 'not on the shared CPUs 0-1'),
              ('isolate', '2-3', 'not on one dedicated CPU'),
              ('isolate', '0', 'not on one dedicated CPU'),
              ('isolate', '4', 'where a vCPU is'),
              ('', '4', "not on the guest's own CPUs 4-5"))
    @ddt.unpack
    def test_policy(self, policy, where, words):
        guest, kept = guest_samples.dedicated()
        guest = moved_emulator(guest, where)
        found = checks.emulator(guest.live, kept, guest_samples.SETS, policy)
        self.assertEqual(bool(words), bool(found))
        if found:
            self.assertIn(words, found[0])

    @ddt.data('share', 'isolate', '')
    def test_not_pinned(self, policy):
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_xml(
            guest, emulator_pin=None, iothread_pins={})
        found, = checks.emulator(guest.live, kept, guest_samples.SETS, policy)
        self.assertIn('emulator threads are on none', found)

    @ddt.data(('2-3', ''), ('6', ''), ('0-1', ''), ('4-5', 'share'),
              ('4-5', 'isolate'), ('6-7', 'isolate'))
    @ddt.unpack
    def test_stale_with_the_threads_following(self, where, policy):
        guest, kept = guest_samples.dedicated()
        found, = all_of(moved_emulator(guest, where), kept, policy)
        self.assertIn(f'emulator threads are on {where}, not on', found)

    def test_stale_io_thread(self):
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_xml(guest, iothread_pins={1: cpus('2')})
        guest = guest_samples.change_qemu(
            guest, iothreads={1: thread(102, 'IO iothread1', '2')})
        self.assertEqual(
            ['I/O thread 1 is on 2, the emulator threads are on 4-5'],
            all_of(guest, kept))

    def test_io_thread_not_pinned(self):
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_xml(guest, iothread_pins={})
        self.assertEqual(
            ['I/O thread 1 is on none, the emulator threads are on 4-5'],
            checks.emulator(guest.live, kept, guest_samples.SETS, ''))

    def test_stale_with_a_shared_guest(self):
        guest, kept = guest_samples.shared()
        self.assertEqual(
            ['emulator threads are pinned, the guest floats for nova',
             'I/O threads are pinned, the guest floats for nova'],
            all_of(moved_emulator(guest, '4'), kept))

    def test_realtime(self):
        """Emulator threads stay off the vCPUs that run in real time."""
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_xml(
            guest, vcpu_schedulers={1: guest_samples.FIFO})
        self.assertEqual([], checks.emulator(
            moved_emulator(guest, '4').live, kept, guest_samples.SETS, ''))
        self.assertEqual(
            ["emulator threads are on 4-5, not on the guest's own CPUs 4"],
            checks.emulator(guest.live, kept, guest_samples.SETS, ''))

    def test_nothing_to_share(self):
        """Nova then does as if no policy was asked for."""
        guest, kept = guest_samples.dedicated()
        sets = dataclasses.replace(guest_samples.SETS, shared=cpus(''))
        self.assertEqual(
            [], checks.emulator(guest.live, kept, sets, 'share'))


class SiblingsTest(unit_base.TestCase):

    def _kept(self, **pins):
        return topology.ServerTopology((topology.ServerCell(
            0, cpuset.CpuSet(range(len(pins))), 64,
            {int(vcpu[1:]): cpu for vcpu, cpu in pins.items()}),), None)

    def test_require(self):
        self.assertEqual([], checks.siblings(
            self._kept(v0=2, v1=3), guest_samples.MACHINE))
        self.assertEqual(
            ['2 is alone on its core 2-3', '4 is alone on its core 4-5'],
            checks.siblings(self._kept(v0=2, v1=4), guest_samples.MACHINE))

    def test_require_with_an_odd_vcpu(self):
        self.assertEqual([], checks.siblings(
            self._kept(v0=2, v1=3, v2=4), guest_samples.MACHINE))

    def test_isolate(self):
        self.assertEqual([], checks.isolated(
            self._kept(v0=2, v1=4), guest_samples.MACHINE,
            {'a': cpus('0-1,6')}))
        self.assertEqual(
            ['vCPU 0 is on 2, and 2-3 are threads of one core',
             'vCPU 1 is on 3, and 2-3 are threads of one core'],
            checks.isolated(self._kept(v0=2, v1=3), guest_samples.MACHINE, {}))

    def test_somebody_on_a_thread_of_an_isolated_core(self):
        self.assertEqual(
            ['a uses 5 of the core 4-5, on which vCPU 1 is to be alone'],
            checks.isolated(self._kept(v0=2, v1=4), guest_samples.MACHINE,
                            {'b': cpus('0-1'), 'a': cpus('5-6')}))

    def test_what_the_guest_is_told(self):
        guest, kept = guest_samples.dedicated()
        self.assertEqual([], checks.guest_threads(
            guest.live, kept, guest_samples.MACHINE))
        self.assertEqual(
            ['the vCPUs 0-1 are threads of one core for the guest, but on '
             'several: 2-3 and 4-5'],
            checks.guest_threads(
                guest.live, self._kept(v0=3, v1=4), guest_samples.MACHINE))

    def test_a_guest_that_is_told_of_no_threads(self):
        guest, _kept = guest_samples.dedicated()
        guest = guest_samples.change_xml(guest, topology=None)
        self.assertEqual([], checks.guest_threads(
            guest.live, self._kept(v0=3, v1=4), guest_samples.MACHINE))


@ddt.ddt
class MemoryTest(unit_base.TestCase):

    def _memory(self, *regions, size=0):
        guest, _kept = guest_samples.dedicated()
        guest = guest_samples.change_qemu(guest, regions=tuple(
            qemu_process.MemoryRegion(
                cpus(bound), dict.fromkeys(cpus(nodes), 9), page)
            for bound, nodes, page in regions))
        return checks.memory(guest.qemu, 1, size)

    def test_good(self):
        self.assertEqual([], self._memory(('1', '1', 4), ('', '0', 4)))
        self.assertEqual([], self._memory(('1', '', 2048), size=2048))

    def test_not_bound(self):
        for bound in ('', '0', '0-1'):
            self.assertEqual(['no memory of the guest is bound to node 1'],
                             self._memory((bound, '1', 4)))

    @ddt.data(
        ([('1', '0', 4)], ['memory bound to node 1 is on 0']),
        ([('0', '0', 4)],
         ['memory is bound to nodes 0, the guest is on nodes 1',
          'no memory of the guest is bound to node 1']),
        ([('1', '1', 4), ('0', '0', 4)],
         ['memory is bound to nodes 0, the guest is on nodes 1']),
        ([], ['no memory of the guest is bound to node 1']),
    )
    @ddt.unpack
    def test_any_guest(self, regions, words):
        guest, kept = guest_samples.dedicated()
        guest = guest_samples.change_qemu(guest, regions=tuple(
            qemu_process.MemoryRegion(
                cpus(bound), dict.fromkeys(cpus(nodes), 9), size)
            for bound, nodes, size in regions))
        self.assertEqual(words, all_of(guest, kept))

    def test_small_pages_for_huge_ones(self):
        guest, kept = huge(*guest_samples.dedicated())
        small = guest_samples.dedicated()[0].qemu.regions
        self.assertEqual([
            'memory bound to node 1 is in pages of [4] KiB, not of 2048 KiB'],
            all_of(guest_samples.change_qemu(guest, regions=small), kept))

    def test_on_another_node(self):
        self.assertEqual(['memory bound to node 1 is on 0-1'],
                         self._memory(('1', '0-1', 4)))

    def test_pages_of_another_size(self):
        self.assertEqual(
            ['memory bound to node 1 is in pages of [4] KiB, not of 2048 '
             'KiB'], self._memory(('1', '1', 4), size=2048))
