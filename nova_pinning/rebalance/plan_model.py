# SPDX-License-Identifier: Apache-2.0
"""A plan of moves: which guests go where, in which order, and what it gains.

A plan is for one state of one fleet. Everything in it was shown to hold by
carrying the moves out one after the other on that state: each fits at the
moment it is made, and lies where nova-compute's claim puts it.
"""

import dataclasses
import enum
from typing import Annotated

from nova_pinning.admission import written_forms
from nova_pinning.document import codec
from nova_pinning.document import terms
from nova_pinning import errors
from nova_pinning.rebalance import plan_request


class PlanGoal(enum.StrEnum):
    """What a plan is for."""

    DEFRAGMENT = 'defragment'
    DRAIN = 'drain'


class MigrationKind(enum.StrEnum):
    """How nova moves a guest to another host."""

    LIVE = 'live'
    COLD = 'cold'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """One guest, from one host to another.

    :param guest: its UUID
    :param name: of the guest, '' if not known
    :param source: the host that it is on when its turn comes
    :param target: the host that nova is told to move it to
    :param source_fit: where it lies before, None for a floating guest
    :param target_fit: where nova-compute's claim on the target puts it, None
        for a floating guest
    :param memory_mib: that is copied, once; a guest that writes meanwhile
        takes more
    :param disk_gib: of its own on the source, that is copied too
    :param seconds: how long it takes, as far as can be told; None if not
    :param is_parking: whether the guest moves again later in the plan, and is
        only out of others' way meanwhile
    :param cold_reason: why it is not live, for people; '' if it is, or if
        that is not known
    :param after: positions in the plan of the moves that have to be done
        before this one; with all others it may run at the same time
    """

    guest: terms.Word
    name: terms.Line = ''
    flavor: terms.Line = ''
    source: terms.HostName
    target: terms.HostName
    kind: MigrationKind
    vcpus: terms.Vcpus
    memory_mib: terms.Amount
    disk_gib: terms.Amount = 0
    source_fit: written_forms.Place | None = None
    target_fit: written_forms.Place | None = None
    seconds: terms.Duration | None = None
    is_parking: bool = False
    cold_reason: terms.Prose = ''
    after: tuple[terms.Amount, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotGain:
    """How many further guests of one size fit, without and with the moves.

    :param size: as ``--for`` gives it, '16' or a flavor's name
    :param bound: that no plan of as many moves can exceed, proved; None if
        none is known
    """

    size: terms.Word
    before: terms.Amount
    after: terms.Amount
    bound: terms.Amount | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StuckGuest:
    """A guest that cannot leave its host, or finds no other.

    :param reason: for people, with the figures
    """

    guest: terms.Word
    name: terms.Line = ''
    host: terms.HostName
    reason: terms.Prose


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """The state of a fleet that a plan is for.

    :param digest: ``fleet_digest.of_fleet``; '' if it is not known
    :param taken_at: when, ISO 8601; '' if that is not known
    """

    digest: Annotated[str, codec.Limit(
        title='a digest such as sha256: with 64 hexadecimal digits',
        pattern='^sha256:[0-9a-f]{64}$')]
    taken_at: terms.Time = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePlan:
    """Moves in an order in which each fits at the moment it is made.

    :param request: what it was asked for with; None if that is not known
    :param is_optimal: whether it is proved that no other plan gains more
        with as many moves; with ``until``, that fewer will not do, or that
        so much room cannot be made within the limits
    :param until: how much room was asked for of the first size, None for as
        much as can be made
    :param stopped: why there are not more moves, for people
    :param drained: hosts that are empty afterwards, or were asked to be
    :param stuck: what stands in the way, () if nothing does
    """

    goal: PlanGoal
    fleet: FleetState = FleetState(digest='')
    request: plan_request.PlanRequest | None = None
    is_optimal: bool = False
    until: terms.Count | None = None
    stopped: terms.Prose = ''
    gains: tuple[SlotGain, ...] = ()
    drained: tuple[terms.HostName, ...] = ()
    stuck: tuple[StuckGuest, ...] = ()
    moves: tuple[PlannedMove, ...]

    @property
    def memory_mib(self) -> int:
        """That all moves copy."""
        return sum(move.memory_mib for move in self.moves)

    def known_request(self) -> plan_request.PlanRequest:
        """What it was asked for with.

        :raises errors.InputError: if the plan does not say
        """
        if self.request is None:
            raise errors.InputError(
                'the plan does not say what it was asked for with',
                advice='make a new one with nova-pinning rebalance plan')
        return self.request
