# SPDX-License-Identifier: Apache-2.0
"""Tests of how tests are run by processes that share what was loaded."""

import io
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest
from unittest import mock

import fixtures
from oslotest import base
import subunit
import testtools

from nova_pinning.tests import pool


class _Kinds:
    """What the processes run; whoever runs this module does not find it."""

    class Tests(unittest.TestCase):
        process = None

        @classmethod
        def setUpClass(cls):
            cls.process = os.getpid()

        def test_good(self):
            self.assertEqual(self.process, os.getpid())

        def test_bad(self):
            self.fail('x' * 10_000)

        def test_left_out(self):
            self.skipTest('no root')

    class Ends(unittest.TestCase):

        def test_ends(self):
            os._exit(0)

    class EndsBefore(unittest.TestCase):

        @classmethod
        def setUpClass(cls):
            os._exit(0)

        def test_nothing(self):
            """Not even seen."""


class PoolTest(base.BaseTestCase):

    def run_them(self, kind, pattern=r'.*\.', concurrency=2, times=1):
        """Run the tests of a class.

        :returns: what became of each, by the last part of its name
        """
        tests = [test for _time in range(times) for test in
                 unittest.defaultTestLoader.loadTestsFromTestCase(kind)]
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'out')
        # This process is not only for these.
        with path.open('wb') as stream, mock.patch.object(pool, 'gc'):
            pool.run(pool.groups(tests, pattern), concurrency, stream)
        found = []
        result = testtools.StreamToDict(lambda test: found.append(
            (test['id'].rpartition('.')[2], test['status'])))
        result.startTestRun()
        subunit.ByteStreamToStreamResult(
            io.BytesIO(path.read_bytes())).run(result)
        result.stopTestRun()
        return sorted(found)

    def test_what_becomes_of_tests(self):
        outcomes = [('test_bad', 'fail'), ('test_good', 'success'),
                    ('test_left_out', 'skip')]
        self.assertEqual(outcomes, self.run_them(_Kinds.Tests))
        # Each is a group of its own.
        self.assertEqual(outcomes, self.run_them(_Kinds.Tests, 'x', 7))

    def test_packets_stay_whole(self):
        self.assertEqual(
            [('test_bad', 'fail')] * 40 + [('test_good', 'success')] * 40 +
            [('test_left_out', 'skip')] * 40,
            self.run_them(_Kinds.Tests, r'(?!)', 4, 40))

    def test_a_process_that_ends(self):
        self.assertEqual([('pool', 'fail'), ('test_ends', 'inprogress')],
                         self.run_them(_Kinds.Ends))
        self.assertEqual([('pool', 'fail')],
                         self.run_them(_Kinds.EndsBefore))

    def test_groups(self):
        tests = unittest.defaultTestLoader.loadTestsFromTestCase
        found = pool.groups(
            [*tests(_Kinds.Tests), *tests(_Kinds.Ends)], r'.*Tests\.')
        self.assertEqual([3, 1], [suite.countTestCases() for suite in found])

    def write_tests(self, **modules):
        """Write modules of a package, and go to where it is."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory)
        package = directory / f'tests_of_{directory.name}'
        package.mkdir()
        for name, text in {'__init__': '', **modules}.items():
            (package / f'{name}.py').write_text(textwrap.dedent(text))
        return package.name

    def test_those_that_are_wanted(self):
        package = self.write_tests(test_some='''
            import unittest

            class Some(unittest.TestCase):
                def test_one(self):
                    pass

                def test_two(self):
                    pass
            ''')
        one, two = (f'{package}.test_some.Some.test_{name}'
                    for name in ('one', 'two'))
        for regexes, names, wanted in (
                ([], None, [one, two]), (['two'], None, [two]),
                (['^x', 'one'], None, [one]), ([], {two}, [two])):
            self.assertEqual(wanted, [
                test.id() for test in pool.load(package, regexes, names)])

    def test_temporary_files_do_not_stay(self):
        package = self.write_tests(test_some='''
            import atexit
            import os
            import shutil
            import tempfile
            import unittest

            directory = tempfile.gettempdir()

            class Some(unittest.TestCase):
                def test_one(self):
                    path = tempfile.mkdtemp(dir=directory)
                    atexit.register(shutil.rmtree, path)

                def test_two(self):
                    tempfile.mkdtemp()
                    os._exit(0)
            ''')
        temporary = self.useFixture(fixtures.TempDir()).path
        done = subprocess.run(
            [sys.executable, '-m', 'nova_pinning.tests.pool', package],
            env={**os.environ, 'TMPDIR': temporary,
                 'PYTHONPATH': os.pathsep.join(sys.path)},
            capture_output=True)
        self.assertIn(b'test_two', done.stdout)
        self.assertEqual([], os.listdir(temporary))

    def test_a_module_that_cannot_be_loaded(self):
        package = self.write_tests(test_wrong='import no_such_module')
        self.assertRaisesRegex(
            SystemExit, "No module named 'no_such_module'",
            pool.load, package, ['^something else'], None)
