# SPDX-License-Identifier: Apache-2.0
"""Host occupancy: guests, what they use, and whether one more fits."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning import fit
from nova_pinning.fit import usage
from nova_pinning.fleet import occupancy
from nova_pinning.fleet import placement
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import cache_resources
from nova_pinning.placement import inventory

#: The fit of a guest without NUMA topology.
FLOATING = model.Fit(())


@dataclasses.dataclass(frozen=True, slots=True)
class HostOccupancy:
    """A host with guests on it. Changes make another one.

    :param engine: the host with its guests, for the engine
    :param inventories: what Placement knows of the host
    :param resources_used: what is allocated in Placement, by resource class:
        what the guests are counted with, and what the host says is held
    :param overlaps: whether two guests are on one CPU
    """

    host: snapshot.FleetHost
    guests: tuple[snapshot.FleetGuest, ...]
    engine: model.Host
    inventories: Mapping[str, inventory.Inventory]
    resources_used: Mapping[str, int]
    overlaps: bool = False

    def with_guest(
        self,
        request: guest_request.GuestRequest,
        fit: model.Fit,
        uuid: str = '',
    ) -> 'HostOccupancy':
        """The host with one more guest.

        :param fit: as :func:`verdict` gave it for this very occupancy
        :param uuid: of the guest
        """
        return self.adding(guest_of(request, self, fit, uuid))

    def adding(self, guest: snapshot.FleetGuest) -> 'HostOccupancy':
        """The host with a guest that is complete already."""
        engine = self.engine
        if guest.topology is not None and guest.fit is not None:
            engine = usage.take(engine, guest.topology, guest.fit)
        return dataclasses.replace(
            self, guests=(*self.guests, guest), engine=engine,
            resources_used=self._used_with(guest, 1))

    def without(self, guest: snapshot.FleetGuest) -> 'HostOccupancy':
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

    def _used_with(self, guest: snapshot.FleetGuest,
                   sign: int) -> Mapping[str, int]:
        use = _allocation(self.inventories, guest)
        used = self.resources_used
        return {name: used.get(name, 0) + sign * use.get(name, 0)
                for name in {**used, **use}}

    @property
    def device_uses(self) -> tuple[snapshot.PciUse, ...]:
        """The PCI devices of all guests."""
        return tuple(
            use for guest in self.guests for use in guest.devices)


def of_host(
    host: snapshot.FleetHost,
    guests: Iterable[snapshot.FleetGuest] = (),
) -> HostOccupancy:
    """The occupancy of a host with these guests on it."""
    guests = tuple(guests)
    inventories = host.root_inventories
    used = dict.fromkeys(inventory.COUNTED, 0) | dict(host.held)
    for guest in guests:
        for name, amount in _allocation(inventories, guest).items():
            used[name] = used.get(name, 0) + amount
    engine = occupancy.engine_host(host, guests)
    return HostOccupancy(
        host, guests, engine, inventories, used,
        overlaps=_taken_cpus(host, guests) > sum(
            len(cell.pinned_cpus) for cell in engine.cells))


def of_fleet(fleet: snapshot.Fleet) -> dict[str, HostOccupancy]:
    """The occupancy of all hosts, by name, in the fleet's order."""
    guests = occupancy.guests_by_host(fleet)
    return {host.name: of_host(host, guests[host.name])
            for host in fleet.hosts}


def guest_of(
    request: guest_request.GuestRequest,
    occupancy: HostOccupancy,
    fit: model.Fit,
    uuid: str = '',
) -> snapshot.FleetGuest:
    """What a wanted guest is once it is on a host."""
    taken: tuple[snapshot.PciUse, ...] = ()
    if request.devices:
        taken = devices.take(
            occupancy.host.pci_pools, occupancy.device_uses, request.devices,
            [cell.host_cell for cell in fit.cells],
            occupancy.host.cells) or ()
    return snapshot.FleetGuest(
        uuid=uuid, host=occupancy.host.name, flavor=request.name,
        vcpus=request.vcpus, memory_mib=request.memory_mib,
        disk_gib=request.disk_gib,
        resources=cache_resources.asked(dict(request.extra_specs)),
        guest_class=request.guest_class, topology=request.topology,
        fit=None if request.topology is None else fit, devices=taken)


