# SPDX-License-Identifier: Apache-2.0
"""Warnings about devices and pages."""

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning.host import hardware
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host.plan import test_planner

nic = test_planner.nic


def plan(wanted=None, **values):
    """A plan of 80 CPUs in two nodes, four for the host on node 0."""
    return planner.plan(test_planner.xeon(**values), dataclasses.replace(
        plan_request.PlanOptions(
            host_cpus=4, sizes=test_planner.sizes((4,))), **wanted or {}))


def warning(planned, code):
    return next((one for one in planned.plan.warnings if one.code == code),
                None)


@ddt.ddt
class TestDevices(oslotest.BaseTestCase):

    def test_more_queues_than_cpus(self):
        planned = plan(pci_devices=(
            nic(1, 0, queues=64), nic(2, 0, queues=63), nic(3, 0, queues=4),
            nic(4, 0, queues=64, kind=hardware.PciKind.NVME)))
        told = warning(planned, 'many-queues')
        self.assertIn('eth1 (64 queues) and eth2 (63 queues)', told.message)
        self.assertIn('4 CPUs', told.message)
        self.assertIn('ethtool -L eth1 combined 4; ethtool -L eth2 combined 4',
                      told.advice)
        self.assertIsNone(warning(plan(pci_devices=(nic(3, 0, queues=4),)),
                                  'many-queues'))

    def test_a_port_whose_queues_all_go_to_few_cpus(self):
        """Of many CPUs for the host, those near the port count."""
        wanted = dict(host_cpus=12, choice=1)
        planned = plan(wanted, pci_devices=(
            nic(1, 1, 100000), nic(2, 0, 10000)))
        near = planned.nodes[1].cpus & planned.plan.host_cpus
        told = warning(planned, 'few-cpus-near-port')
        self.assertEqual(len(near) < 10, told is not None)
        self.assertIsNone(warning(planned, 'few-host-cpus'))

    @ddt.data((False, True), (True, False), (None, False))
    @ddt.unpack
    def test_interrupts_of_guests(self, posted, is_told):
        values = dict(
            pci_devices=(nic(1, 0, in_use=''),),
            system=hardware.System(posted_interrupts=posted))
        wanted = dict(pci_aliases=(('fast', 'nic'),))
        self.assertEqual(is_told, bool(warning(
            plan(wanted, **values), 'no-posted-interrupts')))
        self.assertIsNone(warning(plan(**values), 'no-posted-interrupts'))


@ddt.ddt
class TestPages(oslotest.BaseTestCase):

    @ddt.data(('5.4.0-200-generic', True), ('5.15.0', True), ('5.16.0', False),
              ('6.1.0', False), ('', False))
    @ddt.unpack
    def test_nodes_that_differ(self, kernel, is_told):
        planned = plan(system=hardware.System(kernel=kernel))
        pages = [node.huge_pages[host_samples.GIB_PAGES]
                 for node in planned.nodes]
        self.assertNotEqual(*pages)
        told = warning(planned, 'uneven-pages')
        self.assertEqual(is_told, bool(told))
        if told:
            self.assertIn(f'{pages[0]} on node 0, {pages[1]} on node 1',
                          told.message)
            self.assertIn('boot Linux 5.16', told.advice)
