# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a machine that matter to guests and to the host's CPUs.

These are network cards, NVMe disks, graphics cards and accelerators, virtual
functions included, since those are what guests are given most often. See the
kernel's Documentation/ABI/testing/sysfs-bus-pci and sysfs-class-net-queues.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning.host.discover import pci_tree
from nova_pinning.host.discover import text
from nova_pinning.host.discover import use
from nova_pinning.host.discover import vfio_drivers
from nova_pinning.host.discover import virtual_gpus
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning import units

_HEX = re.compile(r'0x([0-9a-f]{1,8})', re.ASCII)
# The path of a namespace that has several: nvme0c1n2 is a part of nvme0n2.
_NVME_PATH = re.compile(r'(nvme\d+)c\d+(n\d+)', re.ASCII)
# By the first digits of the class, see PCI-SIG's PCI Code and ID Assignment.
_KINDS = {
    '02': hardware.PciKind.NIC,
    '0c06': hardware.PciKind.NIC,  # InfiniBand
    '0108': hardware.PciKind.NVME,
    '03': hardware.PciKind.GPU,
    '12': hardware.PciKind.GPU,  # processing accelerators
    '0b40': hardware.PciKind.OTHER,  # coprocessors
}
# They are bridges (0680) to PCI-SIG; by their driver, or as pci.ids has them.
_NVSWITCH_DRIVER = 'nvidia-nvswitch'
_NVSWITCHES = ('10de:1ac2', '10de:1af1', '10de:22a3')
_SECTOR_BYTES = 512
_DISK = re.compile(r'nvme\d+(?:c\d+)?n\d+', re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class _DeviceService:
    """What a device does for the host by way of its driver."""

    names: tuple[str, ...] = ()
    queues: int = 0
    speed_mbps: int = 0
    in_use: str = ''
    namespaces_mib: Mapping[str, int] = dataclasses.field(
        default_factory=dict)


def read(tree: machine_files.Tree) -> tuple[host_model.PciDevice, ...]:
    """The devices by address."""
    services = _DeviceServices(tree)
    vfio = vfio_drivers.VfioDrivers(tree)
    found = [
        device for address in sorted(tree.names(pci_tree.PCI))
        if pci_tree.ADDRESS.fullmatch(address)
        for device in _device(tree, address, services, vfio)]
    known = {device.address for device in found}
    return tuple(
        device if device.iommu_group is None else dataclasses.replace(
            device, companions=pci_tree.companions(tree, device, known))
        for device in found)


def _device(
    tree: machine_files.Tree,
    address: str,
    services: '_DeviceServices',
    vfio: vfio_drivers.VfioDrivers,
) -> Iterator[host_model.PciDevice]:
    path = f'{pci_tree.PCI}/{address}'
    number = _hex(tree, f'{path}/class', 6)
    vendor = _hex(tree, f'{path}/vendor', 4)
    product = _hex(tree, f'{path}/device', 4)
    driver = tree.link_name(f'{path}/driver')
    kind = next((kind for digits, kind in _KINDS.items()
                 if number.startswith(digits)), None)
    if driver == _NVSWITCH_DRIVER or f'{vendor}:{product}' in _NVSWITCHES:
        kind = hardware.PciKind.NVSWITCH
    if kind is None and number:
        return
    lacking = next((name for name, digits in (
        ('class', number), ('vendor', vendor), ('device', product))
        if not digits), '')
    if lacking:
        tree.unread.setdefault(
            f'{path}/{lacking}', 'it is not there, so the device is left out')
    if kind is None or lacking:
        return
    service = services.of(path, kind)
    vgpu_types, vgpu_type = virtual_gpus.vgpu_types(tree, path)
    reset_methods = tree.text(f'{path}/reset_method')
    yield host_model.PciDevice(
        address=address,
        vendor_id=vendor,
        product_id=product,
        # Firmware may give none. It may be one that is offline by now, which
        # libvirt and nova do not mind.
        numa_node=tree.count(f'{path}/numa_node'),
        kind=kind,
        driver=driver,
        vfio_driver=vfio.of(path),
        names=service.names,
        iommu_group=pci_tree.iommu_group(tree, address),
        queues=service.queues,
        interrupts=_interrupts(tree, path) if driver else (),
        speed_mbps=service.speed_mbps,
        in_use=service.in_use,
        physical_function=tree.link_name(f'{path}/physfn'),
        parent=(pci_tree.above(tree, address) or ('', ))[-1],
        sriov_totalvfs=tree.count(f'{path}/sriov_totalvfs'),
        bars_kib=pci_tree.bars_kib(tree, path),
        reset_methods=None if reset_methods is None else tuple(
            text.clean(reset_methods).split()),
        rdma_devices=tuple(tree.names(f'{path}/infiniband')),
        namespaces_mib=service.namespaces_mib,
        mdev_types=virtual_gpus.mdev_types(tree, path),
        vgpu_types=vgpu_types,
        vgpu_type=vgpu_type,
        mig_instances=virtual_gpus.mig_instances(tree, address))


def _interrupts(tree: machine_files.Tree, path: str) -> tuple[int, ...]:
    messages = [int(name) for name in tree.names(f'{path}/msi_irqs')
                if name.isdecimal()]
    if messages:
        return tuple(sorted(messages))
    wire = tree.number(f'{path}/irq')
    return (wire,) if wire and wire > 0 else ()


class _DeviceServices:
    """Looks at what devices do; the tables of the kernel are read once."""

    def __init__(self, tree: machine_files.Tree) -> None:
        self._tree = tree
        self._mounts = use.mounts(tree)
        self._routes = use.routes(tree)

    def of(self, path: str, kind: hardware.PciKind) -> _DeviceService:
        if kind is hardware.PciKind.NIC:
            return self._network(path)
        if kind is hardware.PciKind.NVME:
            return self._disks(path)
        if kind is hardware.PciKind.GPU:
            is_console = self._tree.number(f'{path}/boot_vga') == 1
            return _DeviceService(in_use='console' if is_console else '')
        return _DeviceService()

    def _network(self, path: str) -> _DeviceService:
        tree = self._tree
        interfaces = [f'{parent}/net/{name}' for parent in self._parents(path)
                      for name in tree.names(f'{parent}/net')]
        speeds = (tree.number(f'{interface}/speed') or 0
                  for interface in interfaces)
        return _DeviceService(
            names=_names(interfaces),
            queues=sum(_queues(tree.names(f'{interface}/queues'))
                       for interface in interfaces),
            # -1, or 2^32 - 1 with some drivers, is for a link that is down.
            speed_mbps=sum(speed for speed in speeds
                           if 0 < speed < 2 ** 31 - 1),
            in_use=use.describe_uses(use.of_interface(tree, name, self._routes)
                                     for name in _names(interfaces)))

    def _parents(self, path: str) -> list[str]:
        """What the interfaces are below: the device, or its virtio device."""
        return [path, *(f'{path}/{name}' for name in self._tree.names(path)
                        if name.startswith('virtio'))]

    def _disks(self, path: str) -> _DeviceService:
        tree = self._tree
        controllers = [f'{path}/nvme/{name}'
                       for name in tree.names(f'{path}/nvme')]
        # Old kernels have the disk right below the PCI device.
        disk_paths = [f'{parent}/{name}'
                      for parent in (*controllers, f'{path}/block')
                      for name in tree.names(parent) if _DISK.fullmatch(name)]
        disks = tuple(dict.fromkeys(
            _NVME_PATH.sub(r'\1\2', name) for name in _names(disk_paths)))
        queues = [len(tree.names(f'{disk}/mq')) for disk in disk_paths]
        # One of them is for administration.
        counts = [(tree.number(f'{controller}/queue_count') or 1) - 1
                  for controller in controllers]
        sectors = {name: max(
            tree.number(f'{path}/size') or 0
            for path in (*disk_paths, f'/sys/block/{name}')
            if _NVME_PATH.sub(r'\1\2', path.rpartition('/')[2]) == name)
            for name in disks}
        return _DeviceService(
            names=disks,
            namespaces_mib={
                name: count * _SECTOR_BYTES // units.BYTES_PER_MIB
                for name, count in sectors.items() if count > 0},
            queues=max(queues, default=0) or max(counts, default=0),
            in_use=use.describe_uses(use.of_disk(tree, name, self._mounts)
                                     for name in disks))


def _names(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path.rpartition('/')[2] for path in paths)


def _queues(names: Iterable[str]) -> int:
    kinds = [name.partition('-')[0] for name in names]
    return max(kinds.count('rx'), kinds.count('tx'))


def _hex(tree: machine_files.Tree, path: str, digits: int) -> str:
    number = tree.text(path) or ''
    match = _HEX.fullmatch(number)
    if not match:
        tree.note_nonsense(path, number)
    return match[1].zfill(digits) if match else ''
