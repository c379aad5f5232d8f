# SPDX-License-Identifier: Apache-2.0

import re

import hypothesis
from hypothesis import strategies
from nova import objects
from oslo_versionedobjects import base as ovo

from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_FEW_IDS = strategies.integers(0, 5)

_FIELDS = ('id', 'cpuset', 'pcpuset', 'pinned_cpus', 'siblings', 'memory',
           'memory_usage', 'cpu_usage', 'mempages', 'network_metadata')


def _properties(cell):
    """What the engine reads of a cell, by name."""
    values = {name: getattr(cell, name) for name in vars(model.CellView)
              if not name.startswith('_')}
    values['cores'] = [set(core) for core in values['cores']]
    for name in 'pinned_cpus', 'shared_cpus':
        values[name] = set(values[name])
    return values


class TestHost(oracle_cases.TestCase):

    @unit_base.settings(80)
    @hypothesis.given(builders.ANY_CASE)
    def test_reads_what_is_there(self, case):
        """Views of nova's objects show what the case's own figures say."""
        hypothesis.assume(not case.data['odd'])
        ours, _guest = builders.model_of(case)
        limits = case.limits()
        ratios = limits and (limits.cpu_allocation_ratio,
                             limits.ram_allocation_ratio) or ()
        theirs = topology.host_from_nova(case.host(), *ratios)
        self.assertEqual(ours[1:], theirs[1:])
        self.assertEqual(len(ours.cells), len(theirs.cells))
        for one, other in zip(ours.cells, theirs.cells):
            self.assertEqual(_properties(one), _properties(other))

    @unit_base.settings(80)
    @hypothesis.given(builders.ANY_CASE)
    def test_engine_does_the_same_on_both(self, case):
        """Verdict, pins and the figures of a refusal."""
        hypothesis.assume(not case.data['odd'])
        ours, guest = builders.model_of(case)
        theirs = topology.host_from_nova(case.host(), *ours[1:3])
        self.assertEqual(
            fit.fit_guest(ours, guest, pack=case.data['pack']),
            fit.fit_guest(theirs, guest, pack=case.data['pack']))

    def test_no_topology(self):
        self.assertEqual(model.Host(()), topology.host_from_nova(None))

    def test_counting_reads_no_siblings(self):
        """Hosts that are full are told without the dearer fields."""
        cell = builders.host_topology(
            oracle_cases.host_cell(0, range(4), pinned=[0, 1])).cells[0]
        for field in ('siblings', 'mempages', 'cpu_usage', 'cpuset'):
            delattr(cell, f'_obj_{field}')
        view = topology.NovaCell(cell)
        self.assertEqual((2, 4), (view.free_count, view.dedicated_count))
        refusal = fit.fit_guest(builders.host(view), builders.guest((3, 1)))
        self.assertEqual(model.Reason.FREE_CPUS, refusal.reason)

    @unit_base.settings(150)
    @hypothesis.given(
        strategies.lists(strategies.sets(_FEW_IDS, max_size=3), max_size=4),
        strategies.sets(_FEW_IDS), strategies.sets(_FEW_IDS),
        strategies.sets(_FEW_IDS))
    def test_sibling_lists_of_all_kinds(
            self, siblings, dedicated, shared, pinned):
        """Whatever the sets, they are looked into before CPUs are given."""
        cell = builders.host_topology(oracle_cases.host_cell(
            0, dedicated, shared=shared, pinned=pinned, siblings=siblings,
        )).cells[0]
        known = builders.host_cell(
            0, dedicated_cpus=dedicated, shared_cpus=shared,
            pinned_cpus=pinned, cores=tuple(map(tuple, siblings)))
        view = topology.NovaCell(cell)
        self.assertEqual(
            (cell.avail_pcpus, known.has_stray_pins, known.free_in_cores),
            (view.free_count, view.has_stray_pins, view.free_in_cores))

    def test_siblings_that_overlap(self):
        for siblings in ([[0, 1], [1, 2]], [[0, 1], [0, 1]], [[0], [0]],
                         [[], []], []):
            host = topology.host_from_nova(builders.host_topology(
                oracle_cases.host_cell(0, range(4), siblings=siblings)))
            for vcpus in range(1, 5):
                found = fit.fit_guest(host, builders.guest((vcpus, 1)))
                cpus = [cpu for cell in found.cells
                        for _vcpu, cpu in cell.pins] if found else []
                self.assertEqual(len(set(cpus)), len(cpus), siblings)
                self.assertIn(len(cpus), (0, vcpus))


