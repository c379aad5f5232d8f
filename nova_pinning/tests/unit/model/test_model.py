# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pickle
import re

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.model import outcome
from nova_pinning.model import Reason
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

_CELL_REASONS = set(outcome._CELL_SENTENCES)
_HOST_REASONS = set(Reason) - _CELL_REASONS


class TestGuest(oslotest.BaseTestCase):

    def test_demands(self):
        cells = (
            model.GuestCell((0, 1), (), 1024, 2048),
            model.GuestCell((2,), (3, 4), 512))
        for isolated, emulators in ((False, [0, 0]), (True, [1, 0])):
            guest = model.Guest(
                cells, model.CpuPolicy.MIXED, emulator_isolated=isolated)
            self.assertEqual(
                (model.Demand(2, 0, emulators[0], 1024, 2048),
                 model.Demand(1, 2, emulators[1], 512, None)),
                guest.demands)

    def test_pinned(self):
        for policy, is_pinned in (
                ('dedicated', True), ('mixed', True), ('shared', False)):
            guest = builders.guest(
                (1, 1), cpu_policy=model.CpuPolicy(policy))
            self.assertEqual(is_pinned, guest.is_pinned, policy)

    def test_derived_fields_are_no_part_of_equality(self):
        self.assertEqual(builders.guest((1, 1)), builders.guest((1, 1)))
        self.assertEqual(1, len({builders.guest((1, 1)),
                                 builders.guest((1, 1))}))
        self.assertNotEqual(builders.guest((1, 1)), builders.guest((2, 1)))


class TestValues(oslotest.BaseTestCase):

    def test_frozen(self):
        host = builders.host(builders.host_cell(0, [0]))
        for value in (builders.guest((1, 1)), host.cells[0], host,
                      model.CellFit(0), model.Fit(()),
                      model.Refusal(Reason.PCI),
                      model.Shortage(0, Reason.MEMORY)):
            field = (value._fields[0] if isinstance(value, tuple)
                     else dataclasses.fields(value)[0].name)
            self.assertRaises(AttributeError, setattr, value, field, None)
            # So that they can go to another process, and come back equal.
            self.assertEqual(value, pickle.loads(pickle.dumps(value)))

    def test_page_pool(self):
        pool = model.PagePool(2048, total=10, used=3, reserved=2)
        self.assertEqual(5 * 2048, pool.free_kib)
        self.assertEqual(10 * 2048, pool.total_kib)
        self.assertEqual(4, model.PagePool(4, 1).free_kib)


class TestHostCell(oslotest.BaseTestCase):

    @unit_base.settings(100)
    @hypothesis.given(
        strategies.lists(strategies.sets(strategies.integers(0, 15)),
                         max_size=5),
        strategies.sets(strategies.integers(0, 15)),
        strategies.sets(strategies.integers(0, 15)),
        strategies.sets(strategies.integers(0, 15)))
    def test_free_cpus(self, cores, dedicated, pinned, shared):
        """Whatever the data, counts and cores follow from the sets."""
        cell = builders.host_cell(
            dedicated_cpus=dedicated, pinned_cpus=pinned, shared_cpus=shared,
            cores=tuple(map(tuple, cores)))
        free = dedicated - pinned
        self.assertEqual(free, set(cell.free_cpus))
        self.assertEqual(
            (len(free), len(dedicated), len(shared)),
            (cell.free_count, cell.dedicated_count, cell.shared_count))
        self.assertEqual([len(core) for core in cores], list(cell.core_sizes))
        self.assertEqual(
            [core & free for core in cores], list(map(set, cell.free_cores)))
        self.assertEqual(dedicated == shared, cell.is_legacy)
        listed = [cpu for core in cores for cpu in core]
        self.assertEqual(bool(pinned - dedicated), cell.has_stray_pins)
        if not listed or len(set(listed)) < len(listed):
            self.assertIsNone(cell.free_in_cores)
        else:
            self.assertEqual(
                len(free.intersection(listed)), cell.free_in_cores)

    def test_free_threads_keep_their_order(self):
        cell = builders.host_cell(
            0, range(4), cores=((3, 1), (0, 2)), pinned_cpus=[1])
        self.assertEqual(((3,), (0, 2)), cell.free_cores)

    def test_smallest_pages(self):
        pools = (model.PagePool(2048, 1), model.PagePool(4, 2),
                 model.PagePool(1048576, 3))
        self.assertEqual(
            pools[1], builders.host_cell(pages=pools).smallest_pages)
        self.assertIsNone(builders.host_cell().smallest_pages)

    def test_has_what_the_engine_reads(self):
        cell = builders.host_cell(0, [0])
        for name in vars(model.CellView):
            if not name.startswith('_'):
                getattr(cell, name)


