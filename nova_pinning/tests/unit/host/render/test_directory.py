# SPDX-License-Identifier: Apache-2.0
"""A directory of rendered files, written again and again."""

import os
import pathlib
import stat
from unittest import mock

import ddt
import fixtures
import hypothesis
from hypothesis import strategies as st

from nova_pinning.document import atomic_file
from nova_pinning import errors
from nova_pinning.host.render import directory
from nova_pinning.host.render import manifest
from nova_pinning.tests.unit import unit_base


def files(**texts):
    """Rendered files by path; what begins with 'run' is executable."""
    return {
        path: manifest.RenderedFile(path, text, '', '', path.startswith('run'))
        for path, text in texts.items()}


def tree(root):
    """What is in a directory, by path, but for the manifest."""
    return {str(path.relative_to(root)): path.read_text()
            for path in root.rglob('*')
            if path.is_file() and path.name != directory.MANIFEST}


class _TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'a', 'out')

    def write(self, **texts):
        changes = directory.write(str(self.root), files(**texts))
        return {verb: paths for verb, paths in changes.items() if paths}

    def _states(self):
        """What would tell that a file was touched, but for reading it."""
        return {path: (found.st_ino, found.st_mode, found.st_size,
                       found.st_mtime_ns)
                for path in self.root.rglob('*')
                for found in [path.lstat()]}

    def refused(self, **texts):
        """The error, of a write that must not change anything."""
        before = self._states()
        found = []
        for call in (directory.write,
                     lambda *args: list(directory.difference(*args))):
            found.append(str(self.assertRaises(
                errors.InputError, call, str(self.root), files(**texts))))
        self.assertEqual(before, self._states())
        self.assertEqual(1, len(set(found)))
        return found[0]


class TestWrite(_TestCase):

    def test_new(self):
        changes = self.write(**{'etc/x/a': '1\n', 'b': '2\n', 'run': '#\n'})
        self.assertEqual({'added': ('etc/x/a', 'b', 'run')}, changes)
        self.assertEqual({'etc/x/a': '1\n', 'b': '2\n', 'run': '#\n'},
                         tree(self.root))
        self.assertTrue(os.access(self.root / 'run', os.X_OK))
        self.assertFalse((self.root / 'b').stat().st_mode & stat.S_IXUSR)

    def test_empty(self):
        self.root.mkdir(parents=True)
        self.write(a='1')
        self.assertEqual({'a': '1'}, tree(self.root))

    def test_again(self):
        self.write(a='1', b='2')
        stamp = (self.root / 'a').stat().st_ino
        self.assertEqual({}, self.write(a='1', b='2'))
        self.assertEqual(stamp, (self.root / 'a').stat().st_ino)

    def test_changes(self):
        self.write(**{'a': '1', 'b': '2', 'x/y/z': '3', 'x/w': '4'})
        changes = self.write(**{'a': 'new', 'c': '5', 'x/w': '4'})
        self.assertEqual({'added': ('c',), 'changed': ('a',),
                          'removed': ('b', 'x/y/z')}, changes)
        self.assertEqual({'a': 'new', 'c': '5', 'x/w': '4'}, tree(self.root))
        self.assertFalse((self.root / 'x/y').exists())

    def test_mode_is_put_right(self):
        self.write(run='#')
        (self.root / 'run').chmod(0o644)
        self.assertEqual({'changed': ('run',)}, self.write(run='#'))
        self.assertEqual(0o755, stat.S_IMODE(
            (self.root / 'run').stat().st_mode))

    def test_one_that_was_deleted(self):
        self.write(a='1', b='2')
        (self.root / 'a').unlink()
        (self.root / 'b').unlink()
        self.assertEqual({'added': ('a',)}, self.write(a='1'))
        self.assertEqual({'a': '1'}, tree(self.root))

    def test_files_of_others_stay(self):
        self.write(a='1')
        (self.root / 'theirs').write_text('x')
        self.write(a='2')
        self.assertEqual({'a': '2', 'theirs': 'x'}, tree(self.root))


