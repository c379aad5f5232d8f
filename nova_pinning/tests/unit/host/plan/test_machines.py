#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Plans of real machines: those of dumps, and those that are shipped."""

import itertools

import ddt
from oslotest import base as oslotest

from nova_pinning.document import source
from nova_pinning.host import discover
from nova_pinning.host import dump
from nova_pinning.host import hostfile
from nova_pinning.host import load
from nova_pinning.host.plan import model
from nova_pinning.host.plan import planner
from nova_pinning.host.plan import request
from nova_pinning.host import tree
from nova_pinning.tests.unit.cli import base as cli_base
from nova_pinning.tests.unit.host.discover import dumps
from nova_pinning.tests.unit.host.plan import hosts


@ddt.ddt
class TestMachines(oslotest.BaseTestCase):

    @ddt.data(*itertools.product(sorted(dumps.NAMES), model.Purpose, (0, 1)))
    @ddt.unpack
    def test_a_plan(self, name, purpose, poll_cpus):
        description = discover.discover(tree.Tree(dumps.root(self, name)))
        planned = planner.plan(description, request.Request(
            purpose, poll_cpus=poll_cpus))
        hosts.check_uses(self, planned)
        self.assertEqual(planned, hostfile.read(
            source.parse(dump.dump(planned), 'plan.yaml')))
        self.assertEqual(description.cpus, planned.cpus)
        # What is in no plan is as it was found.
        for attribute in ('offline_cpus', 'caches', 'pci_devices',
                          'system'):
            self.assertEqual(getattr(description, attribute),
                             getattr(planned, attribute))

    @ddt.data(*itertools.product(
        sorted(path.name for path in (cli_base.ETC / 'hosts').iterdir()),
        model.Purpose, (None, 15)))
    @ddt.unpack
    def test_shipped_hosts(self, name, purpose, host_cpus):
        """No numbers are looked for that cores of two threads do not make."""
        hosts.check_uses(self, planner.plan(
            load.load(cli_base.ETC / 'hosts' / name),
            request.Request(purpose, host_cpus=host_cpus)))
