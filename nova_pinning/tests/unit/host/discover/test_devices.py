# SPDX-License-Identifier: Apache-2.0
"""PCI devices, and what the host does with them."""

import ddt
from oslotest import base

from nova_pinning.host.discover import devices
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.tests.unit.host.discover import sample_machines

NIC = '020000'
NVME = '010802'
ROUTES = ('Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window '
          'IRTT\n')


@ddt.ddt
class DevicesTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine()).small()

    def read(self, tree=None):
        tree = tree or self.machine.tree()
        return devices.read(tree)


@ddt.ddt
class TestDevices(DevicesTestCase):

    @ddt.data(('020000', 'nic'), ('020700', 'nic'), ('028000', 'nic'),
              ('0c0600', 'nic'), ('010802', 'nvme'), ('030000', 'gpu'),
              ('030200', 'gpu'), ('038000', 'gpu'), ('120000', 'gpu'),
              ('0b4000', 'other'))
    @ddt.unpack
    def test_kinds(self, number, kind):
        self.machine.pci('0000:3b:00.0', number)
        device, = self.read()
        self.assertEqual(
            host_model.PciDevice('0000:3b:00.0', '8086', '1521', None,
                                 kind=hardware.PciKind(kind)), device)

    @ddt.data('060000', '010601', '0c0330', 'ffff00', '088000')
    def test_what_does_not_matter(self, number):
        self.machine.pci('0000:3b:00.0', number)
        self.assertEqual((), self.read())

    def test_odd_files(self):
        self.machine.pci('0000:3b:00.0', '02')
        self.machine.write(f'{sample_machines.PCI}/0000:3b:00.1/class', 'x')
        self.machine.write(f'{sample_machines.PCI}/0000:3b:00.2/class',
                           '0x020000')
        self.machine.pci('3b:00.3', NIC)
        tree = self.machine.tree()
        self.assertEqual((), self.read(tree))
        path = f'/{sample_machines.PCI}/0000:3b:00'
        self.assertEqual({f'{path}.1/class': "has 'x'"}, tree.nonsense)
        left_out = 'it is not there, so the device is left out'
        self.assertEqual({
            f'{path}.1/class': left_out, f'{path}.2/vendor': left_out},
            tree.unread)

    def test_nvswitches(self):
        # The first is in hwloc's dump of a DGX-2.
        for product in ('1ac2', '1af1', '22a3'):
            self.machine.pci('0000:61:00.0', '068000', '10de', product)
            device, = self.read()
            self.assertIs(hardware.PciKind.NVSWITCH, device.kind)

    def test_order(self):
        for address in ('0000:af:00.0', '10000:01:00.0', '0000:0a:00.1',
                        '0000:0a:00.0', '0000:9b:00.0'):
            self.machine.pci(address, NIC)
        self.assertEqual(
            ['0000:0a:00.0', '0000:0a:00.1', '0000:9b:00.0', '0000:af:00.0',
             '10000:01:00.0'], [one.address for one in self.read()])

    def test_links(self):
        path = self.machine.pci('0000:3b:02.0', NIC, numa_node=0)
        self.machine.link(f'{path}/driver', '../../bus/pci/drivers/vfio-pci')
        self.machine.link(f'{path}/iommu_group',
                          '../../../kernel/iommu_groups/137')
        self.machine.link(f'{path}/physfn', '../0000:3b:00.0')
        device, = self.read()
        self.assertEqual(
            ('vfio-pci', 137, '0000:3b:00.0', 0),
            (device.driver, device.iommu_group, device.physical_function,
             device.numa_node))

    @ddt.data(({}, ()), ({'msi_irqs/120': 'msix', 'msi_irqs/9': 'msix',
                          'irq': 5}, (9, 120)),
              ({'irq': 16}, (16,)), ({'irq': -1}, ()))
    @ddt.unpack
    def test_interrupts(self, files, expected):
        path = self.machine.pci('0000:3b:00.0', NIC, **files)
        # Without a driver nobody waits for any.
        self.assertEqual((), self.read()[0].interrupts)
        self.machine.link(f'{path}/driver', '../../bus/pci/drivers/igb')
        self.assertEqual(expected, self.read()[0].interrupts)

    @ddt.data('lib', 'usr/lib')
    def test_drivers_of_vfio(self, root):
        def drivers():
            return [one.vfio_driver for one in self.read()]
        for bus, (product, kind) in enumerate((
                ('00002342', '030200'), ('00002330', '030200'),
                ('00002330', NVME)), 1):
            self.machine.pci(
                f'0000:{bus:02x}:00.0', kind,
                modalias=f'pci:v000010DEd{product}sv000010DEsd0000'
                         f'16EBbc{kind[:2]}sc{kind[2:4]}i{kind[4:]}')
        self.machine.pci('0000:3c:00.0', NIC)
        self.machine.write('proc/sys/kernel/osrelease', '6.12.1-amd64')
        self.assertEqual(['', '', '', ''], drivers())
        modules = f'{root}/modules/6.12.1-amd64/modules.alias'
        self.machine.write(modules, '# Aliases\n'
                           'alias vfio_pci:v*d*sv*sd*bc*sc*i* vfio_pci\n'
                           'alias vfio_pci:v*d*sv*sd*bc01sc08i02* any_nvme\n'
                           'alias vfio_pci:v000010DEd00002342sv*sd*bc*sc*i* '
                           'nvgrace_gpu_vfio_pci\n'
                           'alias pci:v000010DEd00002330sv*sd*bc*sc*i* nvidia')
        self.assertEqual(
            ['nvgrace_gpu_vfio_pci', 'vfio-pci', 'any_nvme', ''], drivers())
        # Kernels before 5.16 have no variants.
        self.machine.write(modules, '# Aliases')
        self.assertEqual(['vfio-pci'] * 3 + [''], drivers())

    @ddt.data((-1, None), (1, 1), (7, 7), ('', None))
    @ddt.unpack
    def test_node(self, number, expected):
        """As libvirt and nova have it, be the node offline.

        Where there is but one node with CPUs, all are near to every device.
        """
        self.machine.write(f'{sample_machines.NODE}/node0/cpulist', '0-3')
        self.machine.node(1, '')
        self.machine.pci('0000:3b:00.0', NIC, numa_node=number,
                         local_cpus='f')
        self.assertEqual(expected, self.read()[0].numa_node)

    def test_console(self):
        self.machine.pci('0000:3b:00.0', '030000', boot_vga=1)
        self.machine.pci('0000:3c:00.0', '030200', boot_vga=0)
        self.assertEqual(['console', ''],
                         [one.in_use for one in self.read()])


