# SPDX-License-Identifier: Apache-2.0
"""The formats of every list command that asks a cloud."""

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

    def test_class_in_one_word(self):
        _status, output, _error = self.run_command(
            host.ListHosts, '-f', 'value', '-c', 'class')
        self.assertEqual(
            ['dedicated', 'shared', 'none', 'none', 'unclear', 'unclear'],
            output.split())
