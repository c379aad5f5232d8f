# SPDX-License-Identifier: Apache-2.0
"""A guest that has not been requested yet, as nova-compute would have it."""

from collections.abc import Sequence
from typing import Any

from nova.network import model as network_model
from nova import objects
from nova import utils
from nova.virt import hardware
from nova.virt.libvirt import blockinfo
import os_vif  # type: ignore[import-not-found]

from nova_pinning.bridge.offline import order

_NETWORK = '00000000-0000-0000-0000-000000000003'
_PORT = '00000000-0000-0000-0000-000000000004'
_SECRET = '00000000-0000-0000-0000-000000000005'


def prepare() -> None:
    """Make nova's objects, and those of os-vif, known to the process."""
    objects.register_all()
    os_vif.objects.register_all()


def instance(
    request: order.ApiRequest, topology: Any, devices: Sequence[Any],
) -> Any:
    """The server as nova-compute has it once it is claimed.

    :param topology: nova.objects.InstanceNUMATopology with host cells and
        CPUs, or None
    :param devices: nova.objects.PciDevice that it gets
    """
    flavor = request.flavor
    properties = request.image_dict['properties']
    system_metadata = utils.get_system_metadata_from_image(
        request.image_dict, flavor)
    # Where nova-compute would find what it has made for a virtual TPM.
    system_metadata['vtpm_secret_uuid'] = _SECRET
    return objects.Instance(
        id=1, uuid=order.UUID, display_name='guest', hostname='guest',
        user_id=order.PROJECT, project_id=order.PROJECT, host=None,
        image_ref=order.IMAGE, kernel_id='', ramdisk_id='', key_data=None,
        memory_mb=flavor.memory_mb, vcpus=flavor.vcpus,
        root_gb=flavor.root_gb, ephemeral_gb=flavor.ephemeral_gb,
        os_type=properties.get('os_type'),
        vm_mode=properties.get('vm_mode') or properties.get('hw_vm_mode'),
        architecture=properties.get('architecture'),
        root_device_name=None, config_drive='',
        default_ephemeral_device=None, default_swap_device=None,
        metadata={}, ephemeral_key_uuid=None,
        system_metadata=system_metadata,
        flavor=flavor, numa_topology=topology,
        pci_requests=request.pci_requests,
        pci_devices=objects.PciDeviceList(objects=list(devices)),
        device_metadata=None, vcpu_model=None, trusted_certs=None,
        resources=_persistent_memory(flavor))


def _persistent_memory(flavor: Any) -> Any:
    """What nova-compute would claim for hw:pmem, None for nothing.

    Paths and sizes are made up: a flavor names no more than labels.

    :returns: nova.objects.ResourceList
    """
    labels = hardware.get_vpmems(flavor)
    if not labels:
        return None
    return objects.ResourceList(objects=[objects.Resource(
        provider_uuid=order.UUID,
        resource_class=f'CUSTOM_PMEM_NAMESPACE_{label}',
        identifier=f'ns_{number}',
        metadata=objects.LibvirtVPMEMDevice(
            label=label, name=f'ns_{number}', devpath=f'/dev/dax0.{number}',
            size=4 << 30, align=2 << 20))
        for number, label in enumerate(labels)])


def network_info() -> Any:
    """One port on an Open vSwitch network."""
    network = network_model.Network(
        id=_NETWORK, bridge='br-int', label='network', subnets=[],
        mtu=1500, tenant_id=order.PROJECT)
    return network_model.NetworkInfo([network_model.VIF(
        id=_PORT, address='fa:16:3e:00:00:01', network=network,
        type=network_model.VIF_TYPE_OVS, devname='tap00000000-00',
        vnic_type=network_model.VNIC_TYPE_NORMAL, active=True,
        ovs_interfaceid=_PORT, details={}, profile={},
        delegate_create=True)])


def disks(request: order.ApiRequest, server: Any) -> tuple[Any, Any]:
    """The server's disks, as nova-compute hands them to the driver.

    :returns: nova's disk_info and block_device_info
    """
    flavor = request.flavor
    devices = {
        'root_device_name': None,
        'image': [],
        'ephemerals': [_disk(size=flavor.ephemeral_gb)]
        if flavor.ephemeral_gb else [],
        'swap': _disk(swap_size=flavor.swap) if flavor.swap else None,
        'block_device_mapping': []}
    return blockinfo.get_disk_info(
        'kvm', server, request.image, devices), devices


def _disk(**size: int) -> dict[str, Any]:
    return {'device_name': None, 'device_type': None, 'disk_bus': None,
            'guest_format': None, **size}
