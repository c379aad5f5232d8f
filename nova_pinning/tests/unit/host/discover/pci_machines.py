# SPDX-License-Identifier: Apache-2.0
"""Machines with any PCI devices behind any bridges: what is, and its files."""

import dataclasses
import struct

from hypothesis import strategies

from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.tests.unit.host.discover import sample_machines

_TYPES = {hardware.PciPort.ROOT: 4, hardware.PciPort.UPSTREAM: 5,
          hardware.PciPort.DOWNSTREAM: 6, hardware.PciPort.TO_PCI: 7}
_CLASSES = {hardware.PciKind.NIC: '020000', hardware.PciKind.NVME: '010802',
            hardware.PciKind.GPU: '030200', hardware.PciKind.OTHER: '0b4000',
            hardware.PciKind.NVSWITCH: '068000'}
_IDS = {hardware.PciKind.GPU: ('10de', '2330'),
        hardware.PciKind.NVSWITCH: ('10de', '22a3')}


def config(port, acs):
    """The configuration space of a bridge, with what is to be found in it.

    :param acs: None for a bridge without that capability, else (capability,
        control)
    """
    space = bytearray(4096)
    space[0x06] = 0x10
    space[0x34] = 0x40
    # Power management, before PCI Express.
    space[0x40:0x42] = bytes((0x01, 0x60))
    space[0x60:0x64] = struct.pack('<BBH', 0x10, 0, _TYPES[port] << 4 | 2)
    extended = 0x148 if acs else 0
    space[0x100:0x104] = struct.pack('<I', extended << 20 | 1 << 16 | 0x01)
    if acs:
        space[0x148:0x150] = struct.pack('<IHH', 1 << 16 | 0x0d, *acs)
    return bytes(space)


@strategies.composite
def described(draw):
    """Devices and bridges, by their addresses, as they are to be read.

    :returns: (devices, bridges, the addresses of switches by device)
    """
    made = _Maker(draw)
    for domain in range(draw(strategies.integers(1, 2))):
        for bus in (0, 0x80):
            root = f'pci{domain:04x}:{bus:02x}'
            for _port in range(draw(strategies.integers(0, 3))):
                made.root_port(root)
    return (tuple(sorted(made.devices, key=lambda one: one.address)),
            tuple(sorted(made.bridges(), key=lambda one: one.address)),
            made.switches)


class _Maker:

    def __init__(self, draw):
        self.draw = draw
        self.devices = []
        self.switches = {}
        self._bridges = {}
        self._count = 0

    def bridges(self):
        """Those on the way to a device."""
        used = set()
        for device in self.devices:
            above = device.parent
            while above in self._bridges:
                used.add(above)
                above = self._bridges[above].parent
        return [self._bridges[address] for address in used]

    def address(self, function=0):
        self._count += 1
        return (f'0000:{self._count >> 5:02x}:{self._count & 31:02x}.'
                f'{function}')

    def bridge(self, parent, port):
        has_acs = port in (hardware.PciPort.ROOT, hardware.PciPort.DOWNSTREAM)
        made = hardware.PciBridge(
            self.address(), parent, port, self.draw(
                strategies.booleans()) if has_acs else None,
            self.draw(strategies.sampled_from([None, self._count])))
        self._bridges[made.address] = made
        return made.address

    def root_port(self, root):
        what = self.draw(strategies.sampled_from(
            ['device', 'switch', 'pci', 'root']))
        if what == 'root':
            self.device(root, '')
            return
        port = self.bridge(root, hardware.PciPort.ROOT)
        if what == 'switch':
            self.switch(port, 2)
        elif what == 'pci':
            self.device(self.bridge(port, hardware.PciPort.TO_PCI), '')
        else:
            self.device(port, '')

    def switch(self, parent, depth):
        upstream = self.bridge(parent, hardware.PciPort.UPSTREAM)
        for _port in range(self.draw(strategies.integers(1, 3))):
            down = self.bridge(upstream, hardware.PciPort.DOWNSTREAM)
            if depth and self.draw(strategies.booleans()):
                self.switch(down, depth - 1)
            else:
                self.device(down, upstream)

    def device(self, parent, switch):
        some = self.draw
        kind = some(strategies.sampled_from(hardware.PciKind))
        address = self.address()
        vendor, product = _IDS.get(kind, ('8086', '1521'))
        group = some(strategies.sampled_from([None, self._count]))
        can_split = kind in (hardware.PciKind.NIC, hardware.PciKind.GPU)
        one = host_model.PciDevice(
            address, vendor, product, some(strategies.sampled_from([None, 0])),
            kind=kind, parent=parent, iommu_group=group,
            driver=some(strategies.sampled_from(['', 'vfio-pci', 'any'])),
            companions=(f'{address[:-1]}1',) if group is not None and some(
                strategies.booleans()) else (),
            sriov_totalvfs=some(strategies.sampled_from(
                [None, 0, 8])) if can_split else None,
            bars_kib=some(strategies.sampled_from(
                [None, (), (16384,), (16384, 128 * 2 ** 20, 32768)])),
            reset_methods=some(strategies.sampled_from(
                [None, (), ('flr', 'bus')])),
            rdma_devices=some(strategies.sampled_from(
                [(), ('mlx5_0',)])) if kind == 'nic' else (),
            mdev_types=some(strategies.sampled_from([(), (
                hardware.VirtualGpuType('nvidia-699', 'A100-4C', 3),
                hardware.VirtualGpuType('nvidia-700'))])),
            mig_instances=some(strategies.sampled_from(
                [None, 0, 7])) if kind == 'gpu' else None)
        if kind == 'nvme':
            name = f'nvme{self._count}n1'
            one = dataclasses.replace(one, names=(name,), namespaces_mib={
                name: 2048})
        self.devices.append(one)
        self.switches[address] = switch
        if one.sriov_totalvfs:
            function = dataclasses.replace(
                one, address=f'{address[:-1]}4', physical_function=address,
                companions=(), iommu_group=None, sriov_totalvfs=None,
                mig_instances=None, **some(strategies.sampled_from([{}, {
                    'vgpu_type': '1155', 'vgpu_types': (
                        hardware.VirtualGpuType('1155', 'H100-4C'),)}])))
            self.devices.append(function)
            self.switches[function.address] = switch


