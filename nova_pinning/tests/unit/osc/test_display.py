# SPDX-License-Identifier: Apache-2.0
"""The formats of every list and show command that asks a cloud."""

import json
from unittest import mock

import ddt

from nova_pinning.flavors import catalogue
from nova_pinning.osc import flavor
from nova_pinning.osc import host
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.cli import displaychecks
from nova_pinning.tests.unit.flavors import fake_flavor_cloud
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

    def test_flavor_diff(self):
        sold = catalogue.load(cli_case.CATALOGUE)
        cloud = fake_flavor_cloud.FakeCloud(sold.flavors[2:])
        with mock.patch.object(flavor.DiffFlavors, 'cloud', cloud):
            run = self._runner(flavor.DiffFlavors, cli_case.CATALOGUE)
            self.check(run, 'name')
            self.assertEqual(
                [(1, f'create {one.name}\n') for one in sold.flavors[:2]],
                [(run('-f', 'value')[0], f'{line}\n') for line in run(
                    '-f', 'value', '-c', 'action', '-c', 'name')[
                        1].splitlines()])
            changes = json.loads(run('-f', 'json')[1])['changes']
            self.assertEqual(len(sold.flavors), len(changes))
            self.assertEqual(run(), run('-f', 'text'))
