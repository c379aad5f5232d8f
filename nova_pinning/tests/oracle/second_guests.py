# SPDX-License-Identifier: Apache-2.0
"""A guest that comes to a host before another is asked for.

nova-scheduler counts it in the HostState for which it has chosen it, and asks
that one again until nova-compute has written down what it has claimed.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import copy
from typing import Any

from nova_pinning.admission import resident_guest
from nova_pinning.scheduler import filters
from nova_pinning.tests.oracle import device_fleet
from nova_pinning.tests.oracle import device_nova


def come(nova: device_fleet.NovaFleet, host: str, flavor: str,
         candidates: Sequence[dict[str, Any]]) -> Any:
    """Have a guest come to a host, as PinnedTopologyFilter lets it.

    :returns: the nova.scheduler.host_manager.HostState that counts it; None
        if it does not come
    """
    order, target = nova.orders[flavor], nova.hosts[host]
    assert order is not None
    spec = copy.deepcopy(order.spec)
    left = device_nova.filtered(
        (device_nova.FILTERS[0], filters.PinnedTopologyFilter)
        if spec.numa_topology else device_nova.FILTERS,
        [target.state(candidates)], spec)
    if not left:
        return None
    [state] = left
    chosen = state.allocation_candidates[0]
    # As nova.scheduler.manager.SchedulerManager._schedule goes on.
    for group in spec.requested_resources:
        group.provider_uuids = chosen['mappings'][group.requester_id]
    if not nova.place(host, flavor, [chosen]):
        return None
    state.consume_from_request(spec)
    return state


def is_true(state: Any, host: device_nova.NovaHost) -> bool:
    """Whether nova-scheduler has counted what nova-compute has claimed.

    It does not mind which functions of a device go with which, and may come
    to other pools.
    """
    return (_free(state.pci_stats.pools) == _free(host.tracker.stats.pools)
            and state.numa_topology._to_json() == host.topology._to_json())


def _free(pools: Iterable[Mapping[str, Any]]) -> collections.Counter[Any]:
    found = collections.Counter[Any]()
    for pool in pools:
        found[tuple(sorted((key, str(value)) for key, value in pool.items()
                           if key not in ('count', 'devices')))] += (
            pool['count'])
    return +found


def are_alike(one: resident_guest.ResidentGuest,
              other: resident_guest.ResidentGuest) -> bool:
    """Whether two guests have the same of a host."""
    return (one.fit, set(one.devices), set(one.allocations)) == (
        other.fit, set(other.devices), set(other.allocations))
