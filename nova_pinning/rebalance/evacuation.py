# SPDX-License-Identifier: Apache-2.0
"""Guests of lost hosts on those that are left, one evacuation after the other.

Nova evacuates guests one at a time. Each is a new claim on its target, by the
engine's decision on what the evacuations before it have left there: CPUs,
pages, devices, and what Placement counts.
"""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning import fit
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning.rebalance import move_rules


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EvacuatedKind:
    """What guests that are alike ask for.

    :param guest: one of them
    :param group: of servers that it is in, if that excludes hosts; ''
        otherwise
    :param most: of the group on a host, None for any number
    """

    number: int
    guest: snapshot.FleetGuest
    request: guest_request.GuestRequest
    group: str
    most: int | None

    @property
    def size(self) -> tuple[int, int, int]:
        """By which the largest come first."""
        topology = self.request.topology
        return (len(topology.cells) if topology else 0, self.guest.vcpus,
                self.guest.memory_mib)


class TargetState:
    """A host as some evacuations have left it, and what fits there.

    :param members: how many of each server group it has that excludes hosts
    """

    __slots__ = ('occupancy', 'members', '_judge', '_fits')

    def __init__(
        self, occupancy: host_occupancy.HostOccupancy,
        members: Mapping[str, int], admission: judge.AdmissionJudge,
    ) -> None:
        self.occupancy = occupancy
        self.members = members
        self._judge = admission
        self._fits: dict[int, tuple[model.Fit, int] | model.Refusal] = {}

    def outcome(
        self, kind: EvacuatedKind,
    ) -> tuple[model.Fit, int] | model.Refusal:
        """Where a guest would lie, and how many CPUs its cells have left."""
        found = self._fits.get(kind.number)
        if found is None:
            found = self._fits[kind.number] = self._outcome(kind)
        return found

    def _outcome(
        self, kind: EvacuatedKind,
    ) -> tuple[model.Fit, int] | model.Refusal:
        occupancy = self.occupancy
        outcome = self._judge.room(kind.request, occupancy)
        if isinstance(outcome, model.Refusal):
            return outcome
        used = {cell.host_cell for cell in outcome.cells}
        return outcome, sum(cell.free_count for cell in occupancy.engine.cells
                            if cell.id in used)

    def full_of(self, kind: EvacuatedKind) -> bool:
        """Whether its server group keeps one more off the host."""
        return (kind.most is not None
                and self.members.get(kind.group, 0) >= kind.most)

    def taking(self, kind: EvacuatedKind, place: model.Fit) -> 'TargetState':
        """The host with one more guest."""
        members = self.members
        if kind.group:
            members = {**members, kind.group: members.get(kind.group, 0) + 1}
        return TargetState(
            self.occupancy.adding(
                judge.placed_on(kind.request, self.occupancy, place)),
            members, self._judge)


#: The hosts that are left, by name.
Targets = Mapping[str, TargetState]
#: Chooses one of the hosts on which a guest fits: names and states.
Choose = Callable[[EvacuatedKind, Sequence[tuple[str, TargetState]]], str]
#: A guest, its target, and where it lies there.
Placed = tuple[snapshot.FleetGuest, str, model.Fit]


