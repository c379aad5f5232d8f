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

"""A guest that has not been ordered yet, as nova's objects."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import re
from typing import Any

from nova import exception
from nova.network import model as network_model
from nova import objects
from nova.pci import request as pci_request
from nova import utils
from nova.virt import hardware
from nova.virt.libvirt import blockinfo
import os_vif  # type: ignore[import-not-found]

from nova_pinning import errors
from nova_pinning.flavors import model as flavor_model

# What tells guests apart is of no interest in a preview.
_UUID = '00000000-0000-0000-0000-000000000001'
_IMAGE = '00000000-0000-0000-0000-000000000002'
_NETWORK = '00000000-0000-0000-0000-000000000003'
_PORT = '00000000-0000-0000-0000-000000000004'
_SECRET = '00000000-0000-0000-0000-000000000005'
_PROJECT = '0' * 32

_ALIAS_KEY = 'pci_passthrough:alias'
_IMAGE_SOURCE = '--image-property'


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What nova-api makes of a flavor and an image.

    :param flavor: nova.objects.Flavor
    :param image_dict: the image as Glance has it
    :param image: nova.objects.ImageMeta
    :param topology: nova.objects.InstanceNUMATopology with what is asked for,
        None if the guest floats
    :param pci_requests: nova.objects.InstancePCIRequests
    """

    flavor: Any
    image_dict: Mapping[str, Any]
    image: Any
    topology: Any
    pci_requests: Any


def prepare() -> None:
    """Make nova's objects, and those of os-vif, known to the process."""
    objects.register_all()
    os_vif.objects.register_all()


def pci_aliases(flavor: flavor_model.Flavor) -> set[str]:
    """The PCI aliases that a flavor asks for; odd text is nova's to judge."""
    text = flavor.extra_specs.get(_ALIAS_KEY, '')
    return {name.strip() for name in re.findall(r'([^:,]+):', text)}


def order(
    flavor: flavor_model.Flavor, image_properties: Mapping[str, str],
) -> Order:
    """Check a flavor and an image as nova-api does when a server is created.

    See nova.compute.api.API._validate_flavor_image_numa_pci.

    :param image_properties: as Glance has them: hw_cpu_policy and so on
    :raises InputError: if nova would not accept them
    """
    nova_flavor = _flavor(flavor)
    image_dict, image = _image(image_properties)
    with refusals(flavor, image_properties):
        hardware.get_mem_encryption_constraint(nova_flavor, image)
        hardware.get_pmu_constraint(nova_flavor, image)
        hardware.get_number_of_serial_ports(nova_flavor, image)
        hardware.get_realtime_cpu_constraint(nova_flavor, image)
        hardware.get_cpu_topology_constraints(nova_flavor, image)
        hardware.get_vif_multiqueue_constraint(nova_flavor, image)
        topology = hardware.numa_get_constraints(nova_flavor, image)
        policy = hardware.get_pci_numa_policy_constraint(nova_flavor, image)
    with refusals(flavor, image_properties, _ALIAS_KEY):
        requests = pci_request.get_pci_requests_from_flavor(
            nova_flavor, affinity_policy=policy)
    requests.instance_uuid = _UUID
    return Order(nova_flavor, image_dict, image, topology, requests)


@contextlib.contextmanager
def refusals(
    flavor: flavor_model.Flavor, image_properties: Mapping[str, str],
    key: str = '',
) -> Iterator[None]:
    """Turn nova's complaints about a flavor and an image into InputError.

    :param key: the extra spec that is read meanwhile, '' if it is many
    """
    try:
        yield
    except exception.NovaException as error:
        message = error.format_message().rstrip('.')
    except (ValueError, TypeError, KeyError) as error:
        message = f'nova cannot read it: {error}'
    else:
        return
    raise errors.InputError(
        f'flavor {flavor.name}: {message}',
        _where(flavor, image_properties, key or message))


def _where(
    flavor: flavor_model.Flavor, image_properties: Mapping[str, str],
    message: str,
) -> errors.Location:
    """Where the first key stands that nova's message names."""
    for key in sorted(flavor.extra_specs, key=len, reverse=True):
        if key in message:
            return flavor.origin(key)
    for key in image_properties:
        if key in message:
            return errors.Location(_IMAGE_SOURCE, key=key)
    return flavor.where


