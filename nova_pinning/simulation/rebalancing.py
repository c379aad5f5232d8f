# SPDX-License-Identifier: Apache-2.0
"""Guests that are moved in a simulation, as ``rebalance`` would move them."""

import collections
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import math

from nova_pinning.admission import guest_request
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import slot_size
from nova_pinning.rebalance import solver_settings
from nova_pinning.simulation import meter
from nova_pinning.simulation import occupancy_ledger
from nova_pinning.simulation import rebalance_policy

#: Requests that tell which size room is made for, as many as
#: FragmentationWeigher goes by.
_RECENT = 256
# Of the search tree of an integer program; most plans need a tenth of it.
_MOST_NODES = 2000


#: Makes a plan for a fleet.
Planner = Callable[
    [snapshot.Fleet, Sequence[slot_size.SlotSize], move_rules.MoveLimits],
    plan_model.RebalancePlan]


def plan(
    fleet: snapshot.Fleet, sizes: Sequence[slot_size.SlotSize],
    limits: move_rules.MoveLimits,
) -> plan_model.RebalancePlan:
    """What ``nova-pinning rebalance plan --for`` plans."""
    # The solver takes a while to load.
    from nova_pinning.rebalance import defragment

    # A clock would have a say in what is found, so nodes are counted.
    return defragment.plan_defragmentation(
        fleet, sizes, limits, settings=solver_settings.SolverSettings(
            seconds=math.inf, most_nodes=_MOST_NODES, proves=False))


class Rebalancing:
    """The moves of a run: when they are made, and which.

    They take no time.

    :param fleet: of which the ledger has the hosts
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param plan: makes a plan
    :param move: makes a move: takes the UUID, the request and the place of
        the target in the ledger, and says whether nova would make it
    """

    def __init__(
        self, fleet: snapshot.Fleet, ledger: occupancy_ledger.OccupancyLedger,
        policy: rebalance_policy.RebalancePolicy, packs_cells: bool,
        plan: Planner,
        move: Callable[[str, guest_request.GuestRequest, int], bool],
    ) -> None:
        self._fleet = dataclasses.replace(
            fleet, hosts=ledger.hosts, guests=(), packs_cells=packs_cells)
        self._ledger = ledger
        self._policy = policy
        self._plan = plan
        self._move = move
        self._index_of = {
            host.name: index for index, host in enumerate(ledger.hosts)}
        self._recent: collections.deque[
            guest_request.GuestRequest] = collections.deque(maxlen=_RECENT)
        reader = moved_guest.RequestReader(fleet)
        #: Guests that there are now: the number of each, and its request.
        self._guests: dict[str, tuple[int, guest_request.GuestRequest]] = {
            uuid: (number, reader.request(ledger.placed_guests[uuid].guest))
            for number, uuid in enumerate(sorted(ledger.placed_guests))}
        self._seen = len(self._guests)
        self._first: float | None = None
        self._count = 0
        #: Whether nothing has happened since a plan without moves.
        self._is_idle = False

    def arrived(self, uuid: str, request: guest_request.GuestRequest,
                is_placed: bool) -> None:
        """Take note of a request, and of the guest if it found a host."""
        if request.topology is not None and request.topology.is_pinned:
            self._recent.append(request)
        if is_placed:
            self._guests[uuid] = self._seen, request
        self._seen += 1
        self._is_idle = False

    def left(self, uuid: str) -> None:
        """Take note of a guest that has gone."""
        del self._guests[uuid]
        self._is_idle = False

    def moments(self, until_seconds: float) -> Iterator[float]:
        """When plans are to be made, up to and with this moment.

        The first one an interval after the first arrival, or after the time
        from then on in which none is to be made.
        """
        every_seconds = self._policy.every_hours * 3600
        if self._first is None:
            self._first = until_seconds + self._policy.from_hours * 3600
        last = math.floor((until_seconds - self._first) / every_seconds)
        while self._count < last:
            self._count += 1
            yield self._first + self._count * every_seconds

    def rebalance(self) -> tuple[list[int], meter.MoveCounts] | None:
        """Make a plan, and carry it out.

        :returns: its moves, each as one number, and their counts; None if
            the last one made none, and nothing has happened since
        """
        if self._is_idle:
            return None
        numbers = []
        memory_mib = made = 0
        for planned in self._moves():
            uuid, target = planned.guest, self._index_of[planned.target]
            guest, request = self._guests[uuid]
            placed = self._ledger.placed_guests[uuid]
            # Nova migrates no guest within its host.
            is_made = placed.host != target and self._move(
                uuid, request, target)
            where = guest * len(self._ledger.hosts) + target
            numbers.append(-2 - (where * 2 + is_made))
            if is_made:
                made += 1
                memory_mib += placed.guest.memory_mib
        self._is_idle = not made
        return numbers, meter.MoveCounts(
            1, made, len(numbers) - made, memory_mib)

    def _moves(self) -> Sequence[plan_model.PlannedMove]:
        """The moves of a new plan, each to be made after those before it."""
        fleet = dataclasses.replace(self._fleet, guests=tuple(
            placed.guest for placed in self._ledger.placed_guests.values()))
        size = self._size()
        if size is None or not fleet.guests:
            return ()
        return self._plan(fleet, [size], move_rules.MoveLimits(
            moves=self._policy.most_moves(len(fleet.guests)),
            # Those with devices cannot move live.
            fixed=frozenset(guest.uuid for guest in fleet.guests
                            if guest.devices or guest.allocations))).moves

    def _size(self) -> slot_size.SlotSize | None:
        """The size of which most was asked for lately."""
        # Equal requests are one object. A slot counts by its vCPUs, and a
        # size by the vCPUs asked for in it, as with FragmentationWeigher.
        # Room for the first is what others take it from; to weigh all sizes
        # against each other takes the solver many times as long.
        counts = collections.Counter(map(id, self._recent))
        requests = {id(request): request for request in self._recent
                    if not request.devices}
        most = max(requests.values(), default=None, key=lambda request: (
            counts[id(request)] * request.vcpus ** 2,
            request.vcpus, request.name))
        return None if most is None else slot_size.SlotSize(
            request=most, name=most.name)
