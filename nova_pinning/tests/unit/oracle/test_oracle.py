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

import json

from nova import objects
from nova_pinning.tests.oracle import check
from nova_pinning.tests.oracle import compare
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.unit.oracle import cases


def _fit(case):
    with case.configured():
        return oracle.fit(*case.inputs())


def _answer(*cells):
    return tuple(
        oracle.CellAnswer(host_cell, tuple(pins.items()), tuple(reserved),
                          page_size)
        for host_cell, pins, reserved, page_size in cells)


class TestOracle(cases.TestCase):

    def test_fits(self):
        self.assertEqual(
            _answer((1, {0: 2, 1: 3}, (), None)), _fit(cases.plain()))

    def test_does_not_fit(self):
        self.assertIsNone(_fit(cases.full()))

    def test_more_guest_cells_than_host_cells(self):
        case = cases.case([cases.host_cell(0, range(4))],
                          cases.guest((1, 256), (1, 256)))
        self.assertIsNone(_fit(case))

    def test_memory_of_every_cell_counts(self):
        self.assertIsNone(_fit(cases.uneven_memory()))

    def test_goes_back_on_first_choice(self):
        self.assertEqual(
            _answer((0, {0: 0, 1: 1}, (), None),
                    (1, {2: 2, 3: 3, 4: 4, 5: 5}, (), None)),
            _fit(cases.uneven_cpus()))

    def test_page_size_is_found_anew_for_each_cell(self):
        self.assertEqual(_answer((1, {0: 1}, (), 2048)),
                         _fit(cases.sticky_page_size()))

    def test_accounting_has_to_accept(self):
        self.assertIsNone(_fit(cases.half_used_core()))

    def test_host_without_pages(self):
        case = cases.case([cases.host_cell(0, [5], pages=[])],
                          cases.guest((1, 256)))
        self.assertEqual(_answer((0, {0: 5}, (), None)), _fit(case))

    def test_overlapping_cores(self):
        case = cases.case(
            [cases.host_cell(0, [0, 1], siblings=[[0], [0], [1]])],
            cases.guest((1, 256)))
        self.assertIsNone(_fit(case))

    def test_emulator_cpu_comes_from_first_guest_cell(self):
        case = cases.case(
            [cases.host_cell(0, [0]), cases.host_cell(1, [1, 2])],
            cases.guest((1, 256), (1, 256), emulator='isolate'))
        self.assertEqual(
            _answer((1, {0: 1}, [2], None), (0, {1: 0}, (), None)),
            _fit(case))

    def test_order_of_cells_is_novas(self):
        host = [cases.host_cell(0, [0, 1], pinned=[0]),
                cases.host_cell(1, [2, 3])]
        wanted = cases.guest((1, 256))
        self.assertEqual(1, _fit(cases.case(host, wanted))[0].host_cell)
        self.assertEqual(
            0, _fit(cases.case(host, wanted, pack=True))[0].host_cell)

    def test_pci(self):
        pool = {'vendor_id': '8086', 'product_id': '1520', 'numa_node': 0,
                'dev_type': 'type-VF', 'count': 1}
        request = {'count': 1, 'spec': [{'product_id': '1520'}],
                   'alias': 'nic', 'policy': 'required'}
        host = [cases.host_cell(0, [0], pinned=[0]),
                cases.host_cell(1, [1])]
        for policy, expected in (('required', None), ('preferred', 1)):
            case = cases.case(host, cases.guest((1, 256)), pci={
                'pools': [pool], 'mapping': None,
                'requests': [request | {'policy': policy}]})
            answer = _fit(case)
            self.assertEqual(expected, answer and answer[0].host_cell)

    def test_network(self):
        host = [
            cases.host_cell(number, [number], network={
                'physnets': ['red'] if number else [], 'tunneled': False})
            for number in range(2)]
        case = cases.case(host, cases.guest((1, 256)), limits={
            'cpu': 1.0, 'ram': 1.0,
            'network': {'physnets': ['red'], 'tunneled': False}})
        self.assertEqual(1, _fit(case)[0].host_cell)

    def test_arguments_are_left_alone(self):
        for case in (cases.sticky_page_size(), cases.uneven_cpus()):
            inputs = case.inputs()
            before = json.dumps([o.obj_to_primitive() for o in inputs[:2]])
            with case.configured():
                oracle.fit(*inputs)
            self.assertEqual(before, json.dumps(
                [o.obj_to_primitive() for o in inputs[:2]]))

    def test_host_text_is_novas(self):
        """The host's JSON, written out by hand, is what nova makes of it."""
        case = cases.case(
            [cases.host_cell(0, [9, 1, 17], network={
                'physnets': ['red'], 'tunneled': True})],
            cases.guest((1, 256)))

        def plain(item):
            if isinstance(item, dict):
                return {key: plain(value) for key, value in item.items()
                        if key != 'nova_object.changes'}
            return [plain(i) for i in item] if isinstance(
                item, list) else item

        self.assertEqual(plain(json.loads(case.host()._to_json())),
                         plain(json.loads(case.host_json)))
        self.assertIsInstance(case.host(), objects.NUMATopology)


class TestNova(cases.TestCase):
    """nova's wrong answers that are known are told as what they are.

    One that fails because nova is right now is good news: take it out here
    and in the documentation.
    """

    def _kinds(self, case):
        return compare.compare(case, None).nova_wrong

    def test_right(self):
        for case in (cases.plain(), cases.full()):
            self.assertEqual(set(), self._kinds(case))

    def test_uneven_memory(self):
        self.assertIn(f'accepted, but {check.Fault.PIN_MISSING}',
                      self._kinds(cases.uneven_memory()))

    def test_uneven_cpus(self):
        self.assertEqual(
            {compare.REFUSES}, self._kinds(cases.uneven_cpus()))

    def test_sticky_page_size(self):
        self.assertEqual({compare.REFUSES_PAGES},
                         self._kinds(cases.sticky_page_size()))

    def test_half_used_core(self):
        self.assertEqual(
            {compare.REJECTED, f'accepted, but {check.Fault.EMULATOR_CORE}'},
            self._kinds(cases.half_used_core()))

    def test_broken_host(self):
        case = cases.case([cases.host_cell(0, [0], siblings=[])],
                          cases.guest((1, 256)), odd=True)
        self.assertEqual({compare.RAISES + compare.ODD}, self._kinds(case))
