# SPDX-License-Identifier: Apache-2.0
"""Clocks of instances, held against the controller's."""

from collections.abc import Mapping
import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """An instance's clock, asked from outside: a handshake.

    All in seconds since the epoch, so that the clock inside was read at some
    time between the other two.

    :param before: by the controller's clock
    :param inside: by the instance's
    :param after: by the controller's again
    """

    before: float
    inside: float
    after: float

    @property
    def middle(self) -> float:
        """When it was read, as near as can be told."""
        return (self.before + self.after) / 2

    @property
    def offset(self) -> float:
        """What the instance's clock is ahead by, at the middle."""
        return self.inside - self.middle

    @property
    def uncertainty(self) -> float:
        """By how much the offset can be wrong, either way."""
        return (self.after - self.before) / 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClockCheck:
    """How far an instance's clock went wrong over a case.

    :param factors: of the case
    :param first: a handshake before the first run of the command
    :param last: one after the last
    """

    factors: Mapping[str, str]
    round: int
    instance: str
    first: ClockReading
    last: ClockReading

    @property
    def rate(self) -> float:
        """Seconds inside for a second outside."""
        return 1 + (self.last.offset - self.first.offset) / self._seconds

    @property
    def uncertainty(self) -> float:
        """By how much the rate can be wrong, either way."""
        return ((self.first.uncertainty + self.last.uncertainty)
                / self._seconds)

    @property
    def _seconds(self) -> float:
        return self.last.middle - self.first.middle
