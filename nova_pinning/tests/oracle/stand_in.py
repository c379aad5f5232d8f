# SPDX-License-Identifier: Apache-2.0
"""The engine in the place of nova's own function."""

from typing import Any

from nova_pinning.bridge import numa
from nova_pinning import model


def numa_fit_instance_to_host(
    host_topology: Any,
    instance_topology: Any,
    provider_mapping: dict[str, list[str]] | None,
    limits: Any = None,
    pci_requests: Any = None,
    pci_stats: Any = None,
) -> Any:
    """Stand in for nova.virt.hardware.numa_fit_instance_to_host.

    Unlike nova's, it changes none of its arguments.

    :param host_topology: nova.objects.NUMATopology
    :param instance_topology: nova.objects.InstanceNUMATopology
    :param provider_mapping: resource provider UUIDs by request group, or
        None if the PCI requests carry them
    :param limits: nova.objects.NUMATopologyLimits or None
    :param pci_requests: list of nova.objects.InstancePCIRequest or None
    :param pci_stats: nova.pci.stats.PciDeviceStats or None
    :returns: nova.objects.InstanceNUMATopology, or None if it does not fit
    """
    outcome = numa.fit_or_refusal(
        host_topology, instance_topology, provider_mapping, limits,
        pci_requests, pci_stats)
    if isinstance(outcome, model.Refusal):
        return None
    return numa.instance_topology_from_fit(instance_topology, outcome)
