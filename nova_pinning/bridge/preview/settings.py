# SPDX-License-Identifier: Apache-2.0
"""The nova.conf of a described host."""

import json
import re
from typing import Any

from nova_pinning.admission import devices
from nova_pinning.admission import pci_alias
from nova_pinning.bridge.offline import nova_options
from nova_pinning.host import device_offer
from nova_pinning.host import host_model

#: For aliases that the host has not.
_NO_DEVICE = pci_alias.PciAlias((devices.device_keys('ffff', 'ffff'),))


def options(
    description: host_model.HostDescription, aliases: set[str],
) -> nova_options.Options:
    """The options that a preview depends on, by group and name.

    :param aliases: PCI aliases that the flavor asks for; those that no
        device of the host has are known to nova all the same, so that the
        host is refused and not the flavor
    """
    settings = description.nova
    known = {**dict.fromkeys(aliases, _NO_DEVICE),
             **device_offer.aliases(description)}
    in_placement = device_offer.is_in_placement(description)
    return {
        ('compute', 'cpu_dedicated_set'): _cpus(settings.dedicated_cpus),
        ('compute', 'cpu_shared_set'): _cpus(settings.shared_cpus),
        (None, 'vcpu_pin_set'): None,
        (None, 'cpu_allocation_ratio'): settings.cpu_allocation_ratio,
        (None, 'ram_allocation_ratio'): settings.ram_allocation_ratio,
        (None, 'reserved_host_memory_mb'): settings.reserved_memory_mib,
        (None, 'reserved_huge_pages'): [
            {'node': str(node), 'size': str(size), 'count': str(count)}
            for (node, size), count in sorted(
                settings.reserved_huge_pages.items())] or None,
        ('pci', 'alias'): [
            json.dumps(entry) for name in sorted(known)
            for entry in pci_alias.entries(name, known[name])],
        ('pci', 'device_spec'): [
            json.dumps({'address': _address(device.address)})
            for device in device_offer.given(description)],
        ('pci', 'report_in_placement'): in_placement,
        ('filter_scheduler', 'pci_in_placement'): in_placement,
        (None, 'instances_path'): '/var/lib/nova/instances',
        ('libvirt', 'virt_type'): 'kvm',
        ('libvirt', 'images_type'): 'qcow2',
    } | ({} if settings.packs_cells is None else {
        ('compute', 'packing_host_numa_cells_allocation_strategy'):
            settings.packs_cells})


def _address(address: str) -> dict[str, str]:
    """A PCI address as a pattern, which matches nothing else.

    Nova looks up what is not a pattern in the /sys of this machine.

    :param address: '0000:3b:00.0'
    """
    domain, bus, slot, function = re.split('[:.]', address)
    return {'domain': domain, 'bus': bus, 'slot': slot,
            'function': f'[{function}]'}


def _cpus(cpus: Any) -> str | None:
    return str(cpus) if cpus else None