class TestBrokenHosts(oracle_cases.TestCase):

    def _fully_read(self, cell):
        return _properties(topology.NovaCell(cell))

    def test_fields_not_set(self):
        for field in _FIELDS:
            cell = builders.host_topology(oracle_cases.host_cell(
                7, range(4), network={'physnets': ['red'], 'tunneled': True}
            )).cells[0]
            delattr(cell, f'_obj_{field}')
            if field == 'network_metadata':
                # Nova does not set it on hosts without such networks.
                view = self._fully_read(cell)
                self.assertEqual(frozenset(), view['physnets'])
                self.assertFalse(view['tunneled'])
                continue
            error = self.assertRaises(
                topology.BrokenTopology, self._fully_read, cell)
            where = '?' if field == 'id' else 7
            self.assertEqual(
                f'cell {where}: field {field} is not set', str(error))

    def test_fields_of_pages_not_set(self):
        for field in ('size_kb', 'total', 'used'):
            cell = builders.host_topology(
                oracle_cases.host_cell(7, range(4))).cells[0]
            delattr(cell.mempages[0], f'_obj_{field}')
            error = self.assertRaises(
                topology.BrokenTopology, self._fully_read, cell)
            self.assertEqual(
                f'cell 7: field {field} is not set', str(error))

    def test_pages_are_read_once(self):
        cell = topology.NovaCell(builders.host_topology(
            oracle_cases.host_cell(0, [0])).cells[0])
        self.assertIs(cell.pages, cell.pages)

    def test_reserved_pages_came_later(self):
        cell = builders.host_topology(oracle_cases.host_cell(0, [0])).cells[0]
        del cell.mempages[0]._obj_reserved
        self.assertEqual(0, topology.NovaCell(cell).pages[0].reserved)

    def test_sets_that_are_none(self):
        for field in ('pcpuset', 'pinned_cpus', 'mempages'):
            cell = builders.host_topology(oracle_cases.host_cell(0,
                                                                 [0])).cells[0]
            setattr(cell, f'_obj_{field}', None)
            self.assertRaises(
                topology.BrokenTopology, self._fully_read, cell)

    def test_no_list_of_cells(self):
        error = self.assertRaises(
            topology.BrokenTopology, topology.host_from_nova,
            objects.NUMATopology())
        self.assertEqual('the list of cells is missing', str(error))


class TestFieldNames(oracle_cases.TestCase):
    """That the fields read past their getters are where nova has them."""

    def test_names(self):
        oracle_case.setup()
        with open(topology.__file__) as source:
            read = set(re.findall(r'_obj_\w+', source.read())) - {'_obj_'}
        known = set()
        for kind in (objects.NUMATopology, objects.NUMACell,
                     objects.NUMAPagesTopology, objects.NetworkMetadata,
                     objects.InstanceNUMATopology, objects.InstanceNUMACell):
            known.update(map(ovo._get_attrname, kind.fields))
        self.assertGreater(len(read), 10)
        self.assertEqual(set(), read - known)

    def test_values(self):
        cell = builders.host_topology(oracle_cases.host_cell(3,
                                                             [4, 5])).cells[0]
        for field in _FIELDS[:-1]:
            self.assertEqual(
                getattr(cell, field), getattr(cell, ovo._get_attrname(field)))


class TestGuest(oracle_cases.TestCase):

    @unit_base.settings(80)
    @hypothesis.given(builders.ANY_CASE)
    def test_reads_what_is_there(self, case):
        _host, expected = builders.model_of(case)
        limits = case.limits()
        network = (limits.network_metadata
                   if limits and 'network_metadata' in limits else None)
        found = topology.guest_from_nova(case.guest(), network)
        self.assertEqual(expected, found)
        self.assertEqual(expected.demands, found.demands)

    def _assert_broken(self, text, guest):
        error = self.assertRaises(
            topology.BrokenTopology, topology.guest_from_nova, guest)
        self.assertIn(text, str(error))

    def test_broken(self):
        guest = builders.guest_topology()
        self._assert_broken('no cells', guest)
        guest = builders.guest_topology((1, 1), (1, 1))
        guest.cells[1].cpu_policy = 'shared'
        self._assert_broken('differ in their CPU policies', guest)
        guest = builders.guest_topology((1, 1), (1, 1))
        guest.cells[1].cpu_thread_policy = 'require'
        self._assert_broken('differ in their CPU policies', guest)
        for field in ('cpuset', 'pcpuset', 'memory', 'cpu_policy'):
            guest = builders.guest_topology((1, 1))
            delattr(guest.cells[0], f'_obj_{field}')
            self._assert_broken(field, guest)
        guest = builders.guest_topology((1, 1))
        guest.cells[0]._obj_cpu_policy = 'lavish'
        self._assert_broken('lavish', guest)
        self._assert_broken('cells', objects.InstanceNUMATopology())

    def test_fields_that_came_later(self):
        guest = builders.guest_topology((1, 1))
        del guest._obj_emulator_threads_policy
        del guest.cells[0]._obj_pagesize
        found = topology.guest_from_nova(guest, objects.NetworkMetadata())
        self.assertFalse(found.emulator_isolated)
        self.assertIsNone(found.cells[0].page_size_kib)
        self.assertEqual((frozenset(), False),
                         (found.physnets, found.tunneled))

    def test_page_size_zero_is_none(self):
        guest = builders.guest_topology((1, 1), pagesize=0)
        self.assertIsNone(
            topology.guest_from_nova(guest).cells[0].page_size_kib)
