# SPDX-License-Identifier: Apache-2.0
"""The moves that leave hosts without guests."""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import math

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_search
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import solver_settings

_TOLERANCE = 1e-6


def plan_drain(
    fleet: snapshot.Fleet,
    hosts: Sequence[str],
    limits: move_rules.MoveLimits,
    *,
    rules: move_rules.MoveRules | None = None,
    settings: solver_settings.SolverSettings = (
        solver_settings.SolverSettings()),
    tell: solver_settings.Tell = solver_settings.tell_nobody,
) -> plan_model.RebalancePlan:
    """The fewest moves that empty hosts, with moves elsewhere if needed.

    No guest goes to any of the hosts.

    :param hosts: names, each one of the fleet
    :returns: all or nothing: if not all guests can leave, a plan without
        moves, of which ``stuck`` says what stands in the way and
        ``is_optimal`` whether it is proved that there is no way
    :raises errors.InputError: if a host is not one of the fleet, there is
        none, or a limit is below what has to move
    """
    if not hosts:
        raise errors.InputError('there is no host to drain',
                                errors.Location('--drain'))
    known = {host.name for host in fleet.hosts}
    for name in sorted({*hosts} - known):
        raise errors.InputError(f'there is no host {name!r}',
                                errors.Location('--drain'))
    tell(0.0)
    search = plan_search.PlanSearch(
        fleet, (), limits, rules, settings, frozenset(hosts))
    plan = _Drain(search, dict.fromkeys(hosts), tell).plan()
    tell(1.0)
    return plan


