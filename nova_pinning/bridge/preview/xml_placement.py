# SPDX-License-Identifier: Apache-2.0
"""A guest's libvirt XML, read for a drawing."""

from xml.etree import ElementTree

from nova_pinning import cpuset
from nova_pinning.host import guest_affinity


def read_placement(xml: str, name: str = '') -> guest_affinity.GuestAffinity:
    """Where a guest is, as libvirt is told.

    :param xml: of a domain, as nova wrote it
    :param name: what the guest is called
    """
    domain = ElementTree.fromstring(xml)
    vcpu = domain.find('vcpu')
    count = int(vcpu.text or 0) if vcpu is not None else 0
    floating = _cpus(vcpu)
    cpus = {number: floating for number in range(count)} if floating else {}
    cpus.update({
        int(pin.get('vcpu', '')): _cpus(pin)
        for pin in domain.iterfind('cputune/vcpupin')})
    return guest_affinity.GuestAffinity(
        vcpu_cpus=cpus,
        emulator_cpus=_cpus(domain.find('cputune/emulatorpin')),
        memory_nodes={
            int(node.get('cellid', '')): int(node.get('nodeset', ''))
            for node in domain.iterfind('numatune/memnode')},
        name=name)


def _cpus(element: ElementTree.Element | None) -> cpuset.CpuSet:
    text = element.get('cpuset', '') if element is not None else ''
    return cpuset.CpuSet.parse(text)
