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

"""What stands on the hosts of a simulation, counted as it changes."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import TypeAlias

import numpy

from nova_pinning.fit import threads
from nova_pinning.fit import usage
from nova_pinning.fleet import devices
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import occupancy
from nova_pinning.fleet import placement
from nova_pinning.fleet.simulate import views
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.model import hostclass

Numbers: TypeAlias = numpy.ndarray


@dataclasses.dataclass(frozen=True, slots=True)
class Lodger:
    """A guest on a host.

    :param host: place of the host in the ledger
    :param counted: what Placement counts it with
    :param emulator_cpus: set aside for its emulator threads
    """

    host: int
    vcpus: int
    memory_mib: int
    disk_gib: int
    guest_class: hostclass.HostClass
    counted: Mapping[str, int]
    topology: model.Guest | None
    fit: model.Fit | None
    devices: tuple[fleet_model.PciUse, ...] = ()


class Ledger:
    """Hosts with the guests on them.

    Figures are arrays with a number for each host.

    :param hosts: in the order in which nova-scheduler meets them
    :ivar cells: of each host, as the engine reads them
    :ivar free_memory_mib: as nova counts it, below 0 at times
    :ivar used: by resource class, what Placement counts as used
    :ivar version: of each host, counts its changes
    """

    def __init__(self, hosts: Sequence[fleet_model.FleetHost]) -> None:
        self.hosts = tuple(hosts)
        self.lodgers: dict[str, Lodger] = {}
        self._views = views.Views()
        self._bare = [_as_nova_walks(host) for host in self.hosts]
        self._kinds = [[self._views.kind(cell) for cell in host.cells]
                       for host in self._bare]
        self._engine = [occupancy.engine_host(host) for host in self._bare]
        self.cells = [self._all_views(place)
                      for place in range(len(self.hosts))]
        # Hosts where two guests were on one CPU.
        self._overlapping: set[int] = set()
        self.uses: list[list[fleet_model.PciUse]] = [[] for _ in self.hosts]
        self.total_vcpus = self._array(
            len(host.shared_cpus) for host in self.hosts)
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
            name: self._array(0 for _ in self.hosts)
            for name in (placement.VCPU, placement.PCPU, placement.MEMORY_MB,
                         placement.DISK_GB)}
        self.dedicated_cpus = sum(
            len(host.dedicated_cpus) for host in self.hosts)
        #: vCPUs of dedicated guests, and of shared ones.
        self.dedicated_vcpus = 0
        self.shared_vcpus = 0

    @staticmethod
    def _array(values: object) -> Numbers:
        return numpy.array(list(values), dtype=numpy.int64)  # type: ignore

    def _all_views(self, place: int) -> tuple[views.View, ...]:
        return tuple([
            self._views.view(kind, cell)  # type: ignore[arg-type]
            for kind, cell in zip(self._kinds[place],
                                  self._engine[place].cells)])

    def engine(self, place: int) -> model.Host:
        """A host for the engine, of ``model.HostCell``."""
        return self._engine[place]

    def engine_host(self, place: int) -> model.Host:
        """A host for the engine, of views."""
        host = self.hosts[place]
        return model.Host(self.cells[place], host.cpu_allocation_ratio,
                          host.ram_allocation_ratio)

    def take(self, uuid: str, lodger: Lodger) -> None:
        """Put a guest on its host."""
        self.lodgers[uuid] = lodger
        if lodger.topology is not None and lodger.fit is not None:
            if self._overlaps(lodger):
                self._overlapping.add(lodger.host)
            self._engine[lodger.host] = usage.take(
                self._engine[lodger.host], lodger.topology, lodger.fit)
        self.uses[lodger.host].extend(lodger.devices)
        self._changed(lodger, 1)

    def release(self, uuid: str) -> None:
        """Take a guest off its host."""
        lodger = self.lodgers.pop(uuid)
        if lodger.host in self._overlapping:
            self._engine[lodger.host] = self._refilled(lodger.host)
        elif lodger.topology is not None and lodger.fit is not None:
            self._engine[lodger.host] = usage.release(
                self._engine[lodger.host], lodger.topology, lodger.fit)
        for use in lodger.devices:
            self.uses[lodger.host].remove(use)
        self._changed(lodger, -1)

    def _overlaps(self, lodger: Lodger) -> bool:
        """Whether the guest gets a CPU that another one has."""
        assert lodger.fit is not None
        pinned = {cell.id: cell.pinned_cpus.mask
                  for cell in self.cells[lodger.host]}
        return any(
            pinned.get(cell.host_cell, 0) >> cpu & 1
            for cell in lodger.fit.cells for _vcpu, cpu in cell.pins)

    def _refilled(self, place: int) -> model.Host:
        host = occupancy.engine_host(self._bare[place])
        for lodger in self.lodgers.values():
            if (lodger.host == place and lodger.topology is not None
                    and lodger.fit is not None):
                host = usage.take(host, lodger.topology, lodger.fit)
        return host

    def _changed(self, lodger: Lodger, sign: int) -> None:
        place = lodger.host
        if lodger.fit is not None:
            self.cells[place] = self._all_views(place)
        self.version[place] += 1
        self.used_vcpus[place] += sign * lodger.vcpus
        self.guests[place] += sign
        self.free_memory_mib[place] -= sign * lodger.memory_mib
        self.free_disk_gib[place] -= sign * lodger.disk_gib
        for name, count in lodger.counted.items():
            self.used[name][place] += sign * count
        if lodger.devices:
            self.free_devices[place] = sum(
                pool.total for pool in devices.free(
                    self.hosts[place].pci_pools, self.uses[place]))
        if lodger.guest_class is hostclass.HostClass.DEDICATED:
            self.dedicated_vcpus += sign * lodger.vcpus
        else:
            self.shared_vcpus += sign * lodger.vcpus

    def lodger(
        self, place: int, wanted: fleet_wanted.Wanted,
        fit: model.Fit | None, resources: Mapping[str, int],
    ) -> Lodger:
        """What a wanted guest is once it is on a host.

        :param fit: None for a guest that floats
        :param resources: of the query that found the host
        """
        taken: tuple[fleet_model.PciUse, ...] = ()
        if wanted.devices:
            cell_ids = [cell.host_cell for cell in fit.cells] if fit else []
            taken = devices.take(
                self.hosts[place].pci_pools, self.uses[place],
                wanted.devices, cell_ids, self.cells[place]) or ()
        flavor = wanted.flavor
        return Lodger(
            host=place, vcpus=flavor.vcpus, memory_mib=flavor.memory_mib,
            disk_gib=wanted.disk_gib,
            guest_class=wanted.guest_class,
            counted={name: count for name, count in resources.items()
                     if name in self.used},
            topology=wanted.topology,
            fit=fit if wanted.topology is not None else None, devices=taken)


def of_fleet(fleet: fleet_model.Fleet, order: Sequence[int],
             is_empty: bool = False) -> Ledger:
    """The hosts of a fleet, with their guests.

    :param order: places in ``fleet.hosts``
    :param is_empty: without the guests
    """
    ledger = Ledger([fleet.hosts[place] for place in order])
    if is_empty:
        return ledger
    places = {host.name: place for place, host in enumerate(ledger.hosts)}
    for guest in fleet.guests:
        place = places.get(guest.host)
        if place is None:
            continue
        ledger.take(guest.uuid, Lodger(
            host=place, vcpus=guest.vcpus, memory_mib=guest.memory_mib,
            disk_gib=guest.disk_gib, guest_class=guest.guest_class,
            counted=placement.use(
                ledger.hosts[place], guest.vcpus, guest.memory_mib,
                guest.disk_gib, guest.topology),
            topology=guest.topology,
            fit=guest.fit if guest.topology is not None else None,
            devices=guest.devices))
    return ledger


def _as_nova_walks(host: fleet_model.FleetHost) -> fleet_model.FleetHost:
    """The host with the threads of each core as nova takes them."""
    return dataclasses.replace(host, cells=tuple(
        dataclasses.replace(cell, cores=tuple(
            threads.walk(tuple(core)) for core in cell.cores))
        for cell in host.cells))
