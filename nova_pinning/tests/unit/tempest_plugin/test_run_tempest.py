# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/run_tempest.py."""

import importlib
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
