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
import os
import stat
from unittest import mock

import fixtures
from oslotest import base

from nova_pinning.document import files
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
        files.replace(self.path, 'n\u00e9w')
        self.assertEqual('n\u00e9w', self._text())
        self.assertEqual(0o640, stat.S_IMODE(os.stat(self.path).st_mode))
        self.assertNotEqual(before, os.stat(self.path).st_ino)
        self.assertEqual([os.path.basename(self.path)],
                         os.listdir(self.directory))

    def test_new_file(self):
        path = os.path.join(self.directory, 'new')
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        files.replace(path, 'text')
        self.assertEqual(0o640, stat.S_IMODE(os.stat(path).st_mode))

    def test_link(self):
        link = os.path.join(self.directory, 'link')
        os.symlink(self.path, link)
        files.replace(link, 'new')
        self.assertTrue(os.path.islink(link))
        self.assertEqual('new', self._text())

    def test_failure(self):
        for name in ('os.fsync', 'os.replace'):
            with mock.patch(name, side_effect=OSError(28, 'No space left')):
                error = self.assertRaises(
                    errors.InputError, files.replace, self.path, 'new')
            self.assertEqual(
                f'{self.path}: cannot be written: No space left', str(error))
            self.assertEqual('old', self._text())
            self.assertEqual(1, len(os.listdir(self.directory)))

    def test_no_regular_file(self):
        path = os.path.join(self.directory, 'fifo')
        os.mkfifo(path)
        error = self.assertRaises(
            errors.InputError, files.replace, path, 'new')
        self.assertIn('it is no regular file', str(error))
        self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))

    def test_check(self):
        files.check(self.path)
        files.check(os.path.join(self.directory, 'new'))
        for path, trouble in (
                (self.directory, 'it is a directory'),
                (os.path.join(self.path, 'x'), 'there is no directory'),
                (os.path.join(self.directory, 'no', 'x'),
                 'there is no directory')):
            error = self.assertRaises(errors.InputError, files.check, path)
            self.assertIn(trouble, error.message)

    def test_nowhere(self):
        path = os.path.join(self.directory, 'none', 'file')
        self.assertRaises(errors.InputError, files.replace, path, 'new')
        self.assertRaises(errors.InputError, files.replace, '\0', 'new')
        self.assertRaises(errors.InputError, files.replace, self.directory,
                          'new')
