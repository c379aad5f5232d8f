# SPDX-License-Identifier: Apache-2.0
"""What a release consists of, and tools/release, which makes it."""

import configparser
import contextlib
import gzip
import hashlib
import io
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
from unittest import mock
import zipfile

import ddt
import fixtures
from oslotest import base

_ROOT = pathlib.Path(__file__).parents[3]
_SETUP = configparser.ConfigParser()
_SETUP.read(_ROOT / 'setup.cfg')
_VERSION = _SETUP['metadata']['version']


class TestVersion(base.BaseTestCase):

    def test_pages_have_that_of_the_package(self):
        for directory in 'doc', 'releasenotes':
            found = runpy.run_path(str(_ROOT / directory / 'source/conf.py'))
            self.assertEqual((_VERSION, _VERSION),
                             (found['version'], found['release']), directory)

    def test_examples_have_it(self):
        found = [version for path in (_ROOT / 'doc/source').rglob('*.rst')
                 for version in re.findall(r'nova-pinning (\d\S*) on nova',
                                           path.read_text())]
        self.assertEqual({_VERSION}, set(found))


class TestWheel(base.BaseTestCase):

    def test_from_an_archive_of_some_files(self):
        tree = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ('LICENSE', 'MANIFEST.in', 'README.rst', 'pyproject.toml',
                     'setup.cfg', 'setup.py'):
            shutil.copy(_ROOT / name, tree)
        installed = ['nova_pinning/__init__.py',
                     'nova_pinning/cli/__init__.py',
                     'nova_pinning/cli/units/one.service',
                     'nova_pinning/tempest_plugin/__init__.py',
                     'nova_pinning/tempest_plugin/tests/__init__.py',
                     'nova_pinning/tempest_plugin/tests/one.json']
        for name in (*installed, 'nova_pinning/cli/one.pyc',
                     'nova_pinning/tests/__init__.py',
                     'nova_pinning/tests/unit/__init__.py',
                     'nova_pinning/tests/unit/dumps/one.json'):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).touch()
        self._build(tree)
        wheel, = tree.glob(f'nova_pinning-{_VERSION}-*.whl')
        with zipfile.ZipFile(wheel) as archive:
            self.assertEqual(installed, [
                name for name in archive.namelist() if '-info/' not in name])

    def _build(self, tree):
        environment = dict(os.environ)
        # Of whoever runs the tests.
        environment.pop('PBR_VERSION', None)
        done = subprocess.run(
            [sys.executable, '-c',
             'from pbr import build; build.build_wheel(".")'],
            cwd=tree, env=environment, capture_output=True, text=True)
        if "No module named 'pkg_resources'" in done.stderr:
            # As with older releases of nova.
            self.skipTest('the installed pbr needs an older setuptools')
        self.assertEqual(0, done.returncode, done.stderr)


