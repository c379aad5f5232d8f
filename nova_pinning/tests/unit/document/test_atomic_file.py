# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import socket
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

    def test_a_link_as_root(self):
        """Whoever made the link would choose what root replaces."""
        link = os.path.join(self.directory, 'link')
        os.symlink(self.path, link)
        with mock.patch('os.geteuid', return_value=0):
            for call in (lambda: atomic_file.replace(link, 'new'),
                         lambda: atomic_file.check(link)):
                error = self.assertRaises(errors.InputError, call)
                self.assertEqual(
                    f'{link}: is a symbolic link, to {self.path}, which is '
                    f'not followed when run as root; give {self.path}, or '
                    'set NOVA_PINNING_FOLLOW_LINKS=1', str(error))
            self.assertEqual('old', self._text())
            self.useFixture(fixtures.EnvironmentVariable(
                'NOVA_PINNING_FOLLOW_LINKS', '1'))
            atomic_file.check(link)
            atomic_file.replace(link, 'new')
        self.assertTrue(os.path.islink(link))
        self.assertEqual('new', self._text())

    def test_a_link_as_anybody_else(self):
        link = os.path.join(self.directory, 'link')
        os.symlink(self.path, link)
        with mock.patch('os.geteuid', return_value=1000):
            atomic_file.check(link)
            atomic_file.replace(link, 'new')
        self.assertEqual('new', self._text())

    def test_devices(self):
        """What is written to /dev/null is gone; the device stays."""
        for path in ('/dev/null', '/dev/stdout'):
            before = os.stat(path)
            with mock.patch('os.geteuid', return_value=0):
                atomic_file.check(path)
                atomic_file.replace(path, '')
            self.assertEqual((before.st_ino, before.st_mode),
                             (os.stat(path).st_ino, os.stat(path).st_mode))

    def test_failure(self):
        for name in ('os.fsync', 'os.replace'):
            with mock.patch(name, side_effect=OSError(28, 'No space left')):
                error = self.assertRaises(
                    errors.InputError, atomic_file.replace, self.path, 'new')
            self.assertEqual(
                f'{self.path}: cannot be written: No space left', str(error))
            self.assertEqual('old', self._text())
            self.assertEqual(1, len(os.listdir(self.directory)))

    def test_a_pipe(self):
        path = os.path.join(self.directory, 'fifo')
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        atomic_file.check(path)
        atomic_file.replace(path, 'new')
        self.assertEqual(b'new', os.read(reader, 10))
        self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))

    def test_no_file_at_all(self):
        path = os.path.join(self.directory, 'socket')
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(path)
            error = self.assertRaises(
                errors.InputError, atomic_file.replace, path, 'new')
        self.assertIn('it is a socket or a disk', str(error))
        self.assertTrue(stat.S_ISSOCK(os.stat(path).st_mode))

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

    def test_check_all(self):
        other = os.path.join(self.directory, 'new')
        atomic_file.check_all(self.path, None, other)
        atomic_file.check_all(os.devnull, os.devnull)
        error = self.assertRaises(
            errors.InputError, atomic_file.check_all, self.path, None,
            os.path.join(self.directory, '.', 'one.yaml'))
        self.assertIn('one.yaml: is to be written twice', str(error))
        self.assertRaises(errors.InputError, atomic_file.check_all, other,
                          self.directory)

    def test_nowhere(self):
        path = os.path.join(self.directory, 'none', 'file')
        self.assertRaises(errors.InputError, atomic_file.replace, path, 'new')
        self.assertRaises(errors.InputError, atomic_file.replace, '\0', 'new')
        self.assertRaises(errors.InputError, atomic_file.replace,
                          self.directory, 'new')
