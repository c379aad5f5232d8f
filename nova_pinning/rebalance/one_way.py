# SPDX-License-Identifier: Apache-2.0
"""Plans in which each host either only gives guests away or only takes some.

There every move fits at any time but for those to the same host, whose order
is nova's concern: no two guests are in each other's way, and what hosts can
take is known from the engine (``taking_hosts``). On large fleets that is
mostly as good as any plan.
"""

from collections.abc import Mapping
from collections.abc import Sequence

from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import host_block
from nova_pinning.rebalance import integer_program
from nova_pinning.rebalance import moves_program
from nova_pinning.rebalance import slot_goal
from nova_pinning.rebalance import taking_hosts

# So many moves for one more slot are worth while where it has to go fast.
_MOVES_PER_SLOT = 16


class OneWayProgram(moves_program.MovesProgram):
    """Looks for such plans.

    :param states: of all hosts that may take guests
    :param givers: names of hosts that may give guests away
    :param emptied: of those that have to give away all of them
    :param most_nodes: of each search, as ``SolverSettings`` has it
    """

    def __init__(
        self, counted: counted_fleet.CountedFleet, goal: slot_goal.SlotGoal,
        states: Sequence[taking_hosts.TakingHosts],
        givers: Sequence[str], emptied: frozenset[str] = frozenset(),
        most_nodes: int | None = None,
    ) -> None:
        super().__init__(counted, goal, most_nodes)
        self._states = states
        self._switches: dict[str, int] = {}
        self._arcs: dict[tuple[int, int], int] = {}
        self._numbers = {id(state): number
                         for number, state in enumerate(states)}
        for name in givers:
            self._add_giver(name, name in emptied)
        self._add_states()
        self._balance()

    def _add_giver(self, name: str, is_emptied: bool) -> None:
        groups = [group for group in self._counted.groups[name]
                  if is_emptied or not group.kind.group]
        switch = self._switches[name] = self._program.variable(1)
        builder = host_block.BlockBuilder(
            self._program, self._counted.occupancies[name], groups, switch)
        builder.leave(fixed=is_emptied)
        self._add(builder, name, is_emptied)
        if is_emptied:
            self._program.row([(switch, 1)], low=1)

    def _add_states(self) -> None:
        rows: list[list[integer_program.Term]] = [
            [] for _state in self._states]
        most = len(self._counted.occupancies)
        for number, state in enumerate(self._states):
            stay = self._program.variable(most)
            rows[number].append((stay, -1))
            value = self._goal.value(state.slots)
            if value:
                self._value[stay] = value
            rows[number] += [(self._switches[name], -1)
                             for name in state.hosts
                             if name in self._switches]
            for kind, after in state.after.items():
                arc = self._program.variable(most)
                self._arcs[number, kind] = arc
                rows[number].append((arc, -1))
                rows[self._numbers[id(after)]].append((arc, 1))
                self._flows.setdefault(kind, []).append((arc, 1))
        for state, row in zip(self._states, rows):
            self._program.row(row, low=-len(state.hosts),
                              high=-len(state.hosts))

    def good_value(self, seconds: float,
                   nodes: int) -> integer_program.Solution:
        """Make much room with few moves and bytes.

        On large fleets that is mostly as much as can be, and found much
        sooner than what is the most however many moves it takes.
        """
        objective = self._cheapest()
        per_slot = _MOVES_PER_SLOT * max(map(abs, objective.values()),
                                         default=0)
        most = max(self._value.values(), default=1)
        for variable, worth in self._value.items():
            objective[variable] = per_slot * worth / most
        return self._program.solve(objective, seconds, nodes)

    def value_of(self, solution: integer_program.Solution) -> float:
        return sum(solution.values[variable] * worth
                   for variable, worth in self._value.items())

    def fewest_moves(self, least_value: float, seconds: float,
                     nodes: int | None = None) -> integer_program.Solution:
        """Make so much room with the fewest moves, and then fewest bytes."""
        if least_value > 0:
            self.reach(least_value)
        return self._program.solve(self._cheapest(), seconds, nodes,
                                   presolves=False)

    def wanted(
        self, solution: integer_program.Solution,
    ) -> list[tuple[str, str]]:
        """The moves of a solution, in an order that nova can take.

        :returns: guests, each with the host that it is to go to
        """
        targets: dict[int, list[tuple[int, str]]] = {}
        for host, kinds in sorted(self._paths(solution.values).items()):
            for position, kind in enumerate(kinds):
                targets.setdefault(kind, []).append((position, host))
        moves: list[tuple[int, str, str]] = []
        for kind, guests in self.leaving(solution.values).items():
            for guest, (position, host) in zip(
                    guests, sorted(targets.get(kind, ())), strict=True):
                moves.append((position, host, guest))
        moves.sort(key=lambda move: move[:2])
        return [(guest, host) for _position, host, guest in moves]

    def _paths(self, values: Sequence[int]) -> Mapping[str, list[int]]:
        """The kinds of the guests that each host takes, in order."""
        paths: dict[str, list[int]] = {}
        at = [[name for name in state.hosts
               if name not in self._switches
               or not values[self._switches[name]]]
              for state in self._states]
        # With one more guest there is less room, so that no state comes
        # again: those that nobody gets to any more are dealt with first.
        coming = [0] * len(self._states)
        for (number, kind), arc in self._arcs.items():
            if values[arc]:
                coming[self._numbers[id(
                    self._states[number].after[kind])]] += 1
        ready = [number for number, count in enumerate(coming) if not count]
        while ready:
            number = ready.pop()
            for kind, after in self._states[number].after.items():
                count = values[self._arcs[number, kind]]
                if not count:
                    continue
                reached = self._numbers[id(after)]
                for _times in range(count):
                    name = at[number].pop()
                    paths.setdefault(name, []).append(kind)
                    at[reached].append(name)
                coming[reached] -= 1
                if not coming[reached]:
                    ready.append(reached)
        return paths
