#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What is said of a host's CPUs, memory and devices, planned or as they are.

Both drawings, for the terminal and as SVG, say what stands here.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.drawing import topology
from nova_pinning.host import hardware
from nova_pinning.host import model
from nova_pinning.host.plan import model as plan_model
from nova_pinning.host import words

# Names of devices that are told before the others are counted.
_MAX_NAMES = 4
DEVICE_KINDS = {
    hardware.PciKind.NIC: 'NIC',
    hardware.PciKind.NVME: 'NVMe',
    hardware.PciKind.GPU: 'GPU',
    hardware.PciKind.OTHER: 'PCI',
}
_PURPOSES = {
    plan_model.Purpose.DEDICATED: 'dedicated guests',
    plan_model.Purpose.SHARED: 'shared guests',
    plan_model.Purpose.BOTH: 'dedicated and shared guests',
}


class Kind(enum.StrEnum):
    """What a CPU is for."""

    HOST = 'host'
    POLL = 'poll'
    SHARED = 'shared'
    DEDICATED = 'dedicated'
    # Where nova.conf names no CPUs, nova uses all of them for both kinds.
    ANY = 'any'


#: The letter on a CPU.
SIGNS = {
    Kind.HOST: 'H',
    Kind.POLL: 'P',
    Kind.SHARED: 'S',
    Kind.DEDICATED: 'D',
    Kind.ANY: '.',
}
#: For a tooltip.
MEANINGS = {
    Kind.HOST: 'for the host',
    Kind.POLL: 'for OVS-DPDK, which polls',
    Kind.SHARED: 'shared by floating vCPUs and emulator threads',
    Kind.DEDICATED: 'dedicated to pinned vCPUs',
    Kind.ANY: 'not planned, open to any guest',
}
_LEGEND = {
    Kind.HOST: 'host CPUs, no guest runs on them: {cpus}',
    Kind.POLL: 'poll CPUs of OVS-DPDK: {cpus}',
    Kind.SHARED: 'shared CPUs, for floating vCPUs and emulator threads: '
                 '{cpus}',
    Kind.DEDICATED: 'dedicated CPUs, for pinned vCPUs: {cpus}',
    Kind.ANY: 'not planned, nova would use them for any guest: {cpus}',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """A part of a node's memory.

    :param kind: of the CPUs whose work it is for
    """

    kind: Kind
    mib: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Devices:
    """Devices of a host that are alike: of one node, used for the same.

    :param number: by which CPUs tell whose interrupts they serve, counted
        from 1; 0 if that is not planned
    :param node: None if they belong to none
    :param kind: 'NIC', 'NVMe', 'GPU', 'PCI'
    :param text: 'eth0, eth1, 25 Gbit/s, interrupts on CPUs 0,40'
    :param is_sold: whether they are for guests
    """

    number: int
    node: int | None
    kind: str
    text: str
    is_sold: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """A host with what its CPUs are for.

    :param kinds: by CPU id, all CPUs that are online
    :param served: the numbers of the devices whose interrupts each CPU
        serves; CPUs that serve none are left out
    """

    description: model.HostDescription
    kinds: Mapping[int, Kind]
    devices: Sequence[Devices]
    served: Mapping[int, cpuset.CpuSet]

    def cpus_of(self, kind: Kind) -> cpuset.CpuSet:
        return cpuset.CpuSet(
            cpu for cpu, own in self.kinds.items() if own is kind)

    def devices_of(self, node: int | None) -> list[Devices]:
        """Those of a node, or of none."""
        ids = {one.id for one in self.description.nodes}
        return [one for one in self.devices if node == (
            one.node if one.node in ids else None)]


def facts(description: model.HostDescription) -> Facts:
    """Work out what each CPU is for.

    Without a plan it is what nova.conf says.
    """
    planned = {} if description.plan is None else {
        one.address: one.cpus for one in description.plan.interrupts}
    devices = []
    served: dict[int, cpuset.CpuSet] = {}
    number = 0
    for cpus, alike in _groups(description, planned):
        if cpus:
            number += 1
        for cpu in cpus:
            served[cpu] = (served.get(cpu, cpuset.CpuSet())
                           | cpuset.CpuSet([number]))
        devices.append(_devices(number if cpus else 0, alike, cpus))
    return Facts(description, _kinds(description), devices, served)


def _kinds(description: model.HostDescription) -> dict[int, Kind]:
    nova = description.nova
    none = cpuset.CpuSet()
    rest, poll = Kind.HOST, none
    if description.plan is not None:
        poll = description.plan.poll_cpus
    elif not nova.dedicated_cpus and not nova.shared_cpus:
        rest = Kind.ANY
    kinds = dict.fromkeys(description.cpus, rest)
    for kind, cpus in ((Kind.POLL, poll),
                       (Kind.SHARED, nova.shared_cpus or none),
                       (Kind.DEDICATED, nova.dedicated_cpus or none)):
        kinds |= dict.fromkeys(cpus & description.cpus, kind)
    return kinds


_Alike = list[model.PciDevice]


def _groups(
    description: model.HostDescription,
    planned: Mapping[str, cpuset.CpuSet],
) -> list[tuple[cpuset.CpuSet, _Alike]]:
    """Devices that can be told in one go, with their interrupts' CPUs."""
    groups: dict[object, tuple[cpuset.CpuSet, _Alike]] = {}
    for device in description.pci_devices:
        cpus = planned.get(device.address, cpuset.CpuSet())
        key = (device.numa_node, device.kind, device.alias, device.vendor_id,
               device.product_id, device.speed_mbps, bool(device.in_use),
               bool(device.names), bool(device.physical_function), cpus)
        groups.setdefault(key, (cpus, []))[1].append(device)
    return list(groups.values())


def _devices(number: int, alike: _Alike, cpus: cpuset.CpuSet) -> Devices:
    first = alike[0]
    names = [', '.join(map(topology.printable, one.names)) or one.address
             for one in alike]
    if len(names) > _MAX_NAMES:
        names = [*names[:_MAX_NAMES - 1],
                 f'{len(names) - _MAX_NAMES + 1} more']
    parts = [', '.join(names)]
    if first.speed_mbps:
        parts.append(speed(first.speed_mbps)
                     + (' each' if len(alike) > 1 else ''))
    if first.alias:
        parts.append(f'for guests as {topology.printable(first.alias)}')
    if cpus:
        parts.append(f'interrupts on {topology.cpus_text(cpus)}')
    return Devices(number, first.numa_node, DEVICE_KINDS[first.kind],
                   '; '.join(parts), bool(first.alias))


def speed(mbps: int) -> str:
    """How fast a NIC is: '25 Gbit/s'."""
    return (f'{mbps} Mbit/s' if mbps < 1000
            else f'{mbps / 1000:.1f}'.removesuffix('.0') + ' Gbit/s')


def title(found: Facts) -> str:
    """What is drawn."""
    return topology.printable(found.description.name)


def remarks(found: Facts) -> Iterator[str]:
    """The host in sentences: what it sells, and what its CPUs are not."""
    description = found.description
    if description.plan is not None:
        yield f'planned for {_PURPOSES[description.plan.purpose]}'
        yield from offer_lines(description.plan.offer)
    if description.offline_cpus:
        yield f'offline: {topology.cpus_text(description.offline_cpus)}'
    if description.core_kinds:
        yield 'cores: ' + ', '.join(
            f'{topology.printable(kind.name)} on '
            f'{topology.cpus_text(kind.cpus)}'
            for kind in description.core_kinds)


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


def legend(found: Facts) -> Iterator[tuple[Kind, str]]:
    """What each kind that occurs means here, with its CPUs."""
    for kind in Kind:
        cpus = found.cpus_of(kind)
        if cpus:
            yield kind, _LEGEND[kind].format(cpus=topology.cpus_text(cpus))


def memory(found: Facts, node: model.Node) -> list[Memory]:
    """The parts of a node's memory; [] if it has none.

    What is not in huge pages comes first.
    """
    plan, nova = found.description.plan, found.description.nova
    guests = _guests(nova, node)
    parts: list[Memory] = []
    small_mib = node.memory_mib
    for size, pages in sorted(node.huge_pages.items()):
        reserved = min(nova.reserved_huge_pages.get((node.id, size), 0),
                       pages)
        kept = (Kind.POLL, 'for OVS-DPDK') if (
            plan is not None and plan.poll_pages.get(node.id)
            and size == plan.page_size_kib) else (Kind.HOST, 'reserved')
        sold = (guests, 'for guests' if guests is not Kind.ANY else '')
        for (kind, use), number in ((kept, reserved),
                                    (sold, pages - reserved)):
            if number:
                text = (f'{words.count(number, "page")} of '
                        f'{quantities.shown_page_size(size)} {use}')
                parts.append(Memory(
                    kind, number * size // 1024, text.rstrip()))
        small_mib -= pages * size // 1024
    if small_mib > 0:
        parts.insert(0, _small_pages(
            found.description, node, small_mib, parts, guests))
    return parts


def _guests(nova: model.NovaSettings, node: model.Node) -> Kind:
    """The kind of guests that a node's memory is for."""
    dedicated, shared = (cpus or cpuset.CpuSet()
                         for cpus in (nova.dedicated_cpus, nova.shared_cpus))
    if not dedicated and not shared:
        return Kind.ANY
    # Where a node has CPUs of neither, guests reach it from others.
    is_dedicated = dedicated & node.cpus or not shared & node.cpus
    return Kind.DEDICATED if dedicated and is_dedicated else Kind.SHARED


def _small_pages(
    description: model.HostDescription, node: model.Node, mib: int,
    others: Sequence[Memory], guests: Kind,
) -> Memory:
    """What of a node is not in huge pages."""
    text = topology.memory(mib)
    plan, shared = description.plan, description.nova.shared_cpus
    if (plan is not None and plan.purpose is plan_model.Purpose.BOTH
            and shared and shared & node.cpus):
        return Memory(Kind.SHARED, mib, f'{text} for host and shared guests')
    if not others or (plan is None and guests is not Kind.DEDICATED):
        return Memory(guests, mib, f'{text} in small pages')
    return Memory(Kind.HOST, mib, f'{text} for the host')
