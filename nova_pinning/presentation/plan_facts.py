# SPDX-License-Identifier: Apache-2.0
"""What is said of a host's CPUs, memory and devices, planned or as they are.

``plan_drawing`` draws it, and ``host show`` writes it as JSON.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.host import words
from nova_pinning.presentation import device_text
from nova_pinning.presentation import drawing
from nova_pinning.presentation import host_structure
from nova_pinning import spelling

# Names of devices that are told before the others are counted.
_MAX_NAMES = 4
DEVICE_KINDS = {
    hardware.PciKind.NIC: 'NIC',
    hardware.PciKind.NVME: 'NVMe',
    hardware.PciKind.GPU: 'GPU',
    hardware.PciKind.NVSWITCH: 'NVSwitch',
    hardware.PciKind.OTHER: 'PCI',
}
_PURPOSES = {
    plan_model.Purpose.DEDICATED: 'dedicated guests',
    plan_model.Purpose.SHARED: 'shared guests',
    plan_model.Purpose.BOTH: 'dedicated and shared guests',
}
_Style = drawing.TileStyle


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of a node's memory.

    :param kind: of the CPUs whose work it is for
    """

    kind: _Style
    mib: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnFacts:
    """A host with what its CPUs are for.

    :param kinds: by CPU id, all CPUs that are online
    :param devices: those that are alike in words, with the node that they are
        of
    """

    description: host_model.HostDescription
    kinds: Mapping[int, _Style]
    devices: Sequence[tuple[int | None, str]]

    def cpus_of(self, kind: _Style) -> cpuset.CpuSet:
        return cpuset.CpuSet(
            cpu for cpu, own in self.kinds.items() if own is kind)

    def devices_of(self, node: int | None) -> list[str]:
        """Those of a node, or of none."""
        ids = {node.id for node in self.description.nodes}
        return [device for where, device in self.devices
                if node == (where if where in ids else None)]


def facts(description: host_model.HostDescription) -> DrawnFacts:
    """Work out what each CPU is for.

    Without a plan it is what nova.conf says.
    """
    planned = {} if description.plan is None else {
        interrupt.address: interrupt.cpus
        for interrupt in description.plan.interrupts}
    return DrawnFacts(description, _kinds(description),
                      list(_device_lines(description, planned)))


def _device_lines(
    description: host_model.HostDescription,
    planned: Mapping[str, cpuset.CpuSet],
) -> Iterator[tuple[int | None, str]]:
    """Devices in words, with their nodes; those of a switch below it."""
    behind: dict[tuple[str, int | None], list[str]] = {}
    for cpus, alike in _groups(description, planned):
        first = alike[0]
        text = _devices(alike, cpus, device_text.details(description, first))
        switch = description.switch_of(first.parent)
        if switch:
            behind.setdefault((switch, first.numa_node), []).append(text)
        else:
            yield first.numa_node, text
    for (switch, node), texts in behind.items():
        yield node, device_text.switch(description, switch)
        for number, text in enumerate(texts, 1):
            yield node, f'{"├" if number < len(texts) else "└"} {text}'


def _kinds(description: host_model.HostDescription) -> dict[int, _Style]:
    nova = description.nova
    none = cpuset.CpuSet()
    rest, poll = _Style.HOST, none
    if description.plan is not None:
        poll = description.plan.poll_cpus
    elif not nova.dedicated_cpus and not nova.shared_cpus:
        rest = _Style.ANY
    kinds = dict.fromkeys(description.cpus, rest)
    for kind, cpus in ((_Style.POLL, poll),
                       (_Style.SHARED, nova.shared_cpus or none),
                       (_Style.DEDICATED, nova.dedicated_cpus or none)):
        kinds |= dict.fromkeys(cpus & description.cpus, kind)
    return kinds


_Alike = list[host_model.PciDevice]


def _groups(
    description: host_model.HostDescription,
    planned: Mapping[str, cpuset.CpuSet],
) -> list[tuple[cpuset.CpuSet, _Alike]]:
    """Devices that can be told in one go, with their interrupts' CPUs."""
    groups: dict[object, tuple[cpuset.CpuSet, _Alike]] = {}
    for device in description.pci_devices:
        cpus = planned.get(device.address, cpuset.CpuSet())
        key = (device.numa_node, device.kind, device.alias, device.vendor_id,
               device.product_id, device.speed_mbps, bool(device.in_use),
               bool(device.names), bool(device.physical_function), cpus,
               description.switch_of(device.parent),
               *device_text.details(description, device))
        groups.setdefault(key, (cpus, []))[1].append(device)
    return list(groups.values())


def _devices(alike: _Alike, cpus: cpuset.CpuSet,
             details: Iterable[str]) -> str:
    first = alike[0]
    names = [', '.join(map(spelling.printable, device.names))
             or device.address for device in alike]
    if len(names) > _MAX_NAMES:
        names = [*names[:_MAX_NAMES - 1],
                 f'{len(names) - _MAX_NAMES + 1} more']
    parts = [', '.join(names)]
    if first.speed_mbps:
        parts.append(speed(first.speed_mbps)
                     + (' each' if len(alike) > 1 else ''))
    if first.alias:
        parts.append(f'for guests as {spelling.printable(first.alias)}')
    if cpus:
        parts.append(f'interrupts on {host_structure.cpus_text(cpus)}')
    parts += details
    return f'{DEVICE_KINDS[first.kind]}: {"; ".join(parts)}'


