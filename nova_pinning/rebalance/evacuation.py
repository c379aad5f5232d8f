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
import math
from typing import Any
from typing import NamedTuple

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
#: A guest, its target, and where it lies there.
Placed = tuple[resident_guest.ResidentGuest, str, model.Fit]
#: Of numpy, which mypy does not look into.
_Array = Any


class Evacuated(NamedTuple):
    """What became of some guests.

    :param placed: in the order of the evacuations
    :param down: those for whom nothing was left
    """

    placed: list[Placed]
    down: list[resident_guest.ResidentGuest]


class Choice(NamedTuple):
    """How one of the hosts is chosen on which a guest fits.

    :param measure: what counts of each
    :param best: of hosts, each with a row of measures, the number of the best
    :param width: of a row
    """

    measure: Callable[[guest_kinds.GuestKind, guest_kinds.HostState],
                      Sequence[float]]
    best: Callable[[_Array], int]
    width: int


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
        self._takers: dict[int, Sequence[str]] = {}
        self._tables: dict[tuple[int, Choice], _Array] = {}
        self._after: dict[tuple[guest_kinds.HostState, int],
                          guest_kinds.HostState] = {}
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

    def takers(self, kind: guest_kinds.GuestKind) -> Sequence[str]:
        """The hosts that take a guest before any evacuation."""
        found = self._takers.get(kind.number)
        if found is None:
            found = self._takers[kind.number] = [
                name for name, state in self.states.items()
                if self.would_take(kind, state)]
        return found

    def evacuate(
        self, guests: Iterable[resident_guest.ResidentGuest], targets: Targets,
        choice: Choice,
    ) -> Evacuated:
        """Evacuate guests one after the other, in this order.

        :param targets: of the fleet's hosts in their order, and others
        """
        states = dict(targets)
        names = [*dict.fromkeys([*self.states, *targets])]
        rows = {name: row for row, name in enumerate(names)}
        gone = [rows[name] for name in rows.keys() - states.keys()]
        #: Hosts that are not as they were, those with the last guest last.
        changed = [name for name, state in states.items()
                   if state is not self.states.get(name)]
        tables: dict[int, tuple[_Array, int]] = {}
        done = Evacuated([], [])
        for guest in guests:
            kind = self.kind(guest)
            table, known = tables.get(kind.number) or (
                self._copied(kind, choice, len(names), gone), 0)
            for name in changed[known:]:
                table[rows[name]] = (
                    choice.measure(kind, states[name])
                    if self.would_take(kind, states[name]) else math.nan)
            tables[kind.number] = table, len(changed)
            takers = numpy.flatnonzero(~numpy.isnan(table[:, 0]))
            if not takers.size:
                done.down.append(guest)
                continue
            target = names[takers[choice.best(table[takers])]]
            done.placed.append(self.put(states, guest, target))
            # Others are changed where they share something with it.
            changed += [*states] if any(self.shared.taken(guest)) else [target]
        return done

    def _copied(self, kind: guest_kinds.GuestKind, choice: Choice,
                size: int, gone: Sequence[int]) -> _Array:
        """A row for each host as it is before any evacuation.

        :param size: rows, those of other hosts last
        :param gone: rows of hosts that take nothing
        """
        key = kind.number, choice
        whole = self._tables.get(key)
        if whole is None:
            takers = set(self.takers(kind))
            whole = self._tables[key] = numpy.array([
                choice.measure(kind, state) if name in takers
                else (math.nan,) * choice.width
                for name, state in self.states.items()])
        table = numpy.full((size, choice.width), math.nan)
        table[:len(whole)] = whole
        table[gone] = math.nan
        return table

    def put(self, states: dict[str, guest_kinds.HostState],
            guest: resident_guest.ResidentGuest, target: str) -> Placed:
        """Evacuate a guest to a host that takes it.

        Of a provider that shares with both hosts Placement counts it once
        (nova.scheduler.client.report._move_operation_alloc_request).
        """
        kind = self.kind(guest)
        before = states[target]
        placed = guest, target, place(before, kind)
        # The next loss has its guests on the same hosts mostly.
        after = self._after.get((before, kind.number))
        if after is None:
            after = self._after[before, kind.number] = before.with_guest(kind)
        states[target] = after
        had = {uuid for uuid, *_place in self.shared.taken(guest)}
        for uuid, name, index, amounts in self.shared.taken(
                after.occupancy.guests[-1]):
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


def _tightness(kind: guest_kinds.GuestKind,
               state: guest_kinds.HostState) -> tuple[int, int]:
    used = {cell.host_cell for cell in place(state, kind).cells}
    return (sum([cell.free_count for cell in state.occupancy.engine.cells
                 if cell.id in used]), -len(state.occupancy.guests))


def _heaviest(rows: _Array) -> int:
    low = rows.min(axis=0)
    span = rows.max(axis=0) - low
    span[span == 0] = 1
    return int(((rows - low) / span).sum(axis=1).argmax())


#: The host whose cells have the least left, which spares the others.
TIGHTEST = Choice(_tightness, lambda rows: int(
    numpy.lexsort((rows[:, 1], rows[:, 0]))[0]), 2)
#: The host that nova would choose, with the weighers that tell most.
#:
#: These are RAMWeigher, CPUWeigher and DiskWeigher, whose multipliers are 1
#: by default: each prefers the host that has most left, and is normalised
#: over the hosts that are left to choose from.
WEIGHED = Choice(lambda kind, state: state.free, _heaviest, 3)


def largest_first(
    guests: Iterable[resident_guest.ResidentGuest], fleet: EvacuationFleet,
) -> list[resident_guest.ResidentGuest]:
    """In an order in which most come up; equal ones by UUID."""
    return sorted(guests, key=lambda guest: (
        tuple(-part for part in fleet.kind(guest).size), guest.uuid))
