# SPDX-License-Identifier: Apache-2.0
"""Whole guests on whole hosts: what the property tests do not name."""

from unittest import mock

from oslotest import base as oslotest

from nova_pinning import fit
from nova_pinning.fit import cell_check
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.tests.unit import builders


class _Devices:
    """PCI devices near certain cells; asked about, it remembers.

    :param lack: why no set of cells will do at all
    """

    is_requested = True

    def __init__(self, *good_sets, counts=None, lack=''):
        self._good_sets = good_sets
        self._counts = counts or {}
        self._lack = lack
        self.asked = []
        self.asked_at_once = []

    def device_count(self, cell_id):
        return self._counts.get(cell_id, 0)

    def label(self, cell):
        return cell.id

    def shortfall(self, cell_ids, count):
        self.asked_at_once.append((cell_ids, count))
        return self._lack

    def supports(self, cell_ids):
        self.asked.append(cell_ids)
        return cell_ids in self._good_sets


def _row(*free, **values):
    """A host of 4-CPU cells with so many of them free in each."""
    return builders.host(*(
        builders.host_cell(
            number, range(4 * number, 4 * number + 4),
            pinned_cpus=range(4 * number, 4 * number + 4 - count), **values)
        for number, count in enumerate(free)))


class TestFit(oslotest.BaseTestCase):

    def _cells_of(self, outcome):
        self.assertIsInstance(outcome, model.Fit, str(outcome))
        return [cell.host_cell for cell in outcome.cells]

    def test_names_vcpus_as_the_guest_does(self):
        guest = model.Guest(
            (model.GuestCell((1, 5), (0,), 1024),
             model.GuestCell((2,), (3, 4), 1024)),
            model.CpuPolicy.MIXED, emulator_isolated=True)
        host = builders.host(*(
            builders.host_cell(number, range(first, first + 4),
                               shared_cpus=[first + 4, first + 5])
            for number, first in ((0, 0), (1, 10))))
        self.assertEqual(
            model.Fit((
                model.CellFit(0, ((1, 0), (5, 1)), (2,)),
                model.CellFit(1, ((2, 10),)))),
            fit.fit_guest(host, guest))

    def test_floating_guests_get_no_cpus(self):
        host = builders.host(builders.host_cell(
            3, range(4), shared_cpus=range(4),
            pages=(model.PagePool(4, 10 ** 6), model.PagePool(2048, 9))))
        self.assertEqual(
            model.Fit((model.CellFit(3, page_size_kib=2048),)),
            fit.fit_guest(host, builders.floating_guest(
                (2, 8, model.PAGES_LARGE), emulator_isolated=True)))

    def test_goes_back_on_the_first_choice(self):
        # The cell with the most free CPUs comes first, but only there is
        # room for the second guest cell.
        self.assertEqual([1, 0], self._cells_of(fit.fit_guest(
            _row(4, 2, 1), builders.guest((2, 1), (4, 1)))))

    def test_no_two_guest_cells_on_one_host_cell(self):
        self.assertEqual([0, 1], self._cells_of(fit.fit_guest(
            _row(4, 2), builders.guest((1, 1), (1, 1)))))

    def test_one_cell_more_than_the_guest(self):
        """Nova's order differs if all host cells are needed."""
        guest = builders.guest((1, 1), (1, 1))
        self.assertEqual([0, 1],
                         self._cells_of(fit.fit_guest(_row(1, 3), guest)))
        self.assertEqual(
            [2, 1], self._cells_of(fit.fit_guest(_row(1, 3, 4), guest)))
        self.assertEqual([0, 1], self._cells_of(fit.fit_guest(
            _row(1, 3, 4), guest, pack=True)))


