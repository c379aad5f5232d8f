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

"""How a host stands: its guests, what they use, and whether one more fits."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning import fit as engine_fit
from nova_pinning.fit import usage
from nova_pinning.fleet import devices
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import occupancy
from nova_pinning.fleet import placement
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model

#: What nova-compute's claim would make of a choice of cells that is not the
#: first in order: given the host, the guest, the choice, the host's devices
#: and those that are free. None if it would agree.
Foresee = Callable[
    [model.Host, model.Guest, engine_fit.Choice, engine_fit.PciCheck | None,
     Sequence[fleet_model.PciPool]], model.Fit | model.Refusal | None]

#: The fit of a guest without NUMA topology.
FLOATING = model.Fit(())


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """A host with guests on it. Changes make another one.

    :param engine: the host with its guests, for the engine
    :param inventories: what Placement knows of the host
    :param resources_used: what the guests are counted with in Placement, by
        resource class
    :param overlaps: whether two guests are on one CPU
    """

    host: fleet_model.FleetHost
    guests: tuple[fleet_model.FleetGuest, ...]
    engine: model.Host
    inventories: Mapping[str, placement.Inventory]
    resources_used: Mapping[str, int]
    overlaps: bool = False

    def with_guest(
        self, wanted: fleet_wanted.Wanted, fit: model.Fit, uuid: str = '',
    ) -> 'Standing':
        """The host with one more guest.

        :param fit: as :func:`verdict` gave it for this very standing
        :param uuid: of the guest
        """
        return self.adding(guest_of(wanted, self, fit, uuid))

    def adding(self, guest: fleet_model.FleetGuest) -> 'Standing':
        """The host with a guest that is complete already."""
        engine = self.engine
        if guest.topology is not None and guest.fit is not None:
            engine = usage.take(engine, guest.topology, guest.fit)
        return dataclasses.replace(
            self, guests=(*self.guests, guest), engine=engine,
            resources_used=self._used_with(guest, 1))

    def without(self, guest: fleet_model.FleetGuest) -> 'Standing':
        """The host without one of its guests.

        What others use beside it stays used, even where two of them were on
        one CPU by mistake.
        """
        guests = list(self.guests)
        guests.remove(guest)
        engine = self.engine
        if self.overlaps:
            engine = occupancy.engine_host(self.host, guests)
        elif guest.topology is not None and guest.fit is not None:
            engine = usage.release(engine, guest.topology, guest.fit)
        return dataclasses.replace(
            self, guests=tuple(guests), engine=engine,
            resources_used=self._used_with(guest, -1))

    def _used_with(self, guest: fleet_model.FleetGuest,
                   sign: int) -> Mapping[str, int]:
        use = _use(self.host, guest)
        return {name: amount + sign * use[name]
                for name, amount in self.resources_used.items()}

    @property
    def device_uses(self) -> tuple[fleet_model.PciUse, ...]:
        """The PCI devices of all guests."""
        return tuple(
            use for guest in self.guests for use in guest.devices)


def of_host(
    host: fleet_model.FleetHost,
    guests: Iterable[fleet_model.FleetGuest] = (),
) -> Standing:
    """How a host stands with these guests on it."""
    guests = tuple(guests)
    used = dict.fromkeys(placement.COUNTED, 0)
    for guest in guests:
        for name, amount in _use(host, guest).items():
            used[name] += amount
    engine = occupancy.engine_host(host, guests)
    return Standing(
        host, guests, engine, placement.inventories(host), used,
        overlaps=_taken_cpus(host, guests) > sum(
            len(cell.pinned_cpus) for cell in engine.cells))


def of_fleet(fleet: fleet_model.Fleet) -> dict[str, Standing]:
    """How all hosts stand, by name, in the fleet's order."""
    guests = occupancy.guests_by_host(fleet)
    return {host.name: of_host(host, guests[host.name])
            for host in fleet.hosts}


