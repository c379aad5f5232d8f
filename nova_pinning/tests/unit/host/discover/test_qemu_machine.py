# SPDX-License-Identifier: Apache-2.0
"""What is discovered of devices that QEMU emulates, behind its bridges."""

from oslotest import base

from nova_pinning.host import discover
from nova_pinning.tests.unit.host.discover import qemu_machine


class TestQemuMachine(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.host = discover.discover_host(
            self.useFixture(qemu_machine.QemuMachine()).tree(), 'host')
        self.devices = {
            device.address: device for device in self.host.pci_devices}

    def test_places(self):
        """Of each device the node, and the switch that it is behind."""
        self.assertEqual({
            f'0000:{bus + below}': (node, f'0000:{bus}2:00.0' if switched
                                    else '')
            for node, bus in enumerate('45') for below, switched in (
                ('1:00.0', False), ('4:00.0', True), ('5:00.0', True),
                ('6:00.0', False), ('6:00.1', False), ('6:00.2', False))},
            {address: (device.numa_node,
                       self.host.switch_of(device.parent))
             for address, device in self.devices.items()})

    def test_functions(self):
        self.assertEqual({
            f'0000:{bus}6:00.{function}': kind for bus in '45'
            for function, kind in enumerate(('type-PF', 'type-VF', 'type-VF'))
        }, {address: kind for address, device in self.devices.items()
            if (kind := self.host.device_type(device)) != 'type-PCI'})

    def test_iommu_groups(self):
        """Each is in one of its own, ports that do not keep apart or not."""
        self.assertEqual(len(self.devices), len({
            device.iommu_group for device in self.devices.values()}))
        self.assertEqual({'': {True}, '2': {None}, '3': {False}}, {
            '' if bridge.parent.startswith('pci') else bridge.address[6]:
                {bridge.acs} for bridge in self.host.pci_bridges})