class TestRefusals(oslotest.BaseTestCase):

    def _assert_refused(self, reason, text, host, guest, **values):
        outcome = fit.fit_guest(host, guest, **values)
        self.assertIsInstance(outcome, model.Refusal)
        self.assertEqual(reason, outcome.reason)
        self.assertEqual(text, str(outcome))

    def test_no_topology(self):
        text = 'the host reports no NUMA topology'
        self._assert_refused(
            Reason.NO_TOPOLOGY, text, builders.host(), builders.guest((1, 1)))
        self._assert_refused(
            Reason.NO_TOPOLOGY, text, _row(4), model.Guest(()))

    def test_too_few_cells(self):
        self._assert_refused(
            Reason.TOO_FEW_CELLS,
            'the host has fewer NUMA cells than the guest: 2 host cells, '
            '3 guest cells', _row(4, 4), builders.guest(*[(1, 1)] * 3))

    def test_two_cells_with_one_id(self):
        self._assert_refused(
            Reason.BROKEN_TOPOLOGY,
            'a NUMA topology is broken: two cells have the same id',
            builders.host(builders.host_cell(1, [0]),
                          builders.host_cell(1, [1])),
            builders.guest((1, 1)))

    def test_figures_of_each_cell(self):
        self._assert_refused(
            Reason.FREE_CPUS,
            'cell 0 has 2 free dedicated CPUs, 3 needed; '
            'cell 1 has 1 free dedicated CPUs, 3 needed',
            _row(2, 1), builders.guest((3, 1)))
        self._assert_refused(
            Reason.MEMORY,
            'for guest cell 1: cell 0 has 2000 MiB of memory, 4000 MiB '
            'needed; cell 1 has 1 free dedicated CPUs, 2 needed; '
            'cell 2 has 2000 MiB of memory, 4000 MiB needed',
            _row(4, 1, 4, memory_mib=2000),
            builders.guest((2, 1000), (2, 4000)))

    def test_cells_contended(self):
        self._assert_refused(
            Reason.CELLS_CONTENDED,
            'the cells of the guest fit one by one but not together: guest '
            'cells 0, 2 have only 1 host cells with room for them',
            _row(4, 2, 2), builders.guest((4, 1), (1, 1), (3, 1)))

    def test_the_first_guest_cell_without_room_is_named(self):
        outcome = fit.fit_guest(_row(2, 2), builders.guest((3, 1), (4, 1)))
        self.assertEqual(0, outcome.guest_cell)
        self.assertEqual([3, 3],
                         [shortage.need for shortage in outcome.shortages])

    def test_pci(self):
        devices = _Devices()
        outcome = fit.fit_guest(
            _row(4, 4, 4), builders.guest((1, 1), (1, 1)), pci=devices)
        self.assertEqual(Reason.PCI, outcome.reason)
        self.assertEqual('3 sets of cells tried', outcome.detail)
        self.assertEqual([(0, 1), (0, 2), (1, 2)], sorted(devices.asked))

    def test_no_room_is_found_before_devices_are_asked_for(self):
        devices = _Devices()
        outcome = fit.fit_guest(_row(1, 2), builders.guest((3, 1)),
                                pci=devices)
        self.assertEqual(Reason.FREE_CPUS, outcome.reason)
        self.assertEqual([], devices.asked)

    def test_devices_that_no_set_of_cells_can_have(self):
        """Asked once, about all cells with room for any guest cell."""
        devices = _Devices(lack='2 of 3 NICs')
        outcome = fit.fit_guest(
            _row(4, 1, 0, 2, 3), builders.guest((2, 1), (3, 1)), pci=devices)
        self.assertEqual(Reason.PCI, outcome.reason)
        self.assertEqual('2 of 3 NICs', outcome.detail)
        self.assertEqual([((0, 3, 4), 2)], devices.asked_at_once)
        self.assertEqual([], devices.asked)

    def test_no_devices_for_a_guest_that_asks_for_none(self):
        """Networks may be why sets of cells are tried."""
        devices = _Devices(lack='all')
        devices.is_requested = False
        near = [builders.host_cell(number, [number],
                                   physnets=frozenset(['red']))
                for number in range(2)]
        self.assertTrue(fit.fit_guest(
            builders.host(*near),
            builders.guest((1, 1), physnets=frozenset(['red'])), pci=devices))
        self.assertEqual([], devices.asked_at_once)

    def test_no_more_steps(self):
        devices = _Devices()
        outcome = fit.choose_cells(
            _row(4, 4, 4), builders.guest((1, 1), (1, 1)), pci=devices,
            is_over=lambda: len(devices.asked) == 2)
        self.assertEqual(
            'the steps that a request may take were used up before the host '
            'was looked at to the end: 2 sets of cells tried', str(outcome))

    def test_steps_do_not_matter_without_sets_to_try(self):
        self.assertTrue(fit.choose_cells(
            _row(4, 4, 4), builders.guest((1, 1), (1, 1)),
            is_over=lambda: True))

    def test_network(self):
        near = builders.host_cell(0, [0], physnets=frozenset(['red']),
                                  pinned_cpus=[0])
        self._assert_refused(
            Reason.NETWORK,
            'no set of cells with room for the guest is near the networks it '
            'attaches to: 1 sets of cells tried',
            builders.host(near, builders.host_cell(1, [1])),
            builders.guest((1, 1), physnets=frozenset(['red'])))


