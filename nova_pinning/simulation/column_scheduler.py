# SPDX-License-Identifier: Apache-2.0
"""What both schedulers of a simulation do alike."""

import abc
from typing import Generic
from typing import NamedTuple
from typing import TypeVar

import numpy

from nova_pinning.admission import guest_request
from nova_pinning.simulation import admission_columns


class SchedulingDecision(NamedTuple):
    """What became of a request.

    :param host: place of the host in the ledger, None if no host will do
    :param is_l3_possible: whether some host would have put the guest in as
        few L3 domains as can be; None if that was not looked at
    :param is_l3_met: whether the chosen one does
    """

    host: int | None
    is_l3_possible: bool | None = None
    is_l3_met: bool | None = None


REFUSED = SchedulingDecision(None)

_Asked = TypeVar('_Asked')


class ColumnScheduler(abc.ABC, Generic[_Asked]):
    """Puts guests on hosts that Placement offers and filters let pass.

    What chooses among them, with the CPUs of each in view, is the engine, or
    what it is compared with.

    :param columns: with the ledger
    """

    def __init__(self, columns: admission_columns.AdmissionColumns) -> None:
        self.columns = columns
        self.ledger = columns.ledger

    def place(self, uuid: str, request: guest_request.GuestRequest,
              ) -> SchedulingDecision:
        """Put a guest where nova would."""
        kind = self.columns.of(request)
        offered = kind.offered()
        if not offered.any():
            # Filters and weighers see requests that find hosts only.
            return REFUSED
        return self._schedule(uuid, kind, offered)

    def move(self, uuid: str, request: guest_request.GuestRequest,
             target: int) -> bool:
        """Migrate a guest to a host that is named, if nova would.

        It is claimed there before it leaves its host.

        :param request: for the guest
        :param target: place of another host in the ledger
        :returns: whether it is there now; if not, it is where it was
        """
        kind = self.columns.of(request)
        offered = kind.offered()
        return bool(offered[target]) and self._schedule(
            uuid, kind, offered, target).host is not None

    def _schedule(
        self, uuid: str, kind: admission_columns.KindColumns,
        offered: admission_columns.Flags, target: int | None = None,
    ) -> SchedulingDecision:
        asked = self.ask(uuid, kind)
        indices = numpy.flatnonzero(offered & kind.passing())
        if target is not None:
            indices = indices[indices == target]
        decision = REFUSED
        if len(indices):
            decision = self.choose(asked, kind, indices)
        if decision.host is not None:
            self.take(uuid, asked, kind, decision.host)
        return decision

    def remove(self, uuid: str) -> None:
        """Take a guest off its host."""
        self.ledger.release(uuid)

    def close(self) -> None:
        """Give back what it had for itself."""

    @abc.abstractmethod
    def ask(self, uuid: str, kind: admission_columns.KindColumns) -> _Asked:
        """Take note of a request."""

    @abc.abstractmethod
    def choose(
        self, asked: _Asked, kind: admission_columns.KindColumns,
        indices: admission_columns.Flags,
    ) -> SchedulingDecision:
        """Which of some hosts it takes, if there is one that will do."""

    @abc.abstractmethod
    def take(self, uuid: str, asked: _Asked,
             kind: admission_columns.KindColumns, index: int) -> None:
        """Put a guest on the host that was chosen.

        If it is on another one, it leaves that.
        """
