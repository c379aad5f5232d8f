# SPDX-License-Identifier: Apache-2.0
"""Room for guests of the sizes wanted: how many there is, and its worth."""

from collections.abc import Iterable
from collections.abc import Sequence

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import scheduler_rules
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.rebalance import slot_size

#: How many slots of each size there are.
Slots = tuple[int, ...]


class SlotGoal:
    """Counts what nova would place on hosts, as ``capacity`` does.

    Each size is counted as if it was the only one. Which aggregates and zones
    guests of a size are for nobody says; how many guests may be on a host,
    filters do.

    :param sizes: each counts by its weight
    :param rules: what nova-scheduler is set to
    """

    def __init__(
        self, sizes: Sequence[slot_size.SlotSize],
        rules: scheduler_rules.SchedulerRules = (
            scheduler_rules.SchedulerRules()),
    ) -> None:
        self.sizes = tuple(sizes)
        admission = judge.AdmissionJudge(rules.counting_only)
        self._counters = [count.Counter(size.request, admission)
                          for size in sizes]
        self._numbering = like_hosts.Numbering()
        self._requests: dict[tuple[int, bool], tuple[
            guest_request.GuestRequest | None, ...]] = {}

    def on_host(self, occupancy: host_occupancy.HostOccupancy) -> Slots:
        """Further guests of each size on a host."""
        return self.known_on_host(occupancy)[0]

    def known_on_host(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> tuple[Slots, bool]:
        """The same, and whether no more can fit for all that is known."""
        host = self._numbering.host(occupancy)
        counts = [counter.count(host) for counter in self._counters]
        return (tuple([found.certain for found in counts]),
                all([found.certain == found.fits for found in counts]))

    def total(
        self, occupancies: Iterable[host_occupancy.HostOccupancy],
    ) -> Slots:
        """Further guests of each size on some hosts together."""
        return tuple(map(sum, zip(
            (0,) * len(self.sizes), *map(self.on_host, occupancies))))

    def requests(
        self, host: offered_host.OfferedHost, shape: int,
        is_hopeful: bool = False,
    ) -> tuple[guest_request.GuestRequest | None, ...]:
        """The sizes that a host could have, were it empty; else None.

        :param shape: equal for hosts that are alike
        :param is_hopeful: whether all that is not known turns out well
        """
        key = shape, is_hopeful
        if key not in self._requests:
            empty = self._numbering.host(host_occupancy.of_host(host))
            counts = [counter.count(empty) for counter in self._counters]
            self._requests[key] = tuple(
                size.request if (
                    found.fits if is_hopeful else found.certain) else None
                for size, found in zip(self.sizes, counts))
        return self._requests[key]

    def value(self, slots: Sequence[int]) -> float:
        """What slots of each size are worth together."""
        return sum(number * size.weight
                   for number, size in zip(slots, self.sizes))
