# SPDX-License-Identifier: Apache-2.0

import copy
import operator
import pickle

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.tests.unit import unit_base

_IDS = strategies.frozensets(strategies.integers(0, 200))


def _kernel_list(cpus):
    """The kernel's list of these CPUs, found the slow way."""
    runs = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ','.join(
        str(first) if first == last else f'{first}-{last}'
        for first, last in runs)


class TestParse(oslotest.BaseTestCase):

    def test_syntax(self):
        for text, cpus in (
                ('', []),
                (' ', []),
                ('0', [0]),
                ('007', [7]),
                ('0-3', [0, 1, 2, 3]),
                ('5-5', [5]),
                ('0,2,4', [0, 2, 4]),
                ('3,1,1-3', [1, 2, 3]),
                (' 0 - 2 , 5\n', [0, 1, 2, 5]),
                ('0,,1,', [0, 1]),
                # Every second CPU of a range, as taskset reads it.
                ('0-10:2', [0, 2, 4, 6, 8, 10]),
                ('1-10:3', [1, 4, 7, 10]),
                ('0-3:1', [0, 1, 2, 3]),
                ('0-3:9', [0]),
                # The first 2 of each 8, as the kernel reads it.
                ('0-31:2/8', [0, 1, 8, 9, 16, 17, 24, 25]),
                ('4-14:2/4', [4, 5, 8, 9, 12, 13]),
                ('0-8:2/4', [0, 1, 4, 5, 8]),
                ('0-5:3/3', [0, 1, 2, 3, 4, 5]),
                # What is taken out stays out, wherever it is said.
                ('0-3,^2', [0, 1, 3]),
                ('^2,0-3', [0, 1, 3]),
                ('0-7,^2-4', [0, 1, 5, 6, 7]),
                ('0-7,^0-7:2', [1, 3, 5, 7]),
                ('0-7,^0-7:1/4', [1, 2, 3, 5, 6, 7]),
                ('0-7, ^ 2 - 4', [0, 1, 5, 6, 7]),
                ('0-3,^9', [0, 1, 2, 3]),
                ('^1', []),
                (f'{cpuset.MAX_CPU_ID}', [cpuset.MAX_CPU_ID])):
            self.assertEqual(cpus, list(cpuset.CpuSet.parse(text)), text)

    def _assert_names_item(self, item):
        text = f'0-3,{item},5'
        try:
            found = cpuset.CpuSet.parse(text)
        except ValueError as error:
            self.assertIn(repr(item), str(error))
            self.assertIn(repr(text), str(error))
        else:
            self.fail(f'{text!r} is read as {found!r}')

    def test_errors_name_the_item(self):
        too_big = cpuset.MAX_CPU_ID + 1
        for item in (
                'x', '-1', '1-', '1-x', '0x3', '1.5', '+1', '1_0', '٣',
                '1-2-3', '0-3:', '0-3:2/', '0-3/2', '3:2', ':2',
                '^', '^^1', '1^', '0..3', '0;1', 'all',
                '3-1', '^3-1', '0-3:0', '0-3:0/2', '0-3:3/2', '0-3:1/0',
                f'{too_big}', f'0-{too_big}', f'^{too_big}'):
            self._assert_names_item(item)

    def test_spaces_do_not_join_numbers(self):
        for item in ('0 1', '1 2-3', '0-1 2', '0-3:1 2', '0-7:1/2 3'):
            self._assert_names_item(item)

    def test_numbers_too_long_for_python(self):
        for item in ('9' * 5000, f'0-3:{"9" * 5000}'):
            self._assert_names_item(item)

    @unit_base.settings(200)
    @hypothesis.given(_IDS)
    def test_prints_the_kernels_list(self, cpus):
        printed = str(cpuset.CpuSet(cpus))
        self.assertEqual(_kernel_list(cpus), printed)
        self.assertEqual(
            cpus, frozenset(cpuset.CpuSet.parse(printed)))

    @unit_base.settings(50)
    @hypothesis.given(_IDS)
    def test_repr_can_be_evaluated(self, cpus):
        made = cpuset.CpuSet(cpus)
        self.assertEqual(made, eval(repr(made), {'CpuSet': cpuset.CpuSet}))

    @unit_base.settings(200)
    @hypothesis.given(strategies.lists(strategies.tuples(
        strategies.booleans(), strategies.integers(0, 80),
        strategies.integers(0, 30), strategies.integers(1, 6),
        strategies.integers(1, 6))))
    def test_items_add_up(self, items):
        """Any mix of items, against sets of the ids one by one."""
        parts = []
        included, excluded = set(), set()
        for exclude, first, length, used, group in items:
            used = min(used, group)
            parts.append(f'{"^" if exclude else ""}{first}-{first + length}'
                         f':{used}/{group}')
            (excluded if exclude else included).update(
                cpu for cpu in range(first, first + length + 1)
                if (cpu - first) % group < used)
        self.assertEqual(
            included - excluded, set(cpuset.CpuSet.parse(','.join(parts))))

    @unit_base.settings(200)
    @hypothesis.given(strategies.text('0123456789-,:/^ \t', max_size=12))
    def test_odd_text_is_read_or_refused(self, text):
        try:
            cpus = cpuset.CpuSet.parse(text)
        except ValueError as error:
            self.assertIn(repr(text), str(error))
        else:
            self.assertTrue(all(cpu <= cpuset.MAX_CPU_ID for cpu in cpus))