@ddt.ddt
class TestRefused(_TestCase):

    def test_directory_of_others(self):
        self.root.mkdir(parents=True)
        (self.root / 'theirs').write_text('x')
        self.assertIn('has not written', self.refused(a='1'))

    def test_no_directory(self):
        self.root.parent.mkdir()
        self.root.write_text('')
        error = self.assertRaises(errors.InputError, self.write, a='1')
        self.assertIn('Not a directory', str(error))

    def test_below_a_file(self):
        self.root.parent.write_text('')
        error = self.assertRaises(errors.InputError, self.write, a='1')
        self.assertIn('Not a directory', str(error))

    def test_changed_by_hand(self):
        self.write(a='1')
        (self.root / 'a').write_text('mine')
        self.assertIn('was changed since', self.refused(a='2'))
        # Nor is it taken away.
        self.assertIn('was changed since', self.refused(b='2'))
        # To what we would write ourselves.
        self.write(a='mine')
        (self.root / 'a').write_bytes(b'\xff')
        self.assertIn('was changed since', self.refused(a='2'))

    def test_in_the_way(self):
        self.write(a='1')
        (self.root / 'b').write_text('theirs')
        self.assertIn('b: is in the way', self.refused(a='1', b='2'))
        (self.root / 'b').unlink()
        (self.root / 'b').mkdir()
        self.assertIn('not a regular file', self.refused(a='1', b='2'))

    def test_file_for_a_directory(self):
        self.write(**{'etc/x/a': '1\n', 'usr/b': '2\n'})
        (self.root / 'usr/b').unlink()
        (self.root / 'usr').rmdir()
        (self.root / 'usr').write_text('')
        self.assertIn('usr: is in the way: it is not a directory',
                      self.refused(**{'etc/x/a': '3\n', 'usr/b': '4\n'}))

    def test_symbolic_links(self):
        self.write(a='1')
        other = self.root.parent / 'other'
        other.mkdir()
        (self.root / 'etc').symlink_to(other)
        self.assertIn('symbolic', self.refused(**{'a': '1', 'etc/b': '2'}))
        (self.root / 'a').unlink()
        (self.root / 'a').symlink_to(other / 'x')
        self.assertIn('symbolic', self.refused(a='1'))
        self.assertIn('symbolic', self.refused())
        self.assertEqual([], list(other.iterdir()))

    @ddt.data('', '{', '[]', '{"version": 2, "files": {}}', '{"version": 1}',
              '{"version": 1, "files": {"a": 1}}',
              '{"version": 1, "files": 1}',
              '{"version": 1, "files": {"../a": []}}',
              '{"version": 1, "files": {"/a": []}}',
              '{"version": 1, "files": {"": []}}')
    def test_bad_manifest(self, text):
        self.write(a='1')
        (self.root / directory.MANIFEST).write_text(text)
        self.assertIn(directory.MANIFEST, self.refused(a='1'))

    def test_manifest_nested_without_end(self):
        self.write(a='1')
        (self.root / directory.MANIFEST).write_text('[' * 100_000)
        self.assertIn(directory.MANIFEST, self.refused(a='1'))


_TEXTS = st.dictionaries(st.sampled_from(['a', 'x/b', 'x/y/c', 'run/d']),
                         st.sampled_from(['1\n', '2\n']))


class TestCutOff(unit_base.TestCase):
    """Whatever is cut off is finished by doing it again."""

    @unit_base.settings(30)
    @hypothesis.example({'a': '1\n'}, {'a': '2\n'}, {'a': '2\n'}, 1)
    @hypothesis.example({'a': '1\n'}, {'x/b': '2\n'}, {'x/b': '2\n'}, 2)
    @hypothesis.given(_TEXTS, _TEXTS, _TEXTS, st.integers(0, 12))
    def test_anywhere(self, first, second, third, calls):
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'out')
        directory.write(str(root), files(**first))
        left = [calls]

        def fail(real):
            def call(*args, **kwargs):
                if not left[0]:
                    raise OSError(28, 'No space left on device')
                left[0] -= 1
                return real(*args, **kwargs)
            return call

        with (mock.patch.object(atomic_file.os, 'replace', fail(os.replace)),
              mock.patch.object(pathlib.Path, 'unlink',
                                fail(pathlib.Path.unlink)),
              mock.patch.object(pathlib.Path, 'chmod',
                                fail(pathlib.Path.chmod))):
            try:
                directory.write(str(root), files(**second))
            except errors.InputError as error:
                self.assertIn('No space left', str(error))
        for path, text in tree(root).items():
            self.assertIn(text, (first.get(path), second.get(path)))
        directory.write(str(root), files(**third))
        self.assertEqual(third, tree(root))
        self.assertEqual([], list(directory.difference(
            str(root), files(**third))))


class TestDifference(_TestCase):

    def test_lines(self):
        self.write(a='1\n2\n', b='x\n')
        before = tree(self.root)
        self.assertEqual(
            ['--- a', '+++ a', '@@ -1,2 +1,2 @@', ' 1', '-2', '+3',
             '--- b', '+++ /dev/null', '@@ -1 +0,0 @@', '-x',
             '--- /dev/null', '+++ c', '@@ -0,0 +1 @@', '+new'],
            list(directory.difference(
                str(self.root), files(a='1\n3\n', c='new\n'))))
        self.assertEqual(before, tree(self.root))

    def test_nowhere(self):
        self.assertEqual(['--- /dev/null', '+++ a', '@@ -0,0 +1 @@', '+1'],
                         list(directory.difference(str(self.root),
                                                   files(a='1\n'))))
        self.assertFalse(self.root.exists())
