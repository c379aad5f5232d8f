#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The hosts of a fleet with what their guests use, for the engine."""

from collections.abc import Iterable
from collections.abc import Mapping

from nova_pinning.fit import usage
from nova_pinning.fleet import model as fleet_model
from nova_pinning import model


def guests_by_host(
    fleet: fleet_model.Fleet,
) -> dict[str, list[fleet_model.FleetGuest]]:
    """The guests of each host; hosts without guests have an empty list.

    Guests on a host that the fleet does not have are left out.
    """
    found: dict[str, list[fleet_model.FleetGuest]] = {
        host.name: [] for host in fleet.hosts}
    for guest in fleet.guests:
        if guest.host in found:
            found[guest.host].append(guest)
    return found


def engine_host(
    host: fleet_model.FleetHost,
    guests: Iterable[fleet_model.FleetGuest] = (),
) -> model.Host:
    """A host as the engine takes it, with these guests on it."""
    empty = model.Host(host.cells, host.cpu_allocation_ratio,
                       host.ram_allocation_ratio)
    return usage.take_all(empty, (
        (guest.topology, guest.fit) for guest in guests
        if guest.topology is not None and guest.fit is not None))


def engine_hosts(fleet: fleet_model.Fleet) -> Mapping[str, model.Host]:
    """All hosts with their guests, by name, in the fleet's order."""
    guests = guests_by_host(fleet)
    return {host.name: engine_host(host, guests[host.name])
            for host in fleet.hosts}
