# SPDX-License-Identifier: Apache-2.0
"""A host with guests on it, and what they have of it."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.fit import usage
from nova_pinning import model
from nova_pinning.placement import inventory


@dataclasses.dataclass(frozen=True, slots=True)
class HostOccupancy:
    """A host with guests on it. Changes make another one.

    :param engine: the host with its guests, for the engine
    :param providers: what Placement knows of the host, its own provider first
    :param inventories: of its own provider, by resource class
    :param used: of each provider, by resource class: what the guests are
        counted with, and what the host says is held
    :param overlaps: whether two guests are on one CPU
    """

    host: offered_host.OfferedHost
    guests: tuple[resident_guest.ResidentGuest, ...]
    engine: model.Host
    providers: tuple[offered_host.OfferedProvider, ...]
    inventories: Mapping[str, inventory.Inventory]
    used: tuple[Mapping[str, int], ...]
    overlaps: bool = False

    @property
    def resources_used(self) -> Mapping[str, int]:
        """Of the host's own provider, by resource class."""
        return self.used[0]

    def adding(self, guest: resident_guest.ResidentGuest) -> 'HostOccupancy':
        """The host with one more guest."""
        engine = self.engine
        if guest.topology is not None and guest.fit is not None:
            engine = usage.take(engine, guest.topology, guest.fit)
        return self._changed(
            (*self.guests, guest), engine, self._used_with(guest, 1))

    def without(self, guest: resident_guest.ResidentGuest) -> 'HostOccupancy':
        """The host without one of its guests.

        What others use beside it stays used, even where two of them were on
        one CPU by mistake.
        """
        guests = [other for other in self.guests if other is not guest]
        if len(guests) == len(self.guests):
            # It may be an equal one, which takes longer to find.
            guests.remove(guest)
        engine = self.engine
        if self.overlaps:
            engine = engine_host(self.host, guests)
        elif guest.topology is not None and guest.fit is not None:
            engine = usage.release(engine, guest.topology, guest.fit)
        return self._changed(
            tuple(guests), engine, self._used_with(guest, -1))

    def shared_with(self, index: int, amounts: Iterable[tuple[str, int]],
                    sign: int) -> 'HostOccupancy':
        """The host once a guest of another host takes of its providers.

        :param index: of the provider, which shares with both hosts
        :param sign: 1, or -1 for a guest that leaves
        """
        return self._changed(self.guests, self.engine, self._used_after(
            [(index, amounts)], sign))

    def with_cells(self, cells: Iterable[model.CellView]) -> 'HostOccupancy':
        """The same as if it had no others of its cells.

        :param cells: some of its own, or equal ones
        """
        return self._changed(
            self.guests, self.engine._replace(cells=tuple(cells)), self.used)

    def has_cpus_for(self, guest: model.Guest | None) -> bool:
        """Whether each cell of a guest has its dedicated CPUs somewhere."""
        needed = sorted([demand.dedicated for demand in guest.demands],
                        reverse=True) if guest is not None else []
        free = sorted([cell.free_count for cell in self.engine.cells],
                      reverse=True)
        return len(needed) <= len(free) and all(
            need <= have for need, have in zip(needed, free))

    def _changed(
        self, guests: tuple[resident_guest.ResidentGuest, ...],
        engine: model.Host, used: tuple[Mapping[str, int], ...],
    ) -> 'HostOccupancy':
        # Simulations do it all the time, and replace() takes far longer.
        return HostOccupancy(
            self.host, guests, engine, self.providers, self.inventories, used,
            self.overlaps)

    def _used_with(self, guest: resident_guest.ResidentGuest,
                   sign: int) -> tuple[Mapping[str, int], ...]:
        return self._used_after(allocations(guest, self.inventories), sign)

    def _used_after(
        self, taken: Iterable[tuple[int, Iterable[tuple[str, int]]]],
        sign: int,
    ) -> tuple[Mapping[str, int], ...]:
        used: list[Mapping[str, int]] = list(self.used)
        for index, amounts in taken:
            before = used[index]
            used[index] = {**before, **{
                name: before.get(name, 0) + sign * amount
                for name, amount in amounts}}
        return tuple(used)

    @property
    def device_uses(self) -> tuple[devices.PciUse, ...]:
        """The PCI devices of all guests."""
        return tuple(
            use for guest in self.guests for use in guest.devices)


def of_host(
    host: offered_host.OfferedHost,
    guests: Iterable[resident_guest.ResidentGuest] = (),
) -> HostOccupancy:
    """The occupancy of a host with these guests on it."""
    guests = tuple(guests)
    inventories = host.root_inventories
    used = [dict.fromkeys(inventory.COUNTED, 0) | dict(host.held),
            *[dict(child.held) for child in host.children]]
    for guest in guests:
        for index, amounts in allocations(guest, inventories):
            of_provider = used[index]
            for name, amount in amounts:
                of_provider[name] = of_provider.get(name, 0) + amount
    engine = engine_host(host, guests)
    return HostOccupancy(
        host, guests, engine, host.providers, inventories, tuple(used),
        overlaps=_taken_cpus(host, guests) > sum(
            len(cell.pinned_cpus) for cell in engine.cells))


def engine_host(
    host: offered_host.OfferedHost,
    guests: Iterable[resident_guest.ResidentGuest] = (),
) -> model.Host:
    """A host as the engine takes it, with these guests on it."""
    return usage.take_all(host.engine, (
        (guest.topology, guest.fit) for guest in guests
        if guest.topology is not None and guest.fit is not None))


def allocations(
    guest: resident_guest.ResidentGuest,
    inventories: Mapping[str, inventory.Inventory],
) -> Sequence[tuple[int, Iterable[tuple[str, int]]]]:
    """What Placement counts a guest with, by the index of the provider.

    :param inventories: of the host's own provider
    """
    of_root = inventory.allocation(
        guest.vcpus, guest.memory_mib, guest.disk_gib, guest.topology,
        on_pcpus=inventory.PCPU in inventories)
    if guest.resources:
        of_root |= guest.resources
    return [(0, of_root.items()), *guest.allocations]


def _taken_cpus(host: offered_host.OfferedHost,
                guests: Iterable[resident_guest.ResidentGuest]) -> int:
    """CPUs that guests are pinned to, counted for each of them."""
    cells = {cell.id: cell for cell in host.cells}
    return sum(
        len(usage.taken_cpus(cells[cell.host_cell], guest.topology, cell))
        for guest in guests
        if guest.fit is not None and guest.topology is not None
        and guest.topology.is_pinned
        for cell in guest.fit.cells if cell.host_cell in cells)
