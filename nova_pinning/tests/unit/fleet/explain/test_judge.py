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

import dataclasses

import ddt

from nova_pinning import cpuset
from nova_pinning.fleet.explain import explanation
from nova_pinning.fleet.explain import judge
from nova_pinning.fleet.explain import sums
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet.explain import cases

_CELL = builders.host_cell(0, range(8))
_GUEST = cases.pinned((4, 100))
_GPU = fleet_model.DeviceKind('10de', '20b5')


def _verdict(host, one=None, scope=placement.Scope(), guests=()):
    where = standing.of_host(host, guests)
    one = one or cases.wanted(_GUEST)
    return judge.Judge({host.name: where}, scope=scope).verdict(where, one)


@ddt.ddt
class TestCause(base.TestCase):

    QUERY = fleet_wanted.Query(
        resources={'PCPU': 4}, required=frozenset({'A'}),
        forbidden=frozenset({'COMPUTE_STATUS_DISABLED'}))
    #: Each makes the host one that refuses for one thing less.
    STEPS = (
        ({'host_class': cases.SHARED}, 'class', 'shared', ''),
        ({'host_class': cases.DEDICATED, 'aggregates': ()},
         'aggregates', 'availability-zone', 'az1'),
        ({'aggregates': ('zone',)}, 'traits', 'required-trait', 'A'),
        ({'traits': frozenset({'A', 'COMPUTE_STATUS_DISABLED'})},
         'disabled', '', ''),
        ({'is_enabled': True, 'traits': frozenset({'A'})},
         'fit', 'memory', ''),
        ({'cells': (_CELL,), 'reserved_memory_mib': 16384,
          'ram_allocation_ratio': 1.0}, 'resources', 'MEMORY_MB', ''),
        ({'reserved_memory_mib': 0}, None, None, None))

    def test_order(self):
        scope = placement.Scope(
            {'zone': fleet_model.Aggregate('zone', 'az1')},
            availability_zone='az1')
        one = cases.wanted(_GUEST, (dataclasses.replace(
            self.QUERY, resources={'PCPU': 4, 'MEMORY_MB': 100}),))
        host = cases.host(
            dataclasses.replace(_CELL, memory_mib=10), is_enabled=False,
            traits=frozenset({'COMPUTE_STATUS_DISABLED'}))
        for changes, layer, name, about in self.STEPS:
            host = dataclasses.replace(host, **changes)
            found = _verdict(host, one, scope)
            if layer is None:
                self.assertIsNone(found.cause)
                self.assertTrue(found.fits)
                self.assertEqual('', found.figures)
            else:
                self.assertEqual((layer, name, about), found.cause)
                self.assertFalse(found.fits)
                self.assertNotEqual('', found.figures)
                self.assertEqual(layer in ('fit', 'resources'),
                                 found.is_eligible)

    def test_all_layers_are_asked(self):
        one = cases.wanted(_GUEST, (fleet_wanted.Query(
            resources={'PCPU': 99}),))
        found = _verdict(cases.host(_CELL, host_class=cases.SHARED), one)
        self.assertIsInstance(found.outcome, model.Fit)
        self.assertEqual(1, len(found.exclusions))
        self.assertIsNotNone(found.class_refusal)

    def test_closest_query(self):
        # Only the other one lacks nothing but CPUs.
        one = cases.wanted(_GUEST, (
            fleet_wanted.Query(resources={'PCPU': 9},
                               required=frozenset({'A'})),
            fleet_wanted.Query(resources={'VCPU': 9})))
        found = _verdict(cases.host(_CELL, traits=frozenset()), one)
        self.assertEqual(['VCPU'], [one.name for one in found.exclusions])

    def test_figures(self):
        full = cases.fill(standing.of_host(cases.host(_CELL)),
                          cases.pinned((6, 100)))
        found = _verdict(full.host, guests=full.guests)
        self.assertEqual('cell 0 has 2 free dedicated CPUs, 4 needed',
                         found.figures)

    def test_devices(self):
        pool = fleet_model.PciPool(_GPU, 0, 1)
        request = fleet_model.PciRequest('gpu', (_GPU,), 2)
        found = _verdict(cases.host(_CELL, pci_pools=(pool,)),
                         cases.wanted(_GUEST, devices=(request,)))
        self.assertEqual(('fit', 'pci', ''), found.cause)
        self.assertIn('1 free devices with alias gpu, 2 needed',
                      found.figures)

    def test_unknown_traits(self):
        found = _verdict(cases.host(_CELL), cases.wanted(
            _GUEST, (self.QUERY,)))
        self.assertEqual({'A'}, found.unknown_traits)
        self.assertTrue(found.fits)


