# SPDX-License-Identifier: Apache-2.0
"""Write topologies as the nova that runs this keeps them in its database.

Run with the Python of an older release of nova, in this directory::

    $ /opt/nova-2025.1/bin/python write_topologies.py > 2025.1.json

A host of two cells with four CPUs, pages of two sizes and devices in cell 0,
as its compute node has it, and a guest of one cell: as a RequestSpec has it
that is sent to nova-scheduler, and as instance_extra has it after the claim.
"""

import json
import types

from nova.compute import claims
from nova import objects
from nova.objects import service
from nova.virt import hardware


def _host():
    return objects.NUMATopology(cells=[
        objects.NUMACell(
            id=number, socket=number, cpuset=set(),
            pcpuset=set(range(4 * number, 4 * number + 4)),
            pinned_cpus=set(),
            siblings=[{4 * number, 4 * number + 1},
                      {4 * number + 2, 4 * number + 3}],
            memory=8192, memory_usage=0, cpu_usage=0,
            mempages=[
                objects.NUMAPagesTopology(
                    size_kb=4, total=1048576, used=0, reserved=0),
                objects.NUMAPagesTopology(
                    size_kb=2048, total=2048, used=0, reserved=0)],
            network_metadata=objects.NetworkMetadata(
                physnets={'physnet0'} if number else set(),
                tunneled=not number))
        for number in range(2)])


def _request():
    flavor = objects.Flavor(
        name='pinned', vcpus=2, memory_mb=1024, root_gb=0, ephemeral_gb=0,
        swap=0, extra_specs={'hw:cpu_policy': 'dedicated',
                             'hw:cpu_thread_policy': 'require',
                             'hw:mem_page_size': '2MB'})
    image = objects.ImageMeta(properties=objects.ImageMetaProps())
    return objects.RequestSpec(
        instance_uuid='00000000-0000-0000-0000-000000000001',
        flavor=flavor, image=image, num_instances=1, requested_resources=[],
        scheduler_hints={}, limits=objects.SchedulerLimits(),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        numa_topology=hardware.numa_get_constraints(flavor, image))


def _without_changes(value):
    """What is written, less the names of fields that changed."""
    if isinstance(value, dict):
        return {key: _without_changes(part) for key, part in value.items()
                if key != 'nova_object.changes'}
    if isinstance(value, list):
        return [_without_changes(part) for part in value]
    return value


def main():
    """Write it all."""
    objects.register_all()
    pools = [objects.PciDevicePool(
        product_id='1520', vendor_id='8086', numa_node=0, count=2,
        tags={'dev_type': 'type-VF'})]
    devices = objects.PciDevicePoolList(objects=pools)
    spec = _request()
    claim = types.SimpleNamespace(
        numa_topology=spec.numa_topology.obj_clone(),
        claimed_numa_topology=None, _pci_requests=spec.pci_requests,
        tracker=types.SimpleNamespace(pci_tracker=types.SimpleNamespace(
            stats=types.SimpleNamespace(pools=[
                pool.to_dict() for pool in pools]))))
    host = _host()
    claims.Claim._test_numa_topology(
        claim, objects.ComputeNode(numa_topology=host._to_json()), None)
    written = {
        'service_version': service.SERVICE_VERSION,
        'numa_topology': json.loads(host._to_json()),
        'pci_stats': devices.obj_to_primitive(),
        'request_spec': spec.obj_to_primitive(),
        'claimed': claim.claimed_numa_topology.obj_to_primitive(),
        'numa_topology_after': json.loads(
            hardware.numa_usage_from_instance_numa(
                host, claim.claimed_numa_topology)._to_json()),
    }
    print(json.dumps(_without_changes(json.loads(json.dumps(written))),
                     indent=1, sort_keys=True))


if __name__ == '__main__':
    main()
