# SPDX-License-Identifier: Apache-2.0
"""Guests that could move elsewhere so that another one fits.

Both ends are tried: the wanted guest on the host without the guest that
moves, and that guest on the host that it moves to.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import heapq
import itertools

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning.explain import host_verdicts
from nova_pinning.fit import usage
from nova_pinning.fleet import guest_kinds
from nova_pinning.fleet import migration
from nova_pinning import model
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import known_hits

#: Ways that are shown.
LIMIT = 3
#: Pairs of guests that are tried where no single one will do.
_MAX_PAIRS = 2000
_MAX_PAIR_HOSTS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class GuestMove:
    """A guest, and the host that it could move to.

    :param defects: of nova, that its live migration would meet
    """

    guest: resident_guest.ResidentGuest
    target: str
    defects: tuple[known_hits.DefectHit, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class HostClearing:
    """Guests to move so that the wanted one fits on their host."""

    host: str
    moves: tuple[GuestMove, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class HostClearings:
    """What can be obtained by moving guests.

    :param shown: the smallest guests first, one for each host, a few only
    :param hosts: all hosts that can be opened so
    """

    shown: tuple[HostClearing, ...] = ()
    hosts: tuple[str, ...] = ()


class MoveFinder:
    """Finds guests to move.

    A guest with PCI devices stays where it is.

    :param rules: of the fleet, what nova would move where
    :param known: tells which defects of nova a move would meet
    """

    def __init__(
        self, judge: host_verdicts.HostJudge,
        rules: migration.MigrationRules,
        known: known_hits.KnownDefects = known_hits.KnownDefects(),
    ) -> None:
        self._judge = judge
        self._rules = rules
        self._known = known
        self._kinds = guest_kinds.GuestKinds(
            rules, lambda some, kind, host: some.placing_refusal(
                kind.guest, host))
        self._states = {
            name: guest_kinds.HostState(occupancy, judge.judge)
            for name, occupancy in judge.occupancies.items()}
        # Those that take guests of a kind, as far as they were needed, and
        # those that are left to be asked.
        self._homes: dict[int, tuple[
            list[str], Iterator[guest_kinds.HostState]]] = {}
        self._hosts_of_guests = {
            guest.uuid: name for name, occupancy in judge.occupancies.items()
            for guest in occupancy.guests}

    def single(
        self, request: guest_request.GuestRequest,
        subjects: Sequence[host_occupancy.HostOccupancy],
    ) -> HostClearings:
        """Single guests, the smallest of each host.

        :param subjects: hosts that lack nothing but room
        """
        clearings = []
        for occupancy in subjects:
            free = _free(occupancy)
            for guest in sorted(self._movable(occupancy), key=_size):
                if not _could_help(occupancy, request, (guest,), free):
                    continue
                clearing = self._clear(occupancy, request, (guest,))
                if clearing is not None:
                    clearings.append(clearing)
                    break
        return _clearings(clearings)

    def pairs(
        self, request: guest_request.GuestRequest,
        subjects: Sequence[host_occupancy.HostOccupancy],
    ) -> HostClearings:
        """Pairs of guests of one host.

        Only on the hosts that lack the fewest CPUs, and the smallest first:
        there are too many to try them all.
        """
        candidates = heapq.nsmallest(
            _MAX_PAIRS, self._pairs(request, subjects),
            key=lambda ranked_pair: ranked_pair[0])
        clearings_by_host: dict[str, HostClearing] = {}
        for _pair_size, occupancy, pair in candidates:
            name = occupancy.host.name
            if name not in clearings_by_host:
                clearing = self._clear(occupancy, request, pair)
                if clearing is not None:
                    clearings_by_host[name] = clearing
        return _clearings(clearings_by_host.values())

    def _clear(
        self, occupancy: host_occupancy.HostOccupancy,
        request: guest_request.GuestRequest,
        guests: tuple[resident_guest.ResidentGuest, ...],
    ) -> HostClearing | None:
        """Move these guests, if the wanted one then fits."""
        name = occupancy.host.name
        left = occupancy
        for guest in guests:
            left = left.without(guest)
        if not self._judge.fits(left, request):
            return None
        moves: list[GuestMove] = []
        for guest in guests:
            target = self._home(guest, moves)
            if target is None:
                return None
            moves.append(GuestMove(guest, target, tuple(self._known.hitting(
                defect_model.Operation.LIVE_MIGRATION,
                hits.GuestOnHost(guest, occupancy.host)))))
        return HostClearing(name, tuple(moves))

    def _home(self, guest: resident_guest.ResidentGuest,
              moved: Sequence[GuestMove]) -> str | None:
        """Another host that a guest fits on.

        :param moved: what has moved before it, and takes room there
        """
        hosts_of_guests = {**self._hosts_of_guests, **{
            move.guest.uuid: move.target for move in moved}
            } if moved else self._hosts_of_guests
        for name in self._hosts(self._kinds.of(guest)):
            if (name != guest.host and self._still_fits(guest, name, moved)
                    and not self._rules.group_refusal(
                        guest, name, hosts_of_guests)):
                return name
        return None

    def _hosts(self, kind: guest_kinds.GuestKind) -> Iterator[str]:
        """The hosts that take a guest, before anything has moved."""
        known, rest = self._homes.setdefault(
            kind.number, ([], iter(self._states.values())))
        yield from tuple(known)
        for state in rest:
            host = state.occupancy.host
            if not self._kinds.refusal(kind, host) and isinstance(
                    state.room(kind), model.Fit):
                known.append(host.name)
                yield host.name

    def _still_fits(self, guest: resident_guest.ResidentGuest, name: str,
                    moved: Sequence[GuestMove]) -> bool:
        state = self._states[name]
        for move in moved:
            if move.target == name:
                state = state.with_guest(self._kinds.of(move.guest))
        return isinstance(state.room(self._kinds.of(guest)), model.Fit)

    def _movable(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> list[resident_guest.ResidentGuest]:
        return [guest for guest in occupancy.guests
                if not guest.devices and not self._rules.guest_refusal(guest)]

    def _pairs(
        self, request: guest_request.GuestRequest,
        subjects: Sequence[host_occupancy.HostOccupancy],
    ) -> Iterator[tuple[tuple[int, int, int], host_occupancy.HostOccupancy,
                        tuple[resident_guest.ResidentGuest, ...]]]:
        """Pairs on the hosts that lack least, with their size as a rank."""
        nearest = heapq.nsmallest(
            _MAX_PAIR_HOSTS, subjects,
            key=lambda subject: _missing(subject, request))
        for number, occupancy in enumerate(nearest):
            free = _free(occupancy)
            for pair in itertools.combinations(self._movable(occupancy), 2):
                if _could_help(occupancy, request, pair, free):
                    yield ((sum(guest.vcpus for guest in pair),
                            sum(guest.memory_mib for guest in pair), number),
                           occupancy, pair)


def _size(guest: resident_guest.ResidentGuest) -> tuple[int, int, str]:
    return guest.vcpus, guest.memory_mib, guest.uuid


def _clearings(clearings: Iterable[HostClearing]) -> HostClearings:
    ranked = sorted(clearings, key=lambda clearing: (
        sum(move.guest.vcpus for move in clearing.moves),
        sum(move.guest.memory_mib for move in clearing.moves)))
    return HostClearings(tuple(ranked[:LIMIT]),
                         tuple(clearing.host for clearing in ranked))


def _missing(occupancy: host_occupancy.HostOccupancy,
             request: guest_request.GuestRequest) -> int:
    """CPUs that a host lacks, its emptiest cells taken for the largest."""
    if request.topology is None:
        return 0
    free = sorted((cell.free_count for cell in occupancy.engine.cells),
                  reverse=True)
    needs = sorted((demand.dedicated + demand.emulator
                    for demand in request.topology.demands), reverse=True)
    return sum(max(0, need - have) for need, have
               in itertools.zip_longest(needs, free[:len(needs)],
                                        fillvalue=0))


def _free(occupancy: host_occupancy.HostOccupancy) -> Mapping[int, int]:
    """The free dedicated CPUs of a host, by cell."""
    return {cell.id: cell.free_count for cell in occupancy.engine.cells}


def _could_help(
    occupancy: host_occupancy.HostOccupancy,
    request: guest_request.GuestRequest,
    guests: tuple[resident_guest.ResidentGuest, ...],
    free: Mapping[int, int],
) -> bool:
    """Whether it is worth while to try without these guests.

    As many cells as the wanted guest has must have CPUs for its smallest
    cell then, and one that they leave among them.
    """
    topology = request.topology
    if topology is None or not topology.is_pinned:
        return True
    least = min(
        demand.dedicated + demand.emulator for demand in topology.demands)
    cells = {cell.id: cell for cell in occupancy.host.cells}
    freed: dict[int, int] = {}
    for guest in guests:
        if guest.topology is None or guest.fit is None:
            return True
        for cell in guest.fit.cells:
            if cell.host_cell in cells:
                freed[cell.host_cell] = freed.get(cell.host_cell, 0) + len(
                    usage.taken_cpus(cells[cell.host_cell], guest.topology,
                                     cell))
    enough = [cell_id for cell_id, count in free.items()
              if count + freed.get(cell_id, 0) >= least]
    return (len(enough) >= len(topology.cells)
            and any(cell_id in freed for cell_id in enough))
