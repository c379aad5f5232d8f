# SPDX-License-Identifier: Apache-2.0
"""The occupancy of the hosts of a simulation, kept up to date."""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
from typing import NamedTuple
from typing import TypeAlias

import numpy

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.fit import threads
from nova_pinning.fleet import occupied
from nova_pinning.fleet import shared_providers
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.simulation import cell_state

Numbers: TypeAlias = numpy.ndarray


class PlacedGuest(NamedTuple):
    """A guest on a host.

    :param host: index of the host in the ledger
    """

    host: int
    guest: resident_guest.ResidentGuest


class OccupancyLedger:
    """Hosts with the guests on them.

    Figures are arrays with a number for each host.

    :param fleet: of its guests those on other hosts are left out
    :param order: indices into ``fleet.hosts``, in the order in which
        nova-scheduler meets the hosts
    :param is_empty: whether it is to have no guests
    :ivar occupancies: of each host; its cells are ``CellState``
    :ivar free_memory_mib: as nova counts it, below 0 at times
    :ivar version: of each host, counts its changes
    :ivar allocated: of each host, counts the changes of what Placement has of
        it; guests of other hosts may take of what they share
    """

    def __init__(self, fleet: snapshot.Fleet, order: Sequence[int],
                 is_empty: bool = False) -> None:
        self.hosts = tuple([fleet.hosts[index] for index in order])
        self._states = cell_state.CellStates()
        bare = [_as_nova_walks(host) for host in self.hosts]
        self._kinds = [[self._states.kind(cell) for cell in host.cells]
                       for host in bare]
        by_host = occupied.guests_by_host(
            dataclasses.replace(fleet, guests=()) if is_empty else fleet)
        self.occupancies = [
            self._known(index, host_occupancy.of_host(
                host, by_host[host.name]))
            for index, host in enumerate(bare)]
        self.placed_guests = {
            guest.uuid: PlacedGuest(index, guest)
            for index, occupancy in enumerate(self.occupancies)
            for guest in occupancy.guests}
        guests = [occupancy.guests for occupancy in self.occupancies]
        self.total_vcpus = _array(host.shared_count for host in self.hosts)
        self.used_vcpus = _array(
            sum(guest.vcpus for guest in there) for there in guests)
        self.guests = _array(map(len, guests))
        self.free_memory_mib = _array(
            host.memory_mib - host.reserved_memory_mib
            - sum(guest.memory_mib for guest in there)
            for host, there in zip(self.hosts, guests))
        self.free_disk_gib = _array(
            (host.disk_gib or 0) - sum(guest.disk_gib for guest in there)
            for host, there in zip(self.hosts, guests))
        self.free_devices = _array(map(_free_devices, self.occupancies))
        self.version = _array(0 for _ in self.hosts)
        self.allocated = _array(0 for _ in self.hosts)
        self._shared = shared_providers.SharedProviders(self.hosts)
        self._index_of = {
            host.name: index for index, host in enumerate(self.hosts)}
        # What is held of a provider has in it what guests of other hosts have.
        if is_empty:
            gone = occupied.guests_by_host(fleet)
            for host in self.hosts:
                for guest in gone[host.name]:
                    self._share(guest, -1)
        self._used: dict[str, Numbers] = {}
        self.dedicated_cpus = sum(
            len(host.dedicated_cpus) for host in self.hosts)
        #: vCPUs of the guests of each class.
        self.sold_vcpus = dict.fromkeys(hostclass.HostClass, 0)
        for there in guests:
            for guest in there:
                self.sold_vcpus[guest.guest_class] += guest.vcpus

    def used(self, name: str) -> Numbers:
        """What Placement counts as used of the hosts' own providers.

        :param name: the resource class
        """
        used = self._used.get(name)
        if used is None:
            used = self._used[name] = _array(
                occupancy.resources_used.get(name, 0)
                for occupancy in self.occupancies)
        return used

    def take(self, index: int, guest: resident_guest.ResidentGuest) -> None:
        """Put a guest on a host."""
        self.placed_guests[guest.uuid] = PlacedGuest(index, guest)
        self._change(index, guest, 1, self.occupancies[index].adding(guest))

    def release(self, uuid: str) -> None:
        """Take a guest off its host."""
        index, guest = self.placed_guests.pop(uuid)
        self._change(index, guest, -1, self.occupancies[index].without(guest))

    def _change(self, index: int, guest: resident_guest.ResidentGuest,
                sign: int, occupancy: host_occupancy.HostOccupancy) -> None:
        if guest.fit is not None:
            occupancy = self._known(index, occupancy)
        self.occupancies[index] = occupancy
        self.version[index] += 1
        self.allocated[index] += 1
        self._share(guest, sign)
        self.used_vcpus[index] += sign * guest.vcpus
        self.guests[index] += sign
        self.free_memory_mib[index] -= sign * guest.memory_mib
        self.free_disk_gib[index] -= sign * guest.disk_gib
        for name, used in self._used.items():
            used[index] = occupancy.resources_used.get(name, 0)
        if guest.devices:
            self.free_devices[index] = _free_devices(occupancy)
        self.sold_vcpus[guest.guest_class] += sign * guest.vcpus

    def _share(self, guest: resident_guest.ResidentGuest, sign: int) -> None:
        """Tell other hosts what a guest takes of what they share."""
        for _uuid, name, place, amounts in self._shared.taken(guest):
            if name != guest.host:
                other = self._index_of[name]
                self.occupancies[other] = self.occupancies[
                    other].shared_with(place, amounts, sign)
                self.allocated[other] += 1

    def _known(
        self, index: int, occupancy: host_occupancy.HostOccupancy,
    ) -> host_occupancy.HostOccupancy:
        """The same with cells that were in this state before, if any were."""
        return occupancy.with_cells([
            self._states.state(kind, cell) for kind, cell in zip(
                self._kinds[index], occupancy.engine.cells)])


def _array(values: Iterable[int]) -> Numbers:
    return numpy.array(list(values), dtype=numpy.int64)


def _free_devices(occupancy: host_occupancy.HostOccupancy) -> int:
    return sum(pool.total for pool in devices.free(
        occupancy.host.pci_pools, occupancy.device_uses))


def _as_nova_walks(host: offered_host.OfferedHost) -> offered_host.OfferedHost:
    """The host with the threads of each core as nova takes them."""
    return dataclasses.replace(host, cells=tuple(
        dataclasses.replace(cell, cores=tuple(
            threads.walk(tuple(core)) for core in cell.cores))
        for cell in host.cells))
