# SPDX-License-Identifier: Apache-2.0
"""What libvirt says a guest is: its domain XML, as sets and numbers.

libvirt may write one set of CPUs as several elements, or in another order
than it was given. So elements for the same vCPU are united, and nothing of
the text is kept. The format: https://libvirt.org/formatdomain.html
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import functools
from xml.etree import ElementTree

from nova_pinning import cpuset

NO_CPUS = cpuset.CpuSet()
# Many guests have the same CPUs.
_parsed = functools.lru_cache(1024)(cpuset.CpuSet.parse)
_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'


@dataclasses.dataclass(frozen=True, slots=True)
class ThreadScheduler:
    """How the kernel takes turns with a thread.

    :param policy: 'fifo', 'rr', 'batch', 'idle' or 'other'
    :param priority: 1 to 99 for fifo and rr, 0 for the others
    """

    policy: str
    priority: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DomainTopology:
    """What the guest is told of its sockets, cores and threads."""

    sockets: int
    cores: int
    threads: int


@dataclasses.dataclass(frozen=True, slots=True)
class DomainCell:
    """A NUMA cell of the guest.

    :param cpus: its vCPUs
    :param host_nodes: the host NUMA nodes its memory has to come from, empty
        if none are named for this very cell
    """

    id: int
    cpus: cpuset.CpuSet
    memory_kib: int
    host_nodes: cpuset.CpuSet = NO_CPUS
    mode: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class HugePages:
    """A page size that guest memory is to have.

    :param size_kib: 0 for the host's default huge page size
    :param cells: the guest cells that have it, empty for all
    """

    size_kib: int
    cells: cpuset.CpuSet = NO_CPUS


@dataclasses.dataclass(frozen=True, slots=True)
class DomainInterface:
    """A network interface.

    :param queues: pairs of queues, 1 if nothing is said
    :param target: what it is on the host, '' if it is not said
    :param inbound: average, peak (KiB/s) and burst (KiB), as far as given
    """

    mac: str
    queues: int
    inbound: Mapping[str, int]
    outbound: Mapping[str, int]
    target: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class DomainXml:
    """A guest as its domain XML has it.

    :param vcpus: how many vCPUs it has
    :param floats_over: host CPUs for whatever is not pinned, empty if none
        are named
    :param vcpu_pins: host CPUs by vCPU, pinned vCPUs only
    :param emulator_pin: host CPUs of its emulator threads, None if they are
        not pinned
    :param iothread_pins: host CPUs by I/O thread, pinned ones only
    :param vcpu_schedulers: by vCPU, where the XML names one
    :param topology: None if the guest is told nothing
    :param memory_nodes: host NUMA nodes that all memory must come from
    :param hostdevs: PCI addresses on the host, such as '0000:3b:00.0'
    :param iotunes: limits by name for each disk that has some, by target
    :param flavor: as nova has written it into the metadata, '' if not
    :param extra_specs: of the flavor, None if nova has not written them,
        which it does from 2025.2 on
    """

    uuid: str
    name: str
    vcpus: int
    floats_over: cpuset.CpuSet
    vcpu_pins: Mapping[int, cpuset.CpuSet]
    emulator_pin: cpuset.CpuSet | None
    iothreads: int
    iothread_pins: Mapping[int, cpuset.CpuSet]
    vcpu_schedulers: Mapping[int, ThreadScheduler]
    topology: DomainTopology | None
    cells: tuple[DomainCell, ...]
    memory_nodes: cpuset.CpuSet
    memory_mode: str
    huge_pages: tuple[HugePages, ...]
    locked: bool
    shares: int | None
    period: int | None
    quota: int | None
    hostdevs: frozenset[str]
    interfaces: tuple[DomainInterface, ...]
    iotunes: Mapping[str, Mapping[str, int]]
    flavor: str = ''
    extra_specs: Mapping[str, str] | None = None

    def vcpu_affinity(self, vcpu: int) -> cpuset.CpuSet:
        """Where a vCPU may run; empty for anywhere."""
        return self.vcpu_pins.get(vcpu, self.floats_over)


def parse(xml: str) -> DomainXml:
    """Read domain XML, as ``virsh dumpxml`` prints it.

    :raises ValueError: if it is not the XML of a domain
    """
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise ValueError(f'no domain XML: {error}') from error
    return read(root)


def read(root: ElementTree.Element) -> DomainXml:
    """Read a <domain> element, wherever it comes from.

    :raises ValueError: if it is none, or makes no sense
    """
    if root.tag != 'domain':
        raise ValueError(f'no domain XML: its root is <{root.tag}>')
    vcpu = root.find('vcpu')
    if vcpu is None:
        raise ValueError('domain XML without <vcpu>')
    tune, backing, cpu, numa, devices = (
        _part(root, tag) for tag in (
            'cputune', 'memoryBacking', 'cpu', 'numatune', 'devices'))
    flavor = _part(root, 'metadata', f'{_NOVA}instance', f'{_NOVA}flavor')
    memory = numa.find('memory')
    return DomainXml(
        uuid=root.findtext('uuid', ''),
        name=root.findtext('name', ''),
        vcpus=int(vcpu.text or ''),
        floats_over=_cpus(vcpu, 'cpuset'),
        vcpu_pins=_pins(tune.findall('vcpupin'), 'vcpu'),
        emulator_pin=_pins(tune.findall('emulatorpin')).get(0),
        iothreads=int(root.findtext('iothreads', '0')),
        iothread_pins=_pins(tune.findall('iothreadpin'), 'iothread'),
        vcpu_schedulers=_schedulers(tune.findall('vcpusched')),
        topology=_topology(cpu.find('topology')),
        cells=_cells(cpu, numa),
        memory_nodes=_cpus(memory, 'nodeset'),
        memory_mode=_text(memory, 'mode'),
        huge_pages=_huge_pages(backing.find('hugepages')),
        locked=backing.find('locked') is not None,
        shares=_number(tune, 'shares'),
        period=_number(tune, 'period'),
        quota=_number(tune, 'quota'),
        hostdevs=frozenset(
            _pci_address(address) for device in devices.findall('hostdev')
            if device.get('type') == 'pci'
            for address in device.iterfind('source/address')),
        interfaces=tuple(map(_interface, devices.findall('interface'))),
        iotunes=dict(_iotunes(devices)),
        flavor=flavor.get('name', ''),
        extra_specs=_extra_specs(flavor.find(f'{_NOVA}extraSpecs')))


def _part(element: ElementTree.Element, *tags: str) -> ElementTree.Element:
    """What is below an element; an empty one if it is not there.

    A tag at a time, since paths are taken apart by Python's own code.
    """
    for tag in tags:
        found = element.find(tag)
        element = ElementTree.Element(tag) if found is None else found
    return element


def _text(element: ElementTree.Element | None, key: str) -> str:
    return '' if element is None else element.get(key, '')


def _cpus(element: ElementTree.Element | None, key: str) -> cpuset.CpuSet:
    return _parsed(_text(element, key))


def _number(root: ElementTree.Element, tag: str) -> int | None:
    text = root.findtext(tag)
    return None if text is None else int(text)


def _kib(element: ElementTree.Element, key: str) -> int:
    """A size, which libvirt itself always writes in KiB."""
    unit = element.get('unit', 'KiB')
    if unit != 'KiB':
        raise ValueError(f'<{element.tag}> has a size in {unit}, not in KiB')
    return int(element.get(key, '0'))


def _pins(
    elements: Iterable[ElementTree.Element], key: str = '',
) -> dict[int, cpuset.CpuSet]:
    """Host CPUs by what is pinned; by 0 if there is only one such thing."""
    pins: dict[int, cpuset.CpuSet] = {}
    for element in elements:
        subject = int(element.get(key, '')) if key else 0
        pins[subject] = pins.get(subject, NO_CPUS) | _cpus(element, 'cpuset')
    return pins


def _schedulers(
    elements: Iterable[ElementTree.Element],
) -> dict[int, ThreadScheduler]:
    return {
        vcpu: ThreadScheduler(element.get('scheduler', 'other'),
                              int(element.get('priority', '0')))
        for element in elements for vcpu in _cpus(element, 'vcpus')}


def _topology(element: ElementTree.Element | None) -> DomainTopology | None:
    if element is None:
        return None
    # Dies and clusters are sockets' inner parts, which nova leaves at one.
    return DomainTopology(*(int(element.get(key, '1'))
                            for key in ('sockets', 'cores', 'threads')))


def _cells(cpu: ElementTree.Element,
           numa: ElementTree.Element) -> tuple[DomainCell, ...]:
    nodes = {int(node.get('cellid', '')): node
             for node in numa.findall('memnode')}
    cells = []
    for position, cell in enumerate(_part(cpu, 'numa').findall('cell')):
        # Without an id, its place counts.
        cell_id = int(cell.get('id', position))
        node = nodes.get(cell_id)
        cells.append(
            DomainCell(cell_id, _cpus(cell, 'cpus'), _kib(cell, 'memory'),
                       _cpus(node, 'nodeset'), _text(node, 'mode')))
    return tuple(sorted(cells, key=lambda cell: cell.id))


def _huge_pages(
        backing: ElementTree.Element | None) -> tuple[HugePages, ...]:
    if backing is None:
        return ()
    cells: dict[int, cpuset.CpuSet] = {}
    for page in backing.iterfind('page'):
        size_kib = _kib(page, 'size')
        cells[size_kib] = (
            cells.get(size_kib, NO_CPUS) | _cpus(page, 'nodeset'))
    return tuple(HugePages(size_kib, cells[size_kib])
                 for size_kib in sorted(cells)) or (HugePages(0),)


def _pci_address(address: ElementTree.Element) -> str:
    domain, bus, slot, function = (
        int(address.get(key, '0'), 16)
        for key in ('domain', 'bus', 'slot', 'function'))
    return f'{domain:04x}:{bus:02x}:{slot:02x}.{function:x}'


def _interface(element: ElementTree.Element) -> DomainInterface:
    driver = element.find('driver')
    return DomainInterface(
        mac=_text(element.find('mac'), 'address'),
        queues=int(_text(driver, 'queues') or 1),
        inbound=_limits(element.find('bandwidth/inbound')),
        outbound=_limits(element.find('bandwidth/outbound')),
        target=_text(element.find('target'), 'dev'))


def _extra_specs(
        element: ElementTree.Element | None) -> dict[str, str] | None:
    return None if element is None else {
        spec.get('name', ''): spec.text or ''
        for spec in element.iterfind(f'{_NOVA}extraSpec')}


def _limits(element: ElementTree.Element | None) -> dict[str, int]:
    attributes = {} if element is None else element.attrib
    return {key: int(value) for key, value in attributes.items()}


def _iotunes(
    devices: ElementTree.Element,
) -> Iterator[tuple[str, dict[str, int]]]:
    for disk in devices.findall('disk'):
        iotune = disk.find('iotune')
        if iotune is not None:
            yield (_text(disk.find('target'), 'dev'),
                   {limit.tag: int(limit.text or '') for limit in iotune})