class _Drain:

    def __init__(self, search: plan_search.PlanSearch, hosts: Iterable[str],
                 tell: solver_settings.Tell) -> None:
        self._search = search
        self._hosts = tuple(hosts)
        self._tell = tell
        self._guests = [
            guest for name in self._hosts
            for guest in search.counted.occupancies[name].guests]

    def plan(self) -> plan_model.RebalancePlan:
        search = self._search
        stuck = self._bound_to_stay(False)
        if stuck and self._bound_to_stay(True):
            return self._stuck(stuck, True)
        if not stuck:
            self._check_room_in_limits()
        done, is_proof = search.best_of_all(0.0)
        if stuck:
            return self._stuck(stuck, is_proof)
        if done is not None and self._is_drained(done):
            return self._made(
                done, is_proof or len(done.moves) == len(self._guests))
        if is_proof:
            return self._impossible()
        done = self._simply()
        if done is not None:
            return self._made(done, True)
        self._tell(0.3)
        program, solution = search.solved(
            lambda program: program.fewest_moves(search.seconds))
        if solution.bound == -math.inf:
            return self._impossible()
        self._tell(0.7)
        if solution.is_known:
            done, _bound = search.ordered(
                program, solution, self._is_drained,
                lambda: program.fewest_moves(search.seconds))
        if done is None:
            done = search.best_of_few(enough=0.0)
        if done is None or not self._is_drained(done):
            return self._stuck(self._without_room(''), False)
        return self._made(
            done, len(done.moves) <= math.ceil(-solution.bound - _TOLERANCE))

    def _bound_to_stay(
            self, is_hopeful: bool) -> list[plan_model.StuckGuest]:
        """Guests that may not leave, or may go nowhere.

        :param is_hopeful: whether all that is not known turns out well
        """
        counted = self._search.counted
        stuck = [
            _stuck_guest(guest, counted.refusals[guest.uuid])
            for guest in self._guests if guest.uuid in counted.refusals]
        others = [occupancy.host for occupancy in self._others()]
        for name in self._hosts:
            for group in counted.groups[name]:
                if any(counted.allows(group.kind, host, is_hopeful)
                       for host in others):
                    continue
                doubt = next((
                    f'no host takes it for certain; {host.name}: '
                    f'{counted.refusal(group.kind, host)}' for host in others
                    if counted.allows(group.kind, host, True)), '')
                stuck += [
                    _stuck_guest(guest, doubt or self._why_nowhere(guest))
                    for guest in group.guests]
        return stuck

    def _others(self) -> Iterator[host_occupancy.HostOccupancy]:
        for name, occupancy in self._search.counted.occupancies.items():
            if name not in self._search.closed:
                yield occupancy

    def _why_nowhere(self, guest: resident_guest.ResidentGuest) -> str:
        """What most of the other hosts are refused for."""
        reasons = collections.Counter(
            self._search.rules.host_refusal(guest, occupancy.host)
            or self._search.start.verdict(guest, occupancy.host.name)
            for occupancy in self._others())
        if not reasons:
            return 'there is no other host'
        (reason, times), = reasons.most_common(1)
        return (f'none of the other {sum(reasons.values()):,} hosts takes it, '
                f'not even empty; {times:,} of them: {reason}')

    def _check_room_in_limits(self) -> None:
        """
        :raises errors.InputError: if more has to be moved than may be
        """
        limits = self._search.limits
        count = len(self._guests)
        if limits.moves is not None and count > limits.moves:
            raise errors.InputError(
                f'{words.count(count, "guest")} cannot leave with a limit of '
                f'{words.count(limits.moves, "move")}',
                errors.Location('--moves'), 'each takes a move at least')
        memory_mib = sum(guest.memory_mib for guest in self._guests)
        if limits.memory_mib is not None and memory_mib > limits.memory_mib:
            raise errors.InputError(
                f'{memory_mib:,} MiB have to be copied at least, and '
                f'{limits.memory_mib:,} MiB are allowed',
                errors.Location('--memory'))

    def _simply(self) -> replay.MoveReplay | None:
        """Each guest moves once, and no others do."""
        search = self._search
        program = search.giving(self._hosts, search.closed)
        solution = search.fewest(program, 0)
        if not solution.is_known:
            return None
        done = search.carried_out(program, solution)
        # Of hosts that are alike a server group may keep off this one.
        for guest in self._guests:
            if done.guest(guest.uuid).host == guest.host:
                self._move_anywhere(done, guest.uuid)
        return done if self._is_drained(done) else None

    def _move_anywhere(self, done: replay.MoveReplay, uuid: str) -> None:
        for occupancy in self._others():
            if isinstance(done.try_move(uuid, occupancy.host.name),
                          model.Fit):
                return

    def _is_drained(self, done: replay.MoveReplay) -> bool:
        return not any(done.occupancies[name].guests for name in self._hosts)

    def _without_room(self, extent: str) -> list[plan_model.StuckGuest]:
        """Guests for which there is no room, as few as can be.

        :param extent: how far it is certain that there is none
        """
        search = self._search
        program = search.whole(must_leave=False)
        solution = program.most_leaving(search.seconds)
        staying = set(program.staying(solution.values)
                      if solution.is_known else ())
        guests = [guest for guest in self._guests if guest.uuid in staying
                  ] or self._guests
        return [_stuck_guest(guest, self._why_no_room(guest, extent))
                for guest in guests]

    def _why_no_room(self, guest: resident_guest.ResidentGuest,
                     extent: str) -> str:
        """What the host with the most free CPUs that it may go to lacks."""
        search = self._search
        best: tuple[int, str, object] | None = None
        for occupancy in self._others():
            name = occupancy.host.name
            if search.rules.host_refusal(guest, occupancy.host):
                continue
            verdict = search.start.verdict(guest, name)
            if isinstance(verdict, model.Fit):
                return (f'{name} has room for it, but '
                        + ('there is not enough for all that have to leave'
                           if extent else 'no way was found for all that '
                           'have to leave') + extent)
            free = max((cell.free_count for cell in occupancy.engine.cells),
                       default=0)
            if best is None or free > best[0]:
                best = free, name, verdict
        if best is None:
            return 'it may go to no other host'
        return f'no host has room for it{extent}; {best[1]}: {best[2]}'

    def _impossible(self) -> plan_model.RebalancePlan:
        """What to say if it is proved that there is no room."""
        limits = self._search.limits
        extent = ', whichever guests are moved'
        if limits.moves is not None or limits.memory_mib is not None:
            extent += ' within the limits'
        return self._stuck(self._without_room(extent), True)

    def _stuck(self, stuck: Sequence[plan_model.StuckGuest],
               is_proved: bool) -> plan_model.RebalancePlan:
        said = ('the hosts cannot be drained' if is_proved
                else 'no way was found to drain the hosts')
        return plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DRAIN, moves=(), drained=self._hosts,
            stuck=tuple(stuck), is_optimal=is_proved,
            stopped=f'{said}: {len(stuck):,} of {len(self._guests):,} guests '
                    f'are stuck')

    def _made(self, done: replay.MoveReplay,
              is_optimal: bool) -> plan_model.RebalancePlan:
        return plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DRAIN, moves=self._search.moves(done),
            drained=self._hosts, is_optimal=is_optimal,
            stopped='the hosts have no guests then')


def _stuck_guest(guest: resident_guest.ResidentGuest,
                 reason: str) -> plan_model.StuckGuest:
    return plan_model.StuckGuest(guest=guest.uuid, host=guest.host,
                                 reason=reason, name=guest.name)
