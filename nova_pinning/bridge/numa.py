# SPDX-License-Identifier: Apache-2.0
"""The engine under nova's own signature."""

from __future__ import annotations

from typing import Any

import nova.conf
from nova import objects
from nova.virt import hardware

from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model

CONF = nova.conf.CONF


def packs_cells() -> bool:
    """Whether nova fills the host cells that are used most first."""
    return bool(CONF.compute.packing_host_numa_cells_allocation_strategy)


def fit_or_refusal(
    host_topology: Any,
    instance_topology: Any,
    provider_mapping: dict[str, list[str]] | None,
    limits: Any = None,
    pci_requests: Any = None,
    pci_stats: Any = None,
) -> model.Fit | model.Refusal:
    """The engine's answer to nova.virt.hardware.numa_fit_instance_to_host.

    Nothing that is given is changed.

    :param host_topology: nova.objects.NUMATopology
    :param instance_topology: nova.objects.InstanceNUMATopology
    :param provider_mapping: resource provider UUIDs by request group, or
        None if the PCI requests carry them
    :param limits: nova.objects.NUMATopologyLimits or None
    :param pci_requests: list of nova.objects.InstancePCIRequest or None
    :param pci_stats: nova.pci.stats.PciDeviceStats or None
    :returns: where the guest goes, or why it does not fit
    """
    if not host_topology or not instance_topology:
        return model.Refusal(model.Reason.NO_TOPOLOGY)
    network_metadata = None
    ratios: tuple[float, ...] = ()
    if limits:
        ratios = limits.cpu_allocation_ratio, limits.ram_allocation_ratio
        if 'network_metadata' in limits:
            network_metadata = limits.network_metadata
    check = None
    if pci_stats is not None:
        check = pci.NovaPciCheck(pci_stats, pci_requests, provider_mapping)
    try:
        return fit.fit_guest(
            topology.host_from_nova(host_topology, *ratios),
            topology.guest_from_nova(instance_topology, network_metadata),
            pack=packs_cells(), pci=check)
    except topology.BrokenTopology as error:
        return model.Refusal(model.Reason.BROKEN_TOPOLOGY, detail=str(error))


def instance_topology_from_fit(
    instance_topology: Any, outcome: model.Fit,
) -> Any:
    """The guest's nova topology with the host cells and CPUs filled in.

    :param instance_topology: nova.objects.InstanceNUMATopology that the fit
        was made for; not changed
    """
    cells = []
    for guest_cell, cell_fit in zip(instance_topology.cells, outcome.cells):
        cell = guest_cell.obj_clone()
        cell.id = cell_fit.host_cell
        if cell_fit.pins:
            cell.cpu_pinning = dict(cell_fit.pins)
        if cell.cpu_policy in ('dedicated', 'mixed'):
            cell.cpuset_reserved = set(cell_fit.emulator_cpus) or None
        if cell_fit.page_size_kib is not None:
            cell.pagesize = cell_fit.page_size_kib
        cells.append(cell)
    policy = (instance_topology.emulator_threads_policy
              if 'emulator_threads_policy' in instance_topology else None)
    return objects.InstanceNUMATopology(
        cells=cells, emulator_threads_policy=policy)


def with_guest(host_topology: Any, guest: model.Guest,
               outcome: model.Fit) -> Any:
    """A host's topology with one more guest, counted as nova-compute does.

    :param host_topology: nova.objects.NUMATopology; not changed
    :param guest: what was asked for
    :param outcome: where it goes
    :returns: nova.objects.NUMATopology
    :raises nova.exception.NovaException: if a CPU is given out twice
    """
    return hardware.numa_usage_from_instance_numa(
        host_topology, instance_topology_from_fit(
            nova_objects.instance_topology(guest), outcome))


def is_used_alike(host_topology: Any, other: Any) -> bool:
    """Whether as much is used of two topologies of one host.

    :param host_topology: nova.objects.NUMATopology, as is other
    """
    return host_topology is other or [
        _use(cell) for cell in host_topology.cells
    ] == [_use(cell) for cell in other.cells]


def _use(cell: Any) -> tuple[Any, ...]:
    return (cell.id, cell.pinned_cpus, cell.memory_usage, cell.cpu_usage,
            [(pages.size_kb, pages.used) for pages in cell.mempages])