class EvacuationFleet:
    """The guests of a fleet by kind, and its hosts as they are.

    :param ask_nova: nova's own claim, None to take the engine's word
    :ivar kinds: by number
    :ivar judge: says what room hosts have
    """

    def __init__(self, fleet: snapshot.Fleet, rules: move_rules.MoveRules,
                 ask_nova: fit.AskNova | None = None) -> None:
        self.fleet = fleet
        self.rules = rules
        self.kinds: list[EvacuatedKind] = []
        self.judge = rules.admission(fit.ClaimBounds(ask_nova=ask_nova))
        self._reader = moved_guest.RequestReader(fleet)
        self._numbers: dict[Hashable, int] = {}
        self._kind_of: dict[str, int] = {}
        self._allowed: dict[tuple[int, Hashable], str] = {}
        self._host_keys: dict[str, Hashable] = {}
        self.occupancies = occupied.of_fleet(fleet)
        for guest in fleet.guests:
            if guest.host in self.occupancies:
                self._add(guest)
        self.states = {name: self.state_of(occupancy) for name, occupancy
                       in self.occupancies.items()}

    def _add(self, guest: snapshot.FleetGuest) -> None:
        most = self.rules.most_of_group(guest)
        group = guest.server_group if self.rules.is_grouped(guest) else ''
        key = (guest.topology, guest.vcpus, guest.memory_mib, guest.disk_gib,
               tuple(sorted((use.keys, use.count) for use in guest.devices)),
               group, self.rules.guest_key(guest))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.kinds)
            self.kinds.append(EvacuatedKind(
                number, guest, self._reader.request(guest), group, most))
        self._kind_of[guest.uuid] = number

    def kind(self, guest: snapshot.FleetGuest) -> EvacuatedKind:
        """The kind that a guest is of."""
        return self.kinds[self._kind_of[guest.uuid]]

    def state_of(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> TargetState:
        """A host, before any evacuation."""
        members: dict[str, int] = {}
        for guest in occupancy.guests:
            if self.rules.is_grouped(guest):
                members[guest.server_group] = members.get(
                    guest.server_group, 0) + 1
        return TargetState(occupancy, members, self.judge)

    def refusal(self, kind: EvacuatedKind, state: TargetState) -> str:
        """Why a guest cannot be evacuated to a host, were it empty.

        Which of an affinity group's hosts are left does not change while its
        members are evacuated: they only come to where others are.
        """
        host = state.occupancy.host
        host_key = self._host_keys.get(host.name)
        if host_key is None:
            host_key = self._host_keys[host.name] = self.rules.host_key(host)
        key = kind.number, host_key
        if key not in self._allowed:
            self._allowed[key] = self.rules.evacuation_host_refusal(
                kind.guest, host)
        return self._allowed[key] or (
            'its server group keeps it where its other members are'
            if kind.group and kind.most is None
            and kind.group not in state.members else '')

    def evacuate(
        self, guests: Iterable[snapshot.FleetGuest], targets: Targets,
        choose: Choose,
    ) -> tuple[list[Placed], list[snapshot.FleetGuest],
               dict[str, TargetState]]:
        """Evacuate guests one after the other, in this order.

        :returns: those that came up, those that did not, and the hosts then
        """
        states = dict(targets)
        allowed: dict[int, list[str]] = {}
        placed: list[Placed] = []
        down = []
        for guest in guests:
            kind = self.kind(guest)
            names = allowed.get(kind.number)
            if names is None:
                # Room only becomes less.
                names = allowed[kind.number] = [
                    name for name, state in states.items()
                    if not self.refusal(kind, state)
                    and not isinstance(state.outcome(kind), model.Refusal)]
            takers = []
            for name in names:
                state = states[name]
                if not isinstance(state.outcome(kind), model.Refusal) and (
                        not state.full_of(kind)):
                    takers.append((name, state))
            if not takers:
                down.append(guest)
                continue
            target = choose(kind, takers)
            place = _place(states[target], kind)
            placed.append((guest, target, place))
            states[target] = states[target].taking(kind, place)
        return placed, down, states


def _place(state: TargetState, kind: EvacuatedKind) -> model.Fit:
    outcome = state.outcome(kind)
    assert not isinstance(outcome, model.Refusal)
    return outcome[0]


def tightest(kind: EvacuatedKind,
             takers: Sequence[tuple[str, TargetState]]) -> str:
    """The host whose cells have the least left, which spares the others."""
    def left(taker: tuple[str, TargetState]) -> tuple[int, int]:
        _name, state = taker
        outcome = state.outcome(kind)
        assert not isinstance(outcome, model.Refusal)
        return outcome[1], -len(state.occupancy.guests)

    return min(takers, key=left)[0]


def weighed(kind: EvacuatedKind,
            takers: Sequence[tuple[str, TargetState]]) -> str:
    """The host that nova would choose, with the weighers that tell most.

    These are RAMWeigher, CPUWeigher and DiskWeigher, whose multipliers are 1
    by default: each prefers the host that has most left, and is normalised
    over the hosts that are left to choose from.
    """
    rows = [tuple(_left(state)) for _name, state in takers]
    totals = [0.0] * len(rows)
    for column in zip(*rows):
        low, high = min(column), max(column)
        if high > low:
            for number, value in enumerate(column):
                totals[number] += (value - low) / (high - low)
    return takers[max(range(len(rows)), key=totals.__getitem__)][0]


def _left(state: TargetState) -> Iterator[float]:
    """Free memory, vCPUs and disk of a host."""
    occupancy = state.occupancy
    for names in ((inventory.MEMORY_MB,), (inventory.PCPU, inventory.VCPU),
                  (inventory.DISK_GB,)):
        yield sum(
            occupancy.inventories[name].capacity
            - occupancy.resources_used.get(name, 0)
            for name in names if name in occupancy.inventories)


def largest_first(
    guests: Iterable[snapshot.FleetGuest], fleet: EvacuationFleet,
) -> list[snapshot.FleetGuest]:
    """In an order in which most come up; equal ones by UUID."""
    return sorted(guests, key=lambda guest: (
        tuple(-part for part in fleet.kind(guest).size), guest.uuid))
