# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
import tempfile

from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import fuzz
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.unit.oracle import oracle_cases

_BROKEN = 'nova_pinning.tests.unit.oracle.oracle_cases:'


class TestFuzz(oracle_cases.TestCase):

    def _run(self, *args):
        """Run the command; return its exit status and what it printed."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = fuzz.main(['--jobs', '1', *args])
        return status, output.getvalue()

    def test_agreement(self):
        status, output = self._run('--cases', '60', '--no-shrink')
        self.assertEqual(0, status)
        self.assertIn('60 of 60 cases of seed 1', output)
        self.assertIn('0 disagreements', output)

    def test_json(self):
        status, output = self._run('--cases', '60', '--format', 'json',
                                   '--seed', '3', '--no-shrink')
        report = json.loads(output)
        self.assertEqual(0, status)
        self.assertEqual((1, 3, 60, 0), (
            report['version'], report['seed'], report['cases'],
            report['disagreements']))
        self.assertEqual(60, sum(
            row['fits'] + row['refused'] for row in report['by_guest']))

    def test_disagreement(self):
        status, output = self._run(
            '--cases', '30', '--engine', _BROKEN + 'refusing')
        self.assertEqual(1, status)
        self.assertIn('DISAGREEMENT in case', output)
        self.assertIn('minimal: {"host":', output)

    def test_novas_own_function_is_caught(self):
        status, output = self._run(
            '--cases', '150', '--seed', '3', '--no-shrink', '--format',
            'json', '--engine', 'nova.virt.hardware:numa_fit_instance_to_host')
        report = json.loads(output)
        self.assertEqual(1, status)
        # It changes the guest in all cases that it looks at.
        self.assertGreater(report['disagreements'], 35)

    def test_examples_of_novas_errors(self):
        status, output = self._run('--cases', '200', '--seed', '3',
                                   '--format', 'json', '--engine', 'none')
        self.assertEqual(0, status)
        report = json.loads(output)
        self.assertTrue(report['nova_wrong'])
        for row in report['nova_wrong']:
            verdict = oracle_compare.compare(
                oracle_case.Case(row['minimal']), None)
            self.assertIn(row['kind'], verdict.nova_wrong)

    def test_time_limit(self):
        status, output = self._run('--cases', '100000', '--time-limit',
                                   '0.1', '--no-shrink', '--format', 'json')
        self.assertEqual(0, status)
        self.assertLess(json.loads(output)['cases'], 100000)

    def test_one_case(self):
        status, output = self._run('--case', '5', '--format', 'json')
        self.assertEqual(0, status)
        self.assertEqual(case_generator.generate(1, 5).data,
                         json.loads(output)['case'])

    def test_replay(self):
        with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
            file.write(str(oracle_cases.uneven_memory()))
            file.flush()
            status, output = self._run('--replay', file.name)
        self.assertEqual(0, status)
        self.assertIn('a dedicated vCPU has no host CPU', output)

    def test_replay_of_a_broken_file(self):
        errors = io.StringIO()
        with tempfile.NamedTemporaryFile('w', suffix='.json') as file, \
                contextlib.redirect_stderr(errors):
            file.write('{')
            file.flush()
            status, _ = self._run('--replay', file.name)
        self.assertEqual(2, status)
        self.assertIn(file.name, errors.getvalue())

    def test_bad_usage(self):
        for args in (['--cases', '0'], ['--jobs', 'x'],
                     ['--engine', 'nova.nothing:here'],
                     ['--case', '1', '--replay', 'file'],
                     ['--format', 'xml'], ['--replay', '/nonexistent']):
            with contextlib.redirect_stderr(io.StringIO()):
                error = self.assertRaises(SystemExit, self._run, *args)
            self.assertEqual(2, error.code, args)
