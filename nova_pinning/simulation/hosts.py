# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler would know of a host of a fleet."""

from collections.abc import Mapping

from nova_pinning.admission import offered_host
from nova_pinning.simulation import scheduler_configuration

_UNKNOWN = offered_host.Aggregate('')


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
