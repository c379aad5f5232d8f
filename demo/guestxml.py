# SPDX-License-Identifier: Apache-2.0
"""What a guest's XML says about its CPUs and memory."""

import dataclasses
from xml.etree import ElementTree

from nova_pinning import cpuset


@dataclasses.dataclass(frozen=True, slots=True)
class GuestXml:
    """The part of a guest's XML that pinning is about.

    :param vcpus: how many vCPUs the guest has
    :param pins: (vCPU, host CPUs) for each pinned vCPU, by vCPU
    :param floats_over: the host CPUs for vCPUs that are not pinned
    :param emulator: the host CPUs of its emulator threads
    :param host_cells: the host cells that its memory must come from
    :param topology: sockets, cores, threads as the guest sees them
    """

    vcpus: int
    pins: tuple[tuple[int, cpuset.CpuSet], ...]
    floats_over: cpuset.CpuSet
    emulator: cpuset.CpuSet
    host_cells: tuple[int, ...]
    topology: tuple[int, int, int] | None

    @property
    def cpus(self) -> cpuset.CpuSet:
        """All host CPUs that vCPUs are pinned to."""
        return cpuset.union(cpus for _vcpu, cpus in self.pins)


def read(xml: str) -> GuestXml:
    """Read a guest's XML.

    :raises ValueError: if it is not the XML of a guest
    """
    try:
        domain = ElementTree.fromstring(xml)
        if domain.tag != 'domain':
            raise ValueError(f'a domain was expected, not a {domain.tag}')
        vcpu = domain.find('vcpu')
        if vcpu is None:
            raise ValueError('the number of vCPUs is missing')
        return GuestXml(
            vcpus=int(vcpu.text or ''),
            pins=tuple(sorted(
                (int(pin.get('vcpu', '')), _cpus(pin))
                for pin in domain.iterfind('cputune/vcpupin'))),
            floats_over=_cpus(vcpu),
            emulator=_cpus(domain.find('cputune/emulatorpin')),
            host_cells=tuple(sorted({
                cell for node in domain.iterfind('numatune/memnode')
                for cell in cpuset.CpuSet.parse(node.get('nodeset', ''))})),
            topology=_topology(domain.find('cpu/topology')))
    except ElementTree.ParseError as error:
        raise ValueError(f'no XML: {error}') from error


def _cpus(element: ElementTree.Element | None) -> cpuset.CpuSet:
    text = element.get('cpuset', '') if element is not None else ''
    return cpuset.CpuSet.parse(text)


def _topology(
    element: ElementTree.Element | None,
) -> tuple[int, int, int] | None:
    if element is None:
        return None
    return (int(element.get('sockets', '')), int(element.get('cores', '')),
            int(element.get('threads', '')))
