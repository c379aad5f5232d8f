# SPDX-License-Identifier: Apache-2.0
"""How many guests of lost hosts stay down whatever is done, at least.

First the integer program of plans, in which no guest leaves a host that is
left. It leaves to the engine which cells nova chooses, threads of a core and
devices near a cell. So it can only be too hopeful, and what it finds
impossible is impossible. A place that is not certain counts as one.

Then every evacuation there is, where that is few enough to look at them all.
What comes to a host does not matter to another one, so it is enough to know
which guests each host can take in some order, and to add these up.
"""

from collections.abc import Mapping
import math
from typing import NamedTuple

from nova_pinning.fleet import guest_kinds
from nova_pinning.rebalance import evacuation
from nova_pinning.rebalance import host_block
from nova_pinning.rebalance import integer_program

_TOLERANCE = 1e-6
# Kinds, in the order in which they come to a host.
_Sequence = tuple[int, ...]
# How many of each kind.
_Counts = tuple[int, ...]


class EvacuationBound(NamedTuple):
    """What the program came to.

    :param down: so many guests stay down at least
    :param counts: how many of a kind on a host, by number and name, of the
        best that was found; {} if nothing was
    """

    down: int
    counts: Mapping[tuple[int, str], int]


def least_down(
    fleet: evacuation.EvacuationFleet, counts: Mapping[int, int],
    targets: evacuation.Targets, seconds: float,
) -> EvacuationBound:
    """Bound the guests that stay down.

    :param counts: of each kind, by number
    """
    program = integer_program.IntegerProgram()
    coming: dict[int, list[int]] = {number: [] for number in counts}
    placed: dict[tuple[int, str], list[int]] = {}
    for name, state in targets.items():
        kinds = [
            kind for kind in map(fleet.kinds.__getitem__, counts)
            if fleet.would_take(kind, state) or name in fleet.doubts(kind)]
        if not kinds:
            continue
        builder = host_block.BlockBuilder(program, state.occupancy)
        builder.come(kinds)
        block = builder.finish(())
        groups: dict[str, list[integer_program.Term]] = {}
        for number, variables in block.coming.items():
            coming[number] += variables
            placed[number, name] = variables
            kind = fleet.kinds[number]
            if kind.most is not None:
                groups.setdefault(kind.group, []).extend(
                    (variable, 1) for variable in variables)
                most = kind.most - state.members.get(kind.group, 0)
                program.row(groups[kind.group], high=most)
    for number, variables in coming.items():
        program.row([(variable, 1) for variable in variables],
                    high=counts[number])
    solution = program.solve(
        {variable: 1.0 for variables in coming.values()
         for variable in variables}, seconds)
    total = sum(counts.values())
    up = math.floor(min(total, solution.bound + _TOLERANCE))
    return EvacuationBound(max(0, total - up), {
        key: count for key, variables in placed.items() if solution.is_known
        and (count := sum(solution.values[variable]
                          for variable in variables))})


class BestEvacuation(NamedTuple):
    """An evacuation of which it is certain that none leaves fewer down.

    :param sequences: numbers of kinds in the order in which they come to
        each host
    """

    down: int
    sequences: Mapping[str, _Sequence]


class TooManyError(Exception):
    """There is more to look at than is allowed."""


def best(
    fleet: evacuation.EvacuationFleet, counts: Mapping[int, int],
    targets: evacuation.Targets, limit: int,
) -> BestEvacuation:
    """Look at everything.

    :param counts: of each kind, by number
    :param limit: of fits, and of sums
    :raises TooManyError: if that is not enough
    """
    search = _Search(fleet, counts, limit)
    whole = sum(counts.values())
    reached: dict[_Counts, dict[str, _Sequence]] = {
        (0,) * len(counts): {}}
    for name, state in targets.items():
        # Without this host, which takes one sequence.
        so_far = list(reached.items())
        for taken, sequence in search.options(state).items():
            for before, sequences in so_far:
                search.count()
                after = tuple(map(sum, zip(before, taken)))
                if after not in reached and all(
                        number <= most for number, most
                        in zip(after, counts.values())):
                    reached[after] = {**sequences, name: sequence}
    most = max(reached, key=sum)
    return BestEvacuation(whole - sum(most), reached[most])


class _Search:

    def __init__(self, fleet: evacuation.EvacuationFleet,
                 counts: Mapping[int, int], limit: int) -> None:
        self._fleet = fleet
        self._counts = counts
        self._left = limit

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooManyError

    def options(
        self, state: guest_kinds.HostState,
    ) -> dict[_Counts, _Sequence]:
        """What a host can take in some order, the empty set left out."""
        kinds = [self._fleet.kinds[number] for number in self._counts]
        kinds_here = [kind for kind in kinds
                      if not self._fleet.refusal(kind, state)]
        place = {kind.number: number for number, kind in enumerate(kinds)}
        whole = tuple(self._counts.values())
        found: dict[_Counts, _Sequence] = {}
        seen = set()
        waiting: list[tuple[_Counts, guest_kinds.HostState, _Sequence]] = [
            ((0,) * len(kinds), state, ())]
        while waiting:
            taken, here, sequence = waiting.pop()
            for kind in kinds_here:
                number = place[kind.number]
                if taken[number] >= self._counts[kind.number]:
                    continue
                self.count()
                if not here.takes(kind):
                    continue
                after = (*taken[:number], taken[number] + 1,
                         *taken[number + 1:])
                there = here.with_guest(kind)
                # What is used of resources follows from the counts.
                key = (after, there.occupancy.engine,
                       there.occupancy.device_uses)
                if key in seen:
                    continue
                seen.add(key)
                longer = (*sequence, kind.number)
                if after == whole:
                    # Nothing is left for others, and nothing is better.
                    return {after: longer}
                found.setdefault(after, longer)
                waiting.append((after, there, longer))
        return found
