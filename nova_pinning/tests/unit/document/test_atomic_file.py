# SPDX-License-Identifier: Apache-2.0
import os
import stat
from unittest import mock

import fixtures
from oslotest import base

from nova_pinning.document import atomic_file
from nova_pinning import errors


class TestReplace(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.directory, 'one.yaml')
        with open(self.path, 'w') as file:
            file.write('old')

    def _text(self):
        with open(self.path) as file:
            return file.read()

    def test_replace(self):
        os.chmod(self.path, 0o640)
        before = os.stat(self.path).st_ino
        atomic_file.replace(self.path, 'n\u00e9w')
        self.assertEqual('n\u00e9w', self._text())
        self.assertEqual(0o640, stat.S_IMODE(os.stat(self.path).st_mode))
        self.assertNotEqual(before, os.stat(self.path).st_ino)
        self.assertEqual([os.path.basename(self.path)],
                         os.listdir(self.directory))

    def test_new_file(self):
        path = os.path.join(self.directory, 'new')
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        atomic_file.replace(path, 'text')
        self.assertEqual(0o640, stat.S_IMODE(os.stat(path).st_mode))

    def test_mode(self):
        """The umask of a process with other threads is left alone."""
        path = os.path.join(self.directory, 'new')
        with mock.patch('os.umask') as umask:
            atomic_file.replace(path, 'text', 0o640)
        umask.assert_not_called()
        self.assertEqual(0o640, stat.S_IMODE(os.stat(path).st_mode))
        os.chmod(path, 0o600)
        atomic_file.replace(path, 'other', 0o640)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(path).st_mode))

    def test_link(self):
        link = os.path.join(self.directory, 'link')
        os.symlink(self.path, link)
        atomic_file.replace(link, 'new')
        self.assertTrue(os.path.islink(link))
        self.assertEqual('new', self._text())

    def test_failure(self):
        for name in ('os.fsync', 'os.replace'):
            with mock.patch(name, side_effect=OSError(28, 'No space left')):
                error = self.assertRaises(
                    errors.InputError, atomic_file.replace, self.path, 'new')
            self.assertEqual(
                f'{self.path}: cannot be written: No space left', str(error))
            self.assertEqual('old', self._text())
            self.assertEqual(1, len(os.listdir(self.directory)))

    def test_no_regular_file(self):
        path = os.path.join(self.directory, 'fifo')
        os.mkfifo(path)
        error = self.assertRaises(
            errors.InputError, atomic_file.replace, path, 'new')
        self.assertIn('it is not a regular file', str(error))
        self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))

    def test_check(self):
        atomic_file.check(self.path)
        atomic_file.check(os.path.join(self.directory, 'new'))
        for path, trouble in (
                (self.directory, 'it is a directory'),
                (os.path.join(self.path, 'x'), 'there is no directory'),
                (os.path.join(self.directory, 'no', 'x'),
                 'there is no directory')):
            error = self.assertRaises(errors.InputError, atomic_file.check,
                                      path)
            self.assertIn(trouble, error.message)

    def test_nowhere(self):
        path = os.path.join(self.directory, 'none', 'file')
        self.assertRaises(errors.InputError, atomic_file.replace, path, 'new')
        self.assertRaises(errors.InputError, atomic_file.replace, '\0', 'new')
        self.assertRaises(errors.InputError, atomic_file.replace,
                          self.directory, 'new')
