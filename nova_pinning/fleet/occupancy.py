# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet with what their guests use, for the engine."""

from collections.abc import Iterable

from nova_pinning.fit import usage
from nova_pinning.fleet import snapshot
from nova_pinning import model


def guests_by_host(
    fleet: snapshot.Fleet,
) -> dict[str, list[snapshot.FleetGuest]]:
    """The guests of each host; hosts without guests have an empty list.

    Guests on a host that the fleet does not have are left out.
    """
    by_host: dict[str, list[snapshot.FleetGuest]] = {
        host.name: [] for host in fleet.hosts}
    for guest in fleet.guests:
        if guest.host in by_host:
            by_host[guest.host].append(guest)
    return by_host


def engine_host(
    host: snapshot.FleetHost,
    guests: Iterable[snapshot.FleetGuest] = (),
) -> model.Host:
    """A host as the engine takes it, with these guests on it."""
    return usage.take_all(host.engine, (
        (guest.topology, guest.fit) for guest in guests
        if guest.topology is not None and guest.fit is not None))