def _flavor(flavor: flavor_model.Flavor) -> Any:
    return objects.Flavor(
        id=1, flavorid=flavor.id or flavor.name, name=flavor.name,
        vcpus=flavor.vcpus, memory_mb=flavor.memory_mib,
        root_gb=flavor.disk_gib, ephemeral_gb=flavor.ephemeral_gib,
        swap=flavor.swap_mib, rxtx_factor=flavor.rxtx_factor,
        vcpu_weight=0, disabled=False, is_public=flavor.is_public,
        description=flavor.description or None,
        extra_specs=dict(flavor.extra_specs), projects=[])


def _image(properties: Mapping[str, str]) -> tuple[dict[str, Any], Any]:
    """The image, in Glance's form and in nova's.

    :raises InputError: naming the first property that nova cannot use
    """
    for key, value in properties.items():
        try:
            objects.ImageMetaProps.from_dict({key: value})
        except (ValueError, TypeError, exception.NovaException) as error:
            raise errors.InputError(
                f'{value!r} cannot be used: {error}',
                errors.Location(_IMAGE_SOURCE, key=key)) from error
    image = {
        'id': _IMAGE, 'name': 'image', 'status': 'active',
        'container_format': 'bare', 'disk_format': 'qcow2',
        'min_disk': 0, 'min_ram': 0, 'size': 0, 'owner': _PROJECT,
        'properties': dict(properties)}
    return image, objects.ImageMeta.from_dict(image)


def request_spec(wanted: Order) -> Any:
    """What nova-conductor hands to nova-scheduler."""
    return objects.RequestSpec(
        flavor=wanted.flavor, image=wanted.image,
        numa_topology=wanted.topology, pci_requests=wanted.pci_requests,
        instance_uuid=_UUID, num_instances=1, is_bfv=False,
        project_id=_PROJECT, user_id=_PROJECT, availability_zone=None,
        requested_destination=None, requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        scheduler_hints={}, force_hosts=None, force_nodes=None)


def instance(
    wanted: Order, topology: Any, devices: Sequence[Any],
) -> Any:
    """The server as nova-compute has it once it is claimed.

    :param topology: nova.objects.InstanceNUMATopology with host cells and
        CPUs, or None
    :param devices: nova.objects.PciDevice that it gets
    """
    flavor = wanted.flavor
    properties = wanted.image_dict['properties']
    system_metadata = utils.get_system_metadata_from_image(
        wanted.image_dict, flavor)
    # Where nova-compute would find what it has made for a virtual TPM.
    system_metadata['vtpm_secret_uuid'] = _SECRET
    return objects.Instance(
        id=1, uuid=_UUID, display_name='guest', hostname='guest',
        user_id=_PROJECT, project_id=_PROJECT, host=None,
        image_ref=_IMAGE, kernel_id='', ramdisk_id='', key_data=None,
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
        pci_requests=wanted.pci_requests,
        pci_devices=objects.PciDeviceList(objects=list(devices)),
        device_metadata=None, vcpu_model=None, trusted_certs=None,
        resources=None)


def network_info() -> Any:
    """One port on an Open vSwitch network."""
    network = network_model.Network(
        id=_NETWORK, bridge='br-int', label='network', subnets=[],
        mtu=1500, tenant_id=_PROJECT)
    return network_model.NetworkInfo([network_model.VIF(
        id=_PORT, address='fa:16:3e:00:00:01', network=network,
        type=network_model.VIF_TYPE_OVS, devname='tap00000000-00',
        vnic_type=network_model.VNIC_TYPE_NORMAL, active=True,
        ovs_interfaceid=_PORT, details={}, profile={},
        delegate_create=True)])


def disks(wanted: Order, server: Any) -> tuple[Any, Any]:
    """The server's disks, as nova-compute hands them to the driver.

    :returns: nova's disk_info and block_device_info
    """
    flavor = wanted.flavor
    devices = {
        'root_device_name': None,
        'image': [],
        'ephemerals': [_disk(size=flavor.ephemeral_gb)]
        if flavor.ephemeral_gb else [],
        'swap': _disk(swap_size=flavor.swap) if flavor.swap else None,
        'block_device_mapping': [],
    }
    return blockinfo.get_disk_info(
        'kvm', server, wanted.image, devices), devices


def _disk(**size: int) -> dict[str, Any]:
    return {'device_name': None, 'device_type': None, 'disk_bus': None,
            'guest_format': None, **size}
