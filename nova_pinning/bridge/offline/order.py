# SPDX-License-Identifier: Apache-2.0
"""A server that somebody requests, as nova-api and nova-conductor see it.

Nova's own code reads the flavor and the image. Nothing of the libvirt driver
is imported.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
from typing import Any
import uuid

from nova import exception
from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware

from nova_pinning.admission import pci_alias
from nova_pinning import errors
from nova_pinning.flavors import flavor_model

# What tells servers apart is of no interest for one that there is not yet.
UUID = '00000000-0000-0000-0000-000000000001'
IMAGE = '00000000-0000-0000-0000-000000000002'
PROJECT = '0' * 32

_IMAGE_SOURCE = '--image-property'


@dataclasses.dataclass(frozen=True, slots=True)
class ApiRequest:
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


def from_flavor(
    flavor: flavor_model.Flavor, image_properties: Mapping[str, str],
) -> ApiRequest:
    """Check a flavor and an image as nova-api does when a server is created.

    See nova.compute.api.API._validate_flavor_image_numa_pci.

    :param image_properties: as Glance has them: hw_cpu_policy and so on
    :raises errors.InputError: if nova would not accept them
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
    with refusals(flavor, image_properties, pci_alias.KEY):
        requests = pci_request.get_pci_requests_from_flavor(
            nova_flavor, affinity_policy=policy)
    requests.instance_uuid = UUID
    for number, request in enumerate(requests.requests, 1):
        # The same each time, for Placement's groups are named by them.
        request.request_id = str(uuid.UUID(int=number))
    return ApiRequest(nova_flavor, image_dict, image, topology, requests)


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
        told = f'{key} = {flavor.extra_specs.get(key)}' if key else 'it'
        message = f'nova cannot read {told}: {error}'
    else:
        return
    where = _where(flavor, image_properties, key or message)
    raise errors.InputError(f'flavor {flavor.name}: {message}',
                            where if where.source else None)


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

    :raises errors.InputError: naming the first property that nova cannot use
    """
    for key, value in properties.items():
        try:
            objects.ImageMetaProps.from_dict({key: value})
        except (ValueError, TypeError, exception.NovaException) as error:
            raise errors.InputError(
                f'{value!r} cannot be used: {error}',
                errors.Location(_IMAGE_SOURCE, key=key)) from error
    image = {
        'id': IMAGE, 'name': 'image', 'status': 'active',
        'container_format': 'bare', 'disk_format': 'qcow2',
        'min_disk': 0, 'min_ram': 0, 'size': 0, 'owner': PROJECT,
        'properties': dict(properties)}
    return image, objects.ImageMeta.from_dict(image)


def request_spec(request: ApiRequest) -> Any:
    """What nova-conductor hands to nova-scheduler."""
    spec = objects.RequestSpec(
        flavor=request.flavor, image=request.image,
        numa_topology=request.topology, pci_requests=request.pci_requests,
        instance_uuid=UUID, num_instances=1, is_bfv=False,
        project_id=PROJECT, user_id=PROJECT, availability_zone=None,
        requested_destination=None, requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        scheduler_hints={}, force_hosts=None, force_nodes=None)
    spec.generate_request_groups_from_pci_requests()
    return spec
