# SPDX-License-Identifier: Apache-2.0
"""A directory of rendered files."""

import os
import pathlib
import stat
from unittest import mock

import fixtures

from nova_pinning import errors
from nova_pinning.host.render import directory
from nova_pinning.host.render import manifest
from nova_pinning.tests.unit import unit_base

_TEXTS = {'etc/x/a': '1\n', 'b': '2\n', 'run': '#\n'}


def files(texts):
    """Rendered files; what begins with 'run' is executable."""
    return [manifest.RenderedFile(path, text, '', '', path.startswith('run'))
            for path, text in texts.items()]


class TestWrite(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.base = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.root = self.base / 'a' / 'out'

    def _write(self, texts=_TEXTS):
        directory.write(str(self.root), files(texts))

    def _there(self, root):
        return {str(path.relative_to(root)): path.read_text()
                for path in root.rglob('*') if path.is_file()}

    def test_new(self):
        self._write()
        self.assertEqual(_TEXTS, self._there(self.root))
        self.assertEqual([self.root], list(self.root.parent.iterdir()))
        readable = stat.S_IMODE((self.root / 'b').stat().st_mode)
        self.assertEqual(
            readable | readable >> 2 & 0o111,
            stat.S_IMODE((self.root / 'run').stat().st_mode))

    def test_what_is_there_stays(self):
        def file():
            self.root.write_text('x')

        def link():
            self.root.symlink_to(self.base / 'nowhere')

        self.root.parent.mkdir()
        for make, remove in ((self.root.mkdir, self.root.rmdir),
                             (file, self.root.unlink),
                             (link, self.root.unlink)):
            make()
            error = self.assertRaises(errors.InputError, self._write)
            self.assertIn('is there already', str(error))
            self.assertEqual([self.root], list(self.root.parent.iterdir()))
            remove()

    def test_below_a_file(self):
        self.root.parent.write_text('')
        error = self.assertRaises(errors.InputError, self._write)
        self.assertIn('Not a directory', str(error))


class TestCutOff(unit_base.TestCase):
    """It is there with all of its files, or not at all."""

    def test_anywhere(self):
        base = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        full = OSError(28, 'No space left on device')
        for name in ('mkdir', 'write_text', 'chmod', 'rename'):
            with mock.patch.object(pathlib.Path, name, side_effect=full):
                error = self.assertRaises(
                    errors.InputError, directory.write, str(base / 'out'),
                    files(_TEXTS))
            self.assertIn('No space left', str(error))
            self.assertEqual([], os.listdir(base))
        directory.write(str(base / 'out'), files(_TEXTS))

    def test_what_was_left_is_no_hindrance(self):
        base = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        left = base / f'.out.{os.getpid()}'
        left.mkdir()
        (left / 'old').write_text('')
        directory.write(str(base / 'out'), files(_TEXTS))
        self.assertEqual(['out'], os.listdir(base))
        self.assertFalse((base / 'out' / 'old').exists())
