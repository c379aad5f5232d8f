# SPDX-License-Identifier: Apache-2.0
"""The occupancy of the hosts of a simulation, kept up to date."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import TypeAlias

import numpy

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.fit import threads
from nova_pinning.fit import usage
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.simulation import views

Numbers: TypeAlias = numpy.ndarray


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedGuest:
    """A guest on a host.

    :param host: index of the host in the ledger
    :param counted: what Placement counts it with
    """

    host: int
    vcpus: int
    memory_mib: int
    disk_gib: int
    guest_class: hostclass.HostClass
    counted: Mapping[str, int]
    topology: model.Guest | None
    fit: model.Fit | None
    devices: tuple[snapshot.PciUse, ...] = ()


class OccupancyLedger:
    """Hosts with the guests on them.

    Figures are arrays with a number for each host.

    :param hosts: in the order in which nova-scheduler meets them
    :ivar cells: of each host, as the engine reads them
    :ivar free_memory_mib: as nova counts it, below 0 at times
    :ivar used: by resource class, what Placement counts as used
    :ivar version: of each host, counts its changes
    """

    def __init__(self, hosts: Sequence[snapshot.FleetHost]) -> None:
        self.hosts = tuple(hosts)
        self.placed_guests: dict[str, PlacedGuest] = {}
        self._views = views.FrozenCellViews()
        self._bare = [_as_nova_walks(host) for host in self.hosts]
        self._kinds = [[self._views.kind(cell) for cell in host.cells]
                       for host in self._bare]
        self._engine = [
            host_occupancy.engine_host(host) for host in self._bare]
        self.cells = [self._all_views(index)
                      for index in range(len(self.hosts))]
        # Hosts where two guests were on one CPU.
        self._overlapping: set[int] = set()
        self.uses: list[list[snapshot.PciUse]] = [[] for _ in self.hosts]
        self.total_vcpus = self._array(
            host.shared_count for host in self.hosts)
        self.used_vcpus = self._array(0 for _ in self.hosts)
        self.guests = self._array(0 for _ in self.hosts)
        self.free_memory_mib = self._array(
            host.memory_mib - host.reserved_memory_mib for host in self.hosts)
        self.free_disk_gib = self._array(
            host.disk_gib or 0 for host in self.hosts)
        self.free_devices = self._array(
            sum(pool.total for pool in host.pci_pools) for host in self.hosts)
        self.version = self._array(0 for _ in self.hosts)
        self.used: dict[str, Numbers] = {
            name: self._array(host.held.get(name, 0) for host in self.hosts)
            for name in inventory.COUNTED}
        self.dedicated_cpus = sum(
            len(host.dedicated_cpus) for host in self.hosts)
        #: vCPUs of dedicated guests, and of shared ones.
        self.dedicated_vcpus = 0
        self.shared_vcpus = 0

    @staticmethod
    def _array(values: object) -> Numbers:
        return numpy.array(list(values), dtype=numpy.int64)  # type: ignore

    def _all_views(self, index: int) -> tuple[views.FrozenCellView, ...]:
        return tuple([
            self._views.view(kind, cell)  # type: ignore[arg-type]
            for kind, cell in zip(self._kinds[index],
                                  self._engine[index].cells)])

    def engine(self, index: int) -> model.Host:
        """A host for the engine, of ``model.HostCell``."""
        return self._engine[index]

    def engine_host(self, index: int) -> model.Host:
        """A host for the engine, of views."""
        return self._engine[index]._replace(cells=self.cells[index])

    def take(self, uuid: str, placed_guest: PlacedGuest) -> None:
        """Put a guest on its host."""
        self.placed_guests[uuid] = placed_guest
        if placed_guest.topology is not None and placed_guest.fit is not None:
            if self._overlaps(placed_guest):
                self._overlapping.add(placed_guest.host)
            self._engine[placed_guest.host] = usage.take(
                self._engine[placed_guest.host], placed_guest.topology,
                placed_guest.fit)
        self.uses[placed_guest.host].extend(placed_guest.devices)
        self._changed(placed_guest, 1)

    def release(self, uuid: str) -> None:
        """Take a guest off its host."""
        guest = self.placed_guests.pop(uuid)
        if guest.host in self._overlapping:
            self._engine[guest.host] = self._refilled(guest.host)
        elif guest.topology is not None and guest.fit is not None:
            self._engine[guest.host] = usage.release(
                self._engine[guest.host], guest.topology, guest.fit)
        for use in guest.devices:
            self.uses[guest.host].remove(use)
        self._changed(guest, -1)

    def _overlaps(self, placed_guest: PlacedGuest) -> bool:
        """Whether the guest gets a CPU that another one has."""
        assert placed_guest.fit is not None
        pinned = {cell.id: cell.pinned_cpus.mask
                  for cell in self.cells[placed_guest.host]}
        return any(
            pinned.get(cell.host_cell, 0) >> cpu & 1
            for cell in placed_guest.fit.cells for _vcpu, cpu in cell.pins)

    def _refilled(self, index: int) -> model.Host:
        host = host_occupancy.engine_host(self._bare[index])
        for placed_guest in self.placed_guests.values():
            if (placed_guest.host == index
                    and placed_guest.topology is not None
                    and placed_guest.fit is not None):
                host = usage.take(host, placed_guest.topology,
                                  placed_guest.fit)
        return host

    def _changed(self, placed_guest: PlacedGuest, sign: int) -> None:
        index = placed_guest.host
        if placed_guest.fit is not None:
            self.cells[index] = self._all_views(index)
        self.version[index] += 1
        self.used_vcpus[index] += sign * placed_guest.vcpus
        self.guests[index] += sign
        self.free_memory_mib[index] -= sign * placed_guest.memory_mib
        self.free_disk_gib[index] -= sign * placed_guest.disk_gib
        for name, count in placed_guest.counted.items():
            self.used[name][index] += sign * count
        if placed_guest.devices:
            self.free_devices[index] = sum(
                pool.total for pool in devices.free(
                    self.hosts[index].pci_pools, self.uses[index]))
        if placed_guest.guest_class is hostclass.HostClass.DEDICATED:
            self.dedicated_vcpus += sign * placed_guest.vcpus
        else:
            self.shared_vcpus += sign * placed_guest.vcpus

    def placed_guest(
        self, index: int, request: guest_request.GuestRequest,
        fit: model.Fit | None, resources: Mapping[str, int],
    ) -> PlacedGuest:
        """What a wanted guest is once it is on a host.

        :param fit: None for a guest that floats
        :param resources: of the query that found the host
        """
        taken: tuple[snapshot.PciUse, ...] = ()
        if request.devices:
            cell_ids = [cell.host_cell for cell in fit.cells] if fit else []
            taken = devices.take(
                self.hosts[index].pci_pools, self.uses[index],
                request.devices, cell_ids, self.cells[index]) or ()
        return PlacedGuest(
            host=index, vcpus=request.vcpus, memory_mib=request.memory_mib,
            disk_gib=request.disk_gib,
            guest_class=request.guest_class,
            counted={name: count for name, count in resources.items()
                     if name in self.used},
            topology=request.topology,
            fit=fit if request.topology is not None else None, devices=taken)


def of_fleet(fleet: snapshot.Fleet, order: Sequence[int],
             is_empty: bool = False) -> OccupancyLedger:
    """The hosts of a fleet, with their guests.

    :param order: indices into ``fleet.hosts``
    :param is_empty: without the guests
    """
    ledger = OccupancyLedger([fleet.hosts[index] for index in order])
    if is_empty:
        return ledger
    on_pcpus = [inventory.PCPU in host.root_inventories
                for host in ledger.hosts]
    index_of = {host.name: index for index, host in enumerate(ledger.hosts)}
    for guest in fleet.guests:
        index = index_of.get(guest.host)
        if index is None:
            continue
        ledger.take(guest.uuid, PlacedGuest(
            host=index, vcpus=guest.vcpus, memory_mib=guest.memory_mib,
            disk_gib=guest.disk_gib, guest_class=guest.guest_class,
            counted=inventory.allocation(
                guest.vcpus, guest.memory_mib, guest.disk_gib,
                guest.topology,
                on_pcpus=on_pcpus[index]),
            topology=guest.topology,
            fit=guest.fit if guest.topology is not None else None,
            devices=guest.devices))
    return ledger


def _as_nova_walks(host: snapshot.FleetHost) -> snapshot.FleetHost:
    """The host with the threads of each core as nova takes them."""
    return dataclasses.replace(host, cells=tuple(
        dataclasses.replace(cell, cores=tuple(
            threads.walk(tuple(core)) for core in cell.cores))
        for cell in host.cells))