class TestRefusal(oslotest.BaseTestCase):

    def test_counts_as_false(self):
        self.assertFalse(model.Refusal(Reason.PCI))
        self.assertTrue(model.Fit(()))

    def test_names_are_stable(self):
        for reason in Reason:
            self.assertRegex(reason.value, '^[a-z]+(-[a-z]+)*$')
            self.assertEqual(reason.name, reason.upper().replace('-', '_'))

    def test_every_reason_has_its_sentence(self):
        for reason in Reason:
            # Sentences, not the names for machines.
            self.assertIn(' ', model.summarise(reason))
            self.assertNotEqual(reason.value, model.summarise(reason))
        self.assertEqual(
            _CELL_REASONS, set(outcome._SUMMARIES))
        self.assertEqual(_HOST_REASONS, set(outcome._HOST_SENTENCES))

    def test_sums_are_without_figures(self):
        for reason in Reason:
            self.assertIsNone(re.search('[0-9{}]', model.summarise(reason)))

    def test_shortages_in_words(self):
        for reason, sentence in {
                Reason.FREE_CPUS: '6 free dedicated CPUs, 8 needed',
                Reason.CELL_TOO_SMALL: '6 dedicated CPUs in all, 8 needed',
                Reason.FREE_CORES: 'room for 6 vCPUs on cores whose threads '
                'are free as the thread policy wants, 8 needed',
                Reason.NO_THREADS: 'no hardware threads, which thread policy '
                '"require" needs',
                Reason.SHARED_CPUS: '6 shared CPUs in all, 8 needed at once',
                Reason.CPU_RATIO: '6 floating vCPUs left under the CPU '
                'allocation ratio, 8 needed',
                Reason.MEMORY: '6 MiB of memory, 8 MiB needed',
                Reason.MEMORY_RATIO: '6 MiB left under the RAM allocation '
                'ratio, 8 MiB needed',
                Reason.PAGE_MULTIPLE: 'pages of 6 KiB, of which the 8 MiB '
                'asked for are not a multiple',
                Reason.PAGES: '6 MiB in free pages of the size asked for, 8 '
                'MiB needed',
        }.items():
            self.assertEqual(
                f'cell 3 has {sentence}',
                str(model.Shortage(3, reason, need=8, have=6)))

    def test_every_shortage_prints(self):
        for reason in _CELL_REASONS:
            text = str(model.Shortage(7, reason, need=2.5, have=4096))
            self.assertTrue(text.startswith('cell 7 has '), text)
            self.assertNotRegex(text, '[{}]')

    def test_large_figures_are_not_rounded(self):
        self.assertIn('1234567890 MiB of memory', str(
            model.Shortage(0, Reason.MEMORY, 2 ** 40, 1234567890)))

    def test_host_reasons_print_with_and_without_detail(self):
        for reason in _HOST_REASONS:
            sentence = model.summarise(reason)
            self.assertEqual(sentence, str(model.Refusal(reason)))
            self.assertEqual(f'{sentence}: why', str(
                model.Refusal(reason, detail='why')))

    def test_cell_reasons_print_without_shortages(self):
        for reason in _CELL_REASONS:
            text = str(model.Refusal(reason))
            self.assertIn(' ', text, f'{text!r} is for machines')

    def test_cells_in_order(self):
        refusal = model.Refusal.of_cell(0, (
            model.Shortage(2, Reason.FREE_CPUS, 8, 1),
            model.Shortage(0, Reason.MEMORY, 100, 50),
            model.Shortage(1, Reason.FREE_CPUS, 8, 2)))
        self.assertEqual(
            'cell 0 has 50 MiB of memory, 100 MiB needed; '
            'cell 1 has 2 free dedicated CPUs, 8 needed; '
            'cell 2 has 1 free dedicated CPUs, 8 needed', str(refusal))
        self.assertEqual(Reason.FREE_CPUS, refusal.reason)
        self.assertEqual(refusal.figures, str(refusal))

    def test_figures(self):
        self.assertEqual('', model.Refusal(Reason.NO_TOPOLOGY).figures)
        self.assertEqual(
            'why', model.Refusal(Reason.PCI, detail='why').figures)

    def test_says_which_guest_cell(self):
        missing = (model.Shortage(0, Reason.MEMORY, 100, 50),)
        self.assertTrue(str(model.Refusal.of_cell(2, missing)).startswith(
            'for guest cell 2: cell 0 has '))
        self.assertTrue(str(model.Refusal.of_cell(0, missing)).startswith(
            'cell 0 has '))

    def test_the_most_frequent_reason_decides(self):
        for reasons, decides in (
                ([Reason.MEMORY], Reason.MEMORY),
                ([Reason.MEMORY, Reason.PAGES, Reason.PAGES], Reason.PAGES),
                ([Reason.PAGES, Reason.PAGES, Reason.MEMORY], Reason.PAGES),
                # The first of two that are as frequent.
                ([Reason.PAGES, Reason.MEMORY], Reason.PAGES)):
            self.assertEqual(decides, model.Refusal.of_cell(0, tuple(
                model.Shortage(number, reason)
                for number, reason in enumerate(reasons))).reason)

    def test_cells_without_cpus_do_not_decide(self):
        """Such as memory of GPUs, of which a host has more than of others."""
        full = model.Shortage(0, Reason.PAGES, 8, 4)
        for bare, small in (
                (Reason.CELL_TOO_SMALL, 4), (Reason.SHARED_CPUS, 4)):
            none = [model.Shortage(number, bare, 8) for number in (1, 2)]
            self.assertEqual(Reason.PAGES, model.Refusal.of_cell(
                0, (*none, full)).reason)
            self.assertEqual(bare, model.Refusal.of_cell(
                0, (*none, full, *[
                    model.Shortage(number, bare, 8, small)
                    for number in (3, 4)])).reason)
            self.assertEqual(bare, model.Refusal.of_cell(
                0, tuple(none)).reason)


class TestExports(oslotest.BaseTestCase):

    def test_all(self):
        for name in model.__all__:
            self.assertTrue(hasattr(model, name), name)
        self.assertIsInstance(
            builders.host_cell(0, [1]).dedicated_cpus, cpuset.CpuSet)
