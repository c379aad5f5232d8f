# SPDX-License-Identifier: Apache-2.0
"""The engine's hosts and guests as nova's objects."""

from typing import Any

from nova import objects

from nova_pinning.fit import threads
from nova_pinning import model


def given(nova_object: Any, field: str, default: Any = None) -> Any:
    """A field of a nova object, the default where it was never set.

    It is read from where oslo.versionedobjects keeps it (``_get_attrname``
    there), which is far faster than its getters.
    """
    return getattr(nova_object, f'_obj_{field}', default)


def host_topology(host: model.Host) -> Any:
    """A nova.objects.NUMATopology, None for a host without cells.

    :param host: of ``model.HostCell``, with what is used of them
    """
    if not host.cells:
        return None
    topology = objects.NUMATopology(cells=[
        _host_cell(cell) for cell in host.cells
        if isinstance(cell, model.HostCell)])
    keep_threads(topology, host)
    return topology


def keep_threads(topology: Any, host: model.Host) -> None:
    """Have nova take the threads of each core in the host's order.

    Making, changing or reading a topology can change that.

    :param topology: nova.objects.NUMATopology of the host
    """
    for nova_cell, cell in zip(topology.cells, host.cells):
        # To assign to the field would put them into other sets.
        nova_cell._obj_siblings = [
            threads.as_set(tuple(core)) for core in cell.cores]


def _host_cell(cell: model.HostCell) -> Any:
    return objects.NUMACell(
        id=cell.id, socket=cell.socket, cpuset=set(cell.shared_cpus),
        pcpuset=set(cell.dedicated_cpus), pinned_cpus=set(cell.pinned_cpus),
        siblings=[set(core) for core in cell.cores],
        memory=cell.memory_mib, memory_usage=cell.memory_used_mib,
        cpu_usage=cell.shared_used,
        mempages=[
            objects.NUMAPagesTopology(
                size_kb=pool.size_kib, total=pool.total, used=pool.used,
                reserved=pool.reserved)
            for pool in cell.pages],
        network_metadata=objects.NetworkMetadata(
            physnets=set(cell.physnets), tunneled=cell.tunneled))


def instance_topology(guest: model.Guest) -> Any:
    """The nova.objects.InstanceNUMATopology that a guest asks for."""
    thread_policy = None
    if guest.is_pinned and guest.thread_policy is not (
            model.ThreadPolicy.PREFER):
        thread_policy = str(guest.thread_policy)
    return objects.InstanceNUMATopology(
        cells=[
            objects.InstanceNUMACell(
                id=number, cpuset=set(cell.shared_vcpus),
                pcpuset=set(cell.dedicated_vcpus), memory=cell.memory_mib,
                pagesize=cell.page_size_kib,
                cpu_policy=str(guest.cpu_policy),
                cpu_thread_policy=thread_policy)
            for number, cell in enumerate(guest.cells)],
        emulator_threads_policy=(
            'isolate' if guest.emulator_isolated else None))
