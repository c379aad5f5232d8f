# SPDX-License-Identifier: Apache-2.0
"""The devices of a host: which guests get, and who serves the others."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host import plan_model
from nova_pinning.host import words

_ADDRESS = re.compile(
    r'(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]', re.ASCII)
_IDS = re.compile(r'([0-9a-f]{4}):([0-9a-f]{4})', re.ASCII)
_KINDS = {
    'nvme': hardware.PciKind.NVME, 'gpu': hardware.PciKind.GPU,
    'nic': hardware.PciKind.NIC,
}
_WHERE = errors.Location('--pci-alias')
# Devices that are named; nobody wants to read more.
_MOST_NAMES = 8


def with_aliases(
    devices: tuple[host_model.PciDevice, ...],
    aliases: tuple[tuple[str, str], ...],
) -> tuple[tuple[host_model.PciDevice, ...], tuple[host_model.PciDevice, ...]]:
    """Devices with the aliases by which flavors ask for them.

    :param aliases: (alias, what it names)
    :returns: (all devices, those that an alias names but the host uses)
    :raises errors.InputError: if an alias names no device that guests can
        get, or a device has two
    """
    given: dict[str, str] = {}
    in_use: dict[str, host_model.PciDevice] = {}
    # The first virtual function in use, by its physical one.
    used = {device.physical_function: device for device in reversed(devices)
            if device.in_use}
    for alias, what in aliases:
        found = [_as_kept(device, used.get(device.address))
                 for device in named(devices, what)]
        if not found:
            raise errors.InputError(
                f'there is no device {what!r} for alias {alias}', _WHERE,
                'write nvme, gpu, nic, VENDOR:PRODUCT or an address such as '
                '0000:3b:00.0')
        free = [device for device in found if not device.in_use]
        if not free:
            raise errors.InputError(
                f'no device {what!r} is left for alias {alias}: '
                + uses(found), _WHERE)
        in_use |= {device.address: device for device in found
                   if device.in_use}
        for device in free:
            other = given.setdefault(device.address, alias)
            if other != alias:
                raise errors.InputError(
                    f'{device.address} would have two aliases, {other} and '
                    f'{alias}', _WHERE)
    return tuple(
        dataclasses.replace(device, alias=given[device.address],
                            resource_class='', traits=(), mdev_type='')
        if device.address in given else device
        for device in devices), tuple(in_use.values())


def _as_kept(
    device: host_model.PciDevice, used: host_model.PciDevice | None,
) -> host_model.PciDevice:
    """The device, in use if a virtual function of it is, which goes with it.

    Or if nova would not start with it in its device_spec: see MAX_DOMAIN in
    nova.pci.devspec; Intel VMD has such domains.

    :param used: a virtual function of it that the host uses
    """
    if device.in_use:
        return device
    if len(device.address.partition(':')[0]) != 4:
        in_use = 'in a PCI domain above ffff, which nova does not take'
    elif used is not None:
        in_use = (f'the physical function of {used.address}, which is '
                  f'{used.in_use}')
    else:
        return device
    return dataclasses.replace(device, in_use=in_use)


def named(devices: Iterable[host_model.PciDevice],
          what: str) -> list[host_model.PciDevice]:
    """The devices that are meant.

    Not physical functions of which virtual ones are meant as well (SR-IOV):
    those are what guests get.

    :param what: 'nvme', 'gpu', 'nic', 'VENDOR:PRODUCT' or an address
    """
    meant = [device for device in devices if _is_meant(device, what)]
    physical = {device.physical_function for device in meant}
    return [device for device in meant if device.address not in physical]


def _is_meant(device: host_model.PciDevice, what: str) -> bool:
    what = what.lower()
    if what in _KINDS:
        return device.kind is _KINDS[what]
    ids = _IDS.fullmatch(what)
    if ids:
        return (device.vendor_id, device.product_id) == ids.groups()
    if _ADDRESS.fullmatch(what):
        return device.address in (what, f'0000:{what}')
    return False


def name(device: host_model.PciDevice) -> str:
    """What people know a device by."""
    return device.names[0] if device.names else device.address


def uses(taken: Iterable[host_model.PciDevice]) -> str:
    """What the host uses devices for: 'eno1 (0000:01:00.0) is in bond0'."""
    return listed([
        (f'{device.names[0]} ({device.address})' if device.names
         else device.address) + f' is {device.in_use}' for device in taken])


def listed(names: Collection[str]) -> str:
    """Devices, or as many of them as anybody reads."""
    return words.listed(names, _MOST_NAMES)


def interrupts(
    description: host_model.HostDescription, host_cpus: cpuset.CpuSet,
) -> tuple[tuple[plan_model.Interrupts, str], ...]:
    """CPUs for the interrupts of each device that serves the host.

    They are those for the host on the device's node, or else on the nodes
    nearest to it: apart from the CPUs of guests and near in cache, as Guo,
    Liao and Bhuyan have it (Performance Characterization and Cache-Aware Core
    Scheduling in a Virtualized Multicore Server under 10GbE, IISWC 2009).

    :returns: each with its reason
    """
    return tuple(
        (plan_model.Interrupts(device.address, name(device), cpus), reason)
        for device in description.pci_devices
        if allocatable_cores.serves_host(device)
        for cpus, reason in (_near(description, device, host_cpus), ))


def _near(
    description: host_model.HostDescription, device: host_model.PciDevice,
    host_cpus: cpuset.CpuSet,
) -> tuple[cpuset.CpuSet, str]:
    number = device.numa_node
    if number is None:
        return host_cpus, ('of no node, so that all CPUs for the host will '
                           'do')
    for distance, nodes in sorted(_by_distance(description, number).items()):
        cpus = cpuset.union(node.cpus for node in nodes) & host_cpus
        if not cpus:
            continue
        if number in [node.id for node in nodes]:
            return cpus, (f'on node {number}, with {words.cpus(cpus)} for '
                          'the host')
        ids = ', '.join(str(node.id) for node in nodes if node.cpus & cpus)
        away = f', at distance {distance}' if distance else ''
        return cpus, (f'on node {number}, which has no CPUs for the host; '
                      f'the nearest are on node {ids}{away}')
    return host_cpus, 'no CPUs for the host are near'


def _by_distance(
    description: host_model.HostDescription, number: int,
) -> Mapping[int, list[host_model.NumaNode]]:
    """Nodes by their distance from one; 0 is that node itself."""
    here = next((node for node in description.nodes if node.id == number),
                None)
    by_distance: dict[int, list[host_model.NumaNode]] = {}
    for index, node in enumerate(description.nodes):
        if node is here:
            distance = 0
        elif here is not None and here.distances:
            distance = here.distances[index]
        else:
            distance = 1
        by_distance.setdefault(distance, []).append(node)
    return by_distance


def poll_nodes(description: host_model.HostDescription) -> tuple[int, ...]:
    """The nodes of the host's NICs, by id; without NICs all that have CPUs."""
    nodes = {node.id for node in description.nodes if node.cores}
    near = {device.numa_node for device in nics(description)} & nodes
    return tuple(sorted(number for number in near or nodes
                        if number is not None))


def nics(
    description: host_model.HostDescription,
) -> Iterator[host_model.PciDevice]:
    """The NICs that serve the host."""
    return (device for device in description.pci_devices
            if device.kind is hardware.PciKind.NIC
            and allocatable_cores.serves_host(device))