def guest_of(
    wanted: fleet_wanted.Wanted, standing: Standing, fit: model.Fit,
    uuid: str = '',
) -> fleet_model.FleetGuest:
    """What a wanted guest is once it is on a host."""
    taken: tuple[fleet_model.PciUse, ...] = ()
    if wanted.devices:
        taken = devices.take(
            standing.host.pci_pools, standing.device_uses, wanted.devices,
            [cell.host_cell for cell in fit.cells],
            standing.host.cells) or ()
    flavor = wanted.flavor
    return fleet_model.FleetGuest(
        uuid=uuid, host=standing.host.name, flavor=flavor.name,
        vcpus=flavor.vcpus, memory_mib=flavor.memory_mib,
        disk_gib=wanted.disk_gib,
        guest_class=wanted.guest_class, topology=wanted.topology,
        fit=None if wanted.topology is None else fit, devices=taken)


def fit_on(
    standing: Standing, wanted: fleet_wanted.Wanted, packs_cells: bool = False,
    foresee: Foresee | None = None,
) -> model.Fit | model.Refusal:
    """What PinnedTopologyFilter finds, without Placement and classes.

    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param foresee: None to leave nova-compute's claim out, as the filter does
        without check_nova_claim
    """
    host = standing.host
    if wanted.topology is None:
        if wanted.devices and devices.take(
                host.pci_pools, standing.device_uses, wanted.devices, (),
                host.cells) is None:
            return model.Refusal(model.Reason.PCI)
        return FLOATING
    check = None
    if wanted.devices or host.pci_pools:
        check = devices.check(host.pci_pools, standing.device_uses,
                              wanted.devices, host.cells)
    choice = engine_fit.choose_cells(
        standing.engine, wanted.topology, pack=packs_cells, pci=check)
    if isinstance(choice, model.Refusal):
        return choice
    if foresee is not None and not choice.is_first:
        answer = foresee(
            standing.engine, wanted.topology, choice, check,
            devices.free(host.pci_pools, standing.device_uses))
        if answer is not None:
            return answer
    return engine_fit.pin(wanted.topology, choice.cells)


def class_refusal(
    host: fleet_model.FleetHost, wanted: fleet_wanted.Wanted,
) -> model.Refusal | None:
    """What HostClassFilter says, with its options as they are by default."""
    if host.host_class is None or host.host_class is wanted.guest_class:
        return None
    return model.Refusal(
        model.Reason.HOST_CLASS,
        detail=f'a {host.host_class} host, a {wanted.guest_class} guest')


def placement_refusal(
    standing: Standing, wanted: fleet_wanted.Wanted,
    scope: placement.Scope = placement.Scope(),
) -> model.Refusal | None:
    """Why Placement would not offer the host; any of nova's queries will do.

    The figures are those of the first query.
    """
    first: list[placement.Exclusion] = []
    for query in wanted.queries:
        found = placement.exclusions(standing, query, scope)
        if not found:
            return None
        first = first or found
    if not first:
        return None
    return model.Refusal(
        model.Reason.ALLOCATION, detail='; '.join(map(str, first)))


def verdict(
    standing: Standing,
    wanted: fleet_wanted.Wanted,
    packs_cells: bool = False,
    scope: placement.Scope = placement.Scope(),
    foresee: Foresee | None = None,
) -> model.Fit | model.Refusal:
    """Whether nova would put a guest on a host, and where.

    What says no first, in the order in which nova asks: whether the host is
    enabled, Placement, the class, the fit.
    """
    if not standing.host.is_enabled:
        return model.Refusal(model.Reason.DISABLED,
                             detail=standing.host.disabled_reason)
    refusal = placement_refusal(standing, wanted, scope)
    if refusal is None:
        refusal = class_refusal(standing.host, wanted)
    if refusal is not None:
        return refusal
    return fit_on(standing, wanted, packs_cells, foresee)


def _use(host: fleet_model.FleetHost,
         guest: fleet_model.FleetGuest) -> Mapping[str, int]:
    return placement.use(host, guest.vcpus, guest.memory_mib, guest.disk_gib,
                         guest.topology)


def _taken_cpus(host: fleet_model.FleetHost,
                guests: Iterable[fleet_model.FleetGuest]) -> int:
    """CPUs that guests are pinned to, counted for each of them."""
    cells = {cell.id: cell for cell in host.cells}
    return sum(
        len(usage.taken_cpus(cells[one.host_cell], guest.topology, one))
        for guest in guests
        if guest.fit is not None and guest.topology is not None
        and guest.topology.is_pinned
        for one in guest.fit.cells if one.host_cell in cells)