@ddt.ddt
class TestSums(base.TestCase):

    def _sentence(self, *hosts, one=None):
        one = one or cases.wanted(_GUEST)
        verdicts = [_verdict(host, one) for host in hosts]
        return sums.sentence(len(hosts), sums.groups(verdicts, one), {})

    def test_sentence(self):
        shared = cases.host(_CELL, host_class=cases.SHARED)
        small = cases.host(builders.host_cell(0, range(2)))
        self.assertEqual(
            '5 hosts: 1 has room, 3 are shared hosts, 1 has no cell with '
            'that many dedicated CPUs',
            self._sentence(shared, shared, shared, cases.host(_CELL), small))

    def test_one(self):
        self.assertEqual('1 host: 1 has room',
                         self._sentence(cases.host(_CELL)))

    @ddt.data((1, 'lacks free 1 GiB pages'), (2, 'lack free 1 GiB pages'))
    @ddt.unpack
    def test_pages(self, count, text):
        one = cases.wanted(cases.pinned((4, 1024, 1024 * 1024)))
        host = cases.host(dataclasses.replace(
            _CELL, pages=(model.PagePool(4, 1000),
                          model.PagePool(1024 * 1024, 0))))
        self.assertEqual(
            f'{count} host{"s" * (count > 1)}: {count} {text}',
            self._sentence(*[host] * count, one=one))

    @ddt.data(*model.Reason)
    def test_all_reasons(self, reason):
        one = cases.wanted(_GUEST)
        for count in (1, 2):
            text = sums.phrase(
                judge.Cause(judge.Layer.FIT, str(reason)), count, one)
            self.assertIn(text.split()[0], (
                ('has', 'is', 'lacks') if count == 1 else
                ('have', 'are', 'lack')))

    def test_resources(self):
        cause = judge.Cause(judge.Layer.RESOURCES, 'DISK_GB')
        self.assertEqual(
            'have room in their cells, but too little DISK_GB left in '
            'Placement', sums.phrase(cause, 2, cases.wanted(_GUEST)))
        self.assertEqual('has too little DISK_GB left',
                         sums.phrase(cause, 1, cases.wanted()))

    @ddt.data(*placement.Kind)
    def test_exclusions(self, kind):
        layer = (judge.Layer.TRAITS if 'trait' in kind
                 else judge.Layer.AGGREGATES)
        text = sums.phrase(judge.Cause(layer, str(kind), 'X'), 2,
                           cases.wanted())
        self.assertIn('X', text)
        self.assertIn(text.split()[0], ('have', 'are', 'lack'))

    def test_placement_groups(self):
        one = cases.wanted(_GUEST, (fleet_wanted.Query(
            resources={'PCPU': 9}, required=frozenset({'A'})),))
        hosts = [cases.host(_CELL), cases.host(_CELL, traits=frozenset()),
                 cases.host(builders.host_cell(0, range(20)))]
        found = sums.placement_groups(
            [_verdict(host, one) for host in hosts])
        self.assertEqual([
            (2, 'PCPU', 'have too little PCPU left'),
            (1, 'A', 'lacks trait A, which is required')],
            [(one.count, one.name, one.text) for one in found])


class TestJudge(base.TestCase):

    def test_packs_cells(self):
        cells = tuple(builders.host_cell(number, range(100 * number,
                                                       100 * number + count))
                      for number, count in ((0, 8), (1, 4)))
        where = standing.of_host(cases.host(*cells))
        one = cases.wanted(cases.pinned((2, 100)))
        for packs_cells, cell in ((False, 0), (True, 1)):
            found = judge.Judge({}, packs_cells).verdict(where, one)
            self.assertEqual(cell, found.outcome.cells[0].host_cell)

    def test_what_is_foreseen_counts(self):
        # Packing, nova tries the cell first that lacks memory.
        asked = []

        def foresee(host, guest, choice, check, free):
            asked.append([cell.id for cell in choice.order])
            return model.Refusal(model.Reason.NOVA_WRONG)

        cells = tuple(builders.host_cell(
            number, range(100 * number, 100 * number + 8),
            memory_mib=memory_mib)
            for number, memory_mib in ((0, 1), (1, 200)))
        cells = (dataclasses.replace(cells[0], dedicated_cpus=cpuset.CpuSet(
            range(6))), cells[1])
        where = standing.of_host(cases.host(*cells))
        one = cases.wanted(cases.pinned((2, 100)))
        for packs_cells in (False, True):
            found = judge.Judge({}, packs_cells, foresee=foresee)
            self.assertEqual(not packs_cells, found.fits(where, one))
        self.assertEqual([[0, 1]], asked)


class TestJudgeOf(base.TestCase):

    def test_of_fleet(self):
        fleet = fleet_model.Fleet(
            hosts=(cases.host(_CELL),), packs_cells=True,
            aggregates=(fleet_model.Aggregate('a', 'z'),))
        found = explanation.judge_of(fleet)
        self.assertEqual(['host1'], list(found.standings))
        self.assertTrue(found.packs_cells)
        self.assertTrue(found.scope.is_open)
        self.assertEqual(['a'], list(found.scope.aggregates))
