# SPDX-License-Identifier: Apache-2.0
"""Guests of lost hosts on those that are left, one evacuation after the other.

Nova evacuates guests one at a time. Each is a new claim on its target, by the
engine's decision on what the evacuations before it have left there: CPUs,
pages, devices, and what Placement counts.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning import fit
from nova_pinning.fleet import guest_kinds
from nova_pinning.fleet import occupied
from nova_pinning.fleet import shared_providers
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.rebalance import move_rules

#: The hosts that are left, by name.
Targets = Mapping[str, guest_kinds.HostState]
#: Chooses one of the hosts on which a guest fits: names and states.
Choose = Callable[[guest_kinds.GuestKind,
                   Sequence[tuple[str, guest_kinds.HostState]]], str]
#: A guest, its target, and where it lies there.
Placed = tuple[resident_guest.ResidentGuest, str, model.Fit]


class EvacuationFleet:
    """The guests of a fleet by kind, and its hosts as they are.

    :param ask_nova: nova's own claim, None to take the engine's word
    :ivar guests: by UUID
    :ivar kind: of a guest
    :ivar kinds: by number
    :ivar judge: says what room hosts have
    :ivar shared: what hosts share
    """

    def __init__(self, fleet: snapshot.Fleet, rules: move_rules.MoveRules,
                 ask_nova: fit.AskNova | None = None) -> None:
        self.fleet = fleet
        self.rules = rules
        self.guests = {guest.uuid: guest for guest in fleet.guests}
        self.judge = rules.admission(fit.ClaimBounds(ask_nova=ask_nova))
        self._kinds = guest_kinds.GuestKinds(
            rules, lambda some, kind, host: some.evacuation_host_refusal(
                kind.guest, host))
        self.kind, self.kinds = self._kinds.of, self._kinds.kinds
        self.shape = self._kinds.shape
        self.shared = shared_providers.SharedProviders(fleet.hosts)
        self._doubts: dict[int, Mapping[str, str]] = {}
        self._willing: dict[int, frozenset[str]] = {}
        self.occupancies = occupied.of_fleet(fleet)
        self.states = {name: self.state_of(occupancy) for name, occupancy
                       in self.occupancies.items()}

    def state_of(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> guest_kinds.HostState:
        """A host, before any evacuation."""
        return guest_kinds.HostState(
            occupancy, self.judge, self._kinds.members(occupancy))

    def refusal(self, kind: guest_kinds.GuestKind,
                state: guest_kinds.HostState,
                is_hopeful: bool = False) -> str:
        """Why a guest cannot be evacuated to a host, were it empty.

        Which of an affinity group's hosts are left does not change while its
        members are evacuated: they only come to where others are.

        :param is_hopeful: whether all that is not known turns out well
        """
        return self._kinds.refusal(
            kind, state.occupancy.host, is_hopeful) or (
            'its server group keeps it where its other members are'
            if kind.group and kind.most is None
            and kind.group not in state.members else '')

    def would_take(self, kind: guest_kinds.GuestKind,
                   state: guest_kinds.HostState) -> bool:
        """Whether a guest can be evacuated to a host."""
        return not self.refusal(kind, state) and state.takes(kind)

    def doubt(self, kind: guest_kinds.GuestKind,
              state: guest_kinds.HostState) -> str:
        """What is not known, so that it may be but is not certain; else ''."""
        if self.would_take(kind, state) or self.refusal(
                kind, state, True) or not state.may_take(kind):
            return ''
        return self.refusal(kind, state) or str(state.room(kind))

    def doubts(self, kind: guest_kinds.GuestKind) -> Mapping[str, str]:
        """The same of all hosts that there are before any evacuation."""
        found = self._doubts.get(kind.number)
        if found is None:
            found = self._doubts[kind.number] = {
                name: doubt for name, state in self.states.items()
                if (doubt := self.doubt(kind, state))}
        return found

    def evacuate(
        self, guests: Iterable[resident_guest.ResidentGuest], targets: Targets,
        choose: Choose,
    ) -> tuple[list[Placed], list[resident_guest.ResidentGuest],
               dict[str, guest_kinds.HostState]]:
        """Evacuate guests one after the other, in this order.

        :returns: those that came up, those that did not, and the hosts then
        """
        states = dict(targets)
        takers: dict[int, dict[str, guest_kinds.HostState]] = {}
        placed: list[Placed] = []
        down = []
        for guest in guests:
            kind = self.kind(guest)
            own = takers.get(kind.number)
            if own is None:
                own = takers[kind.number] = self._takers(kind, states)
            if not own:
                down.append(guest)
                continue
            target = choose(kind, list(own.items()))
            placed.append(self.put(states, guest, target))
            # Room only becomes less, and on other hosts if they share some.
            others = [*states] if any(self.shared.taken(guest)) else [target]
            for number, some in takers.items():
                for name in others:
                    if name not in some:
                        continue
                    if states[name].takes(self.kinds[number]):
                        some[name] = states[name]
                    else:
                        del some[name]
        return placed, down, states

    def _takers(
        self, kind: guest_kinds.GuestKind, states: Targets,
    ) -> dict[str, guest_kinds.HostState]:
        """The hosts that take a guest; of most it is known from before."""
        willing = self._willing.get(kind.number)
        if willing is None:
            willing = self._willing[kind.number] = frozenset(
                name for name, state in self.states.items()
                if self.would_take(kind, state))
        return {
            name: state for name, state in states.items()
            if (name in willing if state is self.states.get(name)
                else self.would_take(kind, state))}

    def put(self, states: dict[str, guest_kinds.HostState],
            guest: resident_guest.ResidentGuest, target: str) -> Placed:
        """Evacuate a guest to a host that takes it.

        Of a provider that shares with both hosts Placement counts it once
        (nova.scheduler.client.report._move_operation_alloc_request).
        """
        kind = self.kind(guest)
        placed = guest, target, place(states[target], kind)
        states[target] = states[target].with_guest(kind)
        had = {uuid for uuid, *_place in self.shared.taken(guest)}
        for uuid, name, index, amounts in self.shared.taken(
                states[target].occupancy.guests[-1]):
            if name in states and (uuid in had) == (name == target):
                states[name] = states[name].shared_with(
                    index, amounts, -1 if name == target else 1)
        return placed


def place(state: guest_kinds.HostState,
          kind: guest_kinds.GuestKind) -> model.Fit:
    """Where a guest lies on a host that takes it."""
    found = state.room(kind)
    assert isinstance(found, model.Fit)
    return found


def tightest(kind: guest_kinds.GuestKind,
             takers: Sequence[tuple[str, guest_kinds.HostState]]) -> str:
    """The host whose cells have the least left, which spares the others."""
    def left(taker: tuple[str, guest_kinds.HostState]) -> tuple[int, int]:
        _name, state = taker
        used = {cell.host_cell for cell in place(state, kind).cells}
        return sum([cell.free_count for cell in state.occupancy.engine.cells
                    if cell.id in used]), -len(state.occupancy.guests)

    return min(takers, key=left)[0]


def weighed(kind: guest_kinds.GuestKind,
            takers: Sequence[tuple[str, guest_kinds.HostState]]) -> str:
    """The host that nova would choose, with the weighers that tell most.

    These are RAMWeigher, CPUWeigher and DiskWeigher, whose multipliers are 1
    by default: each prefers the host that has most left, and is normalised
    over the hosts that are left to choose from.
    """
    rows = numpy.array([state.free for _name, state in takers], dtype=float)
    low = rows.min(axis=0)
    span = rows.max(axis=0) - low
    totals = numpy.zeros(len(rows))
    for column in numpy.flatnonzero(span):
        totals += (rows[:, column] - low[column]) / span[column]
    return takers[int(totals.argmax())][0]


def largest_first(
    guests: Iterable[resident_guest.ResidentGuest], fleet: EvacuationFleet,
) -> list[resident_guest.ResidentGuest]:
    """In an order in which most come up; equal ones by UUID."""
    return sorted(guests, key=lambda guest: (
        tuple(-part for part in fleet.kind(guest).size), guest.uuid))
