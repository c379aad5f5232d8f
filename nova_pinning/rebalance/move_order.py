# SPDX-License-Identifier: Apache-2.0
"""An order for moves in which each fits at the moment it is made.

The moves of an integer program can be in each other's way: two guests that
change places, or a guest that nova would put on another cell as long as
others have not moved. So each next move is one that nova can do now, and of
these one that costs the least room. Where none can be done, a guest is parked
on a third host, which is a move more.
"""

from collections.abc import Callable
from collections.abc import Iterator
import random
from typing import NamedTuple

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning import model
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import whole_program

#: What the room on a host is worth.
ValueOfHost = Callable[[host_occupancy.HostOccupancy], float]

#: Orders that are tried before it is given up.
TRIES = 12


class _Step(NamedTuple):
    """A move that can be made now.

    :param loss: of the value of the target's room
    """

    loss: float
    tie: float
    guest: resident_guest.ResidentGuest
    kind: int
    target: str
    fit: model.Fit


class MoveOrder:
    """Puts wanted moves in order.

    :param start: the fleet before all moves
    :param most_moves: those for parking included
    :param most_memory_mib: copied, None for no limit
    :param closed: names of hosts that no guest may go to, not even parked
    :param is_over: whether it is to be given up
    :ivar refused: moves that could not be made in the end, by the kind of
        the guest and the host
    """

    def __init__(
        self, start: replay.MoveReplay, value: ValueOfHost,
        most_moves: int, most_memory_mib: int | None = None,
        closed: frozenset[str] = frozenset(), seed: int = 0,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._start = start
        self._value = value
        self._most_moves = most_moves
        self._most_memory_mib = most_memory_mib
        self._closed = closed
        self._random = random.Random(seed)
        self._is_over = is_over
        self.refused: set[tuple[int, str]] = set()

    def orders(
        self, wanted: whole_program.WantedMoves,
    ) -> Iterator[replay.MoveReplay]:
        """Ways to make all the moves, if some are found."""
        for number in range(TRIES):
            done = self._once(wanted, is_shuffled=number > 0)
            if done is not None:
                yield done

    def _once(self, wanted: whole_program.WantedMoves,
              is_shuffled: bool) -> replay.MoveReplay | None:
        now = self._start.copy()
        leaving = {kind: list(guests)
                   for kind, guests in wanted.leaving.items()}
        targets = {kind: list(hosts)
                   for kind, hosts in wanted.targets.items()}
        while any(leaving.values()):
            if self._is_over():
                return None
            step = _first(self._steps(now, leaving, targets, is_shuffled))
            if step is not None:
                leaving[step.kind].remove(step.guest.uuid)
                targets[step.kind].remove(step.target)
            else:
                pending = sum(map(len, leaving.values()))
                if len(now.moves) + pending < self._most_moves:
                    step = _first(self._parkings(now, leaving))
                if step is None:
                    self.refused.update(
                        (kind, name) for kind, names in targets.items()
                        for name in names)
                    return None
            now.move(step.guest, step.target, step.fit)
        if (self._most_memory_mib is not None and self._most_memory_mib < sum(
                move.memory_mib for move in now.moves)):
            return None
        return now

    def _steps(
        self, now: replay.MoveReplay, leaving: dict[int, list[str]],
        targets: dict[int, list[str]], is_shuffled: bool,
    ) -> Iterator[_Step]:
        """The moves that are wanted and can be made now."""
        wanted_at = {name for hosts in targets.values() for name in hosts}
        for kind, guests in leaving.items():
            seen = set()
            for uuid in guests:
                guest = now.guest(uuid)
                place = guest.host, guest.fit
                if place in seen:
                    continue
                seen.add(place)
                for target in dict.fromkeys(targets.get(kind, ())):
                    if target == guest.host:
                        continue
                    fit = now.verdict(guest, target)
                    if not isinstance(fit, model.Fit):
                        continue
                    # Who makes room for others goes first.
                    tie = (self._random.random() - 0.5 if is_shuffled
                           else -float(guest.host in wanted_at))
                    yield _Step(self._loss(now, guest, target, fit), tie,
                                guest, kind, target, fit)

    def _parkings(self, now: replay.MoveReplay,
                  leaving: dict[int, list[str]]) -> Iterator[_Step]:
        """Guests that have to leave, and hosts that take them meanwhile."""
        parked = {move.guest for move in now.moves}
        for kind, guests in leaving.items():
            for uuid in guests:
                if uuid in parked:
                    continue
                guest = now.guest(uuid)
                for name in now.occupancies:
                    if name == guest.host or name in self._closed:
                        continue
                    fit = now.verdict(guest, name)
                    if isinstance(fit, model.Fit):
                        yield _Step(
                            self._loss(now, guest, name, fit),
                            guest.memory_mib + self._random.random(),
                            guest, kind, name, fit)

    def _loss(self, now: replay.MoveReplay,
              guest: resident_guest.ResidentGuest, target: str,
              fit: model.Fit) -> float:
        before = now.occupancies[target]
        after = now.with_guest(guest, target, fit)
        return self._value(before) - self._value(after)


def _first(steps: Iterator[_Step]) -> _Step | None:
    """The first that costs nothing, else the one that costs least."""
    best = None
    for step in steps:
        if step.loss <= 0 and step.tie < 0:
            return step
        if best is None or step[:2] < best[:2]:
            best = step
    return best


def without_needless(
    done: replay.MoveReplay, start: replay.MoveReplay,
    is_good: Callable[[replay.MoveReplay], bool],
) -> replay.MoveReplay:
    """The moves without those that can be left out.

    :param is_good: whether what some of the moves come to will still do
    """
    number = len(done.moves) - 1
    while number >= 0:
        fewer = start.copy()
        for index, move in enumerate(done.moves):
            if index != number and not isinstance(
                    fewer.try_move(move.guest, move.target), model.Fit):
                break
        else:
            if is_good(fewer):
                done = fewer
        number = min(number, len(done.moves)) - 1
    return done
