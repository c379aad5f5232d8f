# SPDX-License-Identifier: Apache-2.0
"""Where devices are in the PCI tree, and what they can be divided into."""

import dataclasses

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.document import source
from nova_pinning.host import discover
from nova_pinning.host.discover import pci_tree
from nova_pinning.host import hardware
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.tests.unit.host.discover import pci_machines
from nova_pinning.tests.unit.host.discover import sample_machines
from nova_pinning.tests.unit import unit_base

# A region that is not there.
_ROW = ' '.join(['0x' + 16 * '0'] * 3)


def as_read(bridge, form):
    """What can be known of a bridge, by what may be read of it."""
    if form == 'all':
        return bridge
    return dataclasses.replace(
        bridge, acs=None, port=bridge.port if form == 'services' and
        bridge.port is not hardware.PciPort.TO_PCI else None)


class TestAnyTree(base.BaseTestCase):

    @unit_base.settings(max_examples=40)
    @hypothesis.given(pci_machines.described(), strategies.data())
    def test_is_read_as_it_is(self, described, data):
        devices, bridges, switches = described
        forms = {bridge.address: data.draw(strategies.sampled_from(
            ['all', 'services', ''])) for bridge in bridges}
        with pci_machines.PciMachine(devices, bridges, forms) as machine:
            found = discover.discover_host(machine.tree(), 'any')
        self.assertEqual(devices, found.pci_devices)
        self.assertEqual(
            tuple(as_read(bridge, forms[bridge.address])
                  for bridge in bridges), found.pci_bridges)
        self.assertEqual(found, hostfile.read(source.parse(
            hostfile_writer.dump(found), 'any.yaml')))
        if '' not in forms.values():
            self.assertEqual(switches, {
                device.address: found.switch_of(device.parent)
                for device in found.pci_devices})


@ddt.ddt
class TestBridges(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine()).small()

    def at(self, *way, number='020000'):
        path = f'sys/devices/{"/".join(way)}'
        (self.machine.root / path).mkdir(parents=True, exist_ok=True)
        self.machine.link(f'{sample_machines.PCI}/{way[-1]}',
                          f'../../../devices/{"/".join(way)}')
        return self.machine.pci(way[-1], number)

    def found(self):
        return discover.discover_host(self.machine.tree())

    @ddt.data(
        ('01', 'root-port'), ('001', 'root-port'), ('104', 'switch-upstream-'
                                                    'port'),
        ('11', 'switch-upstream-port'), ('208', 'switch-downstream-port'),
        ('21', 'switch-downstream-port'), ('ffffffc1', None), ('301', None))
    @ddt.unpack
    def test_ports_by_their_services(self, service, port):
        bridge = '0000:00:01.0'
        path = self.at('pci0000:00', bridge, number='060400')
        self.machine.write(f'{path}/{bridge}:pcie{service}/uevent', '')
        self.at('pci0000:00', bridge, '0000:01:00.0')
        self.assertEqual(
            (hardware.PciBridge(bridge, 'pci0000:00',
                                port and hardware.PciPort(port)),),
            self.found().pci_bridges)

    @ddt.data((0x1d, 0x1d, True), (0x1f, 0x1d, True), (0x1d, 0x0d, False),
              (0x0d, 0x0d, True), (0, 0, True), (0x3d, 0x5d, True))
    @ddt.unpack
    def test_acs(self, capability, control, expected):
        space = pci_machines.config(
            hardware.PciPort.DOWNSTREAM, (capability, control))
        self.assertIs(expected, pci_tree._acs(
            space, hardware.PciPort.DOWNSTREAM))

    @ddt.data(b'', bytes(4096), bytes([0xff] * 4096), bytes(256),
              bytes([0x40] * 4096), bytes([0x10] * 64))
    def test_any_configuration_space(self, space):
        path = self.at('pci0000:00', '0000:00:01.0', number='060400')
        (self.machine.root / path / 'config').write_bytes(space)
        self.at('pci0000:00', '0000:00:01.0', '0000:01:00.0')
        bridge, = self.found().pci_bridges
        self.assertIsNone(bridge.acs)

    def test_a_domain_of_its_own(self):
        self.at('pci0000:00', '0000:00:0e.0', 'pci10000:e0', '10000:e0:1b.0',
                '10000:e1:00.0')
        host = self.found()
        self.assertEqual('10000:e0:1b.0', host.pci_devices[0].parent)
        self.assertEqual(
            [('10000:e0:1b.0', 'pci10000:e0')],
            [(bridge.address, bridge.parent) for bridge in host.pci_bridges])

    def test_a_switch_of_which_nobody_knows_what_its_bridges_are(self):
        root, up = '0000:00:01.0', '0000:01:00.0'
        for down, device in (('0000:02:00.0', '0000:03:00.0'),
                             ('0000:02:01.0', '0000:04:00.0')):
            self.at('pci0000:00', root, up, down, device)
        # Two root ports are no switch.
        self.at('pci0000:00', '0000:00:02.0', '0000:05:00.0')
        host = self.found()
        self.assertEqual([up, up, ''], [
            host.switch_of(device.parent) for device in host.pci_devices])

    def test_what_is_not_there_is_not_known(self):
        self.machine.pci('0000:3b:00.0', '030200')
        device, = self.found().pci_devices
        self.assertEqual(
            ('', None, None, None, None),
            (device.parent, device.sriov_totalvfs, device.bars_kib,
             device.reset_methods, device.mig_instances))

    @ddt.data('garbage', '0x0 0x0 0x0', f'{_ROW}\n' * 5,
              f'{_ROW}\n' * 5 + _ROW.upper())
    def test_memory_that_makes_no_sense(self, text):
        path = self.machine.pci('0000:3b:00.0', '030200')
        self.machine.write(f'{path}/resource', text)
        tree = self.machine.tree()
        self.assertIsNone(pci_tree.bars_kib(tree, f'/{path}'))
        self.assertIn('not known', tree.unread[f'/{path}/resource'])

    def test_no_memory(self):
        path = self.machine.pci('0000:3b:00.0', '030200')
        self.machine.write(f'{path}/resource', f'{_ROW}\n' * 6)
        tree = self.machine.tree()
        self.assertEqual((), pci_tree.bars_kib(tree, f'/{path}'))
        self.assertEqual({}, tree.unread)