def speed(mbps: int) -> str:
    """How fast a NIC is: '25 Gbit/s'."""
    return (f'{mbps} Mbit/s' if mbps < 1000
            else f'{mbps / 1000:.1f}'.removesuffix('.0') + ' Gbit/s')


def remarks(drawn: DrawnFacts) -> Iterator[str]:
    """The host in sentences: what it sells, and what its CPUs are not."""
    description = drawn.description
    if description.plan is not None:
        yield f'planned for {_PURPOSES[description.plan.purpose]}'
        yield from offer_lines(description.plan.offer)
    if description.offline_cpus:
        yield f'offline: {host_structure.cpus_text(description.offline_cpus)}'
    if description.core_kinds:
        yield 'cores: ' + ', '.join(
            f'{spelling.printable(kind.name)} on '
            f'{host_structure.cpus_text(kind.cpus)}'
            for kind in description.core_kinds)
    yield from device_text.fabric(description)


def offer_lines(offer: plan_model.Offer) -> Iterator[str]:
    """What a plan sells."""
    if offer.sales:
        yield 'room for ' + ', or '.join(
            f'{words.count(sale.alone, "guest")} of {_size(sale)}'
            for sale in offer.sales)
    if len(offer.sales) > 1:
        yield 'in the mix: ' + ', '.join(
            f'{sale.mixed} of {_size(sale)}' for sale in offer.sales)
    stranded = {node: cpus for node, cpus in offer.stranded_cpus.items()
                if cpus}
    if stranded:
        yield 'dedicated CPUs that are left over then: ' + ', '.join(
            f'{cpus} of node {node}'
            for node, cpus in sorted(stranded.items()))
    if offer.shared_vcpus:
        yield f'{words.count(offer.shared_vcpus, "vCPU")} that float'


def _size(sale: plan_model.Sale) -> str:
    text = words.count(sale.vcpus, 'vCPU')
    return f'{text} on {sale.cells} nodes' if sale.cells > 1 else text


def memory(drawn: DrawnFacts, node: host_model.NumaNode) -> list[MemoryPart]:
    """The parts of a node's memory; [] if it has none.

    What is not in huge pages comes first.
    """
    plan, nova = drawn.description.plan, drawn.description.nova
    guests = _guests(drawn.description, node)
    parts: list[MemoryPart] = []
    small_mib = node.memory_mib
    for size, pages in sorted(node.huge_pages.items()):
        reserved = min(nova.reserved_huge_pages.get((node.id, size), 0),
                       pages)
        kept = (_Style.POLL, 'for OVS-DPDK') if (
            plan is not None and plan.poll_pages.get(node.id)
            and size == plan.page_size_kib) else (_Style.HOST,
                                                  'reserved')
        sold = (guests, 'for guests' if guests is not _Style.ANY else '')
        for (kind, use), number in ((kept, reserved),
                                    (sold, pages - reserved)):
            if number:
                text = (f'{words.count(number, "page")} of '
                        f'{quantities.shown_page_size(size)} {use}')
                parts.append(MemoryPart(
                    kind, number * size // 1024, text.rstrip()))
        small_mib -= pages * size // 1024
    if small_mib > 0:
        parts.insert(0, _small_pages(
            drawn.description, node, small_mib, parts, guests))
    return parts


def _guests(description: host_model.HostDescription,
            node: host_model.NumaNode) -> _Style:
    """The kind of guests that a node's memory is for; the host's if of none.

    Where a node has CPUs of neither, guests that float reach it from others.
    """
    nova, plan = description.nova, description.plan
    if not nova.dedicated_cpus and not nova.shared_cpus:
        return _Style.ANY
    if nova.dedicated_cpus and nova.dedicated_cpus & node.cpus:
        return _Style.DEDICATED
    floats = nova.shared_cpus and (
        plan is None or plan.purpose is not plan_model.Purpose.DEDICATED)
    return _Style.SHARED if floats and not (plan and node.gpu) else _Style.HOST


def _small_pages(
    description: host_model.HostDescription,
    node: host_model.NumaNode,
    mib: int,
    others: Sequence[MemoryPart],
    guests: _Style,
) -> MemoryPart:
    """What of a node is not in huge pages."""
    text = host_structure.memory(mib)
    plan, shared = description.plan, description.nova.shared_cpus
    if (plan is not None and plan.purpose is plan_model.Purpose.BOTH
            and shared and shared & node.cpus):
        return MemoryPart(_Style.SHARED, mib,
                          f'{text} for host and shared guests')
    if not others or (plan is None and guests is not _Style.DEDICATED):
        return MemoryPart(guests, mib, f'{text} in small pages')
    return MemoryPart(_Style.HOST, mib, f'{text} for the host')
