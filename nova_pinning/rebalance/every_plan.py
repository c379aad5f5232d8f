# SPDX-License-Identifier: Apache-2.0
"""Every plan of a small fleet, those of fewer moves first.

The integer programs leave to nova which cells a guest gets on its new host,
and which move is made first: what they find may not be had, and what they
prove is a bound. Small fleets have so few sequences of moves that all are
looked at instead, each move decided by the engine. What a host takes with
certain guests on it is worked out once, however many sequences come to it.
"""

import collections
from collections.abc import Collection
from collections.abc import Hashable
from collections.abc import Iterator
import dataclasses
import functools
import itertools
import math
from typing import NamedTuple

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import guest_kinds
from nova_pinning import model
from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import slot_goal

#: Sequences up to which all are looked at, as far as can be told beforehand:
#: a second of them.
MOST_SEQUENCES = 20_000
# States after which it is given up all the same.
_MOST_STATES = 10 * MOST_SEQUENCES


class _Mover(NamedTuple):
    """Guests of a host that may move, and between which it does not matter.

    :param place: what they use of the host
    :param guest: one of them
    """

    kind: guest_kinds.GuestKind
    place: Hashable
    guest: resident_guest.ResidentGuest


@dataclasses.dataclass(slots=True, eq=False)
class _GuestsOnHost:
    """A host with certain guests, as any number of states have it.

    :ivar worth: of its room, or of its being empty
    :ivar after: it with one more guest, by kind; None if there is no room
    :ivar without: it without a guest, by kind and place
    """

    occupancy: host_occupancy.HostOccupancy
    movers: tuple[_Mover, ...]
    worth: float
    after: dict[int, '_GuestsOnHost | None'] = dataclasses.field(
        default_factory=dict)
    without: dict[tuple[int, Hashable], '_GuestsOnHost'] = (
        dataclasses.field(default_factory=dict))


_State = tuple[_GuestsOnHost, ...]


class _Step(NamedTuple):
    """How a state was come to.

    :param memory_mib: that was copied until then
    """

    memory_mib: int
    before: '_Step | None'
    mover: _Mover
    source: str
    target: str


