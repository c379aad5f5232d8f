# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet with what their guests use, for the engine."""

from collections.abc import Iterable

from nova_pinning.fit import usage
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass


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


def host_class(
    host: snapshot.FleetHost, engine: model.Host,
    guests: Iterable[snapshot.FleetGuest],
) -> hostclass.HostClass | None:
    """The class of a host to HostClassFilter, by its default options.

    :param engine: the host with the guests on it
    :returns: None if too little is known of it
    :raises hostclass.UnknownClass: if the filter refuses it to all guests
    """
    if host.known_class or host.is_opaque:
        return host.known_class
    return hostclass.class_of_guests(
        engine.cells, sum(guest.vcpus for guest in guests))
