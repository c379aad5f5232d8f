# SPDX-License-Identifier: Apache-2.0
"""The moves that make most room for guests of given sizes."""

from collections.abc import Sequence
from concurrent import futures
import dataclasses
import itertools
import math
import random

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning.rebalance import integer_program
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import one_way
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_search
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import slot_goal
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings
from nova_pinning.rebalance import whole_program

_TOLERANCE = 1e-6
# Of a large fleet: after the first.
_ROUNDS = 4
# Nodes of the search tree, where it has to go fast.
_FEW_NODES = 20
# For a plan to be found at all, however little time is left.
_LEAST_SECONDS = 1.0


def plan_defragmentation(
    fleet: snapshot.Fleet,
    sizes: Sequence[slot_size.SlotSize],
    limits: move_rules.MoveLimits,
    *,
    until: int | None = None,
    rules: move_rules.MoveRules | None = None,
    settings: solver_settings.SolverSettings = (
        solver_settings.SolverSettings()),
    tell: solver_settings.Tell = solver_settings.tell_nobody,
) -> plan_model.RebalancePlan:
    """The moves after which most guests of the sizes fit, none in vain.

    Of plans that make equal room it is one with the fewest moves, and of
    these one that copies the fewest bytes, as far as that was found out in
    the time.

    :param sizes: at least one; the room for each is counted as if it was the
        only one, and counts by its weight
    :param until: make room for so many guests in all, of the one size or of
        the first, with as few moves as will do; None for as many as can be
    :param rules: which guests may go where, made of the fleet if not given
    :param tell: is told of the progress now and then
    :returns: a plan without moves if none gains anything; if ``until`` is
        out of reach, the plan that comes closest, and ``stopped`` says so.
        ``is_optimal`` of a plan with ``until`` says that fewer moves will not
        do, or that it is out of reach
    :raises errors.InputError: if there are no sizes
    """
    if not sizes:
        raise errors.InputError('there is no size to make room for',
                                errors.Location('--for'))
    tell(0.0)
    if until is not None:
        # What the others gain is told, and not minded.
        chosen: Sequence[slot_size.SlotSize] = [
            dataclasses.replace(sizes[0], weight=1.0)]
    else:
        chosen = sizes
    search = plan_search.PlanSearch(fleet, chosen, limits, rules, settings)
    defragmentation = _Defragmentation(search, tell)
    plan = (defragmentation.most() if until is None
            else defragmentation.until(until))
    tell(1.0)
    if len(chosen) < len(sizes):
        plan = dataclasses.replace(
            plan, gains=(*plan.gains, *_other_gains(fleet, plan, sizes[1:])))
    return plan


def _other_gains(
    fleet: snapshot.Fleet, plan: plan_model.RebalancePlan,
    sizes: Sequence[slot_size.SlotSize],
) -> tuple[plan_model.SlotGain, ...]:
    """What a plan that was made for another size does for these."""
    after = replay.fleet_after(fleet, plan.moves)
    goal = slot_goal.SlotGoal(sizes, occupied.rules_of(fleet))
    before, then = [goal.total(occupied.of_fleet(state).values())
                    for state in (fleet, after)]
    return tuple(
        plan_model.SlotGain(size=size.name, before=had, after=has)
        for size, had, has in zip(sizes, before, then))