@ddt.ddt
class TestRelease(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.scratch = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        # It has no .py in its name.
        path = _ROOT / 'tools' / 'release'
        self.tool = types.ModuleType('release')
        self.tool.__file__ = str(path)
        exec(compile(path.read_text(), path, 'exec'), vars(self.tool))

    def _patch(self, **values):
        self.enterContext(mock.patch.multiple(self.tool, **values))

    def _built(self, directory, *members, sdist=b'sources'):
        built = self.scratch / directory
        built.mkdir()
        (built / 'nova_pinning-1.tar.gz').write_bytes(sdist)
        with zipfile.ZipFile(built / 'nova_pinning-1.whl', 'w') as wheel:
            for name in members:
                wheel.writestr(zipfile.ZipInfo(name), '')
        return built

    def _sdist(self, *names, uid, mtime):
        path = self.scratch / 'one.tar.gz'
        with (gzip.GzipFile(path, 'wb', mtime=mtime) as packed,
              tarfile.open(mode='w', fileobj=packed) as archive):
            for name in names:
                member = tarfile.TarInfo(name)
                member.uid, member.uname = uid, f'user{uid}'
                # A fraction makes a header of its own.
                member.mtime = mtime + 0.5
                member.mode = 0o755
                member.size = len(name)
                archive.addfile(member, io.BytesIO(name.encode()))
        self.tool.repack(path, 1700000000)
        return path

    def test_sdists_of_two_users_on_two_days(self):
        one = self._sdist('b', 'a', uid=0, mtime=1).read_bytes()
        another = self._sdist('a', 'b', uid=1000, mtime=2)
        self.assertEqual(one, another.read_bytes())
        with tarfile.open(another) as archive:
            self.assertEqual(
                [('a', b'a', 0o755, 1700000000),
                 ('b', b'b', 0o755, 1700000000)],
                [(member.name, archive.extractfile(member).read(), member.mode,
                  member.mtime) for member in archive])

    def test_builds_that_differ(self):
        self._patch(run=mock.Mock())
        one, another = self._built('one'), self._built('another', sdist=b'')
        refused = self.assertRaises(SystemExit, self.tool.check, one, another)
        self.assertEqual('release: two builds differ: nova_pinning-1.tar.gz',
                         refused.code)
        (another / 'nova_pinning-1.tar.gz').unlink()
        self.assertRaises(SystemExit, self.tool.check, one, another)

    def test_a_wheel_with_tests(self):
        self._patch(run=mock.Mock())
        name = 'nova_pinning/tests/unit/test_kvm.py'
        refused = self.assertRaises(
            SystemExit, self.tool.check,
            self._built('one', name), self._built('another', name))
        self.assertIn('has tests in it', refused.code)
        name = 'nova_pinning/tempest_plugin/tests/test_limits.py'
        self.tool.check(self._built('three', name), self._built('four', name))

    def _checkout(self):
        if not shutil.which('git'):
            self.skipTest('git is not installed')
        # Whatever the user has git do besides.
        self.useFixture(
            fixtures.EnvironmentVariable('GIT_CONFIG_GLOBAL', '/dev/null'))
        root = self.scratch / 'checkout'
        self._git('init', '--quiet', root)
        (root / 'setup.cfg').write_text('[metadata]\n')
        self._git('-C', root, 'add', '.')
        self._git('-C', root, '-c', 'user.name=a', '-c', 'user.email=a@b',
                  'commit', '--quiet', '--message', 'All')
        self._patch(ROOT=root)
        return root

    @staticmethod
    def _git(*arguments):
        subprocess.run(['git', *map(str, arguments)], check=True)

    def _release(self):
        with (contextlib.redirect_stdout(io.StringIO()),
              contextlib.redirect_stderr(io.StringIO())):
            self.tool.main(['--output', str(self.scratch / 'new' / 'dist')])

    def test_sums_of_all_files(self):
        root = self._checkout()
        self._patch(build=lambda scratch: (root, self._built(scratch.name)),
                    check=mock.Mock(), describe=mock.Mock())
        self._release()
        output, = (self.scratch / 'new').iterdir()
        found = dict(line.split('  ')[::-1] for line in
                     (output / 'SHA256SUMS').read_text().splitlines())
        self.assertEqual(
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
             for path in output.iterdir() if path.name != 'SHA256SUMS'},
            found)
        self.assertEqual(2, len(found))

    def test_what_fails_leaves_nothing(self):
        root = self._checkout()
        self._patch(build=lambda scratch: (root, self._built(scratch.name)),
                    check=mock.Mock(side_effect=SystemExit('no')))
        self.assertRaises(SystemExit, self._release)
        self.assertEqual([], list((self.scratch / 'new').iterdir()))

    @ddt.data('changed', 'in the way')
    def test_what_is_refused_at_once(self, what):
        root = self._checkout()
        self._patch(build=mock.Mock())
        if what == 'changed':
            (root / 'setup.cfg').write_text('')
        else:
            output = self.scratch / 'new' / 'dist'
            output.mkdir(parents=True)
            (output / 'nova_pinning-0.whl').touch()
        refused = self.assertRaises(SystemExit, self._release)
        self.assertEqual(2, refused.code)
        self.tool.build.assert_not_called()
