# SPDX-License-Identifier: Apache-2.0
"""What plans are to reach, as integer programs take it."""

from collections.abc import Mapping
from collections.abc import Sequence

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.admission import scheduler_rules
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import guest_kinds
from nova_pinning.rebalance import host_block
from nova_pinning.rebalance import slot_size
from nova_pinning import units


class SlotGoal:
    """Room for guests of some sizes.

    :param sizes: each counts by its weight
    """

    def __init__(self, counted: guest_kinds.CountedFleet,
                 sizes: Sequence[slot_size.SlotSize]) -> None:
        self.sizes = tuple(sizes)
        self._counted = counted
        # Which aggregates and zones guests of a size are for nobody says.
        self._judge = judge.AdmissionJudge(scheduler_rules.SchedulerRules(
            packs_cells=counted.fleet.packs_cells))
        self._requests: dict[
            int, tuple[guest_request.GuestRequest | None, ...]] = {}

    def requests(
        self, host: snapshot.FleetHost,
    ) -> tuple[guest_request.GuestRequest | None, ...]:
        """The sizes that a host could have, were it empty; else None."""
        shape = self._counted.shape(host)
        if shape not in self._requests:
            empty = host_occupancy.of_host(host)
            self._requests[shape] = tuple(
                size.request if isinstance(
                    self._judge.answer(size.request, empty), outcome.Admitted)
                else None for size in self.sizes)
        return self._requests[shape]

    def value(self, slots: Sequence[int]) -> float:
        """What slots of each size are worth together."""
        return sum(count * size.weight
                   for count, size in zip(slots, self.sizes))

    def add(self, objective: dict[int, float],
            block: host_block.HostBlock) -> None:
        """Count the slots of a host."""
        for size, variables in zip(self.sizes, block.slots):
            for variable in variables:
                objective[variable] = size.weight


def fewest_moves(moves: Mapping[int, float],
                 memory: Mapping[int, float]) -> dict[int, float]:
    """As few moves as can be, and of plans with as many the fewest bytes."""
    # All memory of the largest guests is less than a move.
    most_gib = max(memory.values(), default=0) / units.MIB_PER_GIB + 1
    per_move = most_gib * 128
    return {variable: -per_move - memory[variable] / units.MIB_PER_GIB
            for variable in moves}
