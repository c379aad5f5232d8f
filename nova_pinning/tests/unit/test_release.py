# SPDX-License-Identifier: Apache-2.0
"""What a release consists of."""

import configparser
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile

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
