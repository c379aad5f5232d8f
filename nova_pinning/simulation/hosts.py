# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler would know of a host of a fleet."""

import collections
from collections.abc import Iterable
from collections.abc import Mapping

from nova_pinning.fleet import snapshot
from nova_pinning.placement import placement_traits


def l3_cpus(
    host: snapshot.FleetHost, aggregates: Mapping[str, snapshot.FleetAggregate]
) -> int | None:
    """The host CPUs in each L3 domain, None if nothing tells.

    What aggregates say counts first, then traits, then the domains that the
    host is known to have: those of the size that most of them have.
    """
    said = min(_from_aggregates(host, aggregates), default=None)
    if said is None:
        said = placement_traits.l3_cpus(host.traits or ())
    if said is not None or not host.l3_domains:
        return said
    sizes = collections.Counter(map(len, host.l3_domains))
    return max(sizes, key=lambda size: (sizes[size], size))


def _from_aggregates(
    host: snapshot.FleetHost, aggregates: Mapping[str, snapshot.FleetAggregate]
) -> Iterable[int]:
    for name in host.aggregates:
        if name in aggregates:
            said = placement_traits.parse_l3_cpus(
                aggregates[name].metadata.get(placement_traits.L3_KEY, ''))
            if said is not None:
                yield said
