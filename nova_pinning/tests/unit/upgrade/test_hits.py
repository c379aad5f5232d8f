# SPDX-License-Identifier: Apache-2.0
"""Whom each kind of defect hits, and whom not."""

import dataclasses

import ddt

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.tests.unit import unit_base
from nova_pinning.upgrade import hits

NIC = devices.device_keys('8086', '1533')
DEDICATED, MIXED = model.CpuPolicy.DEDICATED, model.CpuPolicy.MIXED


def cell(number, dedicated='', shared='', pages=()):
    return model.HostCell(
        id=number, shared_cpus=cpuset.CpuSet.parse(shared),
        dedicated_cpus=cpuset.CpuSet.parse(dedicated),
        pinned_cpus=cpuset.CpuSet(), cores=(), memory_mib=4096, pages=pages,
        physnets=frozenset(), tunneled=False, socket=0)


def host(cells=3, dedicated=True, **changes):
    return offered_host.OfferedHost(name='h', cells=tuple(
        cell(number, f'{4 * number}-{4 * number + 3}' if dedicated else '',
             '' if dedicated else f'{4 * number}-{4 * number + 3}')
        for number in range(cells)), **changes)


def guest(*sizes, policy=DEDICATED, floating=0, page_size=None, **changes):
    """A guest with a cell of each number of pinned vCPUs."""
    cells, first = [], 0
    for size in sizes:
        cells.append(model.GuestCell(
            tuple(range(first, first + size)),
            tuple(range(first + size, first + size + floating)), 1024,
            page_size))
        first += size + floating
    options = {key: changes.pop(key)
               for key in ('thread_policy', 'emulator_isolated')
               if key in changes}
    return resident_guest.ResidentGuest(
        uuid='g', host='h', vcpus=max(first, 1), memory_mib=1024,
        guest_class=hostclass.HostClass.DEDICATED,
        topology=model.Guest(tuple(cells), policy, **options)
        if cells else None, **changes)


def near(*counts):
    return tuple(devices.PciPool(NIC, number, count)
                 for number, count in enumerate(counts))


DEVICES = (devices.PciUse(NIC, 0, 1),)
OLD = '2020-05-01T00:00:00Z'
HUGE = (model.PagePool(4, 100), model.PagePool(2048, 100))


