# SPDX-License-Identifier: Apache-2.0

import json

from nova import objects
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_check
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.unit.oracle import oracle_cases


def _fit(case):
    with case.configured():
        return oracle.fit(*case.inputs())


def _answer(*cells):
    return tuple(
        oracle.CellAnswer(host_cell, tuple(pins.items()), tuple(reserved),
                          page_size)
        for host_cell, pins, reserved, page_size in cells)


class TestOracle(oracle_cases.TestCase):

    def test_fits(self):
        self.assertEqual(
            _answer((1, {0: 2, 1: 3}, (), None)), _fit(oracle_cases.plain()))

    def test_does_not_fit(self):
        self.assertIsNone(_fit(oracle_cases.full()))

    def test_more_guest_cells_than_host_cells(self):
        case = oracle_cases.case([oracle_cases.host_cell(0, range(4))],
                                 oracle_cases.guest((1, 256), (1, 256)))
        self.assertIsNone(_fit(case))

    def test_memory_of_every_cell_counts(self):
        self.assertIsNone(_fit(oracle_cases.uneven_memory()))

    def test_goes_back_on_first_choice(self):
        self.assertEqual(
            _answer((0, {0: 0, 1: 1}, (), None),
                    (1, {2: 2, 3: 3, 4: 4, 5: 5}, (), None)),
            _fit(oracle_cases.uneven_cpus()))

    def test_page_size_is_found_anew_for_each_cell(self):
        self.assertEqual(_answer((1, {0: 1}, (), 2048)),
                         _fit(oracle_cases.sticky_page_size()))

    def test_accounting_has_to_accept(self):
        self.assertIsNone(_fit(oracle_cases.half_used_core()))

    def test_host_without_pages(self):
        case = oracle_cases.case([oracle_cases.host_cell(0, [5], pages=[])],
                                 oracle_cases.guest((1, 256)))
        self.assertEqual(_answer((0, {0: 5}, (), None)), _fit(case))

    def test_overlapping_cores(self):
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0, 1], siblings=[[0], [0], [1]])],
            oracle_cases.guest((1, 256)))
        self.assertIsNone(_fit(case))

    def test_emulator_cpu_comes_from_first_guest_cell(self):
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0]),
             oracle_cases.host_cell(1, [1, 2])],
            oracle_cases.guest((1, 256), (1, 256), emulator='isolate'))
        self.assertEqual(
            _answer((1, {0: 1}, [2], None), (0, {1: 0}, (), None)),
            _fit(case))

    def test_order_of_cells_is_novas(self):
        host = [oracle_cases.host_cell(0, [0, 1], pinned=[0]),
                oracle_cases.host_cell(1, [2, 3])]
        wanted = oracle_cases.guest((1, 256))
        self.assertEqual(1, _fit(oracle_cases.case(host, wanted))[0].host_cell)
        self.assertEqual(
            0, _fit(oracle_cases.case(host, wanted, pack=True))[0].host_cell)

    def test_pci(self):
        pool = {'vendor_id': '8086', 'product_id': '1520', 'numa_node': 0,
                'dev_type': 'type-VF', 'count': 1}
        request = {'count': 1, 'spec': [{'product_id': '1520'}],
                   'alias': 'nic', 'policy': 'required'}
        host = [oracle_cases.host_cell(0, [0], pinned=[0]),
                oracle_cases.host_cell(1, [1])]
        for policy, expected in (('required', None), ('preferred', 1)):
            case = oracle_cases.case(host, oracle_cases.guest((1, 256)), pci={
                'pools': [pool], 'mapping': None,
                'requests': [request | {'policy': policy}]})
            answer = _fit(case)
            self.assertEqual(expected, answer and answer[0].host_cell)

    def test_network(self):
        host = [
            oracle_cases.host_cell(number, [number], network={
                'physnets': ['red'] if number else [], 'tunneled': False})
            for number in range(2)]
        case = oracle_cases.case(host, oracle_cases.guest((1, 256)), limits={
            'cpu': 1.0, 'ram': 1.0,
            'network': {'physnets': ['red'], 'tunneled': False}})
        self.assertEqual(1, _fit(case)[0].host_cell)

    def test_arguments_are_left_alone(self):
        for case in (oracle_cases.sticky_page_size(),
                     oracle_cases.uneven_cpus()):
            inputs = case.inputs()
            before = json.dumps([o.obj_to_primitive() for o in inputs[:2]])
            with case.configured():
                oracle.fit(*inputs)
            self.assertEqual(before, json.dumps(
                [o.obj_to_primitive() for o in inputs[:2]]))

    def test_host_text_is_novas(self):
        """The host's JSON, written out by hand, is what nova makes of it."""
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [9, 1, 17], network={
                'physnets': ['red'], 'tunneled': True})],
            oracle_cases.guest((1, 256)))

        def plain(item):
            if isinstance(item, dict):
                return {key: plain(value) for key, value in item.items()
                        if key != 'nova_object.changes'}
            return [plain(i) for i in item] if isinstance(
                item, list) else item

        self.assertEqual(plain(json.loads(case.host()._to_json())),
                         plain(json.loads(case.host_json)))
        self.assertIsInstance(case.host(), objects.NUMATopology)


class TestNova(oracle_cases.TestCase):
    """nova's wrong answers that are choose from told as what they are.

    One that fails because nova is right now is good news: take it out here
    and in the documentation.
    """

    def _kinds(self, case):
        return oracle_compare.compare(case, None).nova_wrong

    def test_right(self):
        for case in (oracle_cases.plain(), oracle_cases.full()):
            self.assertEqual(set(), self._kinds(case))

    def test_uneven_memory(self):
        self.assertIn(f'accepted, but {oracle_check.Fault.PIN_MISSING}',
                      self._kinds(oracle_cases.uneven_memory()))

    def test_uneven_cpus(self):
        self.assertEqual(
            {oracle_compare.REFUSES}, self._kinds(oracle_cases.uneven_cpus()))

    def test_sticky_page_size(self):
        self.assertEqual({oracle_compare.REFUSES_PAGES},
                         self._kinds(oracle_cases.sticky_page_size()))

    def test_half_used_core(self):
        self.assertEqual(
            {oracle_compare.REJECTED,
             f'accepted, but {oracle_check.Fault.EMULATOR_CORE}'},
            self._kinds(oracle_cases.half_used_core()))

    def test_broken_host(self):
        case = oracle_cases.case([oracle_cases.host_cell(0, [0], siblings=[])],
                                 oracle_cases.guest((1, 256)), odd=True)
        self.assertEqual({oracle_compare.RAISES + oracle_compare.ODD},
                         self._kinds(case))
