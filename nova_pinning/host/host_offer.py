# SPDX-License-Identifier: Apache-2.0
"""A described host as admission takes it."""

import itertools

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning import cpuset
from nova_pinning.host import cache_capacity
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.placement import cache_resources
from nova_pinning.placement import inventory

#: What no host file tells. That is said wherever it is asked for, but leaves
#: nothing undecided by itself.
UNTOLD = (inventory.DISK_GB,)
#: What operators' own traits begin with.
_CUSTOM = 'CUSTOM_'


def offered(
    description: host_model.HostDescription,
) -> offered_host.OfferedHost:
    """The host without guests, and what its file does not tell of it.

    Disks are unknown, and so are the traits that nova-compute reports by
    itself; of others a file that names none may be what virsh prints. Where
    nothing tells of caches to divide, Placement is told of none.
    """
    caches = cache_capacity.of_host(description)
    nova = description.nova
    return offered_host.OfferedHost(
        name=description.name,
        cells=engine.engine_cells(description),
        l3_domains=l3_domains(description),
        traits=description.traits | (
            caches.traits if caches else frozenset()),
        pci_pools=pci_pools(description),
        cpu_allocation_ratio=nova.cpu_allocation_ratio,
        ram_allocation_ratio=nova.ram_allocation_ratio,
        reserved_memory_mib=nova.reserved_memory_mib,
        resources={**dict.fromkeys(cache_resources.CLASSES, 0),
                   **(caches.totals if caches else {})},
        gaps=(outcome.Doubt(
            outcome.DoubtKind.TRAITS, 'its file does not tell all its traits',
            _CUSTOM if description.traits else ''),))


def l3_domains(
    description: host_model.HostDescription,
) -> tuple[cpuset.CpuSet, ...]:
    """The CPUs that share each last-level cache, () if that is not known.

    A domain that reaches over several nodes is given once.
    """
    return tuple(dict.fromkeys(itertools.chain.from_iterable(
        node.l3_domains for node in description.nodes)))


def pci_pools(
    description: host_model.HostDescription,
) -> tuple[devices.PciPool, ...]:
    """The devices that guests may ask for, as nova puts them together."""
    given = [device for device in description.pci_devices if device.alias]
    # Physical functions that may be taken, as may their virtual ones.
    physical = {device.address for device in given}.intersection(
        device.physical_function for device in given)
    counts: dict[tuple[devices.Pairs, int | None], int] = {}
    for device in given:
        address = device.physical_function or device.address
        tags = {'address': address} if address in physical else {}
        key = _keys(description, device, **tags), device.numa_node
        counts[key] = counts.get(key, 0) + 1
    return tuple(devices.PciPool(keys, numa_node, count)
                 for (keys, numa_node), count in counts.items())


def alias_specs(
    description: host_model.HostDescription, alias: str,
) -> tuple[devices.Pairs, ...]:
    """What an alias stands for on the host, () if it has no such device."""
    return tuple(dict.fromkeys(
        _keys(description, device)
        for device in description.pci_devices if device.alias == alias))


def _keys(description: host_model.HostDescription,
          device: host_model.PciDevice, **tags: str) -> devices.Pairs:
    return devices.device_keys(device.vendor_id, device.product_id,
                               description.device_type(device), **tags)