@ddt.ddt
class TestGuestHits(unit_base.TestCase):

    @ddt.data(
        ('any_guest', guest(), True),
        ('pinned', guest(2), True),
        ('pinned', guest(2, policy=model.CpuPolicy.SHARED), False),
        ('pinned', guest(), False),
        ('with_cells', guest(2), True),
        ('with_cells', guest(0, policy=model.CpuPolicy.SHARED, floating=2),
         True),
        ('with_cells', guest(1, policy=MIXED, floating=1), True),
        ('with_cells', guest(), False),
        ('floating', guest(), True),
        ('floating', guest(2), False),
        ('mixed', guest(1, policy=MIXED, floating=1), True),
        ('mixed', guest(1), False),
        ('emulator_isolated', guest(1, emulator_isolated=True), True),
        ('emulator_isolated', guest(1), False),
        ('under_limits', guest(1), False),
        ('under_limits', guest(1, policy=MIXED, floating=1), True),
        ('under_limits', guest(0, policy=model.CpuPolicy.SHARED,
                               floating=2), True),
        ('under_limits', guest(0, policy=model.CpuPolicy.SHARED), True),
        ('with_devices', guest(1, devices=DEVICES), True),
        ('with_devices', guest(1), False),
        ('cells_with_devices', guest(1, devices=DEVICES), True),
        ('cells_with_devices', guest(devices=DEVICES), False),
        ('cells_with_several_devices', guest(1, devices=DEVICES), False),
        ('cells_with_several_devices', guest(1, devices=DEVICES * 2), True),
        ('cells_with_several_devices', guest(devices=DEVICES * 2), False),
        ('several_cells_with_devices', guest(1, devices=DEVICES), False),
        ('several_cells_with_devices', guest(1, 1, devices=DEVICES), True),
        ('unlike_cells', guest(2, 4), True),
        ('unlike_cells', guest(2, 2), False),
        ('unlike_cells', guest(1, 1, policy=MIXED, floating=1), True),
        ('unlike_cells', guest(2), False),
        ('three_unlike_cells', guest(2, 2, 4), True),
        ('three_unlike_cells', guest(2, 2, 2), False),
        ('three_unlike_cells', guest(2, 4), False),
        ('unlike_cells_with_devices', guest(2, 4, devices=DEVICES), True),
        ('unlike_cells_with_devices', guest(2, 2, devices=DEVICES), False),
        ('open_page_size', guest(1, page_size=model.PAGES_LARGE), True),
        ('open_page_size', guest(1, page_size=model.PAGES_ANY), True),
        ('open_page_size', guest(1, page_size=2048), False),
        ('changed_by_a_fit', guest(2, 4), True),
        ('changed_by_a_fit', guest(2, page_size=model.PAGES_ANY), True),
        ('changed_by_a_fit', guest(2, 2), False),
        ('many_orders', guest(2, 2), False),
        ('pinned_before_victoria', guest(1, launched_at=OLD), True),
        ('pinned_before_victoria', guest(1), False),
        ('pinned_before_victoria',
         guest(1, launched_at='2020-10-15T00:00:00Z'), False),
        ('floating_cells_before_victoria', guest(
            0, policy=model.CpuPolicy.SHARED, floating=1,
            launched_at=OLD), True),
        ('floating_cells_before_victoria', guest(1, launched_at=OLD), False),
        ('cells_before_pike', guest(1, launched_at=OLD), False),
        ('cells_before_pike',
         guest(1, launched_at='2017-01-01T00:00:00Z'), True))
    @ddt.unpack
    def test_guest(self, name, subject, expected):
        told = hits.GUEST_HITS[name](hits.GuestOnHost(subject, host()))
        self.assertEqual(expected, bool(told), told)

    @ddt.data((near(1, 1, 1), guest(1), False), (near(1), guest(1), True),
              (near(1), guest(1, devices=DEVICES), False),
              (near(1), guest(1, 1, 1), False), ((), guest(1), False),
              ((devices.PciPool(NIC, None, 4),), guest(1), False))
    @ddt.unpack
    def test_beside_devices(self, pools, subject, expected):
        told = hits.beside_devices(hits.GuestOnHost(
            subject, host(pci_pools=pools)))
        self.assertEqual(expected, bool(told))

    def test_unlike_cells_on_two(self):
        """Nova is right there at a first attempt."""
        self.assertEqual('', hits.unlike_cells(hits.GuestOnHost(
            guest(2, 4), host(2))))

    def test_many_orders(self):
        # 10 * 9 * ... * 3 are 1,814,400.
        self.assertIn('8 NUMA cells, and its host 10', hits.many_orders(
            hits.GuestOnHost(guest(*[1] * 8), host(10))))

    def test_huge_pages(self):
        with_pages = dataclasses.replace(
            host(), cells=(cell(0, '0-3', pages=HUGE),))
        for subject, place, expected in (
                (guest(1), with_pages, True), (guest(1), host(), False),
                (guest(1, page_size=2048), with_pages, False)):
            self.assertEqual(expected, bool(hits.pinned_beside_huge_pages(
                hits.GuestOnHost(subject, place))))

    @ddt.data((guest(2, page_size=2048), True), (guest(2), False),
              (guest(2, page_size=4), False),
              (guest(2, page_size=model.PAGES_LARGE), True),
              (guest(2, page_size=model.PAGES_SMALL), False),
              (guest(0, policy=model.CpuPolicy.SHARED, floating=2,
                     page_size=2048), False))
    @ddt.unpack
    def test_pinned_with_huge_pages(self, subject, expected):
        self.assertEqual(expected, bool(hits.pinned_with_huge_pages(
            hits.GuestOnHost(subject, host()))))

    def test_isolated_twice(self):
        both = dataclasses.replace(host(), cells=(cell(0, '0-3', '0-3'),))
        isolated = guest(1, emulator_isolated=True,
                         thread_policy=model.ThreadPolicy.ISOLATE)
        for subject, place, expected in (
                (isolated, both, True), (isolated, host(), False),
                (guest(1), both, False)):
            self.assertEqual(expected, bool(hits.isolated_twice(
                hits.GuestOnHost(subject, place))))


@ddt.ddt
class TestHostHits(unit_base.TestCase):

    @ddt.data(
        ('has_guests', host(), [guest(1)], True),
        ('has_guests', host(), [], False),
        ('sells_dedicated_cpus', host(), [], True),
        ('sells_dedicated_cpus', host(dedicated=False), [], False),
        ('sells_no_dedicated_cpus', host(dedicated=False), [], True),
        ('sells_no_dedicated_cpus', host(), [], False),
        ('sells_no_dedicated_cpus', host(0), [], False),
        ('runs_pinned_guests', host(), [guest(1)], True),
        ('runs_pinned_guests', host(), [guest(1, vm_state='active')], True),
        ('runs_pinned_guests', host(), [guest(1, vm_state='stopped')], False),
        ('runs_pinned_guests', host(), [guest()], False),
        ('dedicates_cpu_0', host(), [], True),
        ('dedicates_cpu_0', host(dedicated=False), [], False),
        ('guests_without_cpus', host(), [guest(1)], False),
        ('guests_without_cpus', host(), [guest()], True),
        ('guests_without_cpus', host(dedicated=False), [guest()], False),
        ('guests_without_cpus', host(dedicated=False), [guest(1)], True),
        ('guests_without_cpus', host(),
         [guest(1, policy=MIXED, floating=1)], True),
        ('guests_without_cpus', host(0), [guest(1)], False))
    @ddt.unpack
    def test_host(self, name, place, guests, expected):
        told = hits.HOST_HITS[name](hits.HostWithGuests(place, guests))
        self.assertEqual(expected, bool(told), told)

    @ddt.data((3, ''), (99, 'guests are pinned to CPUs 99, which'))
    @ddt.unpack
    def test_pins_outside(self, cpu, expected):
        pinned = guest(1, fit=model.Fit((model.CellFit(0, ((0, cpu),)),)))
        told = hits.pins_outside(hits.HostWithGuests(host(), [pinned]))
        self.assertTrue(told.startswith(expected) and bool(told) == bool(
            expected), told)