class EveryPlan:
    """The sequences of moves of a fleet.

    :param goal: the slots that are wanted, if any
    :param closed: names of hosts that no guest may go to, and all are to leave
    :ivar is_proof: whether all was known that could be minded
    """

    def __init__(
        self, counted: counted_fleet.CountedFleet, start: replay.MoveReplay,
        goal: slot_goal.SlotGoal, limits: move_rules.MoveLimits,
        closed: Collection[str] = (),
    ) -> None:
        self._counted = counted
        self._start = start
        self._goal = goal
        self._limits = limits
        self._closed = closed
        self._known: dict[Hashable, _GuestsOnHost] = {}
        self._may_go: dict[tuple[int, str, str], bool | None] = {}
        self.is_proof = True

    @functools.cached_property
    def most_moves(self) -> int:
        """Up to so many moves all sequences can be looked at."""
        hosts = self._counted.fleet.hosts
        if any(child.is_shared for host in hosts for child in host.children):
            # What moves elsewhere changes what such hosts have.
            return 0
        places = len(hosts) - len(self._closed)
        outcomes: int = (places + 1) ** self._guests
        if outcomes <= MOST_SEQUENCES:
            return self._wanted_moves
        sequences = 0
        for number in range(1, self._wanted_moves + 1):
            sequences += math.comb(self._guests * places, number)
            if sequences > MOST_SEQUENCES:
                return number - 1
        return self._wanted_moves

    @property
    def is_small(self) -> bool:
        """Whether there are so few that all can be looked at."""
        return self.most_moves == self._wanted_moves

    @property
    def _wanted_moves(self) -> int:
        return min(self._limits.moves or self._guests, self._guests)

    @functools.cached_property
    def _guests(self) -> int:
        """Those that may move."""
        return sum(len(group.guests) for group in itertools.chain.
                   from_iterable(self._counted.groups.values()))

    def best(self, enough: float = math.inf,
             most_moves: int | None = None) -> replay.MoveReplay | None:
        """The sequence that is worth most, up to ``enough``.

        Of these it is one of the fewest moves, and of those one that copies
        the fewest bytes.

        :param most_moves: instead of the limit
        :returns: None if it was too much to look at
        """
        if most_moves is None:
            most_moves = self._limits.moves
        first = tuple(
            self._of(occupancy, self._movers(occupancy))
            for occupancy in self._counted.occupancies.values())
        steps: dict[_State, _Step | None] = {first: None}
        best: _Step | None = None
        most = min(enough, _total(first))
        reached = [first]
        number = 0
        while reached and most < enough and number != most_moves:
            number += 1
            after = self._next(reached, steps)
            if len(steps) > _MOST_STATES:
                return None
            for state in sorted(after, key=lambda state: _copied(
                    steps[state])):
                worth = min(enough, _total(state))
                if worth > most + 1e-6:
                    best, most = steps[state], worth
            reached = after
        return self._made(best)

    def _next(self, reached: list[_State],
              steps: dict[_State, _Step | None]) -> list[_State]:
        """The states one move further, each by the fewest bytes."""
        limit_mib = self._limits.memory_mib
        after: dict[_State, None] = {}
        # What is reached by more moves is only of use where bytes are short.
        seen = {state: _copied(step) for state, step in steps.items()
                } if limit_mib is not None else {}
        for state in reached:
            before = steps[state]
            copied_mib = _copied(before)
            for mover, source, target, there in self._successors(state):
                memory_mib = copied_mib + mover.guest.memory_mib
                if limit_mib is not None and memory_mib > limit_mib:
                    continue
                if there in steps and (
                        there not in after and there not in seen
                        or _copied(steps[there]) <= memory_mib):
                    continue
                steps[there] = _Step(
                    memory_mib, before, mover, source, target)
                after[there] = None
            if len(steps) > _MOST_STATES:
                break
        return list(after)

    def _successors(
        self, state: _State,
    ) -> Iterator[tuple[_Mover, str, str, _State]]:
        for here, source in enumerate(state):
            for mover in source.movers:
                for there, target in enumerate(state):
                    name = target.occupancy.host.name
                    if here == there or name in self._closed:
                        continue
                    may = self._may(mover, target)
                    arrived = self._after(target, mover) if (
                        may is not False) else None
                    if arrived is None:
                        continue
                    if may is None:
                        self.is_proof = False
                        continue
                    changed = list(state)
                    changed[here] = self._without(source, mover)
                    changed[there] = arrived
                    yield (mover, source.occupancy.host.name, name,
                           tuple(changed))

    def _may(self, mover: _Mover, target: _GuestsOnHost) -> bool | None:
        """Whether the rules let a guest go from its host to another one.

        :returns: None if that is not known
        """
        host = target.occupancy.host
        key = mover.kind.number, mover.guest.host, host.name
        if key not in self._may_go:
            rules = self._counted.rules
            self._may_go[key] = not rules.host_refusal(mover.guest, host) or (
                None if not rules.hopeful.host_refusal(mover.guest, host)
                else False)
        return self._may_go[key]

    def _after(self, target: _GuestsOnHost,
               mover: _Mover) -> _GuestsOnHost | None:
        """A host once a guest has come, None if it has no room for it."""
        number = mover.kind.number
        if number not in target.after:
            target.after[number] = self._arrived(target, mover)
        return target.after[number]

    def _arrived(self, target: _GuestsOnHost,
                 mover: _Mover) -> _GuestsOnHost | None:
        occupancy, kind = target.occupancy, mover.kind
        if self._counted.rules.group_refusal(mover.guest, occupancy.guests):
            return None
        room = self._start.room(mover.guest, occupancy)
        if not isinstance(room, model.Fit):
            self.is_proof &= judge.is_certain_no(room)
            return None
        guest = self._start.moved(mover.guest, occupancy, room)
        return self._of(occupancy.adding(guest), (
            *target.movers, self._mover(kind, guest, occupancy)))

    def _without(self, source: _GuestsOnHost,
                 mover: _Mover) -> _GuestsOnHost:
        key = mover.kind.number, mover.place
        if key not in source.without:
            movers = list(source.movers)
            movers.remove(mover)
            source.without[key] = self._of(
                source.occupancy.without(mover.guest), tuple(movers))
        return source.without[key]

    def _movers(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> tuple[_Mover, ...]:
        return tuple(
            self._mover(group.kind, guest, occupancy)
            for group in self._counted.groups[occupancy.host.name]
            for guest in group.guests)

    @staticmethod
    def _mover(kind: guest_kinds.GuestKind,
               guest: resident_guest.ResidentGuest,
               occupancy: host_occupancy.HostOccupancy) -> _Mover:
        cells = {cell.id: cell for cell in occupancy.host.cells}
        # Which CPUs it has only matters where some are of one core.
        fit = guest.fit if any(
            size > 1 for cell in cells.values()
            for size in cell.core_sizes) else None
        return _Mover(kind, (
            counted_fleet.uses(guest, cells), fit, guest.devices,
            tuple(sorted(guest.resources.items())), guest.allocations), guest)

    def _of(self, occupancy: host_occupancy.HostOccupancy,
            movers: tuple[_Mover, ...]) -> _GuestsOnHost:
        key = occupancy.host.name, frozenset(collections.Counter(
            (mover.kind.number, mover.place) for mover in movers).items())
        known = self._known.get(key)
        if known is None:
            slots, is_certain = self._goal.known_on_host(occupancy)
            self.is_proof &= is_certain
            worth = self._goal.value(slots)
            if occupancy.host.name in self._closed:
                worth -= len(occupancy.guests)
            known = self._known[key] = _GuestsOnHost(
                occupancy, movers, worth)
        return known

    def _made(self, step: _Step | None) -> replay.MoveReplay | None:
        """The moves up to a step, carried out."""
        way = []
        while step is not None:
            way.append(step)
            step = step.before
        done = self._start.copy()
        for step in reversed(way):
            occupancy = done.occupancies[step.source]
            guest = next((
                guest for guest in occupancy.guests
                if guest.uuid not in self._counted.refusals
                and self._is(guest, occupancy, step.mover)), None)
            if guest is None or not isinstance(
                    done.try_move(guest.uuid, step.target), model.Fit):
                return None
        return done

    def _is(self, guest: resident_guest.ResidentGuest,
            occupancy: host_occupancy.HostOccupancy, mover: _Mover) -> bool:
        """Whether a guest is one of those."""
        kind = self._counted.kind(guest)
        return kind is mover.kind and self._mover(
            kind, guest, occupancy).place == mover.place


def _total(state: _State) -> float:
    return sum(guests.worth for guests in state)


def _copied(step: _Step | None) -> int:
    return 0 if step is None else step.memory_mib
