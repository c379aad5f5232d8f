# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a described host, as nova-compute tracks them."""

import collections
import json
from typing import Any

import nova.conf
from nova import context as nova_context
from nova import objects
from nova.pci import manager
from nova.pci import stats
from nova.pci import whitelist

from nova_pinning.host import host_model

CONF = nova.conf.CONF


class DeviceTracker(manager.PciDevTracker):
    """Nova's tracker without a database behind it.

    The host's options must apply, see
    :mod:`nova_pinning.bridge.preview.settings`.

    :param topology: the host's nova.objects.NUMATopology, or None
    """

    def __init__(
        self, description: host_model.HostDescription, topology: Any,
    ) -> None:
        # Nova's own constructor reads the devices from the database.
        self.stale: dict[str, Any] = {}
        self.to_be_removed_when_freed: dict[str, Any] = {}
        self.node_id = 1
        self.dev_filter = whitelist.Whitelist(CONF.pci.device_spec)
        self.stats = stats.PciDeviceStats(
            topology, dev_filter=self.dev_filter)
        self._context = nova_context.RequestContext(is_admin=False)
        self.pci_devs = objects.PciDeviceList(objects=[])
        self.allocations: Any = collections.defaultdict(list)
        self.claims: Any = collections.defaultdict(list)
        self.update_devices_from_hypervisor_resources(
            json.dumps([
                _as_reported(pci_device, description)
                for pci_device in description.pci_devices]))

    def take(self, requests: Any, topology: Any) -> list[Any]:
        """The devices that a guest gets.

        :param requests: nova.objects.InstancePCIRequests that are known to
            be met
        :param topology: where the guest is, a
            nova.objects.InstanceNUMATopology or None
        :returns: nova.objects.PciDevice
        """
        cells = topology.cells if topology else None
        return list(self.stats.consume_requests(requests.requests, cells))


def _as_reported(device: host_model.PciDevice,
                 description: host_model.HostDescription) -> dict[str, Any]:
    """See nova.virt.libvirt.host.Host._get_pcidev_info."""
    return {
        'dev_id': 'pci_' + device.address.replace(
            ':', '_').replace('.', '_'),
        'address': device.address,
        'vendor_id': device.vendor_id,
        'product_id': device.product_id,
        'numa_node': device.numa_node,
        'label': f'label_{device.vendor_id}_{device.product_id}',
        'dev_type': description.device_type(device),
        **({'parent_addr': device.physical_function}
           if device.physical_function else {})}
