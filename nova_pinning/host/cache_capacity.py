# SPDX-License-Identifier: Apache-2.0
"""What guests can have of a host's L3 caches, as Placement is told."""

from collections.abc import Mapping
import dataclasses

from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.placement import cache_resources


@dataclasses.dataclass(frozen=True, slots=True)
class CacheCapacity:
    """What guests can have for themselves.

    :param ways: of each cache
    :param caches: that guests run on
    :param groups: how many guests can have ways, or a limit
    :param has_bandwidth: whether memory bandwidth can be limited
    """

    ways: int
    caches: int
    groups: int
    has_bandwidth: bool

    @property
    def traits(self) -> frozenset[str]:
        """The traits of the host's resource provider."""
        if not self.groups:
            return frozenset()
        return cache_resources.traits(
            self.ways if self.caches else 0, self.has_bandwidth)

    @property
    def totals(self) -> Mapping[str, int]:
        """Its inventories, by resource class."""
        return cache_resources.totals(self.ways, self.caches, self.groups)


def of_host(
    description: host_model.HostDescription,
) -> CacheCapacity | None:
    """What guests can have, None if nothing is known to be there."""
    resctrl = description.resctrl
    if resctrl is None:
        return None
    guests = (engine.dedicated_cpus(description)
              | engine.shared_cpus(description))
    caches = sum(not domain.isdisjoint(guests)
                 for domain in resctrl.domains.values())
    l3 = resctrl.l3
    return CacheCapacity(l3.guest_ways if l3 else 0, caches,
                         resctrl.guest_groups, resctrl.mb is not None)
