# SPDX-License-Identifier: Apache-2.0
"""Which guests hosts can take one after another, as nova would place them.

nova chooses the cells of a guest on its new host itself, so that not
everything that there is room for can be reached. Here hosts take guests by
the engine, step by step; states of hosts that are alike are looked at once for
the whole fleet.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import heapq

from nova_pinning.admission import host_occupancy
from nova_pinning import fit
from nova_pinning.fleet import guest_kinds
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import slot_goal
from nova_pinning import units

#: Placements that are tried by the engine, for a whole fleet.
MOST_TRIED = 6000


@dataclasses.dataclass(slots=True, eq=False)
class TakingHosts:
    """Hosts with the same room.

    :ivar state: of one of them
    :ivar slots: of each size that they have
    :ivar hosts: names of those that are in it now
    :ivar after: the state after one more guest, by the number of its kind
    """

    state: guest_kinds.HostState
    slots: slot_goal.Slots
    hosts: list[str] = dataclasses.field(default_factory=list)
    after: dict[int, 'TakingHosts'] = dataclasses.field(default_factory=dict)


class HostStates:
    """The states of a fleet's hosts, and those that they can get to.

    :param names: of the hosts that may take guests
    :param ask_nova: nova's own claim, None to take the engine's word
    :ivar states: all of them
    """

    def __init__(
        self, counted: counted_fleet.CountedFleet, goal: slot_goal.SlotGoal,
        names: Iterable[str], ask_nova: fit.AskNova | None = None,
    ) -> None:
        self._counted = counted
        self._goal = goal
        self._states: dict[Hashable, TakingHosts] = {}
        self._requests = [
            *(kind.request for kind in counted.kinds),
            *(size.request for size in goal.sizes)]
        self._memory_per_cpu_kib = self._most_memory_per_cpu()
        self._minds_threads = any(
            request.topology is not None
            and request.topology.thread_policy is not (
                model.ThreadPolicy.PREFER) for request in self._requests)
        self._minds_disk = any(
            request.disk_gib for request in self._requests)
        self._counts_guests = counted.rules.scheduler.counts_guests
        judge = counted.rules.admission(fit.ClaimBounds(ask_nova=ask_nova))
        for name in names:
            self._of(guest_kinds.HostState(
                counted.occupancies[name], judge,
                moves=counted.rules))[0].hosts.append(name)

    @property
    def states(self) -> Sequence[TakingHosts]:
        return tuple(self._states.values())

    def grow(self, kinds: Sequence[guest_kinds.GuestKind],
             most_tried: int = MOST_TRIED) -> None:
        """Let hosts take guests of these kinds, as many as they can.

        Those states come first that lose no slots; after ``most_tried``
        placements the others are left out.
        """
        waiting = [(0.0, number, state) for number, state
                   in enumerate(self.states)]
        number = len(waiting)
        heapq.heapify(waiting)
        while waiting and most_tried > 0:
            cost, _number, here = heapq.heappop(waiting)
            value = self._goal.value(here.slots)
            for kind in kinds:
                occupancy = here.state.occupancy
                if not (self._counted.allows(kind, occupancy.host)
                        and occupancy.has_cpus_for(kind.topology)):
                    continue
                most_tried -= 1
                if not isinstance(here.state.room(kind), model.Fit):
                    continue
                after, is_new = self._of(here.state.with_guest(kind))
                here.after[kind.number] = after
                if is_new:
                    number += 1
                    lost = value - self._goal.value(after.slots)
                    heapq.heappush(waiting, (
                        cost + 1 + 10 * max(0.0, lost), number, after))

    def _of(self, state: guest_kinds.HostState) -> tuple[TakingHosts, bool]:
        """The hosts in a state, and whether it is a new one."""
        key = self._key(state.occupancy)
        hosts = self._states.get(key)
        if hosts is not None:
            return hosts, False
        hosts = self._states[key] = TakingHosts(
            state, self._goal.on_host(state.occupancy))
        return hosts, True

    def _most_memory_per_cpu(self) -> int | None:
        """What a guest takes at most for each dedicated CPU, in KiB.

        None if there are guests that take memory and no CPUs.
        """
        most = 0
        for request in self._requests:
            if request.topology is None:
                return None
            for demand in request.topology.demands:
                if not demand.dedicated or demand.shared:
                    return None
                most = max(most, -(-demand.memory_mib * units.KIB_PER_MIB
                                   // demand.dedicated))
        return most

    def _key(self, occupancy: host_occupancy.HostOccupancy) -> Hashable:
        """Equal for hosts of which it may be said that they are alike.

        Memory beyond what the free CPUs can ever use does not count.
        """
        host = occupancy.host
        per_cpu = self._memory_per_cpu_kib
        cells: list[Hashable] = []
        for cell in occupancy.engine.cells:
            enough = None if per_cpu is None else cell.free_count * per_cpu
            pools: Mapping[int, int] = {
                pool.size_kib: pool.free_kib for pool in cell.pages} or {
                    0: (cell.memory_mib - cell.memory_used_mib)
                    * units.KIB_PER_MIB}
            cells.append((
                cell.free_count,
                tuple(sorted(map(len, cell.free_cores)))
                if self._minds_threads else (),
                tuple([free if enough is None else min(free, enough)
                       for free in pools.values()]),
                cell.shared_used if per_cpu is None else 0))
        used = occupancy.resources_used
        return (
            self._counted.shape(host), tuple(cells),
            len(occupancy.guests) if self._counts_guests else 0,
            occupancy.device_uses if host.pci_pools else (),
            used.get(inventory.DISK_GB) if self._minds_disk else 0,
            tuple(used.values()) if per_cpu is None else tuple(
                amount for name, amount in used.items()
                if name not in inventory.COUNTED),
            *[tuple(sorted(used.items())) for used in occupancy.used[1:]])
