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

from nova_pinning.bridge import numa
from nova_pinning.tests.oracle import compare
from nova_pinning.tests.oracle import generate
from nova_pinning.tests.unit.oracle import cases


class TestCompare(cases.TestCase):
    """Whoever compares has to notice; each test breaks an engine."""

    def _reasons(self, case, engine):
        return ' / '.join(compare.compare(case, engine).disagreements)

    def test_agreement(self):
        for case in (cases.plain(), cases.full(), cases.uneven_memory(),
                     cases.uneven_cpus(), cases.sticky_page_size(),
                     cases.half_used_core()):
            verdict = compare.compare(
                case, numa.numa_fit_instance_to_host, numa.explain)
            self.assertEqual([], verdict.disagreements)

    def test_refuses(self):
        self.assertIn('the engine refuses',
                      self._reasons(cases.plain(), cases.refusing))
        self.assertEqual('', self._reasons(cases.full(), cases.refusing))

    def test_raises(self):
        self.assertIn('the engine raises KeyError',
                      self._reasons(cases.full(), cases.raising))

    def test_changes_arguments(self):
        self.assertIn('the engine changes its arguments',
                      self._reasons(cases.plain(), cases.changing))

    def test_pins_missing(self):
        self.assertIn('a dedicated vCPU has no host CPU',
                      self._reasons(cases.plain(), cases.unpinned))

    def test_other_pins(self):
        self.assertIn('the oracle has',
                      self._reasons(cases.plain(), cases.swapped))

    def test_other_request(self):
        self.assertIn('is to another request',
                      self._reasons(cases.plain(), cases.larger))

    def test_accepts(self):
        self.assertIn('the oracle refuses',
                      self._reasons(cases.uneven_memory(), cases.novas_own))

    def test_explain(self):
        verdict = compare.compare(
            cases.plain(), numa.numa_fit_instance_to_host, cases.refusing)
        self.assertEqual(1, len(verdict.disagreements))
        self.assertIn('not a Fit', verdict.disagreements[0])

    def test_differs_but_is_right(self):
        """nova's answer can be a later permutation, which is no error."""
        found = [
            verdict for verdict in (
                compare.compare(generate.generate(3, number), None)
                for number in range(1000))
            if verdict.nova_differs]
        self.assertTrue(found)
        for verdict in found:
            self.assertEqual(set(), verdict.nova_wrong)
            self.assertTrue(verdict.fits)
