# SPDX-License-Identifier: Apache-2.0
"""Tests of ./run."""

import configparser
import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import types
from unittest import mock

from oslotest import base

import nova_pinning

_ROOT = pathlib.Path(nova_pinning.__file__).resolve().parent.parent
_INSTALLS = 'Installing what the task needs'


class RunTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copy(_ROOT / 'tox.ini', self.root)
        # It has no .py in its name.
        path = _ROOT / 'run'
        self.tool = types.ModuleType('run')
        self.tool.__file__ = str(path)
        exec(compile(path.read_text(), path, 'exec'), vars(self.tool))
        for name, value in (
                ('ROOT', self.root), ('make_tools', mock.Mock()),
                ('wait_for', mock.Mock(return_value=0))):
            self.enterContext(mock.patch.object(self.tool, name, value))
        self.enterContext(mock.patch('subprocess.Popen'))

    def _install(self, *names):
        for name in names:
            directory = self.root / '.tox' / name
            directory.mkdir(parents=True)
            (directory / '.tox-info.json').write_text('{}')

    def _says(self, *arguments):
        with (contextlib.redirect_stdout(io.StringIO()) as said,
              contextlib.redirect_stderr(io.StringIO()) as status):
            self.assertEqual(0, self.tool.main(arguments))
        # One or the other comes at once, and only one of them.
        self.assertNotEqual(
            _INSTALLS in said.getvalue(),
            f'bringing .tox up to date for {arguments[0]}' in
            status.getvalue())
        return said.getvalue()

    def test_what_is_there_is_not_installed(self):
        self.assertIn(_INSTALLS, self._says('docs'))
        self._install('shared')
        for task in ('docs', 'tests', 'py3', 'bench,functional'):
            self.assertEqual('', self._says(task), task)

    def test_environments_of_their_own(self):
        self._install('shared')
        for task in ('watcher', 'pep8', 'py312', 'release-2025.1-py311',
                     'release-2026.2', 'release-2024.1'):
            self.assertIn(_INSTALLS, self._says(task), task)
            self._install(task)
            self.assertEqual('', self._says(task), task)

    def test_commands_run_where_they_are_called(self):
        self._install('shared')
        self._says('venv', 'nova-pinning', '--help')
        called = subprocess.Popen.call_args.kwargs
        ini = configparser.ConfigParser(interpolation=None)
        ini.read(self.root / 'tox.ini')
        name = re.search(r'\{env:(\w+):', ini['testenv:venv']['change_dir'])
        self.assertEqual(os.getcwd(), called['env'][name[1]])

    def test_each_of_several(self):
        self._install('shared', 'pep8')
        self.assertEqual('', self._says('pep8,docs'))
        self.assertIn(_INSTALLS, self._says('docs,pep8,watcher'))
