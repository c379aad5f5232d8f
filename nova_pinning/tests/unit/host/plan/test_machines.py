# SPDX-License-Identifier: Apache-2.0
"""Plans of real machines: those of dumps, and those that are shipped."""

import itertools

import ddt
from oslotest import base as oslotest

from nova_pinning.document import source
from nova_pinning.host import discover
from nova_pinning.host import host_loader
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.host import machine_files
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host.discover import machine_dumps
from nova_pinning.tests.unit.host.plan import sample_hosts


@ddt.ddt
class TestMachines(oslotest.BaseTestCase):

    @ddt.data(*itertools.product(sorted(machine_dumps.NAMES),
                                 plan_model.Purpose, (0, 1)))
    @ddt.unpack
    def test_a_plan(self, name, purpose, poll_cpus):
        description = discover.discover_host(
            machine_files.Tree(machine_dumps.root(self, name)))
        planned = planner.plan(description, plan_request.PlanOptions(
            purpose, poll_cpus=poll_cpus))
        sample_hosts.check_uses(self, planned)
        self.assertEqual(planned, hostfile.read(
            source.parse(hostfile_writer.dump(planned), 'plan.yaml')))
        self.assertEqual(description.cpus, planned.cpus)
        # What is in no plan is as it was found.
        for attribute in ('offline_cpus', 'caches', 'pci_devices',
                          'system'):
            self.assertEqual(getattr(description, attribute),
                             getattr(planned, attribute))

    @ddt.data(*itertools.product(
        sorted(path.name for path in (cli_case.ETC / 'hosts').iterdir()),
        plan_model.Purpose, (None, 15)))
    @ddt.unpack
    def test_shipped_hosts(self, name, purpose, host_cpus):
        """No numbers are looked for that cores of two threads do not make."""
        sample_hosts.check_uses(self, planner.plan(
            host_loader.load(cli_case.ETC / 'hosts' / name),
            plan_request.PlanOptions(purpose, host_cpus=host_cpus)))
