# SPDX-License-Identifier: Apache-2.0
"""The formats of every list and show command that asks a cloud."""

import json
from unittest import mock

import ddt

from nova_pinning.osc import host
from nova_pinning.tests.unit.cli import displaychecks
from nova_pinning.tests.unit.osc import test_host


@ddt.ddt
class TestCommands(displaychecks.Checks, test_host.CommandTestCase):

    def _runner(self, kind, *argv):
        def run(*more):
            return self.run_command(kind, *argv, *more)

        return run

    @ddt.data('name', 'class', 'node')
    def test_host_list(self, column):
        self.check(self._runner(host.ListHosts), column)

    @ddt.data('name', 'class', 'inventories_PCPU_total')
    def test_host_show(self, column):
        self.check(self._runner(host.ShowHost, 'd'), column, is_list=False)

    def test_class_in_one_word(self):
        _status, output, _error = self.run_command(
            host.ListHosts, '-f', 'value', '-c', 'class')
        self.assertEqual(
            ['dedicated', 'shared', 'none', 'none', 'unclear', 'unclear'],
            output.split())

    def test_several_nodes_of_one_service(self):
        one, = (found for found in self.nova.hosts() if found.name == 'd')
        with mock.patch.object(self.nova, 'hosts', return_value=(one, one)):
            run = self._runner(host.ShowHost, 'd')
            self.assertEqual(2, len(json.loads(
                run('-f', 'json')[1])['hosts']))
            self.assertEqual('["d", "d"]\n',
                             run('-f', 'value', '-c', 'name')[1])
