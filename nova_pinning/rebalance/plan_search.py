# SPDX-License-Identifier: Apache-2.0
"""What looking for a plan of any goal has in common."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import functools
import math
import time

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import every_plan
from nova_pinning.rebalance import integer_program
from nova_pinning.rebalance import move_order
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import one_way
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import replay
from nova_pinning.rebalance import slot_goal
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings
from nova_pinning.rebalance import taking_hosts
from nova_pinning.rebalance import whole_program

#: Nodes of the search tree for plans that copy fewer bytes.
_NODES_FOR_BYTES = 200
# Solutions of the program of a whole fleet that are put in order at most.
_SOLUTIONS = 6


class PlanSearch:
    """A fleet, and what is wanted of it.

    :param closed: names of hosts that no guest may go to
    """

    def __init__(
        self, fleet: snapshot.Fleet, sizes: Iterable[slot_size.SlotSize],
        limits: move_rules.MoveLimits, rules: move_rules.MoveRules | None,
        settings: solver_settings.SolverSettings,
        closed: frozenset[str] = frozenset(),
    ) -> None:
        self.fleet = fleet
        self.limits = limits
        self.settings = settings
        self.closed = closed
        self._ends = time.monotonic() + settings.seconds
        self.rules = rules or move_rules.MoveRules(fleet)
        self.counted = counted_fleet.CountedFleet(
            fleet, self.rules, limits.fixed)
        self.goal = slot_goal.SlotGoal(
            tuple(sizes), self.rules.scheduler)
        self.before = {
            name: self.goal.on_host(occupancy)
            for name, occupancy in self.counted.occupancies.items()}
        self.start = replay.MoveReplay(
            fleet, self.rules, self.counted.occupancies, settings.ask_nova)

    @property
    def seconds(self) -> float:
        """What is left of the time."""
        return max(0.0, self._ends - time.monotonic())

    @functools.cached_property
    def states(self) -> taking_hosts.HostStates:
        """What hosts can take of the guests that are to move.

        Where hosts are to be emptied these are the ones there, and else any
        that are in no server group: it depends on others where those may go.
        """
        states = taking_hosts.HostStates(
            self.counted, self.goal,
            [name for name in self.counted.occupancies
             if name not in self.closed], self.settings.ask_nova)
        if self.closed:
            states.grow(list({
                group.kind.number: group.kind for name in sorted(self.closed)
                for group in self.counted.groups[name]}.values()))
        else:
            states.grow([kind for kind in self.counted.kinds
                         if not kind.group])
        return states

    def best_of_all(
        self, enough: float = math.inf,
    ) -> tuple[replay.MoveReplay | None, bool]:
        """The best of all plans, where there are few.

        :param enough: more is worth nothing; of hosts that are to be emptied
            the guests count, negative
        :returns: None if there are too many, and whether it is proved that
            there is none better
        """
        if not self._tries_all:
            return None, False
        plans = self._every_plan()
        if not plans.is_small:
            return None, False
        done = plans.best(enough)
        return done, done is not None and plans.is_proof

    def best_of_few(
        self, most_moves: int | None = None,
        enough: float = math.inf,
    ) -> replay.MoveReplay | None:
        """The best of all plans with so few moves that all can be tried.

        :param most_moves: no more than so many
        """
        if not self._tries_all or not self.seconds:
            return None
        plans = self._every_plan()
        few = min(plans.most_moves, plans.most_moves if most_moves is None
                  else most_moves)
        return plans.best(enough, few) if few > 0 else None

    @property
    def _tries_all(self) -> bool:
        return self.settings.tries_all and self.settings.proves

    def _every_plan(self) -> every_plan.EveryPlan:
        return every_plan.EveryPlan(
            self.counted, self.start, self.goal, self.limits, self.closed)

    def giving(
        self, givers: Iterable[str], emptied: frozenset[str] = frozenset(),
    ) -> one_way.OneWayProgram:
        """The program of plans in which hosts either give or take."""
        program = one_way.OneWayProgram(
            self.counted, self.goal, self.states.states, list(givers),
            emptied, self.settings.most_nodes)
        program.limit(self.limits)
        return program

    def whole(self, must_leave: bool = True, is_hopeful: bool = False,
              least: int | None = None) -> whole_program.WholeProgram:
        """The program of all plans.

        :param is_hopeful: whether all that is not known turns out well
        :param least: that the room is to be worth, None for whatever it is
        """
        program = whole_program.WholeProgram(
            self.counted, self.goal, self.closed, must_leave, is_hopeful,
            self.settings.most_nodes)
        program.limit(self.limits)
        if least is not None:
            program.reach(least)
        return program

    @functools.cached_property
    def _has_doubts(self) -> bool:
        """Whether guests or slots might be where that is not certain."""
        alike = {self.counted.shape(host): host for host in self.fleet.hosts}
        return any(
            self.goal.requests(host, shape)
            != self.goal.requests(host, shape, True)
            or any(self.counted.may_reach(kind, host, True)
                   and not self.counted.may_reach(kind, host)
                   for kind in self.counted.kinds)
            for shape, host in alike.items())

    def solved(
        self, solve: Callable[[whole_program.WholeProgram],
                              integer_program.Solution],
        least: int | None = None,
    ) -> tuple[whole_program.WholeProgram, integer_program.Solution]:
        """That program and its solution.

        Of what is not known the solution makes no use, and its bound the
        best.
        """
        program = self.whole(least=least)
        solution = solve(program)
        if self._has_doubts:
            hopeful = solve(self.whole(is_hopeful=True, least=least))
            solution = solution._replace(
                bound=max(solution.bound, hopeful.bound))
        return program, solution

    def carried_out(
        self, program: one_way.OneWayProgram,
        solution: integer_program.Solution,
    ) -> replay.MoveReplay:
        """What nova makes of the moves of a one-way plan.

        Those that it refuses are left out.
        """
        done = self.start.copy()
        for guest, target in program.wanted(solution):
            done.try_move(guest, target)
        return done

    def fewest(
        self, program: one_way.OneWayProgram, least_value: float,
    ) -> integer_program.Solution:
        """The fewest moves for so much, and of these the fewest bytes."""
        return program.fewest_moves(
            least_value, self.seconds * 0.9, _NODES_FOR_BYTES)

    def slots(self, done: replay.MoveReplay) -> tuple[int, ...]:
        """Slots of each size on all hosts."""
        changed = {name for move in done.moves
                   for name in (move.source, move.target)}
        return tuple(map(sum, zip((0,) * len(self.goal.sizes), *[
            self.goal.on_host(done.occupancies[name])
            if name in changed else slots
            for name, slots in self.before.items()])))

    def value(self, done: replay.MoveReplay) -> float:
        """What these slots are worth."""
        return self.goal.value(self.slots(done))

    def ordered(
        self, program: whole_program.WholeProgram,
        solution: integer_program.Solution,
        is_good: Callable[[replay.MoveReplay], bool],
        again: Callable[[], integer_program.Solution],
        is_enough: Callable[[float], bool] = lambda bound: False,
    ) -> tuple[replay.MoveReplay | None, float]:
        """A solution whose moves nova can make, in an order that it can.

        :param solution: as :meth:`solved` gives it
        :param is_good: whether the outcome will do
        :param again: solves the program once more, when something has been
            forbidden in it
        :param is_enough: whether a bound shows that there is nothing to find
        :returns: it, if there is one, and the bound for all plans
        """
        bound = solution.bound
        is_exact = not self._has_doubts
        for _time in range(_SOLUTIONS):
            if not solution.is_known:
                break
            if not program.mind_returns(solution.values):
                order = self._order()
                done = self._in_order(order, program.wanted(solution.values),
                                      is_good)
                if done is not None:
                    return done, bound
                # From here on solutions are left out that others may make
                # of use after all, so that nothing is proved any more.
                is_exact = False
                program.forbid(order.refused)
            if not self.seconds:
                break
            solution = again()
            if is_exact:
                bound = min(bound, solution.bound)
                if is_enough(bound):
                    break
        return None, bound

    def _order(self) -> move_order.MoveOrder:
        most = self.limits.moves
        if most is None:
            most = 2 * len(self.fleet.guests)
        return move_order.MoveOrder(
            self.start, self.value_of_host, most, self.limits.memory_mib,
            self.closed, self.settings.seed, lambda: not self.seconds)

    def _in_order(
        self, order: move_order.MoveOrder, wanted: whole_program.WantedMoves,
        is_good: Callable[[replay.MoveReplay], bool],
    ) -> replay.MoveReplay | None:
        for done in order.orders(wanted):
            if is_good(done):
                return move_order.without_needless(
                    done, self.start, is_good)
            if not self.seconds:
                break
        return None

    def value_of_host(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> float:
        """What the room on a host is worth."""
        return self.goal.value(self.goal.on_host(occupancy))

    def moves(
        self, done: replay.MoveReplay,
    ) -> tuple[plan_model.PlannedMove, ...]:
        """The moves for the plan."""
        guests: Mapping[str, resident_guest.ResidentGuest] = {
            guest.uuid: guest for guest in self.fleet.guests}
        return replay.linked(done.moves, [
            move.guest for move in done.moves
            if self.rules.is_grouped(guests[move.guest])])


def rank(done: replay.MoveReplay) -> tuple[int, int]:
    """Less for plans with fewer moves, and then with fewer bytes."""
    return len(done.moves), sum(move.memory_mib for move in done.moves)


def whole_steps(bound: float, weights: Iterable[float]) -> float:
    """The largest value up to a bound that slots can have in all."""
    if not math.isfinite(bound):
        return bound
    weights = [weight for weight in weights if weight]
    if not weights:
        return 0.0
    step = weights[0]
    if any(weight != step for weight in weights):
        if any(weight % 1 for weight in weights):
            return bound
        step = float(math.gcd(*map(int, weights)))
    return math.floor(bound / step + 1e-6) * step
