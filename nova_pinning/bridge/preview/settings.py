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

"""The nova.conf of a described host."""

import json
import re
from typing import Any

from nova_pinning.bridge import settings as nova_settings
from nova_pinning.host import model as host_model

#: Vendor and product of no device: for aliases that the host does not have.
_NO_DEVICE = ('ffff', 'ffff')


def options(
    description: host_model.HostDescription, aliases: set[str],
) -> nova_settings.Options:
    """The options that a preview depends on, by group and name.

    :param aliases: PCI aliases that the flavor asks for; those that no
        device of the host has are known to nova all the same, so that the
        host is refused and not the flavor
    """
    settings = description.nova
    devices = [one for one in description.pci_devices if one.alias]
    known = {(one.alias, one.vendor_id, one.product_id) for one in devices}
    missing = aliases - {one.alias for one in devices}
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
                        'product_id': product, 'device_type': 'type-PCI'})
            for alias, vendor, product in sorted(known)],
        ('pci', 'device_spec'): [
            json.dumps({'address': _address(one.address)})
            for one in devices],
        (None, 'instances_path'): '/var/lib/nova/instances',
        ('libvirt', 'virt_type'): 'kvm',
        ('libvirt', 'images_type'): 'qcow2',
    }


def _address(address: str) -> dict[str, str]:
    """A PCI address as a pattern, which matches nothing else.

    Nova looks up what is no pattern in the /sys of this machine.

    :param address: '0000:3b:00.0'
    """
    domain, bus, slot, function = re.split('[:.]', address)
    return {'domain': domain, 'bus': bus, 'slot': slot,
            'function': f'[{function}]'}


def _cpus(cpus: Any) -> str | None:
    return str(cpus) if cpus else None
