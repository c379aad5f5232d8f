# SPDX-License-Identifier: Apache-2.0
"""Guests counted by kind, host and host cells, instead of one by one.

Guests of a kind ask for the same and may go to the same hosts, so that it
does not matter to a plan which of them moves. Those of a kind that lie alike
on a host are one number for it.
"""

from collections.abc import Hashable
from collections.abc import Iterator
import dataclasses
from typing import NamedTuple

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.fit import usage
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning.rebalance import move_rules


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GuestKind:
    """What guests that are alike ask for.

    :param number: of the kind
    :param guest: one of them
    :param is_grouped: whether it is in a server group, and so alone of its
        kind
    """

    number: int
    guest: snapshot.FleetGuest
    request: guest_request.GuestRequest
    is_grouped: bool

    @property
    def topology(self) -> model.Guest | None:
        return self.request.topology


class CellUse(NamedTuple):
    """What a guest cell takes of a host cell.

    :param cell: the host cell's id
    :param cpus: dedicated ones that nobody else gets beside it
    :param page_size_kib: of its memory, None for the smallest pages
    """

    cell: int
    cpus: int
    shared: int
    memory_mib: int
    page_size_kib: int | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GuestGroup:
    """Guests of a kind that lie alike on a host.

    :param uses: of its host's cells, () for floating guests
    :param guests: in order of their UUIDs
    """

    kind: GuestKind
    host: str
    uses: tuple[CellUse, ...]
    guests: tuple[snapshot.FleetGuest, ...]


class CountedFleet:
    """The guests of a fleet that may move, by kind and place.

    :param rules: which may move, and where to
    :param fixed: UUIDs of guests that stay in any case
    :ivar kinds: of the guests that may move
    :ivar groups: of them, by the name of their host
    """

    def __init__(
        self, fleet: snapshot.Fleet, rules: move_rules.MoveRules,
        fixed: frozenset[str] = frozenset(),
    ) -> None:
        self.fleet = fleet
        self.rules = rules
        self.occupancies = occupied.of_fleet(fleet)
        self._judge = rules.admission()
        self._reader = moved_guest.RequestReader(fleet)
        self.kinds: list[GuestKind] = []
        self.groups: dict[str, list[GuestGroup]] = {}
        self.refusals: dict[str, str] = {}
        self._numbers: dict[Hashable, int] = {}
        self._shapes: dict[Hashable, int] = {}
        self._shape_of: dict[str, int] = {}
        self._allowed: dict[tuple[int, int], bool] = {}
        for name, occupancy in self.occupancies.items():
            self.groups[name] = list(self._group(occupancy, fixed))

    def shape(self, host: snapshot.FleetHost) -> int:
        """Equal for hosts that are alike but for their guests and name."""
        number = self._shape_of.get(host.name)
        if number is None:
            key = (dataclasses.replace(
                host, name='', disabled_reason='', cells=()),
                tuple([_cell_key(cell) for cell in host.cells]),
                self.rules.host_key(host))
            number = self._shapes.setdefault(key, len(self._shapes))
            self._shape_of[host.name] = number
        return number

    def allows(self, kind: GuestKind, host: snapshot.FleetHost) -> bool:
        """Whether guests of a kind could come to a host, were it empty.

        Those that are on it could come back.
        """
        key = kind.number, self.shape(host)
        if key not in self._allowed:
            self._allowed[key] = not self.rules.placing_refusal(
                kind.guest, host) and isinstance(self._judge.room(
                    kind.request, host_occupancy.of_host(host)), model.Fit)
        return self._allowed[key]

    def _group(
        self, occupancy: host_occupancy.HostOccupancy,
        fixed: frozenset[str],
    ) -> Iterator[GuestGroup]:
        cells = {cell.id: cell for cell in occupancy.host.cells}
        alike: dict[tuple[int, tuple[CellUse, ...]],
                    list[snapshot.FleetGuest]] = {}
        for guest in sorted(occupancy.guests, key=lambda guest: guest.uuid):
            if guest.uuid in fixed:
                reason = 'is to stay'
            else:
                reason = self.rules.guest_refusal(guest)
            if reason:
                self.refusals[guest.uuid] = reason
                continue
            key = self._kind(guest), _uses(guest, cells)
            alike.setdefault(key, []).append(guest)
        for (number, uses), guests in alike.items():
            yield GuestGroup(self.kinds[number], occupancy.host.name, uses,
                             tuple(guests))

    def _kind(self, guest: snapshot.FleetGuest) -> int:
        is_grouped = self.rules.is_grouped(guest)
        key = (
            guest.topology, guest.vcpus, guest.memory_mib, guest.disk_gib,
            guest.guest_class, guest.flavor,
            tuple(sorted((use.keys, use.count) for use in guest.devices)),
            self.rules.guest_key(guest), guest.uuid if is_grouped else '')
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.kinds)
            self.kinds.append(GuestKind(
                number, guest,
                self._reader.request(guest), is_grouped))
        return number


def _cell_key(cell: model.HostCell) -> Hashable:
    return (cell.id, len(cell.dedicated_cpus), len(cell.shared_cpus),
            cell.is_legacy, cell.core_sizes, cell.memory_mib, cell.pages,
            cell.physnets, cell.tunneled, cell.socket)


def _uses(guest: snapshot.FleetGuest,
          cells: dict[int, model.HostCell]) -> tuple[CellUse, ...]:
    if guest.topology is None or guest.fit is None:
        return ()
    return tuple(
        CellUse(fit.host_cell,
                len(usage.taken_cpus(cells[fit.host_cell], guest.topology,
                                     fit))
                if guest.topology.is_pinned else 0,
                demand.shared, demand.memory_mib, fit.page_size_kib)
        for demand, fit in zip(guest.topology.demands, guest.fit.cells)
        if fit.host_cell in cells)


def allocation(
    occupancy: host_occupancy.HostOccupancy,
    request: guest_request.GuestRequest,
) -> dict[str, int]:
    """What a guest would be counted with in Placement on a host."""
    return dict(inventory.allocation(
        request.vcpus, request.memory_mib, request.disk_gib,
        request.topology, on_pcpus=inventory.PCPU in occupancy.inventories))
