# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a described host, as nova-compute tracks them."""

import collections
from collections.abc import Mapping
import json
from typing import Any
import uuid

import nova.conf
from nova import context as nova_context
from nova import objects
from nova.pci import manager
from nova.pci import stats
from nova.pci import whitelist

from nova_pinning.host import device_offer
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
        places = device_offer.provider_places(description)
        for device in self.pci_devs.objects if places else ():
            device.extra_info['rp_uuid'] = provider_uuid(
                places[device.parent_addr or device.address])
        self.stats.populate_pools_metadata_from_assigned_devices()

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


def provider_uuid(place: int) -> str:
    """A UUID for one of the providers of ``OfferedHost``."""
    return str(uuid.UUID(int=place))


def choose(requests: Any, providers: Mapping[str, int]) -> None:
    """Tell requests which providers Placement chose for their devices.

    As nova.compute.utils.update_pci_request_with_placement_allocations.

    :param requests: nova.objects.InstancePCIRequests; changed
    :param providers: by the suffix of each request group
    """
    for request in requests.requests:
        chosen = ','.join(
            provider_uuid(place) for suffix, place in providers.items()
            if suffix.startswith(request.request_id))
        if chosen:
            request.spec = [{**request.spec[0], 'rp_uuids': chosen}]


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
