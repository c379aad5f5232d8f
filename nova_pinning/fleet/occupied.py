# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet with their guests, and what its scheduler is set to."""

import dataclasses

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass


def guests_by_host(
    fleet: snapshot.Fleet,
) -> dict[str, list[resident_guest.ResidentGuest]]:
    """The guests of each host; hosts without guests have an empty list.

    Guests on a host that the fleet does not have are left out.
    """
    by_host: dict[str, list[resident_guest.ResidentGuest]] = {
        host.name: [] for host in fleet.hosts}
    for guest in fleet.guests:
        if guest.host in by_host:
            by_host[guest.host].append(guest)
    return by_host


def of_fleet(
    fleet: snapshot.Fleet,
) -> dict[str, host_occupancy.HostOccupancy]:
    """The occupancy of all hosts, by name, in the fleet's order."""
    guests = guests_by_host(fleet)
    return {host.name: host_occupancy.of_host(host, guests[host.name])
            for host in fleet.hosts}


def without_reserve(fleet: snapshot.Fleet) -> snapshot.Fleet:
    """The fleet as if no host was kept for guests of lost hosts."""
    return dataclasses.replace(fleet, aggregates=tuple(
        dataclasses.replace(aggregate, metadata={
            key: value for key, value in aggregate.metadata.items()
            if key != hostclass.RESERVE_KEY})
        for aggregate in fleet.aggregates))


def rules_of(fleet: snapshot.Fleet) -> scheduler_rules.SchedulerRules:
    """What nova-scheduler is set to, as far as the snapshot tells."""
    return dataclasses.replace(
        fleet.rules, enabled_filters=fleet.enabled_filters or None,
        aggregates={aggregate.name: aggregate
                    for aggregate in fleet.aggregates},
        packs_cells=fleet.packs_cells)
