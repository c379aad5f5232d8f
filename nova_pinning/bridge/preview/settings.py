# SPDX-License-Identifier: Apache-2.0
"""The nova.conf of a described host."""

import json
import re
from typing import Any

from nova_pinning.admission import devices
from nova_pinning.bridge.offline import nova_options
from nova_pinning.host import host_model

#: Vendor, product and type of no device, for aliases that the host has not.
_NO_DEVICE = ('ffff', 'ffff', devices.STANDARD)


def options(
    description: host_model.HostDescription, aliases: set[str],
) -> nova_options.Options:
    """The options that a preview depends on, by group and name.

    :param aliases: PCI aliases that the flavor asks for; those that no
        device of the host has are known to nova all the same, so that the
        host is refused and not the flavor
    """
    settings = description.nova
    named = [
        pci_device for pci_device in description.pci_devices
        if pci_device.alias]
    known = {(device.alias, device.vendor_id, device.product_id,
              description.device_type(device)) for device in named}
    missing = aliases - {device.alias for device in named}
    known |= {(alias, *_NO_DEVICE) for alias in missing}
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
            json.dumps({'name': alias, 'vendor_id': vendor,
                        'product_id': product, 'device_type': device_type})
            for alias, vendor, product, device_type in sorted(known)],
        ('pci', 'device_spec'): [
            json.dumps({'address': _address(device.address)})
            for device in named],
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
