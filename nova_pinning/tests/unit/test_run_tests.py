# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/run_tests.py."""

import collections
import contextlib
import importlib
import io
import os
import pathlib
import shlex
import sys
import threading
from unittest import mock

from oslotest import base
from testtools import content

from minicloud import progress
import nova_pinning

TOOLS = pathlib.Path(nova_pinning.__file__).resolve().parent.parent / 'tools'


class RunTestsTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        with mock.patch.object(sys, 'path', [str(TOOLS), *sys.path]):
            self.tool = importlib.import_module('run_tests')
        self.output = io.StringIO()
        output = contextlib.redirect_stdout(self.output)
        output.__enter__()
        self.addCleanup(output.__exit__, None, None, None)
        # It tells nothing by itself as long as it is not entered.
        self.shown = progress.Progress('', self.output)

    def results(self, *tests):
        results = self.tool.Results()
        for name, status, details in tests:
            results.add({'id': name, 'status': status, 'details': {
                key: content.text_content(text)
                for key, text in details.items()}})
        return results

    def test_failures_are_shown_in_the_end(self):
        traceback = '\n'.join(f'frame {number}' for number in range(100))
        results = self.results(
            ('listed', 'exists', {}), ('good', 'success', {}),
            ('bad', 'fail', {'traceback': traceback, 'nova-log': 'INFO'}),
            ('cut off', 'inprogress', {}),
            ('left out', 'skip', {'reason': 'no root'}))
        self.assertEqual({'left out': 'no root'}, results.skipped)
        results.show()
        *lines, totals = self.output.getvalue().splitlines()
        self.assertEqual('1 passed, 2 failed, 1 skipped', totals)
        self.assertIn('    frame 99', lines)
        self.assertNotIn('    frame 0', lines)
        self.assertNotIn('INFO', self.output.getvalue())
        self.assertEqual(['  bad', '  cut off'], lines[-3:-1])

    def test_only_the_last_line_of_what_succeeds(self):
        def run(status):
            return self.tool.run_other('title', [
                sys.executable, '-c',
                f'print("first\\nlast"); raise SystemExit({status})'],
                self.shown)

        self.assertTrue(run(0))
        self.assertNotIn('first\n', self.output.getvalue())
        self.assertTrue(self.output.getvalue().endswith('last\n'))
        self.assertFalse(run(1))
        self.assertIn('first\nlast\n', self.output.getvalue())

    def run_suite(self, *lines):
        """Run a suite with a program of such lines in the place of tests."""
        program = '\n'.join([
            'import subunit, sys',
            'stream = subunit.StreamResultToBytes(sys.stdout.buffer)', *lines])
        with contextlib.redirect_stdout(self.output):
            return self.tool.run_suite(
                'unit', 'tests', self.shown, 'a regex',
                before=(sys.executable, '-c', program))

    def test_a_suite(self):
        results, is_good = self.run_suite(
            'assert sys.argv[-2:] == ["tests", "a regex"], sys.argv',
            'stream.status("good", "inprogress")',
            'stream.status("good", "success")',
            'stream.status("left out", "skip")')
        self.assertTrue(is_good)
        self.assertEqual('1 passed, 0 failed, 1 skipped', results.totals())
        self.assertEqual('unit: 1 passed, 0 failed, 1 skipped',
                         self.output.getvalue().splitlines()[-1])

    def test_another_program_runs_it(self):
        """As run_machines has it, to see what tests look at."""
        program = ('import subunit, sys; subunit.StreamResultToBytes('
                   'sys.stdout.buffer).status(sys.argv[-2], "success")')
        with contextlib.redirect_stdout(self.output):
            results, _is_good = self.tool.run_suite(
                'unit', 'tests', self.shown, 'x', env=os.environ | {
                    'PYTHON': shlex.join([sys.executable, '-c', program])})
        self.assertEqual('1 passed, 0 failed, 0 skipped', results.totals())

    def test_a_failure_is_shown_at_once_and_whole(self):
        results, is_good = self.run_suite(
            'stream.status("bad", "inprogress")',
            'stream.status("bad", file_name="traceback", file_bytes=b"why",'
            ' mime_type="text/plain", eof=True)',
            'stream.status("bad", file_name="log", file_bytes=b"INFO",'
            ' mime_type="text/plain", eof=True)',
            'stream.status("bad", "fail")',
            'stream.status("cut off", "inprogress")')
        self.assertFalse(is_good)
        self.assertEqual('0 passed, 2 failed, 0 skipped', results.totals())
        self.assertIn('unit: bad failed\ntraceback:\nwhy\nlog:\nINFO\n',
                      self.output.getvalue())

    def test_tests_that_cannot_be_loaded(self):
        _results, is_good = self.run_suite(
            'print("SyntaxError: why"); sys.exit(100)')
        self.assertFalse(is_good)
        self.assertIn('SyntaxError: why\n', self.output.getvalue())
        self.assertTrue(self.output.getvalue().endswith('nothing ran\n'))

    def test_how_far_it_is(self):
        said = threading.Event()

        def say():
            said.set()
            return '7 passed'

        with (mock.patch.multiple(progress, SILENCE_SECONDS=0,
                                  TERMINAL_SECONDS=0),
              progress.Progress('', self.output) as shown,
              self.tool.doing('x', ['a', 'b c'], say, shown)):
            self.assertTrue(said.wait(60))
        self.assertRegex(self.output.getvalue(), r"\na 'b c'\nx \.\.\.\n"
                         r'waiting for x \(\d+ s: 7 passed\)\n')

    def main(self, *suites, passed=0, both=None):
        """Run suites, of which programs succeed.

        :param passed: tests of each that has tests; another is skipped
        :param both: where two of these wait for each other
        """
        def run_suite(title, test_path, shown, *options):
            if both is not None:
                both.wait(60)
            counts = {'passed': passed, 'skipped': 1}
            return self.tool.Results(collections.Counter(counts)), True

        with (mock.patch.object(sys, 'argv', [
                  'run_tests', *(f'--suite={suite}' for suite in suites)]),
              mock.patch.object(self.tool, 'run_suite', run_suite),
              mock.patch.object(self.tool, 'run_other', return_value=True),
              mock.patch.dict(os.environ)):
            return self.tool.main()

    def test_programs_alone(self):
        self.assertEqual(0, self.main('fuzz', 'claims'))

    def test_a_suite_that_is_skipped(self):
        self.assertEqual(0, self.main('unit', 'fuzz', passed=1))
        self.assertEqual(1, self.main('unit', 'fuzz'))

    def test_two_at_a_time(self):
        self.assertEqual(0, self.main('functional', 'unit', passed=1,
                                      both=threading.Barrier(2)))
        self.assertEqual('2 passed, 0 failed, 2 skipped',
                         self.output.getvalue().splitlines()[-1])
