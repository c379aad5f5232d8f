# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import pathlib
import subprocess
import sys
from unittest import mock

import fixtures
from oslotest import base as oslotest

from demo import __main__
from nova_pinning import errors
from nova_pinning.tests.unit.demo import samples


class TestMain(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.run = self.useFixture(fixtures.MockPatchObject(
            __main__, '_run', return_value=samples.small_outcome())).mock

    def main(self, *arguments):
        """The exit status, what was printed, and the errors."""
        printed, said = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(printed),
              contextlib.redirect_stderr(said)):
            status = __main__.main(['--out', str(self.directory), *arguments])
        return status, printed.getvalue(), said.getvalue()

    def test_text(self):
        status, printed, said = self.main()
        self.assertEqual(0, status)
        self.assertIn(f'The XML of each of the 2 guests is in '
                      f'{self.directory}\n', printed)
        self.assertEqual('', said)
        self.assertTrue((self.directory / 'pinned.xml').is_file())

    def test_not_as_told(self):
        self.run.return_value = samples.small_outcome(held=False)
        self.assertEqual(1, self.main()[0])

    def test_broke_off(self):
        self.run.return_value = None
        self.assertEqual(1, self.main()[0])

    def test_interrupted(self):
        self.run.side_effect = KeyboardInterrupt
        status, _printed, said = self.main()
        self.assertEqual(130, status)
        self.assertIn('Interrupted', said)

    def test_disk_full(self):
        with mock.patch.object(__main__.report, 'write_guests',
                               side_effect=errors.InputError('No space left')):
            status, _printed, said = self.main()
        self.assertEqual(1, status)
        self.assertIn('No space left', said)

    def test_unwritable_directory(self):
        (self.directory / 'file').write_text('')
        self.directory = self.directory / 'file'
        status, printed, said = self.main()
        self.assertEqual((2, ''), (status, printed))
        self.assertIn(f'cannot write to {self.directory}', said)
        self.assertIn('--out', said)
        # Before anything that takes long.
        self.run.assert_not_called()


class TestStart(oslotest.BaseTestCase):

    def test_nova_is_not_loaded_before_the_first_words(self):
        subprocess.run(
            [sys.executable, '-c',
             'import sys, demo.__main__; '
             'sys.exit("nova" in sys.modules)'], check=True)
