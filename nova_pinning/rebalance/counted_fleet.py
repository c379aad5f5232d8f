# SPDX-License-Identifier: Apache-2.0
"""Guests counted by kind, host and host cells, instead of one by one.

To a plan it does not matter which guest of a kind moves, and those of a kind
that lie alike on a host are one number for it.
"""

from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
from typing import NamedTuple

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.fit import usage
from nova_pinning.fleet import guest_kinds
from nova_pinning.fleet import migration
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.rebalance import move_rules


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

    kind: guest_kinds.GuestKind
    host: str
    uses: tuple[CellUse, ...]
    guests: tuple[resident_guest.ResidentGuest, ...]


class CountedFleet:
    """The guests of a fleet that may move, by kind and place.

    :param rules: which may move, and where to
    :param fixed: UUIDs of guests that stay in any case
    :ivar groups: of guests that may move, by the name of their host
    :ivar refusals: why the others stay, by UUID
    """

    def __init__(
        self, fleet: snapshot.Fleet, rules: move_rules.MoveRules,
        fixed: frozenset[str] = frozenset(),
    ) -> None:
        self.fleet = fleet
        self.rules = rules
        self.occupancies = occupied.of_fleet(fleet)
        self._judge = rules.admission()
        self._kinds = guest_kinds.GuestKinds(rules, self._refusal)
        self.shape, self.refusal = self._kinds.shape, self._kinds.refusal
        #: One host of each shape.
        self._unlike = {self.shape(host): host for host in fleet.hosts}
        self._reached: dict[tuple[int, bool], frozenset[int]] = {}
        self.groups: dict[str, list[GuestGroup]] = {}
        self.refusals: dict[str, str] = {}
        for name, occupancy in self.occupancies.items():
            self.groups[name] = list(self._group(occupancy, fixed))

    @property
    def kinds(self) -> list[guest_kinds.GuestKind]:
        """Of the guests that may move."""
        return self._kinds.kinds

    def kind(
        self, guest: resident_guest.ResidentGuest,
    ) -> guest_kinds.GuestKind:
        """The kind of a guest, on the host that it was first on."""
        return self._kinds.of(guest)

    def allows(self, kind: guest_kinds.GuestKind,
               host: offered_host.OfferedHost,
               is_hopeful: bool = False) -> bool:
        """Whether guests of a kind could come to a host, were it empty.

        :param is_hopeful: whether all that is not known turns out well
        """
        return not self.refusal(kind, host, is_hopeful)

    def guests_left(
            self, occupancy: host_occupancy.HostOccupancy) -> int | None:
        """How many more guests filters let be on a host, None for any."""
        if not self.kinds or self.rules.scheduler.enabled_filters is None:
            return None
        return self._judge.guests_left(self.kinds[0].request, occupancy)

    def may_reach(self, kind: guest_kinds.GuestKind,
                  host: offered_host.OfferedHost,
                  is_hopeful: bool = False) -> bool:
        """The same, be it by way of others.

        Of hosts of which not all is known, or of several releases, one may
        take a guest that then may go to where it may not go directly.
        """
        key = kind.number, is_hopeful
        if key not in self._reached:
            self._reached[key] = frozenset(self._reach(kind, is_hopeful))
        return self.shape(host) in self._reached[key]

    def _reach(self, kind: guest_kinds.GuestKind,
               is_hopeful: bool) -> Iterator[int]:
        """The shapes of the hosts that guests of a kind may come to."""
        rules = self.rules.hopeful if is_hopeful else self.rules
        first = self.occupancies[kind.guest.host].host
        left, seen = dict(self._unlike), {rules.source_key(first)}
        ways = [first]
        while ways and left:
            way = ways.pop()
            guest = dataclasses.replace(kind.guest, host=way.name)
            for shape, host in list(left.items()):
                may = self.allows(kind, host, is_hopeful) if (
                    way is first) else not (
                    rules.placing_refusal(guest, host)
                    or self._room_refusal(rules, guest, host))
                if not may:
                    continue
                yield shape
                del left[shape]
                if rules.source_key(host) not in seen:
                    seen.add(rules.source_key(host))
                    ways.append(host)

    def _refusal(self, rules: migration.MigrationRules,
                 kind: guest_kinds.GuestKind,
                 host: offered_host.OfferedHost) -> str:
        return (rules.placing_refusal(kind.guest, host)
                or self._room_refusal(rules, kind.guest, host))

    def _room_refusal(self, rules: migration.MigrationRules,
                      guest: resident_guest.ResidentGuest,
                      host: offered_host.OfferedHost) -> str:
        is_hopeful = rules is not self.rules
        if is_hopeful:
            # Guests of other hosts may leave what they share.
            host = dataclasses.replace(host, children=tuple(
                dataclasses.replace(child, held=()) if child.is_shared
                else child for child in host.children))
        found = self._judge.room(
            rules.request(guest, host), host_occupancy.of_host(host))
        is_refused = (judge.is_certain_no(found) if is_hopeful
                      else isinstance(found, model.Refusal))
        return str(found) if is_refused else ''

    def _group(
        self, occupancy: host_occupancy.HostOccupancy,
        fixed: frozenset[str],
    ) -> Iterator[GuestGroup]:
        cells = {cell.id: cell for cell in occupancy.host.cells}
        alike: dict[tuple[int, tuple[CellUse, ...], Hashable, Hashable],
                    list[resident_guest.ResidentGuest]] = {}
        for guest in sorted(occupancy.guests, key=lambda guest: guest.uuid):
            if guest.uuid in fixed:
                reason = 'is to stay'
            else:
                reason = self.rules.guest_refusal(guest)
            if reason:
                self.refusals[guest.uuid] = reason
                continue
            key = (self.kind(guest).number, uses(guest, cells),
                   tuple(sorted(guest.resources.items())), guest.allocations)
            alike.setdefault(key, []).append(guest)
        for (number, used, *_held), guests in alike.items():
            yield GuestGroup(self.kinds[number], occupancy.host.name, used,
                             tuple(guests))


def uses(guest: resident_guest.ResidentGuest,
         cells: Mapping[int, model.HostCell]) -> tuple[CellUse, ...]:
    """What a guest takes of the cells of its host.

    :param cells: by id
    """
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
