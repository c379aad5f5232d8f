# SPDX-License-Identifier: Apache-2.0
"""A described host as admission takes it."""

import itertools

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning import cpuset
from nova_pinning.host import cache_capacity
from nova_pinning.host import device_offer
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
    pools, children = device_offer.offered(description)
    nova = description.nova
    return offered_host.OfferedHost(
        name=description.name,
        cells=engine.engine_cells(description),
        l3_domains=l3_domains(description),
        traits=description.traits | (
            caches.traits if caches else frozenset()),
        pci_pools=pools,
        children=children,
        cpu_allocation_ratio=nova.cpu_allocation_ratio,
        ram_allocation_ratio=nova.ram_allocation_ratio,
        reserved_memory_mib=nova.reserved_memory_mib,
        resources={**dict.fromkeys(cache_resources.CLASSES, 0),
                   **(caches.totals if caches else {})},
        gaps=(outcome.Doubt(
            outcome.DoubtKind.TRAITS, 'its file does not tell all its traits',
            _CUSTOM if description.traits else ''), *[
                outcome.Doubt(outcome.DoubtKind.DEVICES, text) for text, _help
                in itertools.islice(
                    device_offer.provider_faults(description), 1)]))


def l3_domains(
    description: host_model.HostDescription,
) -> tuple[cpuset.CpuSet, ...]:
    """The CPUs that share each last-level cache, () if that is not known.

    A domain that reaches over several nodes is given once.
    """
    return tuple(dict.fromkeys(itertools.chain.from_iterable(
        node.l3_domains for node in description.nodes)))
