# SPDX-License-Identifier: Apache-2.0
"""What a host's resource providers have for guests of one query."""

import collections
from collections.abc import Iterable
import math

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import providers
from nova_pinning.fit import counting
from nova_pinning.placement import inventory

# What queries of one guest ask for in each other's place.
_CPUS = frozenset((inventory.VCPU, inventory.PCPU))


def most(queries: Iterable[guest_request.CandidatesQuery],
         occupancy: host_occupancy.HostOccupancy) -> int:
    """No more guests fit, whichever of its providers give them what."""
    return max(_most_of_query(query, occupancy) for query in queries)


def _most_of_query(query: guest_request.CandidatesQuery,
                   occupancy: host_occupancy.HostOccupancy) -> int:
    limit = counting.UNLIMITED
    for name, need in query.resources.items():
        if not need or name in _CPUS or not (
                providers.is_told(occupancy.host, name)):
            continue
        # What one group wants of a class comes from one provider.
        piece = math.gcd(*[amount for group in query.groups
                           for asked, amount in group.resources
                           if asked == name])
        pieces = sum(
            has.free(occupancy.used[index].get(name, 0)) // piece
            for index, has in occupancy.host.offers.get(name, ()))
        limit = min(limit, pieces * piece // need)
    # Some groups are met by few of those that have a class.
    for group, number in collections.Counter([
            group._replace(suffix='') for group in query.groups
            if group.suffix and group.asked
            and all(providers.is_told(occupancy.host, name)
                    for name, _amount in group.asked)]).items():
        limit = min(limit, sum(
            min(inventories[name].free(used.get(name, 0)) // amount
                if name in inventories else 0
                for name, amount in group.asked)
            for provider, used in zip(occupancy.providers, occupancy.used)
            if provider.traits is None or group.required <= provider.traits
            for inventories in (dict(provider.inventories),)) // number)
    return limit


def is_of_root(query: guest_request.CandidatesQuery,
               host: offered_host.OfferedHost) -> bool:
    """Whether only the host's own provider can give what is asked for."""
    elsewhere = {name for child in host.children
                 for name, _has in child.inventories}
    return (all(not group.suffix for group in query.groups)
            and elsewhere.isdisjoint(query.resources))