class TestDevicesAndNetworks(oslotest.BaseTestCase):

    def _cells(self, host, guest, **values):
        outcome = fit.fit_guest(host, guest, **values)
        return outcome and [cell.host_cell for cell in outcome.cells]

    def test_devices_decide_on_the_set_of_cells(self):
        guest = builders.guest((1, 1), (2, 1))
        self.assertEqual([1, 2], self._cells(
            _row(4, 4, 4), guest, pci=_Devices((1, 2))))
        # Cell 1 has one free CPU only.
        self.assertEqual([1, 2], self._cells(
            _row(4, 1, 2), guest, pci=_Devices((1, 2))))

    def test_cells_with_devices_first_if_asked_for(self):
        devices = _Devices((0,), (1,), counts={1: 2})
        guest = builders.guest((1, 1))
        self.assertEqual([1], self._cells(_row(4, 2), guest, pci=devices))
        devices.is_requested = False
        self.assertEqual([0], self._cells(_row(2, 4), guest, pci=devices))
        self.assertEqual([], devices.asked[1:])

    def test_networks(self):
        def host(**cells):
            return builders.host(*(
                builders.host_cell(
                    number, [2 * number, 2 * number + 1],
                    physnets=frozenset(cells.get(f'cell{number}', ())),
                    tunneled=number in cells.get('tunneled', ()))
                for number in range(3)))

        one, two = builders.guest((1, 1)), builders.guest((1, 1), (1, 1))
        for cells, wanted, tunneled, guest, expected in (
                # No cell is bound to the network, so any will do.
                ({}, ['red'], True, one, [0]),
                ({'cell1': ['red']}, [], False, one, [0]),
                ({'cell1': ['red']}, ['red'], False, one, [1]),
                ({'cell1': ['red']}, ['red', 'lone'], False, one, [1]),
                ({'cell1': ['red'], 'cell2': ['blue']}, ['red', 'blue'],
                 False, one, None),
                ({'cell1': ['red'], 'cell2': ['blue']}, ['red', 'blue'],
                 False, two, [1, 2]),
                ({'cell1': ['red'], 'cell2': ['red', 'blue']},
                 ['red', 'blue'], False, one, [2]),
                ({'tunneled': [2]}, [], True, one, [2]),
                ({'tunneled': [2]}, [], False, one, [0]),
                ({'tunneled': [2], 'cell1': ['red']}, ['red'], True, one,
                 None),
                ({'tunneled': [2], 'cell1': ['red']}, ['red'], True, two,
                 [1, 2])):
            asking = model.Guest(
                guest.cells, guest.cpu_policy, physnets=frozenset(wanted),
                tunneled=tunneled)
            self.assertEqual(
                expected, self._cells(host(**cells), asking) or None,
                (cells, wanted, tunneled))


class TestCost(oslotest.BaseTestCase):
    """That permutations are not walked through."""

    def setUp(self):
        super().setUp()
        self.shortage = self.enterContext(mock.patch.object(
            cell_check, 'shortage', wraps=cell_check.shortage))

    def test_twenty_four_cells_one_short(self):
        host = _row(*[4] * 7, *[1] * 17)
        outcome = fit.fit_guest(host, builders.guest(*[(2, 1)] * 8))
        self.assertEqual(Reason.CELLS_CONTENDED, outcome.reason)
        # Each host cell is looked at once, as the guest's cells are alike.
        self.assertEqual(24, self.shortage.call_count)

    def test_twenty_four_cells_that_differ(self):
        host = _row(*[4] * 7, *[1] * 17)
        guest = builders.guest(*[(2, number) for number in range(8)])
        self.assertEqual(
            Reason.CELLS_CONTENDED, fit.fit_guest(host, guest).reason)
        self.assertLessEqual(self.shortage.call_count, 24 * 8)

    def test_as_many_as_there_are(self):
        outcome = fit.fit_guest(_row(*[4] * 24),
                                builders.guest(*[(2, 1)] * 24))
        self.assertEqual(
            list(range(24)), [cell.host_cell for cell in outcome.cells])
        self.assertEqual(24, self.shortage.call_count)

    def test_the_first_that_will_do_ends_the_search(self):
        fit.fit_guest(_row(*[4] * 24), builders.guest((2, 1), (2, 1)))
        self.assertEqual(2, self.shortage.call_count)

    def test_devices_near_none_of_many_cells(self):
        """Cells alike are tried as one: few questions, not 10,626 sets."""
        devices = _Devices()
        devices.label = lambda cell: cell.id == 3
        outcome = fit.fit_guest(
            _row(*[4] * 24), builders.guest(*[(2, 1)] * 4), pci=devices)
        self.assertEqual(Reason.PCI, outcome.reason)
        self.assertEqual(2, len(devices.asked))


class TestChoice(oslotest.BaseTestCase):

    def test_is_first(self):
        for free, cells, is_first in (
                ((4, 4, 4), [(1, 1), (1, 1)], True),
                ((4, 2, 1), [(2, 1), (4, 1)], False),
                ((1, 4, 1), [(2, 1)], True),
                ((1, 4), [(2, 1), (1, 1)], False)):
            choice = fit.choose_cells(_row(*free), builders.guest(*cells))
            self.assertEqual(is_first, choice.is_first, (free, cells))
            self.assertEqual(len(free), len(choice.order))

    def test_sets_tried(self):
        for good_set, tried in (((0, 1), 0), ((0, 2), 1), ((1, 2), 2)):
            choice = fit.choose_cells(
                _row(4, 4, 4), builders.guest((1, 1), (1, 1)),
                pci=_Devices(good_set))
            self.assertEqual(tried, choice.sets_tried)
        self.assertEqual(0, fit.choose_cells(
            _row(4, 2, 1), builders.guest((2, 1), (4, 1))).sets_tried)
