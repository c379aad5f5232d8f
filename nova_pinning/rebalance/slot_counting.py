# SPDX-License-Identifier: Apache-2.0
"""How many further guests of the sizes wanted go on a host, by the engine."""

from collections.abc import Sequence

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import scheduler_rules
from nova_pinning.capacity import count
from nova_pinning.rebalance import slot_size


class SlotCounter:
    """Counts what nova would place on hosts, as ``capacity`` does.

    Each size is counted as if it was the only one.

    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    """

    def __init__(self, sizes: Sequence[slot_size.SlotSize],
                 packs_cells: bool) -> None:
        self.sizes = tuple(sizes)
        admission = judge.AdmissionJudge(
            scheduler_rules.SchedulerRules(packs_cells=packs_cells))
        self._counters = [count.Counter(size.request, admission)
                          for size in sizes]
        self._numbering = count.Numbering()

    def on_host(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> tuple[int, ...]:
        """Further guests of each size on a host."""
        host = self._numbering.host(occupancy)
        return tuple([counter.count(host).certain
                      for counter in self._counters])

    def value(self, counts: Sequence[int]) -> float:
        """What slots of each size are worth together."""
        return sum(number * size.weight
                   for number, size in zip(counts, self.sizes))