class TestMask(oslotest.BaseTestCase):

    @unit_base.settings(200)
    @hypothesis.given(_IDS)
    def test_round_trip(self, ids):
        cpus = cpuset.CpuSet(ids)
        text = cpus.kernel_mask
        self.assertEqual(cpus, cpuset.CpuSet.parse_mask(text))
        first, *others = text.split(',')
        self.assertIn(len(first), range(1, 9))
        self.assertEqual({8} if others else set(), set(map(len, others)))

    def test_kernel(self):
        self.assertEqual('0', cpuset.CpuSet().kernel_mask)
        self.assertEqual('1,00000003',
                         cpuset.CpuSet([0, 1, 32]).kernel_mask)
        self.assertEqual(cpuset.CpuSet([0, 32]),
                         cpuset.CpuSet.parse_mask('0000,1,1'))
        for wrong in ('', 'x', '1,', '-1'):
            self.assertRaises(ValueError, cpuset.CpuSet.parse_mask, wrong)


class TestSet(oslotest.BaseTestCase):

    @unit_base.settings(200)
    @hypothesis.given(_IDS, _IDS)
    def test_algebra(self, one, other):
        ours, theirs = cpuset.CpuSet(one), cpuset.CpuSet(other)
        for operate in (operator.or_, operator.and_, operator.sub,
                        operator.xor):
            self.assertEqual(
                sorted(operate(one, other)), list(operate(ours, theirs)))
        self.assertEqual(one.issubset(other), ours.issubset(theirs))
        self.assertEqual(one.isdisjoint(other), ours.isdisjoint(theirs))
        self.assertEqual(one == other, ours == theirs)
        self.assertEqual(len(one), len(ours))
        self.assertEqual(bool(one), bool(ours))
        self.assertEqual(
            sorted(one | other), list(cpuset.union([ours, theirs])))
        # Only the ids go into the result, and nothing out of the operands.
        self.assertEqual((one, other), (frozenset(ours), frozenset(theirs)))

    @unit_base.settings(100)
    @hypothesis.given(_IDS, strategies.integers(-2, 210))
    def test_contains(self, cpus, cpu):
        self.assertEqual(cpu in cpus, cpu in cpuset.CpuSet(cpus))

    def test_contains_no_other_kinds(self):
        for thing in ('0', None, 0.0, (0,)):
            self.assertNotIn(thing, cpuset.CpuSet([0]))

    @unit_base.settings(100)
    @hypothesis.given(_IDS)
    def test_equal_sets_hash_alike(self, cpus):
        one = cpuset.CpuSet(cpus)
        other = cpuset.CpuSet.from_mask(sum(1 << cpu for cpu in cpus))
        self.assertEqual(one, other)
        self.assertEqual(hash(one), hash(other))
        self.assertEqual({one}, {other})

    def test_equals_no_other_kinds(self):
        made = cpuset.CpuSet([0])
        self.assertNotEqual(made, 1)
        self.assertNotEqual(made, frozenset([0]))
        self.assertNotEqual(made, '0')

    @unit_base.settings(50)
    @hypothesis.given(strategies.lists(_IDS))
    def test_sorts_by_lowest_ids_first(self, many):
        self.assertEqual(
            sorted(tuple(sorted(one)) for one in many),
            [tuple(one) for one in sorted(map(cpuset.CpuSet, many))])

    def test_comparisons(self):
        low, high = cpuset.CpuSet([0, 9]), cpuset.CpuSet([1])
        self.assertTrue(low < high and low <= high and high > low)
        self.assertTrue(low <= low and low >= low and not low < low)

    @unit_base.settings(50)
    @hypothesis.given(_IDS)
    def test_pickle_and_copy(self, cpus):
        made = cpuset.CpuSet(cpus)
        for again in (pickle.loads(pickle.dumps(made)), copy.copy(made),
                      copy.deepcopy(made)):
            self.assertIsInstance(again, cpuset.CpuSet)
            self.assertEqual(made, again)

    def test_union_of_nothing(self):
        self.assertEqual(cpuset.CpuSet(), cpuset.union([]))


class TestImmutable(oslotest.BaseTestCase):

    def test_attributes(self):
        made = cpuset.CpuSet([1, 2])
        for change in (
                lambda: setattr(made, 'mask', 0),
                lambda: setattr(made, 'other', 0),
                lambda: delattr(made, 'mask')):
            self.assertRaises(AttributeError, change)
        self.assertEqual([1, 2], list(made))

    def test_augmented_assignment_makes_a_new_set(self):
        made = before = cpuset.CpuSet([1])
        made |= cpuset.CpuSet([2])
        self.assertEqual([1], list(before))
        self.assertEqual([1, 2], list(made))


class TestLimits(oslotest.BaseTestCase):

    def test_negative_ids(self):
        with self.assertRaisesRegex(ValueError, '-3'):
            cpuset.CpuSet([1, -3])
        with self.assertRaisesRegex(ValueError, '-8'):
            cpuset.CpuSet.from_mask(-8)
        self.assertNotIn(-1, cpuset.CpuSet([0]))

    def test_kinds(self):
        for wrong in ('0', 1.0, None):
            self.assertRaises(TypeError, cpuset.CpuSet, [wrong])

    def test_ids_from_code_have_no_limit(self):
        far = cpuset.MAX_CPU_ID + 5
        self.assertEqual(f'0,{far}', str(cpuset.CpuSet([0, far])))
