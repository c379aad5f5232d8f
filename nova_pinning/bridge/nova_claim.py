# SPDX-License-Identifier: Apache-2.0
"""How nova-compute's claim goes about it, in the nova that is installed.

``nova.compute.claims.Claim`` decides what nova's fit is given, and that is not
the same in all releases; ``nova_pinning.model.cell_order`` has what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
import functools
import types
from typing import Any

from nova.compute import claims
from nova.compute import vm_states
from nova import context as nova_context
from nova import objects
from nova.objects import service
from nova.virt import hardware

from nova_pinning.bridge import nova_objects
from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.model import cell_order


def claimed_topology(
    host_json: str, guest: Any, limits: Any = None,
    pci_requests: Sequence[Any] = (), pci_stats: Any = None,
) -> Any:
    """What Claim makes of a guest's topology, without a resource tracker.

    :param host_json: the topology of the host as nova's database has it
    :param guest: nova.objects.InstanceNUMATopology; changed, as nova does
    :param limits: nova.objects.NUMATopologyLimits or None
    :param pci_requests: nova.objects.InstancePCIRequest
    :param pci_stats: nova.pci.stats.PciDeviceStats of the host
    :returns: nova.objects.InstanceNUMATopology, None if the claim fails
    """
    claim = types.SimpleNamespace(
        numa_topology=guest, claimed_numa_topology=None,
        _pci_requests=objects.InstancePCIRequests(
            requests=list(pci_requests)),
        tracker=types.SimpleNamespace(
            pci_tracker=types.SimpleNamespace(stats=pci_stats)))
    claims.Claim._test_numa_topology(
        claim, objects.ComputeNode(numa_topology=host_json), limits)
    return claim.claimed_numa_topology


def unshelved_topology(spec_obj: Any) -> Any:
    """What Claim starts from where a server is unshelved.

    It has the ids and page sizes that its last claim has left it. Other moves
    make the topology anew (MoveClaim.numa_topology).

    :param spec_obj: nova.objects.RequestSpec of a move; the server is read
        from the database of the cell that it is restricted to
    :returns: nova.objects.InstanceNUMATopology, None if no server is unshelved
    :raises nova.exception.NovaException: if there is no such server
    :raises oslo_db.exception.DBError: if the database cannot be read
    """
    if spec_obj._context is None:
        # It was made by hand, and not sent by nova-conductor.
        return None
    with nova_context.target_cell(
            spec_obj._context.elevated(),
            spec_obj.requested_destination.cell) as context:
        server = objects.Instance.get_by_uuid(
            context, spec_obj.instance_uuid, expected_attrs=['numa_topology'])
        return (server.numa_topology
                if server.vm_state == vm_states.SHELVED_OFFLOADED else None)


@functools.cache
def installed_order() -> model.CellOrder:
    """How claims of the nova that is installed order the host cells.

    It is given a host of two cells that differ in their devices only.
    """
    host = model.Host(tuple([
        model.HostCell(
            id=number, shared_cpus=cpuset.CpuSet(),
            dedicated_cpus=cpuset.CpuSet({number}),
            pinned_cpus=cpuset.CpuSet(), cores=((number,),), memory_mib=1024)
        for number in range(2)]))
    guest = model.Guest((model.GuestCell((0,), (), 512),),
                        model.CpuPolicy.DEDICATED)
    answer = claimed_topology(
        nova_objects.host_topology(host)._to_json(),
        nova_objects.instance_topology(guest),
        pci_stats=types.SimpleNamespace(pools=[{'numa_node': 0, 'count': 1}]))
    return (model.CellOrder.FEWEST_DEVICES if answer.cells[0].id == 1
            else model.CellOrder.ANY_DEVICES)


@functools.cache
def forgets_pages() -> bool:
    """Whether claims of pinned guests do not see which pages are free.

    So it is before 2025.1 (nova.virt.hardware._numa_fit_instance_cell), for
    guests that ask for no page size; and all pinned guests are refused where
    not as much of a cell's memory is free, whatever its pages. It is given a
    host without free pages.
    """
    objects.register_all()
    host = model.Host((model.HostCell(
        id=0, shared_cpus=cpuset.CpuSet(), dedicated_cpus=cpuset.CpuSet({0}),
        pinned_cpus=cpuset.CpuSet(), cores=((0,),), memory_mib=1024,
        pages=(model.PagePool(4, 262144, 262144),)),))
    guest = model.Guest((model.GuestCell((0,), (), 512),),
                        model.CpuPolicy.DEDICATED)
    return hardware.numa_fit_instance_to_host(
        nova_objects.host_topology(host),
        nova_objects.instance_topology(guest), None) is not None


@functools.cache
def order_of_compute(version: int | None) -> model.CellOrder:
    """How claims of a nova-compute order the host cells.

    One that is of the installed release most likely has its very code. But
    if a point release got a fix that others of this release have not, there
    is no telling.

    :param version: that its service reports, None if it is not known
    """
    order = cell_order.of_service_version(version)
    if version == service.SERVICE_VERSION and order is not installed_order():
        return model.CellOrder.UNKNOWN
    return order