class TestNics(DevicesTestCase):

    def nic(self, name='eth0', address='0000:3b:00.0', below='', speed=None,
            rx=1, tx=1):
        path = self.machine.pci(address, NIC)
        path = f'{path}/{below}net/{name}'
        for kind, count in (('rx', rx), ('tx', tx)):
            for number in range(count):
                self.machine.write(f'{path}/queues/{kind}-{number}/x', '')
        if speed is not None:
            self.machine.write(f'{path}/speed', speed)
        self.machine.link(f'sys/class/net/{name}', f'../../../{path}')
        return path

    def test_queues_and_speed(self):
        self.nic(rx=8, tx=12, speed=25000)
        device, = self.read()
        self.assertEqual((('eth0',), 12, 25000, ''),
                         (device.names, device.queues, device.speed_mbps,
                          device.in_use))

    def test_two_ports_on_one_device(self):
        self.nic('eth0', rx=4, tx=2, speed=40000)
        self.nic('eth1', rx=2, tx=4, speed=10000)
        device, = self.read()
        self.assertEqual((('eth0', 'eth1'), 8, 50000),
                         (device.names, device.queues, device.speed_mbps))

    def test_link_is_down(self):
        self.nic('a', '0000:3b:00.0', speed=-1)
        self.nic('b', '0000:3b:00.1', speed=2 ** 32 - 1)
        self.nic('c', '0000:3b:00.2')
        self.assertEqual([0, 0, 0], [one.speed_mbps for one in self.read()])

    def test_virtio(self):
        self.nic(below='virtio2/', rx=2, tx=2)
        device, = self.read()
        self.assertEqual((('eth0',), 2), (device.names, device.queues))

    def test_routes(self):
        for number in range(5):
            self.nic(f'eth{number}', f'0000:3b:00.{number}')
        self.machine.write(
            'proc/net/route', ROUTES +
            'eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n'
            'eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n'
            # Half of the internet is not a default.
            'eth1 00000000 010200C0 0003 0 0 0 00000080 0 0 0\n'
            # One is down, and one only says that nothing goes there.
            'eth2 00000000 010200C0 0002 0 0 0 00000000 0 0 0\n'
            'eth3 00000000 010200C0 0201 0 0 0 00000000 0 0 0\n'
            'eth4 x')
        self.assertEqual(['default route', 'routes', '', '', ''],
                         [one.in_use for one in self.read()])

    def test_ipv6_routes(self):
        self.nic('eth0', '0000:3b:00.0')
        self.nic('eth1', '0000:3b:00.1')
        zero = '0' * 32
        link = 'fe80' + '0' * 28
        rest = '00000400 00000001 00000000 {:08x}'
        self.machine.write('proc/net/ipv6_route', '\n'.join((
            f'{link} 40 {zero} 00 {zero} {rest.format(1)}     eth1',
            f'{zero} 00 {zero} 00 {link} {rest.format(3)}     eth0',
            f'{zero} 00 {zero} 00 {zero} {rest.format(0x200200)}       lo')))
        self.assertEqual(['default route', ''],
                         [one.in_use for one in self.read()])

    def test_bond_and_bridge(self):
        path = self.nic()
        self.machine.link(f'{path}/master', '../../bond0')
        self.machine.link(f'{path}/upper_bond0', '../../bond0')
        self.machine.link('sys/class/net/bond0/upper_br-ex', '../br-ex')
        self.machine.link('sys/class/net/br-ex/upper_bond0', '../bond0')
        self.assertEqual('in bond0, br-ex', self.read()[0].in_use)
        self.machine.write(
            'proc/net/route', ROUTES +
            'bond0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n'
            'br-ex 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n')
        self.assertEqual('in bond0, br-ex; default route',
                         self.read()[0].in_use)

    def test_bridge_of_old_kernels(self):
        path = self.nic()
        self.machine.link(f'{path}/brport/bridge', '../../br0')
        self.assertEqual('in br0', self.read()[0].in_use)


