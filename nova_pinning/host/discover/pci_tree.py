# SPDX-License-Identifier: Apache-2.0
"""Where PCI devices are: the bridges above them, and what IOMMUs see of them.

The kernel has devices in directories below each other, as they are connected.
What a bridge is stands in its configuration space, of which only root may read
more than 64 bytes, and in the names of the services that the kernel has for
it (drivers/pci/pcie/portdrv.c). See the PCI Express Base Specification, 7.5.3
and 7.7.11, and the kernel's Documentation/ABI/testing/sysfs-bus-pci.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
import itertools
import re

from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import machine_files

PCI = '/sys/bus/pci/devices'
ADDRESS = re.compile(r'[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]')
_ROOT_BUS = re.compile(r'pci[0-9a-f]{4,8}:[0-9a-f]{2}')
_BRIDGES = '0x06'
_PORTS = {4: hardware.PciPort.ROOT, 5: hardware.PciPort.UPSTREAM,
          6: hardware.PciPort.DOWNSTREAM, 7: hardware.PciPort.TO_PCI}
# The first digit, or where there are two that, is the type of the port, 4
# less; the rest is the service.
_SERVICE = re.compile(r'.*:pcie([012])[0-9a-f]{1,2}', re.ASCII)
_EXPRESS, _ACS = 0x10, 0x0d
#: Source validation, redirection of requests and completions, upstream
#: forwarding: what the kernel wants of a port to keep devices apart
#: (REQ_ACS_FLAGS in drivers/iommu/iommu.c).
_ACS_WANTED = 0x1d
_RESOURCE = re.compile(r'0x([0-9a-f]{16}) 0x([0-9a-f]{16}) 0x([0-9a-f]{16})')
_IORESOURCE_MEM = 0x200
_MAX_BARS = 6


def above(tree: machine_files.Tree, address: str) -> tuple[str, ...]:
    """The root bus and the bridges above a device, from the top down.

    :returns: () if the files do not tell
    """
    found: list[str] = []
    for part in tree.link(f'{PCI}/{address}').split('/')[:-1]:
        if _ROOT_BUS.fullmatch(part):
            found = [part]
        elif found and ADDRESS.fullmatch(part):
            found.append(part)
        else:
            # Bridges of a domain of its own are below another device.
            found = []
    return tuple(found)


def bridges(tree: machine_files.Tree,
            devices: Iterable[str]) -> tuple[hardware.PciBridge, ...]:
    """The bridges above devices, by address."""
    parents = {bridge: parent for device in devices
               for parent, bridge in itertools.pairwise(above(tree, device))}
    found = []
    for address, parent in sorted(parents.items()):
        config = tree.content(f'{PCI}/{address}/config') or b''
        port = _port(tree, address, config)
        found.append(hardware.PciBridge(
            address, parent, port, _acs(config, port),
            iommu_group(tree, address)))
    return tuple(found)


def _port(tree: machine_files.Tree, address: str,
          config: bytes) -> hardware.PciPort | None:
    position = _capability(config)
    if position is not None:
        return _PORTS.get(_word(config, position + 2) >> 4 & 0xf)
    services = map(_SERVICE.fullmatch, tree.names(f'{PCI}/{address}'))
    return next((_PORTS[int(match[1]) + 4] for match in services if match),
                None)


def _acs(config: bytes, port: hardware.PciPort | None) -> bool | None:
    """Whether a port keeps what is below it apart.

    What a port cannot control is taken to be as it should, as the kernel
    does. Quirks by which it knows more of some ports show in IOMMU groups.
    """
    if port not in (hardware.PciPort.ROOT, hardware.PciPort.DOWNSTREAM):
        return None
    position = 0x100
    for _step in range(0x3c0):
        if len(config) < position + 8:
            return None
        header = int.from_bytes(config[position:position + 4], 'little')
        if header & 0xffff == _ACS:
            wanted = _ACS_WANTED & _word(config, position + 4)
            return _word(config, position + 6) & wanted == wanted
        position = header >> 20
        if position < 0x100:
            return False
    return None


def _capability(config: bytes) -> int | None:
    """Where the PCI Express capability is, None if that is not to be read."""
    position = config[0x34] if len(config) > 0x40 else 0
    for _step in range(48):
        if not 0x40 <= position < len(config) - 4:
            break
        if config[position] == _EXPRESS:
            return position
        position = config[position + 1]
    return None


def _word(config: bytes, position: int) -> int:
    return int.from_bytes(config[position:position + 2], 'little')


def iommu_group(tree: machine_files.Tree, address: str) -> int | None:
    """The number of its group, None if it is in none."""
    group = tree.link_name(f'{PCI}/{address}/iommu_group')
    return int(group) if group.isdecimal() else None


def companions(tree: machine_files.Tree, device: host_model.PciDevice,
               known: Collection[str]) -> tuple[str, ...]:
    """Functions that go with a device because IOMMUs take them for one.

    Bridges do not matter to VFIO.

    :param known: addresses of devices that are told of by themselves
    """
    return tuple(
        address for address in sorted(tree.names(
            f'/sys/kernel/iommu_groups/{device.iommu_group}/devices'))
        if ADDRESS.fullmatch(address) and address not in known
        and not (tree.text(f'{PCI}/{address}/class') or '').startswith(
            _BRIDGES))


def bars_kib(tree: machine_files.Tree,
             path: str) -> tuple[int, ...] | None:
    """The memory that a device wants of 1 KiB and more, None if not told."""
    text = tree.text(f'{path}/resource')
    if not text:
        return None
    rows = list(filter(None, map(
        _RESOURCE.fullmatch, text.splitlines()[:_MAX_BARS])))
    if len(rows) < _MAX_BARS:
        tree.unread.setdefault(f'{path}/resource', 'it makes no sense, so '
                               'what memory the device wants is not known')
        return None
    return tuple(_bars(rows))


def _bars(rows: Iterable[re.Match[str]]) -> Iterator[int]:
    for row in rows:
        start, end, flags = (int(number, 16) for number in row.groups())
        if flags & _IORESOURCE_MEM and end > start:
            kib = (end - start + 1) // 1024
            if kib:
                yield kib
