# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler would know of a host of a fleet."""

import collections
from collections.abc import Iterable
from collections.abc import Mapping

from nova_pinning.admission import offered_host
from nova_pinning.placement import placement_traits
from nova_pinning.simulation import scheduler_configuration

_UNKNOWN = offered_host.Aggregate('')


def l3_cpus(
    host: offered_host.OfferedHost,
    aggregates: Mapping[str, offered_host.Aggregate],
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
    host: offered_host.OfferedHost,
    aggregates: Mapping[str, offered_host.Aggregate],
) -> Iterable[int]:
    for name in host.aggregates:
        if name in aggregates:
            said = placement_traits.parse_l3_cpus(
                aggregates[name].metadata.get(placement_traits.L3_KEY, ''))
            if said is not None:
                yield said


def multiplier(
    weigher: str, configured: float, host: offered_host.OfferedHost,
    aggregates: Mapping[str, offered_host.Aggregate],
) -> float:
    """The multiplier of a weigher on a host.

    Aggregates outweigh the configuration: the least of what they say.
    """
    key = scheduler_configuration.MULTIPLIER_OPTIONS.get(weigher, '')
    try:
        return min([
            float(aggregates[name].metadata[key]) for name in host.aggregates
            if key in aggregates.get(name, _UNKNOWN).metadata],
            default=configured)
    except ValueError:
        # Nova logs it and goes by its configuration.
        return configured