class PciMachine(sample_machines.Machine):
    """Writes what is described as the kernel has it."""

    def __init__(self, devices, bridges, forms):
        """:param forms: what may be read of each bridge, by its address:
        'all', 'services', or ''
        """
        super().__init__()
        self._devices, self._bridges = devices, bridges
        self._parents = {bridge.address: bridge.parent for bridge in bridges}
        self._forms = forms

    def _setUp(self):
        super()._setUp()
        self.small()
        for bridge in self._bridges:
            self._bridge(bridge)
        for number, device in enumerate(self._devices):
            self._device(device, number)

    def _function(self, address, parent, number, *ids, **files):
        above = []
        while parent in self._parents:
            above.insert(0, parent)
            parent = self._parents[parent]
        way = '/'.join((parent, *above, address))
        self.link(f'{sample_machines.PCI}/{address}',
                  f'../../../devices/{way}')
        (self.root / 'sys/devices' / way).mkdir(parents=True)
        return self.pci(address, number, *ids, **files)

    def _group(self, path, address, group):
        if group is not None:
            self.link(f'{path}/iommu_group',
                      f'../../../../kernel/iommu_groups/{group}')
            self.write(f'sys/kernel/iommu_groups/{group}/devices/{address}',
                       '')

    def _bridge(self, bridge):
        path = self._function(bridge.address, bridge.parent, '060400')
        self._group(path, bridge.address, bridge.iommu_group)
        form = self._forms[bridge.address]
        acs = (0x1d, 0x1d if bridge.acs else 0x15)
        space = config(bridge.port, acs if bridge.acs is not None else None)
        (self.root / path / 'config').write_bytes(
            space if form == 'all' else space[:64])
        if form == 'services' and bridge.port is not hardware.PciPort.TO_PCI:
            (self.root / path / f'{bridge.address}:pcie'
             f'{_TYPES[bridge.port] - 4}04').mkdir()

    def _device(self, device, number):
        files = {}
        if device.numa_node is not None:
            files['numa_node'] = device.numa_node
        if device.sriov_totalvfs is not None:
            files['sriov_totalvfs'] = device.sriov_totalvfs
        if device.bars_kib is not None:
            files['resource'] = _resource(device.bars_kib)
        if device.reset_methods is not None:
            files['reset_method'] = ' '.join(device.reset_methods)
        for one in device.mdev_types:
            path = f'mdev_supported_types/{one.id}'
            files[f'{path}/name'] = one.name
            if one.available is not None:
                files[f'{path}/available_instances'] = one.available
        if device.vgpu_types:
            files['nvidia/creatable_vgpu_types'] = 'ID    : vGPU Name\n' + (
                '\n'.join(f'{one.id}  : {one.name}'
                          for one in device.vgpu_types))
            files['nvidia/current_vgpu_type'] = device.vgpu_type or 0
        for name in device.rdma_devices:
            files[f'infiniband/{name}/node_type'] = '1: CA'
        for name, mib in device.namespaces_mib.items():
            files[f'nvme/nvme{number}/{name}/size'] = mib * 2048
        path = self._function(
            device.address, device.parent, _CLASSES[device.kind],
            device.vendor_id, device.product_id, **files)
        self._group(path, device.address, device.iommu_group)
        for companion in device.companions:
            self._group(self._function(companion, device.parent, '040300'),
                        companion, device.iommu_group)
        if device.driver:
            self.link(f'{path}/driver',
                      f'../../../bus/pci/drivers/{device.driver}')
        if device.physical_function:
            self.link(f'{path}/physfn', f'../{device.physical_function}')
        if device.mig_instances is not None:
            self.write(f'proc/driver/nvidia/gpus/{device.address}/information',
                       f'Model: \t\t A GPU\nDevice Minor: \t {number}')
            mig = f'proc/driver/nvidia/capabilities/gpu{number}/mig'
            (self.root / mig).mkdir(parents=True)
            for instance in range(device.mig_instances):
                (self.root / mig / f'gi{instance}').mkdir()


def _resource(bars_kib):
    """Memory as the kernel lists it, with a port and what is not there."""
    rows = [(0x3000, 0x303f, 0x40101)]
    for kib in bars_kib:
        start = 2 ** 40
        rows.append((start, start + kib * 1024 - 1, 0x14220c))
        rows.append((0, 0, 0))
    rows = rows[:6] + [(0, 0, 0)] * (6 - len(rows))
    # A ROM, and memory of virtual functions, are no BARs of the device.
    rows += [(0x1000, 0x7ffff, 0x46200), (0x10000, 0x8ffff, 0x140204)]
    return '\n'.join(' '.join(f'0x{number:016x}' for number in row)
                     for row in rows)
