# SPDX-License-Identifier: Apache-2.0
"""How many guests of lost hosts stay down whatever is done, at least.

The integer program of plans, in which no guest leaves a host that is left.
It leaves to the engine which cells nova chooses, threads of a core and
devices near a cell. So it can only be too hopeful, and what it finds
impossible is impossible. A place that is not certain counts as one.
"""

from collections.abc import Mapping
import dataclasses
import math

from nova_pinning.rebalance import evacuation
from nova_pinning.rebalance import host_block
from nova_pinning.rebalance import integer_program

_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class EvacuationBound:
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
        builder = host_block.BlockBuilder(program, state.occupancy)
        builder.come([
            kind for kind in map(fleet.kinds.__getitem__, counts)
            if fleet.would_take(kind, state) or fleet.doubt(kind, state)])
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
    up = min(total, math.floor(solution.bound + _TOLERANCE)) if (
        math.isfinite(solution.bound)) else total
    return EvacuationBound(max(0, total - up), {
        key: count for key, variables in placed.items() if solution.is_known
        and (count := sum(solution.values[variable]
                          for variable in variables))})
