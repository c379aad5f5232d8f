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

from nova_pinning.fit import usage
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet.explain import judge as fleet_judge
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model

#: Ways that are shown.
LIMIT = 3
#: Pairs of guests that are tried where no single one will do.
_MAX_PAIRS = 2000
_MAX_PAIR_HOSTS = 100
_TRAIT_KEY = 'trait:'


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A guest, and the host that it could move to."""

    guest: fleet_model.FleetGuest
    target: str


@dataclasses.dataclass(frozen=True, slots=True)
class Clearing:
    """Guests to move so that the wanted one fits on their host."""

    host: str
    moves: tuple[Move, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Clearings:
    """What can be had by moving guests.

    :param shown: the smallest guests first, one for each host, a few only
    :param hosts: all hosts that can be opened so
    """

    shown: tuple[Clearing, ...] = ()
    hosts: tuple[str, ...] = ()


class Finder:
    """Finds guests to move.

    A guest with PCI devices stays where it is, and none leaves its
    availability zone.

    :param flavors: of the fleet; where a guest's is among them, its traits
        are minded
    """

    def __init__(self, judge: fleet_judge.Judge,
                 flavors: Iterable[flavor_model.Flavor] = ()) -> None:
        self._judge = judge
        self._flavors = {one.name: one for one in flavors}
        self._homes: dict[tuple[object, ...], _Homes] = {}

    def single(
        self, wanted: fleet_wanted.Wanted,
        subjects: Sequence[fleet_standing.Standing],
    ) -> Clearings:
        """Single guests, the smallest of each host.

        :param subjects: hosts that lack nothing but room
        """
        found = []
        for standing in subjects:
            free = _free(standing)
            for guest in sorted(_movable(standing), key=_size):
                if not _could_help(standing, wanted, (guest,), free):
                    continue
                clearing = self._clear(standing, wanted, (guest,))
                if clearing is not None:
                    found.append(clearing)
                    break
        return _clearings(found)

    def pairs(
        self, wanted: fleet_wanted.Wanted,
        subjects: Sequence[fleet_standing.Standing],
    ) -> Clearings:
        """Pairs of guests of one host.

        Only on the hosts that lack the fewest CPUs, and the smallest first:
        there are too many to try them all.
        """
        candidates = heapq.nsmallest(
            _MAX_PAIRS, _pairs(wanted, subjects), key=lambda one: one[0])
        found: dict[str, Clearing] = {}
        for _pair_size, standing, pair in candidates:
            name = standing.host.name
            if name not in found:
                clearing = self._clear(standing, wanted, pair)
                if clearing is not None:
                    found[name] = clearing
        return _clearings(found.values())

    def _clear(
        self, standing: fleet_standing.Standing,
        wanted: fleet_wanted.Wanted,
        guests: tuple[fleet_model.FleetGuest, ...],
    ) -> Clearing | None:
        """Move these guests, if the wanted one then fits."""
        name = standing.host.name
        left = standing
        for guest in guests:
            left = left.without(guest)
        if not self._judge.fits(left, wanted):
            return None
        moves: list[Move] = []
        for guest in guests:
            target = self._home(standing, guest, moves)
            if target is None:
                return None
            moves.append(Move(guest, target))
        return Clearing(name, tuple(moves))

    def _home(
        self, standing: fleet_standing.Standing,
        guest: fleet_model.FleetGuest, moved: Sequence[Move],
    ) -> str | None:
        """Another host that a guest fits on.

        :param moved: what has moved before it, and takes room there
        """
        host = standing.host
        zone = self._zone(host)
        key = (guest.topology, guest.guest_class, guest.vcpus,
               guest.memory_mib, guest.disk_gib, guest.flavor, zone)
        homes = self._homes.get(key)
        if homes is None:
            homes = self._homes[key] = _Homes(dataclasses.replace(
                self._judge, scope=dataclasses.replace(
                    self._judge.scope, availability_zone=zone, project=None)),
                self._as_wanted(guest))
        return homes.find(host.name, moved)

    def _zone(self, host: fleet_model.FleetHost) -> str | None:
        """The availability zone of a host, None if aggregates make none."""
        scope = self._judge.scope
        for name in host.aggregates:
            aggregate = scope.aggregates.get(name)
            if aggregate is not None and aggregate.availability_zone:
                return aggregate.availability_zone
        return scope.default_zone if scope.aggregates else None

    def _as_wanted(
        self, guest: fleet_model.FleetGuest,
    ) -> fleet_wanted.Wanted:
        flavor = self._flavors.get(guest.flavor)
        return as_wanted(guest, flavor.extra_specs if flavor else {})


class _Homes:
    """The hosts that take a guest, looked for as far as they are needed."""

    def __init__(self, judge: fleet_judge.Judge,
                 wanted: fleet_wanted.Wanted) -> None:
        self._judge = judge
        self._wanted = wanted
        self._known: list[str] = []
        self._rest = iter(judge.standings.values())

    def find(self, but: str, moved: Sequence[Move]) -> str | None:
        """The first host that takes the guest.

        :param but: not this one
        """
        for name in self._hosts():
            if name != but and self._still_fits(name, moved):
                return name
        return None

    def _hosts(self) -> Iterator[str]:
        yield from tuple(self._known)
        for standing in self._rest:
            if self._judge.fits(standing, self._wanted):
                self._known.append(standing.host.name)
                yield standing.host.name

    def _still_fits(self, name: str, moved: Sequence[Move]) -> bool:
        here = [move for move in moved if move.target == name]
        if not here:
            return True
        standing = self._judge.standings[name]
        for move in here:
            wanted = as_wanted(move.guest, {})
            outcome = fleet_standing.fit_on(
                standing, wanted, self._judge.packs_cells)
            assert isinstance(outcome, model.Fit)
            standing = standing.with_guest(wanted, outcome)
        return self._judge.fits(standing, self._wanted)


def as_wanted(
    guest: fleet_model.FleetGuest, extra_specs: Mapping[str, str],
) -> fleet_wanted.Wanted:
    """A guest as if it were to be placed again, without its devices.

    :param extra_specs: of its flavor, for the traits; {} if not known
    """
    resources = {placement.MEMORY_MB: guest.memory_mib,
                 placement.DISK_GB: guest.disk_gib}
    pinned = 0
    if guest.topology is not None:
        pinned = sum(one.dedicated for one in guest.topology.demands)
    amounts = [{placement.VCPU: guest.vcpus}]
    if pinned:
        emulator = sum(one.emulator for one in guest.topology.demands
                       ) if guest.topology else 0
        amounts.insert(0, {placement.PCPU: pinned + emulator,
                           placement.VCPU: guest.vcpus - pinned})
    return fleet_wanted.Wanted(
        flavor=flavor_model.Flavor(
            name=guest.flavor, vcpus=guest.vcpus,
            memory_mib=guest.memory_mib, disk_gib=guest.disk_gib),
        guest_class=guest.guest_class, topology=guest.topology,
        queries=tuple(
            fleet_wanted.Query(
                resources={**resources, **one},
                required=_traits(extra_specs, 'required'),
                forbidden=_traits(extra_specs, 'forbidden'))
            for one in amounts))


def _traits(extra_specs: Mapping[str, str], value: str) -> frozenset[str]:
    return frozenset(
        key.removeprefix(_TRAIT_KEY) for key, found in extra_specs.items()
        if key.startswith(_TRAIT_KEY) and found == value)


def _movable(
    standing: fleet_standing.Standing,
) -> list[fleet_model.FleetGuest]:
    return [one for one in standing.guests
            if one.is_movable and not one.devices]


def _size(guest: fleet_model.FleetGuest) -> tuple[int, int, str]:
    return guest.vcpus, guest.memory_mib, guest.uuid


def _clearings(found: Iterable[Clearing]) -> Clearings:
    ranked = sorted(found, key=lambda one: (
        sum(move.guest.vcpus for move in one.moves),
        sum(move.guest.memory_mib for move in one.moves)))
    return Clearings(tuple(ranked[:LIMIT]),
                     tuple(one.host for one in ranked))


def _pairs(
    wanted: fleet_wanted.Wanted,
    subjects: Sequence[fleet_standing.Standing],
) -> Iterator[tuple[tuple[int, int, int], fleet_standing.Standing,
                    tuple[fleet_model.FleetGuest, ...]]]:
    """Pairs on the hosts that lack least, with their size as a rank."""
    nearest = heapq.nsmallest(
        _MAX_PAIR_HOSTS, subjects, key=lambda one: _missing(one, wanted))
    for number, standing in enumerate(nearest):
        free = _free(standing)
        for pair in itertools.combinations(_movable(standing), 2):
            if _could_help(standing, wanted, pair, free):
                yield ((sum(one.vcpus for one in pair),
                        sum(one.memory_mib for one in pair), number),
                       standing, pair)


def _missing(standing: fleet_standing.Standing,
             wanted: fleet_wanted.Wanted) -> int:
    """CPUs that a host lacks, its emptiest cells taken for the largest."""
    if wanted.topology is None:
        return 0
    free = sorted((cell.free_count for cell in standing.engine.cells),
                  reverse=True)
    needs = sorted((one.dedicated + one.emulator
                    for one in wanted.topology.demands), reverse=True)
    return sum(max(0, need - have) for need, have
               in itertools.zip_longest(needs, free[:len(needs)],
                                        fillvalue=0))


def _free(standing: fleet_standing.Standing) -> Mapping[int, int]:
    """The free dedicated CPUs of a host, by cell."""
    return {cell.id: cell.free_count for cell in standing.engine.cells}


def _could_help(
    standing: fleet_standing.Standing, wanted: fleet_wanted.Wanted,
    guests: tuple[fleet_model.FleetGuest, ...], free: Mapping[int, int],
) -> bool:
    """Whether it is worth while to try without these guests.

    As many cells as the wanted guest has must have CPUs for its smallest
    cell then, and one that they leave among them.
    """
    topology = wanted.topology
    if topology is None or not topology.is_pinned:
        return True
    least = min(one.dedicated + one.emulator for one in topology.demands)
    cells = {cell.id: cell for cell in standing.host.cells}
    freed: dict[int, int] = {}
    for guest in guests:
        if guest.topology is None or guest.fit is None:
            return True
        for one in guest.fit.cells:
            if one.host_cell in cells:
                freed[one.host_cell] = freed.get(one.host_cell, 0) + len(
                    usage.taken_cpus(cells[one.host_cell], guest.topology,
                                     one))
    enough = [cell_id for cell_id, count in free.items()
              if count + freed.get(cell_id, 0) >= least]
    return (len(enough) >= len(topology.cells)
            and any(cell_id in freed for cell_id in enough))
