# SPDX-License-Identifier: Apache-2.0
"""Figures of free and stranded devices, which are one and the same.

Those of each host are held against nova's pools and Placement's inventories;
those of the page and the exporter against what capacity has.
"""

import collections
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova_pinning.admission import guest_request
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import stranded
from nova_pinning.exporter import fleet_tally
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.presentation.fleet_page import page_data
from nova_pinning.tests.oracle import device_fleet
from nova_pinning.tests.oracle import device_nova


def differences(
    nova: device_fleet.NovaFleet, fleet: snapshot.Fleet,
    requests: Sequence[guest_request.GuestRequest],
) -> Iterator[tuple[str, str]]:
    """By what says it, where figures are others."""
    measured = capacity.measure(fleet, requests)
    page = page_data.document(page_data.FleetPage(measured=measured), '1')
    causes = list(count.CapacityCause)
    for one, shown in zip(measured.hosts, page['hosts']):
        free = one.stranded.free_devices
        there = _free(nova.hosts[one.host.name], nova.cloud.in_placement)
        by_node = collections.Counter[int | None]()
        for group, number in free.items():
            by_node[group.numa_node] += number
        # Not all need be on sale.
        if by_node - there:
            yield 'free', f'{one.host.name}: {free}, nova has {there}'
        sold = {}
        for name, node, traits, _total, left, lost in page['states'][
                shown['state']]['devices']:
            if (name, node, traits) in free or lost:
                sold[name, node, traits] = left, {
                    causes[cause]: number for cause, number in lost}
        lost_of: dict[Any, dict[Any, int]] = {group: {} for group in free}
        for (group, cause), number in one.stranded.devices.items():
            lost_of[group][cause] = number
        if sold != {group: (number, lost_of[group])
                    for group, number in free.items()}:
            yield 'page', f'{one.host.name}: {sold}, capacity {one.stranded}'
    tally = fleet_tally.FleetTally(requests, occupied.rules_of(fleet))
    tally.update(fleet)
    exported = stranded.total(
        own for _sizes, own in tally.by_class().values())
    whole = stranded.total(one.stranded for one in measured.hosts)
    if exported != whole:
        yield 'exporter', f'{exported}, capacity {whole}'


def _free(host: device_nova.NovaHost, in_placement: bool,
          ) -> collections.Counter[int | None]:
    """What nova-compute and Placement have free, by NUMA node."""
    found = collections.Counter[int | None]()
    for pool in host.tracker.stats.pools:
        free = pool['count']
        if in_placement and 'rp_uuid' in pool:
            [(name, has)] = host.tree.data(pool['rp_uuid']).inventory.items()
            used = sum(
                one['allocations'].get(pool['rp_uuid'], {'resources': {}})[
                    'resources'].get(name, 0)
                for one in host.allocations.values())
            free = min(free, max(
                0, has['total'] - has.get('reserved', 0) - used))
        found[pool['numa_node']] += free
    return found
