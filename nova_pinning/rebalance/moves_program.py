# SPDX-License-Identifier: Apache-2.0
"""What the integer programs of plans have in common.

Counts of guests of each kind leave hosts, and as many come to others.
"""

from collections.abc import Sequence

from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import host_block
from nova_pinning.rebalance import integer_program
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import slot_goal
from nova_pinning import units


class MovesProgram:
    """Moves that are counted, and the slots that there are then.

    :param most_nodes: of each search, as ``SolverSettings`` has it
    :param is_hopeful: whether all that is not known turns out well
    """

    def __init__(
        self, counted: counted_fleet.CountedFleet, goal: slot_goal.SlotGoal,
        most_nodes: int | None = None, is_hopeful: bool = False,
    ) -> None:
        self._is_hopeful = is_hopeful
        self._counted = counted
        self._goal = goal
        self._program = integer_program.IntegerProgram(most_nodes)
        self._blocks: list[host_block.HostBlock] = []
        self._value: dict[int, float] = {}
        self._moves: dict[int, float] = {}
        self._memory: dict[int, float] = {}
        self._flows: dict[int, list[integer_program.Term]] = {}

    def _add(self, builder: host_block.BlockBuilder, name: str,
             is_emptied: bool) -> None:
        """Count what a host gives away and takes, and its slots.

        :param is_emptied: whether it is to be empty, so that it has none
        """
        host = self._counted.occupancies[name].host
        block = builder.finish(
            () if is_emptied else self._goal.requests(
                host, self._counted.shape(host), self._is_hopeful))
        self._blocks.append(block)
        for size, slots in zip(self._goal.sizes, block.slots):
            self._value.update(dict.fromkeys(slots, size.weight))
        for group, variable in zip(block.groups, block.leaving):
            self._flows.setdefault(group.kind.number, []).append(
                (variable, -1))
            self._moves[variable] = 1
            self._memory[variable] = group.kind.guest.memory_mib
        for kind, variables in block.coming.items():
            self._flows.setdefault(kind, []).extend(
                (variable, 1) for variable in variables)

    def _balance(self) -> None:
        """As many guests of a kind come to hosts as leave some."""
        for terms in self._flows.values():
            self._program.row(terms, low=0, high=0)

    def limit(self, limits: move_rules.MoveLimits) -> None:
        """Let no more be moved."""
        if limits.moves is not None:
            self._program.row(self._moves.items(), high=limits.moves)
        if limits.memory_mib is not None:
            self._program.row(self._memory.items(), high=limits.memory_mib)

    def reach(self, least_value: float) -> None:
        """Let there be room of at least so much value."""
        self._program.row(self._value.items(), low=least_value - 1e-6)

    def most_value(self, seconds: float) -> integer_program.Solution:
        """Make as much room as can be made."""
        # There is little to branch on: it takes a half to a fifth as long.
        return self._program.solve(self._value, seconds, presolves=False)

    def _cheapest(self) -> dict[int, float]:
        """As few moves as can be, and of those the fewest bytes."""
        # All memory of the largest guests is less than a move.
        most_gib = max(self._memory.values(),
                       default=0) / units.MIB_PER_GIB + 1
        per_move = most_gib * 128
        return {variable: -per_move - memory / units.MIB_PER_GIB
                for variable, memory in self._memory.items()}

    def leaving(self, values: Sequence[int]) -> dict[int, list[str]]:
        """UUIDs of the guests that leave their hosts, by kind."""
        leaving: dict[int, list[str]] = {}
        for block in self._blocks:
            for group, variable in zip(block.groups, block.leaving):
                if values[variable]:
                    leaving.setdefault(group.kind.number, []).extend(
                        guest.uuid
                        for guest in group.guests[:values[variable]])
        return leaving