class TestDisks(DevicesTestCase):

    def disk(self, name='nvme0n1', below='nvme/nvme0', queues=4, number=0):
        path = self.machine.pci('0000:3b:00.0', NVME)
        path = f'{path}/{below}/{name}'
        for queue in range(queues):
            self.machine.write(f'{path}/mq/{queue}/cpu_list', queue)
        self.machine.write(f'{path}/dev', f'259:{number}')
        self.machine.link(f'sys/class/block/{name}', f'../../../{path}')
        return path

    def partition(self, path, number):
        disk = path.rpartition('/')[2]
        name = f'{disk}p{number}'
        self.machine.write(f'{path}/{name}/dev', f'259:{number}')
        self.machine.link(f'sys/class/block/{name}',
                          f'../../../{path}/{name}')
        return name

    def use(self):
        device, = self.read()
        return device.in_use

    def test_disks(self):
        self.disk()
        self.disk('nvme0n2', queues=2)
        device, = self.read()
        self.assertEqual((('nvme0n1', 'nvme0n2'), 4, ''),
                         (device.names, device.queues, device.in_use))

    def test_old_kernels(self):
        self.disk(below='block', queues=0)
        device, = self.read()
        self.assertEqual((('nvme0n1',), 0), (device.names, device.queues))

    def test_no_disk_yet(self):
        path = self.machine.pci('0000:3b:00.0', NVME)
        self.machine.write(f'{path}/nvme/nvme0/queue_count', 33)
        device, = self.read()
        self.assertEqual(((), 32), (device.names, device.queues))

    def test_several_paths_to_one(self):
        self.disk('nvme0c1n1', queues=3)
        self.machine.write('sys/class/block/nvme0n1/dev', '259:9')
        self.machine.write('proc/self/mountinfo',
                           '22 1 259:9 / /srv rw - xfs /dev/nvme0n1 rw')
        device, = self.read()
        self.assertEqual((('nvme0n1',), 3, 'mounted on /srv'),
                         (device.names, device.queues, device.in_use))

    def test_mounted(self):
        path = self.disk()
        self.partition(path, 1)
        self.partition(path, 2)
        # Of the same device another's mount point does not count.
        self.machine.write(
            'proc/self/mountinfo',
            '22 1 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw\n'
            '23 1 259:7 / /other rw - xfs /dev/nvme1n1 rw\n'
            '24 1 0:21 / /proc rw - proc proc rw\n')
        self.machine.write('proc/mounts', (
            '/dev/nvme0n1p2 /mnt/my\\040disk btrfs rw 0 0\n'
            '/dev/nvme0n1p1 /boot/efi vfat rw 0 0\n'
            # What is mounted need not be a device.
            'dev /dev devtmpfs rw 0 0\n'
            'nvme0n1 /srv nfs rw 0 0\n'
            'short\n'))
        self.assertEqual('mounted on /boot/efi, /mnt/my disk', self.use())

    def test_swap(self):
        self.partition(self.disk(), 1)
        self.machine.write('proc/swaps', 'Filename Type Size Used Priority\n'
                           '/dev/nvme0n1p1 partition 8 0 -2\n')
        self.assertEqual('swap', self.use())

    def test_volumes(self):
        path = self.disk()
        part = self.partition(path, 3)
        self.machine.write(f'{path}/{part}/holders/dm-0/x', '')
        self.machine.write('sys/class/block/dm-0/dm/name', 'vg-root')
        self.machine.write('sys/class/block/dm-0/dev', '253:0')
        self.machine.write('sys/class/block/dm-0/holders/dm-1/x', '')
        self.machine.write('sys/class/block/dm-1/dm/name', 'crypt')
        self.assertEqual('in vg-root, crypt', self.use())
        self.machine.write('proc/mounts',
                           '/dev/mapper/crypt / xfs rw 0 0\n')
        self.machine.write('proc/self/mountinfo',
                           '24 1 253:0 / /var rw - xfs /dev/dm-0 rw\n')
        self.assertEqual('in vg-root, crypt; mounted on /var, /', self.use())

    def test_many_mounts(self):
        self.disk()
        self.machine.write('proc/mounts', ''.join(
            f'/dev/nvme0n1 /srv/{number}\\012 xfs rw 0 0\n'
            for number in range(200)))
        self.assertEqual('mounted on /srv/0?, /srv/1?, /srv/2? and 197 more',
                         self.use())