class _Defragmentation:
    """Looks for a plan, in two ways at once.

    A bound for all plans is found soon, and mostly a plan that reaches it, in
    which hosts either give or take guests. Else the proof that none can be
    better takes longer: it is HiGHS's, in a thread.
    """

    def __init__(self, search: plan_search.PlanSearch,
                 tell: solver_settings.Tell) -> None:
        self._search = search
        self._tell = tell
        self._value = search.value(search.start)
        self._best = search.start
        self._least: int | None = None
        self._givers = [name for name, groups
                        in search.counted.groups.items() if groups]
        self._solved: tuple[whole_program.WholeProgram,
                            integer_program.Solution] | None = None

    def most(self) -> plan_model.RebalancePlan:
        """The plan that makes most room."""
        bound = self._search_both_ways()
        if bound < self._value - _TOLERANCE * max(1.0, self._value):
            # To move nobody is always a solution: a solver that finds none,
            # or a bound that a plan exceeds, proves nothing.
            bound = math.inf
        bound = max(bound, self._value)
        is_optimal = self._value >= bound - _TOLERANCE
        return self._plan(bound, is_optimal, self._why_no_more(is_optimal))

    def until(self, least: int) -> plan_model.RebalancePlan:
        """The plan that makes so much room with the fewest moves."""
        if self._value >= least:
            return self._plan(math.inf, True,
                              f'there is room for {int(self._value):,}')
        self._least = least
        bound = self._search_both_ways()
        if self._value < least:
            return self._short_of(least, bound == -math.inf)
        return self._plan(math.inf, self._is_reached(bound),
                          f'there is room for {least:,} then')

    def _search_both_ways(self) -> float:
        """Look for the best plan.

        :returns: the bound, as :meth:`_prove` does; inf if none is known
        """
        search = self._search
        bound = self._look_at_all()
        if math.isfinite(bound) or bound == -math.inf:
            return bound
        most = search.settings.exact_hosts
        is_large = len(self._givers) > most
        givers = self._most_promising(most) if is_large else self._givers
        with futures.ThreadPoolExecutor(1) as executor:
            proof, is_found = None, False
            if search.settings.proves:
                proof = executor.submit(self._prove, True)
                program = search.giving(givers)
                bound = proof.result()
                self._tell(0.3)
                is_found = self._aim(program, bound)
                if not self._is_reached(bound):
                    proof = executor.submit(self._prove, False)
            if not is_found and not (is_large and self._least is None):
                is_found = self._look_among(givers)
            if not is_found and self._least is None:
                self._look_quickly(self._most_promising(most))
            if is_large and not self._is_reached(bound):
                self._look_further()
            self._tell(0.6)
            if proof is not None:
                bound = min(bound, proof.result())
                self._tell(0.8)
                if not self._is_reached(bound):
                    bound = min(bound, self._order())
        self._look_at_few(bound)
        return bound

    def _look_at_all(self) -> float:
        """Look at all plans, where there are few.

        :returns: the bound, as :meth:`_prove` does; inf if none is known
        """
        search, least = self._search, self._least
        done, is_proof = search.best_of_all(
            math.inf if least is None else least)
        if done is not None:
            self._offer(done)
        if not is_proof:
            return math.inf
        if least is None:
            return self._value
        return (-math.inf if self._value < least
                else -float(len(self._best.moves)))

    def _look_at_few(self, bound: float) -> None:
        """Look for what others pass over, among plans of few moves.

        They let no guest of a server group go, or no host both give and take.
        """
        search = self._search
        is_best = self._value >= bound - _TOLERANCE
        if self._least is not None:
            is_best = self._value >= self._least
        done = search.best_of_few(
            len(self._best.moves) - 1 if is_best else None,
            math.inf if self._least is None else self._least)
        if done is not None:
            self._offer(done)

    def _is_reached(self, bound: float) -> bool:
        """Whether no plan can be better."""
        if self._least is None:
            return self._value >= bound - _TOLERANCE
        return (self._value >= self._least
                and len(self._best.moves) <= -bound + _TOLERANCE)

    def _short_of(self, least: int,
                  is_proved: bool) -> plan_model.RebalancePlan:
        """What to say if room for so many guests is out of reach."""
        limits = self._search.limits
        within = ', however many guests are moved'
        if limits.moves is not None or limits.memory_mib is not None:
            within = f' within {self._told_limits()}'
        return self._plan(
            math.inf, is_proved,
            f'it is proved that room for {least:,} cannot be made{within}'
            if is_proved else
            f'no way was found to make room for {least:,}{within}')

    def _told_limits(self) -> str:
        """'the limit of 3 moves', 'the limits of 3 moves and 64 MiB'."""
        limits = self._search.limits
        told = []
        if limits.moves is not None:
            told.append(words.count(limits.moves, 'move'))
        if limits.memory_mib is not None:
            told.append(f'{limits.memory_mib:,} MiB to copy')
        return f'the limit{"s" * (len(told) > 1)} of {words.listed(told)}'

    def _aim(self, program: one_way.OneWayProgram, bound: float) -> bool:
        """Look for the fewest moves for all that is asked for, or can be.

        :param bound: of the value, where so much value is not asked for
        :returns: whether the program has a solution
        """
        aim = bound if self._least is None else self._least
        if not math.isfinite(aim):
            return False
        return self._take(program, self._search.fewest(program, aim))

    def _take(self, program: one_way.OneWayProgram,
              solution: integer_program.Solution) -> bool:
        """Offer what nova makes of a solution; whether there is one."""
        if solution.is_known:
            self._offer(self._search.carried_out(program, solution))
        return solution.is_known

    def _most_promising(self, most: int) -> list[str]:
        self._givers.sort(key=self._promise)
        moves = self._search.limits.moves
        return self._givers[:most if moves is None
                            else min(most, 2 * moves + 40)]

    def _look_quickly(self, givers: Sequence[str]) -> None:
        """Look for a good plan in which guests leave these hosts only."""
        program = self._search.giving(givers)
        self._take(program, program.good_value(
            max(_LEAST_SECONDS, self._search.seconds / 2), _FEW_NODES))

    def _look_further(self) -> None:
        """Let guests leave other hosts beside those of the best plan.

        First these are the next that promise most, and then any, by lot.
        """
        search = self._search
        lot = random.Random(search.settings.seed)
        for number in range(_ROUNDS):
            if search.seconds < search.settings.seconds / 2:
                break
            self._tell(0.3 + number / 15)
            chosen = {move.source for move in self._best.moves}
            others = [name for name in self._givers if name not in chosen]
            if number:
                lot.shuffle(others)
            left = max(0, search.settings.exact_hosts - len(chosen))
            self._look_among([*sorted(chosen), *others[:left]])

    def _look_among(self, givers: Sequence[str]) -> bool:
        """Look for the best plan in which guests leave these hosts only.

        :returns: whether it was found in the time
        """
        search = self._search
        program = search.giving(givers)
        if self._aim(program, math.inf):
            return True
        if self._least is not None:
            program = search.giving(givers)
        solution = program.most_value(search.seconds * 0.7)
        if solution.is_best:
            fewest = search.fewest(program, program.value_of(solution))
            if fewest.is_known:
                solution = fewest._replace(is_best=True)
        self._take(program, solution)
        return solution.is_best

    def _offer(self, done: replay.MoveReplay) -> None:
        """Keep a plan if it is better than the one so far."""
        value = self._search.value(done)
        # More than is asked for is worth nothing.
        worth, had = value, self._value
        if self._least is not None:
            worth, had = min(worth, self._least), min(had, self._least)
        if (-worth, *plan_search.rank(done)) < (
                -had, *plan_search.rank(self._best)):
            self._best, self._value = done, value

    def _promise(self, name: str) -> tuple[float, str]:
        """Less for hosts that few guests have to leave for one more slot."""
        search = self._search
        occupancy = search.counted.occupancies[name]
        had = search.goal.value(search.before[name])
        groups = search.counted.groups[name]
        guests = sorted(itertools.chain.from_iterable(
            group.guests for group in groups),
            key=lambda guest: guest.vcpus)
        best = math.inf
        # A single one of each size, then the smallest ones together.
        for guest in {guest.vcpus: guest for guest in guests}.values():
            if self._value_without(occupancy, guest) > had:
                best = min(best, 1 + guest.vcpus / 1000)
        if math.isinf(best):
            best = 2 + sum(cell.free_count == 0
                           for cell in occupancy.engine.cells)
        return best, name

    def _value_without(
        self, occupancy: host_occupancy.HostOccupancy,
        guest: resident_guest.ResidentGuest,
    ) -> float:
        search = self._search
        return search.goal.value(
            search.goal.on_host(occupancy.without(guest)))

    def _prove(self, is_relaxed: bool) -> float:
        """A bound for all plans.

        :param is_relaxed: whether one will do that is weaker, and that is
            found sooner
        :returns: of their value, or of the number of moves where so much
            value is asked for: negative, and -inf if no number will do
        """
        search = self._search
        if is_relaxed:
            program = search.whole(is_hopeful=True, least=self._least)
            return self._rounded(program.relaxed_bound(
                search.seconds, self._least is not None))
        self._solved = search.solved(self._solve, self._least)
        return self._rounded(self._solved[1].bound)

    def _rounded(self, bound: float) -> float:
        if self._least is None:
            return plan_search.whole_steps(
                bound, [size.weight for size in self._search.goal.sizes])
        return math.floor(bound + _TOLERANCE) if math.isfinite(
            bound) else bound

    def _solve(
        self, program: whole_program.WholeProgram,
    ) -> integer_program.Solution:
        if self._least is None:
            return program.most_value(self._search.seconds)
        return program.fewest_moves(self._search.seconds)

    def _order(self) -> float:
        """Try plans in which hosts give and take guests.

        :returns: a better bound, inf if none is found
        """
        search, least = self._search, self._least
        value, rank = self._value, plan_search.rank(self._best)
        if self._solved is None:
            return math.inf

        def is_good(done: replay.MoveReplay) -> bool:
            has = search.value(done)
            if least is not None:
                return has >= least and (
                    value < least or plan_search.rank(done) < rank)
            return has > value + _TOLERANCE

        program, solution = self._solved
        done, bound = search.ordered(
            program, solution, is_good, lambda: self._solve(program),
            lambda bound: self._is_reached(self._rounded(bound)))
        if done is not None:
            self._offer(done)
        return self._rounded(bound)

    def _why_no_more(self, is_optimal: bool) -> str:
        limits, moves = self._search.limits, self._best.moves
        if limits.moves is not None and len(moves) >= limits.moves:
            return f'the limit of {limits.moves:,} moves'
        if is_optimal:
            if limits.moves is None and limits.memory_mib is None:
                return 'no further move gains anything'
            return 'nothing more can be gained within the limits'
        if self._search.seconds:
            return 'no better plan was found'
        return 'no better plan was found in the time'

    def _plan(self, bound: float, is_optimal: bool,
              stopped: str) -> plan_model.RebalancePlan:
        search = self._search
        before = search.slots(search.start)
        after = search.slots(self._best)
        sizes = search.goal.sizes
        most = None
        if len(sizes) == 1 and math.isfinite(bound):
            most = int(bound / sizes[0].weight + _TOLERANCE)
        return plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DEFRAGMENT,
            moves=search.moves(self._best),
            gains=tuple(
                plan_model.SlotGain(size=size.name, before=had, after=has,
                                    bound=most)
                for size, had, has in zip(sizes, before, after)),
            is_optimal=is_optimal, stopped=stopped)
