# SPDX-License-Identifier: Apache-2.0

import itertools

from nova_pinning.bridge import numa
from nova_pinning.tests import forms
from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.oracle import stand_in
from nova_pinning.tests.unit.oracle import oracle_cases


class TestCompare(oracle_cases.TestCase):
    """Whoever compares has to notice; each test breaks an engine."""

    def _reasons(self, case, engine):
        return ' / '.join(oracle_compare.compare(case, engine).disagreements)

    def test_agreement(self):
        for case in (oracle_cases.plain(), oracle_cases.full(),
                     oracle_cases.uneven_memory(), oracle_cases.uneven_cpus(),
                     oracle_cases.sticky_page_size(),
                     oracle_cases.half_used_core()):
            verdict = oracle_compare.compare(
                case, stand_in.numa_fit_instance_to_host, numa.fit_or_refusal)
            self.assertEqual([], verdict.disagreements)

    def test_refuses(self):
        self.assertIn(
            'the engine refuses',
            self._reasons(oracle_cases.plain(), oracle_cases.refusing))
        self.assertEqual(
            '', self._reasons(oracle_cases.full(), oracle_cases.refusing))

    def test_raises(self):
        self.assertIn('the engine raises KeyError',
                      self._reasons(oracle_cases.full(), oracle_cases.raising))

    def test_changes_arguments(self):
        self.assertIn(
            'the engine changes its arguments',
            self._reasons(oracle_cases.plain(), oracle_cases.changing))

    def test_pins_missing(self):
        self.assertIn(
            'a dedicated vCPU has no host CPU',
            self._reasons(oracle_cases.plain(), oracle_cases.unpinned))

    def test_other_pins(self):
        self.assertIn(
            'the oracle has',
            self._reasons(oracle_cases.plain(), oracle_cases.swapped))

    def test_other_request(self):
        self.assertIn('is to another request',
                      self._reasons(oracle_cases.plain(), oracle_cases.larger))

    def test_accepts(self):
        self.assertIn('the oracle refuses',
                      self._reasons(oracle_cases.uneven_memory(),
                                    oracle_cases.novas_own))

    def test_explain(self):
        verdict = oracle_compare.compare(oracle_cases.plain(),
                                         stand_in.numa_fit_instance_to_host,
                                         oracle_cases.refusing)
        self.assertEqual(1, len(verdict.disagreements))
        self.assertIn('not a Fit', verdict.disagreements[0])

    def test_differs_but_is_right(self):
        """nova's answer can be a later permutation, which is not an error."""
        verdicts = (
            oracle_compare.compare(case_generator.generate(3, number), None)
            for number in range(1000))
        found = list(itertools.islice(
            (verdict for verdict in verdicts if verdict.nova_differs),
            1 if forms.SHORT else None))
        self.assertTrue(found)
        for verdict in found:
            self.assertEqual(set(), verdict.nova_wrong)
            self.assertTrue(verdict.fits)
