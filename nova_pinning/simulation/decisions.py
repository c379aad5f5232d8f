# SPDX-License-Identifier: Apache-2.0
"""What was decided in a run, as whole numbers, one for each decision.

All that happens in a run follows from them: carried out again in their order
they lead to the same state. -1 is a refusal, and less than that a move; what
is above says which host a guest was put on.
"""

from collections.abc import Iterable
from typing import NamedTuple

from nova_pinning.simulation import column_scheduler

REFUSED = -1


class MoveDecision(NamedTuple):
    """A guest that is moved to another host.

    :param guest: its number: those of the fleet by their UUIDs, then the
        arrivals as they come
    :param target: place of the host in the ledger
    :param is_made: or nova refused it
    """

    guest: int
    target: int
    is_made: bool = True


def encoded(decision: column_scheduler.SchedulingDecision) -> int:
    """A decision on a request as one number."""
    if decision.host is None:
        return REFUSED
    return (decision.host * 8 + bool(decision.is_l3_met) * 4
            + bool(decision.is_l3_possible) * 2
            + (decision.is_l3_possible is not None))


def decoded(number: int) -> column_scheduler.SchedulingDecision:
    """The reverse of :func:`encoded`."""
    if number < 0:
        return column_scheduler.REFUSED
    host, flags = divmod(number, 8)
    return column_scheduler.SchedulingDecision(host, *(
        (bool(flags & 2), bool(flags & 4)) if flags & 1 else ()))


def encoded_move(move: MoveDecision, hosts: int) -> int:
    """A move as one number.

    :param hosts: that the ledger has
    """
    return REFUSED - 1 - (
        (move.guest * hosts + move.target) * 2 + move.is_made)


def decoded_move(number: int, hosts: int) -> MoveDecision:
    """The reverse of :func:`encoded_move`."""
    where, is_made = divmod(REFUSED - 1 - number, 2)
    return MoveDecision(*divmod(where, hosts), bool(is_made))


class KnownDecisions:
    """The decisions of a run that was broken off, from the first on.

    It can have been broken off anywhere, between two moves too.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = iter(numbers)
        self._next = next(self._numbers, None)

    def request(self) -> int | None:
        """What was decided on the next request, None if that is not known."""
        number = self._next
        self._next = next(self._numbers, None)
        return number

    def moves(self) -> list[int] | None:
        """The moves that were made now, None unless all are known."""
        numbers = []
        while self._next is not None and self._next < REFUSED:
            numbers.append(self._next)
            self._next = next(self._numbers, None)
        return None if self._next is None else numbers
