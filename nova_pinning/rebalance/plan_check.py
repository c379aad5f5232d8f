# SPDX-License-Identifier: Apache-2.0
"""Whether a plan still holds on a fleet as it is now.

Its moves are made one after the other on the snapshot. A move that cannot be
made is left out, and those after it are looked at without it.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
import dataclasses
import enum

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.rebalance import fleet_digest
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import slot_goal
from nova_pinning.rebalance import slot_size

#: What nova's own claim makes of a guest on a host, under nova's packing of
#: cells or without it; None if it refuses the guest
#: (``bridge.offline.fleet_claim.claimed_fit``).
NovaClaim = Callable[
    [host_occupancy.HostOccupancy, guest_request.GuestRequest, bool],
    model.Fit | None]


class MoveOutcome(enum.StrEnum):
    """What has become of a planned move.

    DONE is one that has been made already. DIFFERS can be made, but from or
    to other CPUs than planned.
    """

    HOLDS = 'holds'
    DONE = 'done'
    GONE = 'gone'
    DIFFERS = 'differs'
    FAILS = 'fails'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoveCheck:
    """A planned move on the fleet as it is now.

    :param number: its position in the plan, from 0
    :param reason: why it does not hold, '' if it does
    """

    number: int
    move: plan_model.PlannedMove
    outcome: MoveOutcome
    reason: str = ''

    @property
    def is_sound(self) -> bool:
        """Whether all is as planned."""
        return self.outcome in (MoveOutcome.HOLDS, MoveOutcome.DONE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """A plan on a fleet as it is now.

    :param is_same_state: whether the fleet is still in the state that the
        plan is made for
    :param moves: all of them
    :param staying: guests that would be left on hosts which the plan empties
    :param gains: what there is room for now, and after the moves that can be
        made; () if the sizes are not known
    :param is_short: whether that is less room than the plan was asked for
    :param is_other_fleet: whether none of the plan's hosts is in the fleet
    """

    is_same_state: bool
    moves: tuple[MoveCheck, ...]
    staying: tuple[resident_guest.ResidentGuest, ...] = ()
    gains: tuple[plan_model.SlotGain, ...] = ()
    is_short: bool = False
    is_other_fleet: bool = False

    @property
    def holds(self) -> bool:
        """Whether the plan does what it is for, as it is."""
        return not self.staying and not self.is_short and (
            not self.is_other_fleet) and all(
            check.is_sound for check in self.moves)


def check_plan(
    plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
    rules: move_rules.MoveRules, ask_nova: fit.AskNova | None = None,
    claim: NovaClaim | None = None,
    sizes: Sequence[slot_size.SlotSize] = (), excluded: Collection[str] = (),
) -> PlanCheck:
    """Make the moves of a plan on a fleet.

    :param rules: of this fleet, by the wishes of the plan
    :param sizes: that the plan makes room for
    :param excluded: hosts whose room does not count
    :param ask_nova: decides the claims of guests that only nova can tell
    :param claim: is asked about every move too, and has to agree
    """
    checker = _PlanChecker(plan, fleet, rules, ask_nova, claim)
    goal = slot_goal.SlotGoal(sizes, occupied.rules_of(fleet))
    before = _room(checker.replay, goal, excluded)
    checks = tuple(checker.check(number, move)
                   for number, move in enumerate(plan.moves))
    hosts = {host.name for host in fleet.hosts}
    gains = tuple(
        plan_model.SlotGain(size=size.name, before=had, after=has)
        for size, had, has in zip(
            sizes, before, _room(checker.replay, goal, excluded)))
    named = {*plan.drained, *(name for move in plan.moves
                              for name in (move.source, move.target))}
    # What was out of reach from the first is not missed.
    promised = min(plan.until or 0,
                   plan.gains[0].after if plan.gains else 0)
    return PlanCheck(
        is_same_state=plan.fleet.digest == fleet_digest.of_fleet(fleet),
        moves=checks,
        staying=() if plan.stuck else tuple(
            guest for name in plan.drained if name in hosts
            for guest in checker.replay.occupancies[name].guests),
        gains=gains, is_short=bool(gains) and gains[0].after < promised,
        is_other_fleet=bool(named) and named.isdisjoint(hosts))


def _room(moved: replay.MoveReplay, goal: slot_goal.SlotGoal,
          excluded: Collection[str]) -> slot_goal.Slots:
    """Slots of each size in all."""
    return goal.total(occupancy for name, occupancy
                      in moved.occupancies.items() if name not in excluded)


class _PlanChecker:
    """Makes moves, one after the other."""

    def __init__(
        self, plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
        rules: move_rules.MoveRules, ask_nova: fit.AskNova | None,
        claim: NovaClaim | None,
    ) -> None:
        self._fleet = fleet
        self._rules = rules
        self._claim = claim
        self._last = {move.guest: number
                      for number, move in enumerate(plan.moves)}
        self._moves = plan.moves
        self.replay = replay.MoveReplay(
            fleet, rules, occupied.of_fleet(fleet), ask_nova)
        wanted = set(self._last)
        self._guests = {guest.uuid: guest for guest in fleet.guests
                        if guest.uuid in wanted}

    def check(self, number: int, move: plan_model.PlannedMove) -> MoveCheck:
        """What becomes of a move; it is made if it can be."""
        outcome, reason = self._outcome(number, move)
        return MoveCheck(number=number, move=move, outcome=outcome,
                         reason=reason)

    def _outcome(self, number: int, move: plan_model.PlannedMove,
                 ) -> tuple[MoveOutcome, str]:
        guest = self._guests.get(move.guest)
        if guest is None:
            return MoveOutcome.GONE, 'the guest is gone'
        if self._is_done(number, guest):
            return MoveOutcome.DONE, ''
        if guest.host != move.source:
            return MoveOutcome.FAILS, f'the guest is on {guest.host}'
        for name in (move.source, move.target):
            if name not in self.replay.occupancies:
                return (MoveOutcome.FAILS,
                        f'the fleet has no host {name} any more')
        if not self.replay.occupancies[move.target].host.is_enabled:
            return MoveOutcome.FAILS, f'{move.target} is disabled'
        reason = self._rules.guest_refusal(guest)
        if reason:
            return MoveOutcome.FAILS, reason
        found = self.replay.verdict(guest, move.target)
        if isinstance(found, str):
            return MoveOutcome.FAILS, f'{move.target}: {found}'
        return self._made(move, guest, found)

    def _is_done(self, number: int,
                 guest: resident_guest.ResidentGuest) -> bool:
        """Whether a guest lies where this move brings it, or its last one.
        """
        last = self._moves[self._last[guest.uuid]]
        move = self._moves[number]
        return guest.host != move.source and any(
            guest.host == done.target and guest.fit == done.target_fit
            for done in (move, last))

    def _made(
        self, move: plan_model.PlannedMove,
        guest: resident_guest.ResidentGuest, found: model.Fit,
    ) -> tuple[MoveOutcome, str]:
        """Make a move that can be made."""
        differences = []
        if (guest.vcpus, guest.memory_mib) != (move.vcpus, move.memory_mib):
            differences.append(
                f'the guest has {guest.vcpus} vCPUs and {guest.memory_mib:,} '
                'MiB of memory now')
        elif guest.fit != move.source_fit:
            differences.append(
                f'the guest lies on {_place(guest.fit)} of {move.source} now')
        occupancy = self.replay.occupancies[move.target]
        moved = self.replay.move(guest, move.target, found)
        self._guests[guest.uuid] = moved
        if moved.fit != move.target_fit:
            differences.append(
                f'it would get {_place(moved.fit)} of {move.target}, not '
                f'{_place(move.target_fit)}')
        if self._claim is not None:
            claimed = self._claim(
                occupancy,
                self._rules.request(guest),
                self._fleet.packs_cells)
            if claimed is None:
                return (MoveOutcome.FAILS,
                        f"nova's claim on {move.target} refuses it")
            if not _are_alike(claimed, found):
                differences.append(
                    f"nova's claim gives it {_place(claimed)} of "
                    f'{move.target}')
        if differences:
            return MoveOutcome.DIFFERS, '; '.join(differences)
        return MoveOutcome.HOLDS, ''


def _are_alike(found: model.Fit, other: model.Fit) -> bool:
    """Whether two fits take the same of a host.

    Which vCPU is on which thread of a core is not looked at: nova goes by the
    order of a set there, which a snapshot need not have.
    """
    return [_cell_taken(cell) for cell in found.cells] == [
        _cell_taken(cell) for cell in other.cells]


def _cell_taken(cell: model.CellFit) -> tuple[object, ...]:
    return (cell.host_cell, frozenset(cpu for _vcpu, cpu in cell.pins),
            len(cell.emulator_cpus), cell.page_size_kib)


def _place(found: model.Fit | None) -> str:
    """'cell 0, CPUs 0-3', of all cells of a guest."""
    if found is None or not found.cells:
        return 'no CPUs of its own'
    return ' and '.join(
        f'cell {cell.host_cell}' + (
            f', CPUs {cpuset.CpuSet(cpu for _vcpu, cpu in cell.pins)}'
            if cell.pins else '') for cell in found.cells)
