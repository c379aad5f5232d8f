# SPDX-License-Identifier: Apache-2.0

from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.oracle import shrink
from nova_pinning.tests.unit.oracle import oracle_cases


class TestShrink(oracle_cases.TestCase):

    def test_shrinks_to_what_is_needed(self):
        case = next(
            case
            for case in (case_generator.generate(1, n) for n in range(100))
            if len(case.data['host']) > 4 and case.data['pci'])

        def holds(case):
            return len(case.data['host']) >= 2 and any(
                cell['dedicated'] for cell in case.data['host'])

        small = shrink.shrink(case, holds).data
        self.assertEqual(2, len(small['host']))
        self.assertEqual(1, len(small['guest']['cells']))
        self.assertIsNone(small['pci'])
        self.assertIsNone(small['limits'])
        self.assertEqual(
            [0], [c for cell in small['host'] for c in cell['dedicated']])
        self.assertEqual([0, 1], [cell['id'] for cell in small['host']])

    def test_keeps_the_property(self):
        case = oracle_cases.uneven_cpus()
        small = shrink.shrink(
            case, lambda c: oracle_compare.REFUSES in oracle_compare.compare(
                c, None).nova_wrong)
        self.assertIn(oracle_compare.REFUSES,
                      oracle_compare.compare(small, None).nova_wrong)
        self.assertLess(len(str(small)), len(str(case)))

    def test_original_is_left_alone(self):
        case = oracle_cases.plain()
        before = str(case)
        shrink.shrink(case, lambda c: True)
        self.assertEqual(before, str(case))

    def test_property_that_raises_does_not_hold(self):
        case = oracle_cases.plain()

        def holds(smaller):
            if smaller.data != case.data:
                raise KeyError('pools')
            return True

        self.assertEqual(case.data, shrink.shrink(case, holds).data)

    def test_limit(self):
        calls = []
        shrink.shrink(oracle_cases.plain(), calls.append, limit=3)
        self.assertLessEqual(len(calls), 3)
