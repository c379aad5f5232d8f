# SPDX-License-Identifier: Apache-2.0

import collections
import json

from nova import objects

from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.unit.oracle import oracle_cases


class TestGenerate(oracle_cases.TestCase):

    def test_reproducible(self):
        for number in range(50):
            self.assertEqual(case_generator.generate(7, number).data,
                             case_generator.generate(7, number).data)

    def test_seeds_and_numbers_differ(self):
        texts = {str(case_generator.generate(seed, number))
                 for seed in range(10) for number in range(10)}
        self.assertEqual(100, len(texts))

    def test_survives_json(self):
        for number in range(50):
            case = case_generator.generate(7, number)
            again = oracle_case.Case.parse(str(case))
            self.assertEqual(case.data, again.data)
            self.assertEqual(case.host_json, again.host_json)

    def test_cpus_are_where_they_belong(self):
        for number in range(200):
            case = case_generator.generate(5, number)
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
            case = case_generator.generate(3, number)
            guest = case.data['guest']
            seen['fits'] += oracle_compare.fits(case)
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


def _figures(nova_object):
    """Every field, with the elements of sets of numbers in their order."""
    made = {}
    for name in nova_object.fields:
        if nova_object.obj_attr_is_set(name):
            made[name] = _plain(getattr(nova_object, name))
    return made


def _plain(value):
    if hasattr(value, 'obj_attr_is_set'):
        return _figures(value)
    if isinstance(value, set):
        # Strings are in another order in each process.
        return sorted(value) if str in map(type, value) else list(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


class TestCase(oracle_cases.TestCase):

    def test_objects_are_fresh(self):
        case = case_generator.generate(7, 4)
        one, two = case.inputs(), case.inputs()
        for left, right in zip(one, two, strict=True):
            if left is not None:
                self.assertIsNot(left, right)
        one.instance_topology.cells[0].memory += 1
        self.assertNotEqual(one.instance_topology.cells[0].memory,
                            case.guest().cells[0].memory)

    def test_objects_are_novas(self):
        """What is made without nova's checks is what nova makes."""
        for number in range(300):
            case = case_generator.generate(7, number)
            self.assertEqual(
                _figures(objects.NUMATopology.obj_from_db_obj(case.host_json)),
                _figures(case.host()))
            data = case.data['guest']
            guest = objects.InstanceNUMATopology(
                cells=[objects.InstanceNUMACell(
                    id=index, cpuset=set(cell['shared']),
                    pcpuset=set(cell['dedicated']), memory=cell['memory'],
                    pagesize=data['pagesize'], cpu_policy=data['policy'],
                    cpu_thread_policy=data['threads'])
                    for index, cell in enumerate(data['cells'])],
                emulator_threads_policy=data['emulator'])
            self.assertEqual(_figures(guest), _figures(case.guest()))

    def test_sets_are_in_the_same_order(self):
        """Python's order of a set's elements depends on how it was made."""
        for number in range(100):
            case = case_generator.generate(7, number)
            orders = [
                [list(core) for cell in host.cells for core in cell.siblings]
                for host in (case.host(), case.host())]
            self.assertEqual(*orders)

    def test_configured(self):
        option = 'packing_host_numa_cells_allocation_strategy'
        case = oracle_cases.case([oracle_cases.host_cell(0, [0])],
                                 oracle_cases.guest((1, 256)),
                                 pack=True)
        with case.configured():
            self.assertTrue(getattr(oracle_case.CONF.compute, option))
        self.assertFalse(getattr(oracle_case.CONF.compute, option))

    def test_not_json(self):
        self.assertRaises(json.JSONDecodeError, oracle_case.Case.parse, '{')
