# SPDX-License-Identifier: Apache-2.0
"""The weighers of nova-scheduler that count here, and their multipliers."""

from collections.abc import Iterable
from collections.abc import Mapping
import types

#: The weighers of nova that tell hosts apart by what is free, or by the number
#: of guests, by class name, with the multipliers that they have by default.
NOVA_MULTIPLIERS: Mapping[str, float] = types.MappingProxyType({
    'CPUWeigher': 1.0,
    'DiskWeigher': 1.0,
    'NumInstancesWeigher': 0.0,
    'PCIWeigher': 1.0,
    'RAMWeigher': 1.0,
})
FRAGMENTATION = 'FragmentationWeigher'
CACHE_LOCALITY = 'CacheLocalityWeigher'
OWN_WEIGHERS = (FRAGMENTATION, CACHE_LOCALITY)

#: The option, and key of aggregates' metadata, of each weigher.
MULTIPLIER_OPTIONS: Mapping[str, str] = types.MappingProxyType({
    'CPUWeigher': 'cpu_weight_multiplier',
    'DiskWeigher': 'disk_weight_multiplier',
    'NumInstancesWeigher': 'num_instances_weight_multiplier',
    'PCIWeigher': 'pci_weight_multiplier',
    'RAMWeigher': 'ram_weight_multiplier',
    FRAGMENTATION: 'fragmentation_weight_multiplier',
    CACHE_LOCALITY: 'cache_locality_weight_multiplier',
})


def multiplier_on(weigher: str, configured: float,
                  metadata: Iterable[Mapping[str, str]]) -> float:
    """The multiplier of a weigher on a host.

    As nova.scheduler.utils.get_weight_multiplier finds it: aggregates outweigh
    the configuration, the least of what they say.

    :param metadata: of the host's aggregates
    """
    key = MULTIPLIER_OPTIONS.get(weigher, '')
    try:
        return min([float(one[key]) for one in metadata if key in one],
                   default=configured)
    except ValueError:
        # Nova logs it and goes by its configuration.
        return configured
