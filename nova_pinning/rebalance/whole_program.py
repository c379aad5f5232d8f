# SPDX-License-Identifier: Apache-2.0
"""The integer program of a whole fleet: any guest may go anywhere.

It leaves out what nova alone decides: the cells that a guest gets on its new
host, and that each move has to fit at the moment it is made. So what it proves
is a bound for all plans, and what it finds still has to be put in order.
"""

from collections.abc import Collection
from collections.abc import Sequence
import dataclasses

from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import host_block
from nova_pinning.rebalance import integer_program
from nova_pinning.rebalance import moves_program
from nova_pinning.rebalance import slot_goal


@dataclasses.dataclass(frozen=True, slots=True)
class WantedMoves:
    """Guests that are to leave their hosts, and hosts that are to take some.

    :param leaving: UUIDs by the number of the kind
    :param targets: host names by the same, as often as guests go there
    """

    leaving: dict[int, list[str]]
    targets: dict[int, list[str]]


class WholeProgram(moves_program.MovesProgram):
    """Counts of guests that leave and come, for each host.

    :param emptied: names of hosts that all guests have to leave
    :param must_leave: whether guests have to leave the hosts to be emptied
    :param is_hopeful: whether all that is not known turns out well
    :param most_nodes: of each search, as ``SolverSettings`` has it
    """

    def __init__(
        self, counted: counted_fleet.CountedFleet, goal: slot_goal.SlotGoal,
        emptied: Collection[str] = (), must_leave: bool = True,
        is_hopeful: bool = False, most_nodes: int | None = None,
    ) -> None:
        super().__init__(counted, goal, most_nodes, is_hopeful)
        self._emptied = frozenset(emptied)
        #: Guests of each kind that come back to the host that they left,
        #: by way of another one, which is a move more.
        self._returns: dict[int, int] = {}
        for name, occupancy in counted.occupancies.items():
            builder = host_block.BlockBuilder(
                self._program, occupancy, counted.groups[name],
                guests_left=counted.guests_left(occupancy))
            builder.leave(fixed=must_leave and name in emptied)
            if name not in emptied:
                builder.come([kind for kind in counted.kinds
                              if counted.may_reach(kind, occupancy.host,
                                                   is_hopeful)])
            self._add(builder, name, name in emptied)
        self._balance()
        for kind, terms in self._flows.items():
            self._returns[kind] = self._program.variable(sum(
                self._program.most(column)
                for column, sign in terms if sign < 0))
            self._moves[self._returns[kind]] = 1
            self._memory[self._returns[kind]] = counted.kinds[
                kind].guest.memory_mib

    def relaxed_bound(self, seconds: float, counts_moves: bool) -> float:
        """What the room cannot exceed, be guests in parts or not.

        :param counts_moves: the negative of the number of moves instead
        """
        return self._program.relaxed_bound(
            self._each_move if counts_moves else self._value, seconds)

    def fewest_moves(self, seconds: float) -> integer_program.Solution:
        """Do with the fewest moves; the bound is their number, negative."""
        return self._program.solve(self._each_move, seconds)

    @property
    def _each_move(self) -> dict[int, float]:
        return dict.fromkeys(self._moves, -1.0)

    def most_leaving(self, seconds: float) -> integer_program.Solution:
        """Let as many guests as can be leave the hosts to be emptied."""
        return self._program.solve({
            variable: 1.0 for block in self._blocks
            if block.host in self._emptied
            for variable in block.leaving}, seconds)

    def mind_returns(self, values: Sequence[int]) -> bool:
        """Forbid a solution in which guests leave the host that they go to.

        nova does not migrate a guest within its host. That is only minded
        where it matters, since it makes the program larger.

        :returns: whether it was one
        """
        minded = False
        for kind, terms in self._flows.items():
            total = [(column, 1.0) for column, sign in terms if sign < 0]
            rows = [self._on_host(block, kind) for block in self._blocks]
            if any(sum(values[column] for column in row)
                   > sum(values[column] for column, _one in total)
                   + values[self._returns[kind]] for row in rows):
                minded = True
                for row in rows:
                    if row:
                        together = dict.fromkeys(row, 1.0)
                        for column, _one in total:
                            together[column] = together.get(column, 0) - 1
                        self._program.row(
                            [*together.items(), (self._returns[kind], -1)],
                            high=0)
        return minded

    @staticmethod
    def _on_host(block: host_block.HostBlock, kind: int) -> list[int]:
        """The guests of a kind that leave a host or come, if both may be."""
        leaving = [variable for group, variable
                   in zip(block.groups, block.leaving)
                   if group.kind.number == kind]
        coming = block.coming.get(kind, [])
        return [*leaving, *coming] if leaving and coming else []

    def forbid(self, refused: Collection[tuple[int, str]]) -> None:
        """Let no guests of a kind come to a host."""
        for block in self._blocks:
            for kind, variables in block.coming.items():
                if (kind, block.host) in refused:
                    for variable in variables:
                        self._program.close(variable)

    def staying(self, values: Sequence[int]) -> list[str]:
        """UUIDs of guests that do not leave the hosts to be emptied."""
        return [
            guest.uuid for block in self._blocks
            if block.host in self._emptied
            for group, variable in zip(block.groups, block.leaving)
            for guest in group.guests[values[variable]:]]

    def wanted(self, values: Sequence[int]) -> WantedMoves:
        """What a solution wants to be moved."""
        wanted = WantedMoves(self.leaving(values), {})
        for block in self._blocks:
            for kind, variables in block.coming.items():
                times = sum(values[variable] for variable in variables)
                if times:
                    wanted.targets.setdefault(kind, []).extend(
                        [block.host] * times)
        return wanted
