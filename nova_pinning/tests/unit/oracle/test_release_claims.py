# SPDX-License-Identifier: Apache-2.0

import sys

import fixtures
from oslotest import base as oslotest

from nova_pinning.model import cell_order
from nova_pinning.tests.oracle import release_claims
from nova_pinning.tests.unit.oracle import oracle_cases

#: A guest that asks for no devices on a host that has some, which releases
#: claim differently: seed 1.
_DIFFERENT = 167


class TestPythons(oslotest.BaseTestCase):

    def _set(self, text):
        self.useFixture(fixtures.EnvironmentVariable(
            release_claims.VARIABLE, text))

    def test_read(self):
        self._set(f'2025.1={sys.executable}, gazpacho={sys.executable}')
        self.assertEqual(
            {'2025.1': sys.executable, '2026.1': sys.executable},
            release_claims.release_pythons())
        for empty in ('', None):
            self._set(empty)
            self.assertEqual({}, release_claims.release_pythons())

    def test_wrong(self):
        for text, said in (
                ('2025.1', "'2025.1', which is not RELEASE=PYTHON"),
                ('2025.1=/nowhere/python', 'with a Python that can be run'),
                (f'31={sys.executable}', "'31' is not a release of nova")):
            self._set(text)
            error = self.assertRaises(
                ValueError, release_claims.release_pythons)
            self.assertIn(said, str(error))


class TestReleases(oracle_cases.TestCase):

    def _compared(self, pythons, numbers):
        comparison = release_claims.Comparison(pythons)
        self.addCleanup(comparison.close)
        for number, case in release_claims.cases(1, max(numbers) + 1):
            if number in numbers and not case.data['odd']:
                comparison.add(number, case)
        return comparison.report()

    def test_the_installed_nova(self):
        """Its claims, by way of the process, are those that are predicted."""
        name = release_claims.installed_release().name
        report = self._compared({}, range(25))
        self.assertEqual([name], report['releases'])
        self.assertEqual({name: []}, report['unforeseen'])
        self.assertLess(0, report['claimed'])

    def test_other_releases(self):
        """Those whose Pythons NOVA_PINNING_RELEASE_PYTHONS names."""
        pythons = release_claims.release_pythons()
        if not pythons:
            self.skipTest(f'{release_claims.VARIABLE} is not set')
        report = self._compared(pythons, {*range(10), _DIFFERENT})
        self.assertEqual({name: [] for name in report['releases']},
                         report['unforeseen'])
        for pair in report['pairs']:
            self.assertEqual((0, 0), (
                pair['scheduler_fits_differ'],
                pair['topologies_written_otherwise']))
            orders = {cell_order.of_release(name)
                      for name in pair['releases']}
            self.assertEqual(len(orders) > 1, pair['claims_differ'] > 0)
            for how in pair['how']:
                self.assertIn('devices, of which none is asked for', how)

    def test_a_process_that_ends(self):
        comparison = release_claims.Release('2025.1', sys.executable)
        comparison.ask({'host': None})
        error = self.assertRaises(RuntimeError, comparison.answer)
        self.assertIn('nova 2025.1 has ended with status 1', str(error))
        comparison.close()
