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

import collections
import json

from nova_pinning.tests.oracle import case as case_lib
from nova_pinning.tests.oracle import compare
from nova_pinning.tests.oracle import generate
from nova_pinning.tests.unit.oracle import cases


class TestGenerate(cases.TestCase):

    def test_reproducible(self):
        for number in range(50):
            self.assertEqual(generate.generate(7, number).data,
                             generate.generate(7, number).data)

    def test_seeds_and_numbers_differ(self):
        texts = {str(generate.generate(seed, number))
                 for seed in range(10) for number in range(10)}
        self.assertEqual(100, len(texts))

    def test_survives_json(self):
        for number in range(50):
            case = generate.generate(7, number)
            again = case_lib.Case.parse(str(case))
            self.assertEqual(case.data, again.data)
            self.assertEqual(case.host_json, again.host_json)

    def test_cpus_are_where_they_belong(self):
        for number in range(200):
            case = generate.generate(5, number)
            if case.data['odd']:
                continue
            seen = set()
            for cell in case.data['host']:
                known = {*cell['shared'], *cell['dedicated']}
                cores = [cpu for core in cell['siblings'] for cpu in core]
                self.assertEqual(known, set(cores))
                self.assertEqual(len(known), len(cores))
                self.assertLessEqual(
                    set(cell['pinned']), set(cell['dedicated']))
                self.assertFalse(seen & known)
                seen |= known
                for _size, total, used, reserved in cell['pages']:
                    self.assertLessEqual(used + reserved, total)

    def test_near_the_edge(self):
        """Enough of everything, about half of it fitting."""
        seen = collections.Counter()
        count = 500
        for number in range(count):
            case = generate.generate(3, number)
            guest = case.data['guest']
            seen['fits'] += compare.fits(case)
            seen['odd'] += case.data['odd']
            seen['pci'] += bool(case.data['pci'])
            seen['cells', len(guest['cells'])] += 1
            for key in ('policy', 'threads', 'emulator', 'pagesize'):
                seen[key, guest[key]] += 1
            self.assertLessEqual(len(case.data['host']), 8)
        self.assertTrue(0.3 < seen['fits'] / count < 0.7, seen)
        for key in (
                'odd', 'pci', *(('cells', n) for n in range(1, 5)),
                ('policy', None), ('policy', 'dedicated'),
                ('policy', 'mixed'), ('policy', 'shared'),
                ('threads', 'prefer'), ('threads', 'require'),
                ('threads', 'isolate'), ('emulator', 'share'),
                ('emulator', 'isolate'), ('pagesize', -1), ('pagesize', -2),
                ('pagesize', -3), ('pagesize', 4), ('pagesize', 2048),
                ('pagesize', 1048576)):
            self.assertGreater(seen[key], 2, key)


class TestCase(cases.TestCase):

    def test_objects_are_fresh(self):
        case = generate.generate(7, 4)
        one, two = case.inputs(), case.inputs()
        for left, right in zip(one, two, strict=True):
            if left is not None:
                self.assertIsNot(left, right)
        one.instance_topology.cells[0].memory += 1
        self.assertNotEqual(one.instance_topology.cells[0].memory,
                            case.guest().cells[0].memory)

    def test_sets_are_in_the_same_order(self):
        """Python's order of a set's elements depends on how it was made."""
        for number in range(100):
            case = generate.generate(7, number)
            orders = [
                [list(core) for cell in host.cells for core in cell.siblings]
                for host in (case.host(), case.host())]
            self.assertEqual(*orders)

    def test_configured(self):
        option = 'packing_host_numa_cells_allocation_strategy'
        case = cases.case([cases.host_cell(0, [0])], cases.guest((1, 256)),
                          pack=True)
        with case.configured():
            self.assertTrue(getattr(case_lib.CONF.compute, option))
        self.assertFalse(getattr(case_lib.CONF.compute, option))

    def test_not_json(self):
        self.assertRaises(json.JSONDecodeError, case_lib.Case.parse, '{')
