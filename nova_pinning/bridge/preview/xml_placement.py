# SPDX-License-Identifier: Apache-2.0
"""A guest's libvirt XML, read for a drawing."""

from nova_pinning.host import domain_xml
from nova_pinning.host import guest_affinity


def read_placement(xml: str, name: str = '') -> guest_affinity.GuestAffinity:
    """Where a guest is, as libvirt is told.

    :param xml: of a domain, as nova wrote it
    :param name: what the guest is called
    """
    domain = domain_xml.parse(xml)
    return guest_affinity.GuestAffinity(
        vcpu_cpus={vcpu: cpus for vcpu in range(domain.vcpus)
                   if (cpus := domain.vcpu_affinity(vcpu))},
        emulator_cpus=domain.emulator_pin or domain_xml.NO_CPUS,
        memory_nodes={cell.id: min(cell.host_nodes) for cell in domain.cells
                      if cell.host_nodes},
        devices=domain.hostdevs,
        name=name)