def fit_on(
    occupancy: HostOccupancy,
    request: guest_request.GuestRequest,
    packs_cells: bool = False,
    bounds: fit.ClaimBounds = fit.ClaimBounds(),
) -> model.Fit | model.Refusal:
    """What PinnedTopologyFilter finds, without Placement and classes.

    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param bounds: without ``ask_nova`` nova-compute's claim is left out, as
        the filter does without check_nova_claim
    """
    host = occupancy.host
    if request.topology is None:
        if request.devices and devices.take(
                host.pci_pools, occupancy.device_uses, request.devices, (),
                host.cells) is None:
            return model.Refusal(model.Reason.PCI)
        return FLOATING
    check = None
    if request.devices or host.pci_pools:
        check = devices.check(host.pci_pools, occupancy.device_uses,
                              request.devices, host.cells)
    decision = fit.decide(
        occupancy.engine, request.topology, pack=packs_cells, pci=check,
        bounds=bounds)
    if isinstance(decision, model.Refusal):
        return decision
    return decision.fit


def class_refusal(
    host: HostOccupancy, request: guest_request.GuestRequest,
    scope: placement.PlacementScope = placement.PlacementScope(),
) -> model.Refusal | None:
    """What HostClassFilter says, with its options as they are by default."""
    if not scope.keeps_classes:
        return None
    try:
        host_class = occupancy.host_class(host.host, host.engine, host.guests)
    except hostclass.UnknownClass as error:
        return model.Refusal(model.Reason.CLASS_UNKNOWN, detail=str(error))
    if host_class in (None, request.guest_class):
        return None
    return model.Refusal(
        model.Reason.HOST_CLASS,
        detail=f'a {host_class} host, a {request.guest_class} guest')


def placement_refusal(
    occupancy: HostOccupancy, request: guest_request.GuestRequest,
    scope: placement.PlacementScope = placement.PlacementScope(),
) -> model.Refusal | None:
    """Why Placement would not offer the host; any of nova's queries will do.

    The figures are those of the first query.
    """
    first: list[placement.Exclusion] = []
    for query in request.queries:
        exclusions = placement.exclusions(occupancy, query, scope)
        if not exclusions:
            return None
        first = first or exclusions
    if not first:
        return None
    return model.Refusal(
        model.Reason.ALLOCATION, detail='; '.join(map(str, first)))


def verdict(
    occupancy: HostOccupancy,
    request: guest_request.GuestRequest,
    packs_cells: bool = False,
    scope: placement.PlacementScope = placement.PlacementScope(),
    bounds: fit.ClaimBounds = fit.ClaimBounds(),
) -> model.Fit | model.Refusal:
    """Whether nova would put a guest on a host, and where.

    What says no first, in the order in which nova asks: whether the host is
    enabled, Placement, the class, the fit.
    """
    if not occupancy.host.is_enabled:
        return model.Refusal(model.Reason.DISABLED,
                             detail=occupancy.host.disabled_reason)
    refusal = placement_refusal(occupancy, request, scope)
    if refusal is None:
        refusal = class_refusal(occupancy, request, scope)
    if refusal is not None:
        return refusal
    return fit_on(occupancy, request, packs_cells, bounds)


def _allocation(inventories: Mapping[str, inventory.Inventory],
                guest: snapshot.FleetGuest) -> Mapping[str, int]:
    return {**inventory.allocation(
        guest.vcpus, guest.memory_mib, guest.disk_gib, guest.topology,
        on_pcpus=inventory.PCPU in inventories), **guest.resources}


def _taken_cpus(host: snapshot.FleetHost,
                guests: Iterable[snapshot.FleetGuest]) -> int:
    """CPUs that guests are pinned to, counted for each of them."""
    cells = {cell.id: cell for cell in host.cells}
    return sum(
        len(usage.taken_cpus(cells[cell.host_cell], guest.topology, cell))
        for guest in guests
        if guest.fit is not None and guest.topology is not None
        and guest.topology.is_pinned
        for cell in guest.fit.cells if cell.host_cell in cells)
