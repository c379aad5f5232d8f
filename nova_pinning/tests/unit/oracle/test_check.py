# SPDX-License-Identifier: Apache-2.0

import copy

from nova_pinning.tests.oracle.oracle import CellAnswer
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle.oracle_check import Fault
from nova_pinning.tests.oracle.oracle_check import faults
from nova_pinning.tests.unit.oracle import oracle_cases


class TestFaults(oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.host = [
            oracle_cases.host_cell(0, range(4), siblings=[[0, 1], [2, 3]],
                                   pages=[[4, 131072, 0, 0],
                                          [2048, 512, 0, 0]]),
            oracle_cases.host_cell(1, range(4, 8), siblings=[[4, 5], [6, 7]],
                                   pinned=[6], pages=[[4, 131072, 0, 0]]),
        ]
        self.guest = oracle_cases.guest((2, 512), (1, 256))

    def _assert_faults(self, expected, *cells):
        case = oracle_cases.case(self.host, self.guest)
        answer = tuple(
            CellAnswer(number, tuple(pins.items()), reserved, size)
            for number, pins, reserved, size in cells)
        self.assertEqual(set(expected), faults(case, answer))

    def test_none(self):
        self._assert_faults(
            (), (0, {0: 0, 1: 1}, (), None), (1, {2: 7}, (), None))

    def test_cells(self):
        first = (0, {0: 0, 1: 1}, (), None)
        self._assert_faults({Fault.CELLS}, first)
        self._assert_faults({Fault.CELLS}, first, (0, {2: 2}, (), None))
        self._assert_faults({Fault.CELLS}, first, (2, {2: 7}, (), None))

    def test_pins(self):
        last = (1, {2: 7}, (), None)
        for pins, *expected in (
                ({0: 0}, Fault.PIN_MISSING),
                ({0: 0, 1: 1, 2: 2}, Fault.PIN_STRAY),
                ({0: 0, 1: 5}, Fault.CPU_FOREIGN),
                ({0: 0, 1: 0}, Fault.CPU_TWICE),
                ({0: 0, 1: 7}, Fault.CPU_FOREIGN, Fault.CPU_TWICE)):
            self._assert_faults(expected, (0, pins, (), None), last)

    def test_cpu_taken(self):
        self._assert_faults(
            {Fault.CPU_TAKEN},
            (0, {0: 0, 1: 1}, (), None), (1, {2: 6}, (), None))

    def test_pins_of_a_floating_guest(self):
        self.guest['policy'] = 'shared'
        for cell in self.guest['cells']:
            cell['shared'], cell['dedicated'] = cell['dedicated'], []
        for cell in self.host:
            cell['shared'] = cell['dedicated']
        self._assert_faults(
            {Fault.PIN_STRAY}, (0, {0: 0}, (), None), (1, {}, (), None))

    def test_thread_policy(self):
        last = (1, {2: 7}, (), None)
        self.guest['threads'] = 'require'
        self._assert_faults((), (0, {0: 0, 1: 1}, (), None), last)
        self._assert_faults(
            {Fault.THREADS}, (0, {0: 0, 1: 2}, (), None), last)
        self.guest['threads'] = 'isolate'
        self._assert_faults({Fault.THREADS}, (0, {0: 0, 1: 2}, (), None),
                            last)
        for cell in self.host:
            cell['shared'] = cell['dedicated']
        spread = (0, {0: 0, 1: 2}, (), None)
        self._assert_faults((), spread, (1, {2: 4}, (), None))
        self._assert_faults({Fault.THREADS}, spread, last)
        self._assert_faults({Fault.THREADS}, (0, {0: 0, 1: 1}, (), None),
                            (1, {2: 4}, (), None))

    def test_emulator(self):
        self.guest['emulator'] = 'isolate'
        last = (1, {2: 7}, (), None)
        for reserved, expected in (
                ((2,), set()), ((), {Fault.EMULATOR}),
                ((4,), {Fault.EMULATOR}), ((2, 3), {Fault.EMULATOR}),
                ((0,), {Fault.CPU_TWICE})):
            self._assert_faults(
                expected, (0, {0: 0, 1: 1}, reserved, None), last)

    def test_emulator_core(self):
        case = oracle_cases.half_used_core()
        answer = (CellAnswer(0, ((0, 2),), (1,), None),)
        self.assertEqual({Fault.EMULATOR_CORE}, faults(case, answer))

    def test_memory(self):
        self.guest['cells'][1]['memory'] = 513
        self._assert_faults({Fault.MEMORY}, (0, {0: 0, 1: 1}, (), None),
                            (1, {2: 7}, (), None))

    def test_memory_without_pages(self):
        for cell in self.host:
            cell.update(pages=[], memory_used=3800)
        self._assert_faults({Fault.MEMORY}, (0, {0: 0, 1: 1}, (), None),
                            (1, {2: 7}, (), None))

    def test_pages(self):
        for asked, first, last in (
                (-1, 4, 4), (-3, 2048, 4), (-3, 4, 4), (4, 4, 4)):
            self.guest['pagesize'] = asked
            self._assert_faults((), (0, {0: 0, 1: 1}, (), first),
                                (1, {2: 7}, (), last))
        for asked, first, last in (
                (-1, 2048, 4), (-2, 2048, 4), (-3, 2048, 2048),
                (2048, 4, 2048), (-3, None, 4)):
            self.guest['pagesize'] = asked
            self._assert_faults({Fault.PAGES}, (0, {0: 0, 1: 1}, (), first),
                                (1, {2: 7}, (), last))

    def test_floating(self):
        data = {
            'host': [oracle_cases.host_cell(0, shared=[0, 1], cpu_usage=3)],
            'guest': {
                'cells': [{'dedicated': [], 'shared': [0, 1],
                           'memory': 1024}],
                'policy': None, 'threads': None, 'emulator': None,
                'pagesize': None},
            'limits': {'cpu': 2.5, 'ram': 1.0, 'network': None},
        }
        answer = (CellAnswer(0, (), (), None),)

        def found(**changes):
            changed = copy.deepcopy(data)
            changed['host'][0].update(changes)
            return faults(oracle_case.Case(changed), answer)

        self.assertEqual(set(), found())
        self.assertEqual({Fault.SHARED_CPUS, Fault.SHARED_RATIO},
                         found(shared=[0]))
        self.assertEqual({Fault.SHARED_RATIO}, found(cpu_usage=4))
        self.assertEqual({Fault.SHARED_RATIO}, found(memory_used=3200))
