# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/run_tempest.py."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
from unittest import mock

import ddt

from nova_pinning.tempest_plugin import hosts
from nova_pinning.tests.unit import unit_base

ROOT = pathlib.Path(__file__).resolve().parents[4]


@ddt.ddt
class RunTempestTest(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        with mock.patch.object(sys, 'path', [str(ROOT / 'tools'), *sys.path]):
            self.tool = importlib.import_module('run_tempest')

    def _main(self, *arguments):
        with mock.patch.object(sys, 'argv', ['run_tempest.py', *arguments]):
            return self.tool.main()

    def _up(self, *arguments, **variables):
        """Return the command that brings the cloud up.

        :param variables: the environment's that have to do with minicloud
        """
        others = {variable: value for variable, value in os.environ.items()
                  if not variable.startswith('MINICLOUD_')}
        refused = subprocess.CalledProcessError(2, 'minicloud')
        with (mock.patch.dict(os.environ, others | variables, clear=True),
              mock.patch('subprocess.run', side_effect=refused) as run):
            end = self.assertRaises(SystemExit, self._main, *arguments)
        self.assertEqual(2, end.code)
        command, = run.call_args.args
        return command

    def test_the_cloud_without_options(self):
        command = self._up()
        self.assertEqual(['--state', str(ROOT / '.minicloud')], command[1:3])
        self.assertNotIn('--base-port', command)
        self.assertIn('--hosts 4', ' '.join(command))

    def test_the_cloud_of_the_environment(self):
        """The port that it names is for minicloud itself to read."""
        command = self._up(MINICLOUD_STATE='/var/tmp/second',
                           MINICLOUD_BASE_PORT='18800')
        self.assertEqual(['--state', '/var/tmp/second'], command[1:3])
        self.assertNotIn('--base-port', command)

    def test_options_outweigh_the_environment(self):
        command = self._up('--state', '/var/tmp/third', '--base-port', '19800',
                           MINICLOUD_STATE='/var/tmp/second',
                           MINICLOUD_BASE_PORT='18800')
        self.assertEqual(['--state', '/var/tmp/third'], command[1:3])
        self.assertIn('--base-port 19800', ' '.join(command))

    def test_virtual_hosts(self):
        self.assertIn(
            '--hosts 0 --virtual-host 2x2x2 --virtual-host 2x2x2',
            ' '.join(self._up('--virtual')))

    @ddt.data('HOSTS', 'VIRTUAL_HOSTS')
    def test_cpu_sets(self, name):
        """The plugin reads what minicloud was told."""
        layout = getattr(self.tool, name)
        read = dict(map(hosts.CpuSetsType(), self.tool.cpu_sets(layout)))
        self.assertEqual(set(layout), set(read))
        for host, cpus in layout.items():
            for kind, text in re.findall(r'(\w+):([\d,-]*\d)', cpus):
                self.assertEqual(text, str(getattr(read[host], kind)))

    @ddt.data((True, 0), (False, 1))
    @ddt.unpack
    def test_the_cloud_goes_down(self, good, status):
        with (mock.patch.object(self.tool, 'Cloud') as cloud,
              mock.patch.object(self.tool, 'run', return_value=good)):
            self.assertEqual(status, self._main())
        cloud.return_value.down.assert_called_once_with()

    def test_the_cloud_goes_down_after_an_error(self):
        with (mock.patch.object(self.tool, 'Cloud') as cloud,
              mock.patch.object(self.tool, 'run', side_effect=OSError)):
            self.assertRaises(OSError, self._main)
        cloud.return_value.down.assert_called_once_with()

    def test_keep(self):
        with (mock.patch.object(self.tool, 'Cloud') as cloud,
              mock.patch.object(self.tool, 'run', return_value=True)):
            self._main('--keep')
        cloud.return_value.down.assert_not_called()

    def test_a_cloud_that_was_there_before(self):
        """If ours does not come up, nothing is taken down."""
        error = subprocess.CalledProcessError(2, 'minicloud')
        with (mock.patch.object(self.tool, 'Cloud') as cloud,
              mock.patch.object(self.tool, 'run') as run):
            cloud.return_value.up.side_effect = error
            end = self.assertRaises(SystemExit, self._main)
        self.assertEqual(2, end.code)
        cloud.return_value.down.assert_not_called()
        run.assert_not_called()

    @ddt.data(((), 'TESTS'), (('--virtual',), 'VIRTUAL_TESTS'))
    @ddt.unpack
    def test_which_tests(self, arguments, name):
        with (mock.patch.object(self.tool, 'Cloud'),
              mock.patch.object(self.tool, 'run') as run):
            self._main(*arguments)
            self._main(*arguments, 'x')
        regexes = [call.args[3] for call in run.call_args_list]
        self.assertEqual([getattr(self.tool, name), 'x'], regexes)

    def test_tests_for_a_virtual_host(self):
        """The classes that are named are there."""
        directory = ROOT / 'nova_pinning' / 'tempest_plugin' / 'tests'
        code = ''.join(path.read_text() for path in directory.glob('*.py'))
        for name in re.findall(r'\w+', self.tool.VIRTUAL_TESTS):
            self.assertRegex(code, rf'(class|def) {name}\(')
