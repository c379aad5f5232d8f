# SPDX-License-Identifier: Apache-2.0
"""Requests as nova-scheduler receives them."""

# nova.objects has its classes only once they are registered.
from __future__ import annotations

import typing as ty

from nova import context
from nova import objects
from nova.virt import hardware

INSTANCE_UUID = '0b3a5e0c-2c1d-4a57-9b0e-6d1c1f8f0a11'
DISK_GIB = 20

# The devices that guests ask for, and others that only stand in the way.
VENDOR_ID = '10de'
WANTED_PRODUCT = '20b5'
OTHER_PRODUCT = '1eb8'


def _flavor(vcpus: int, memory_mib: int,
            extra_specs: dict[str, str]) -> objects.Flavor:
    return objects.Flavor(
        id=1, name='benchmark', memory_mb=memory_mib, vcpus=vcpus,
        root_gb=DISK_GIB, ephemeral_gb=0, swap=0, rxtx_factor=1.0,
        vcpu_weight=0,
        flavorid='5d7a9d2e-6d0a-4a52-8a9b-3e64c1a3b111', disabled=False,
        is_public=True, description=None, extra_specs=dict(extra_specs))


def _image() -> objects.ImageMeta:
    return objects.ImageMeta.from_dict({
        'id': '1c7f4a20-55f3-4c7e-8f0d-0f5a2d1b7c22', 'name': 'benchmark',
        'status': 'active', 'container_format': 'bare',
        'disk_format': 'qcow2', 'size': 2 ** 30, 'min_ram': 0, 'min_disk': 0,
        'visibility': 'public',
        'properties': {'hw_disk_bus': 'virtio', 'hw_vif_model': 'virtio',
                       'hw_machine_type': 'q35'}})


def guest_topology(vcpus: int, memory_mib: int, extra_specs: dict[str, str],
                   ) -> objects.InstanceNUMATopology:
    """Return the NUMA topology that nova-api gives to such a guest."""
    return hardware.numa_get_constraints(
        _flavor(vcpus, memory_mib, extra_specs), _image())


def _devices(count: int) -> list[objects.InstancePCIRequest]:
    """What nova-api makes of a flavor's pci_passthrough:alias."""
    if not count:
        return []
    return [objects.InstancePCIRequest(
        count=count, alias_name='gpu', numa_policy='required',
        request_id='2f6f3c1c-7d53-4b80-8f5e-9a7c7d0f3d33',
        spec=[{'vendor_id': VENDOR_ID, 'product_id': WANTED_PRODUCT,
               'dev_type': 'type-PCI'}])]


class Request:
    """One flavor's request, from which any number of specs can be made.

    :param devices: how many PCI devices of one alias the flavor asks for,
        all of them near the guest (policy ``required``)
    """

    def __init__(self, vcpus: int, memory_mib: int,
                 extra_specs: dict[str, str], devices: int = 0) -> None:
        self.vcpus = vcpus
        self.memory_mib = memory_mib
        self._context = context.RequestContext(
            user_id='benchmark', project_id='benchmark', is_admin=False)
        flavor = _flavor(vcpus, memory_mib, extra_specs)
        image = _image()
        spec = objects.RequestSpec.from_components(
            self._context, INSTANCE_UUID, image, flavor,
            numa_topology=hardware.numa_get_constraints(flavor, image),
            pci_requests=objects.InstancePCIRequests(
                instance_uuid=INSTANCE_UUID, requests=_devices(devices)),
            filter_properties={'scheduler_hints': {}}, instance_group=None,
            availability_zone='nova',
            security_groups=objects.SecurityGroupList(objects=[]))
        # A guest on an ordinary tenant network.
        spec.network_metadata = objects.NetworkMetadata(
            physnets=set(), tunneled=True)
        self._primitive = spec.obj_to_primitive()

    def spec(self) -> objects.RequestSpec:
        """Return a new spec, as it comes off the message bus."""
        return objects.RequestSpec.obj_from_primitive(
            self._primitive, self._context)

    def candidate(self, provider: str, resource_class: str = 'PCPU',
                  ) -> dict[str, ty.Any]:
        """Return Placement's allocation candidate for a host."""
        return {
            'allocations': {provider: {'resources': {
                resource_class: self.vcpus, 'MEMORY_MB': self.memory_mib,
                'DISK_GB': DISK_GIB}}},
            'mappings': {'': [provider]}}
