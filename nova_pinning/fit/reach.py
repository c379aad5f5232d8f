# SPDX-License-Identifier: Apache-2.0
"""Which PCI devices a set of host cells has within reach.

What is said here holds for nova.pci.stats.PciDeviceStats, whose answer for a
set of cells is not simply better for more cells: requests that compete take
devices one after the other, each from the first pools that its affinity
policy allows, and policies make do with less only if what is near is not
enough. So nothing here gives that answer. It says of which cells nova cannot
tell which is which, and which cells cannot do in any combination.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import functools

from nova_pinning import compat
from nova_pinning import model


@compat.dataclass(frozen=True, slots=True)
class DevicePool:
    """Like devices near the same host cell.

    :param numa_node: id of the host cell, None if they are near none
    :param count: free devices
    """

    numa_node: int | None
    count: int


@compat.dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices that a guest asks for.

    :param name: what people know it by
    :param policy: nova's numa_policy, 'legacy' for its default
    :param matching: the places of the pools on which nova's answer depends
    :param usable: those of them from which it may take devices
    :param allotted: how many devices Placement chose from the pool at each
        place; None if it chose none
    """

    name: str
    count: int
    policy: str
    matching: frozenset[int]
    usable: frozenset[int]
    allotted: Mapping[int, int] | None = None


class DeviceReach:
    """The devices that are free on a host, as seen by a guest's requests.

    :param sockets: the socket of each of the host's cells by the cell's id,
        None where it is not known; only read for policy ``socket``
    """

    def __init__(
        self,
        pools: Sequence[DevicePool],
        requests: Sequence[DeviceRequest],
        sockets: Mapping[int, int | None],
    ) -> None:
        self._sockets = sockets
        self._minds_sockets = any(
            request.policy == 'socket' for request in requests)
        self._demands = _demands(pools, requests)

    def label(self, cell_id: int) -> Hashable:
        """Equal for cells that may stand for each other in a set.

        Of devices for which no other request competes, only the number near
        the cells matters. Where requests compete, it matters whose pool
        comes first, so that each cell with such a pool is one of its own.
        """
        socket = self._sockets.get(cell_id) if self._minds_sockets else None
        return socket, tuple([demand.label(cell_id)
                              for demand in self._demands])

    def shortfall(self, cell_ids: Sequence[int], count: int) -> str:
        """What the guest cannot have from any so many of these cells.

        :param count: how many host cells the guest takes
        :returns: '' if it cannot be ruled out that some of them will do
        """
        return '; '.join([
            f'{demand.name} with policy "{demand.policy}": {demand.count} '
            f'wanted, {best} within reach of the best '
            f'{min(count, len(cell_ids))} of {len(cell_ids)} host cells with '
            f'room, {demand.total - best} elsewhere on the host'
            for demand in self._demands
            if (best := self._most(demand, cell_ids, count)) < demand.count])

    def _most(
        self, demand: '_DeviceDemand', cell_ids: Sequence[int], count: int,
    ) -> int:
        """As many devices as any so many of the cells can have in reach."""
        if demand.policy not in ('legacy', 'required', 'socket'):
            return demand.total
        areas = (set(map(self.area, cell_ids)) if demand.policy == 'socket'
                 else [(cell_id,) for cell_id in cell_ids])
        near = sorted([
            sum([demand.takes_at.get(node, 0) for node in area])
            for area in areas], reverse=True)
        most = sum(near[:count])
        if demand.policy == 'legacy':
            most += demand.takes_at.get(None, 0)
        return most

    def area(self, cell_id: int) -> tuple[int, ...]:
        """The cells whose devices policy "socket" lets a cell have.

        Nova lets it have those near itself only if there is a cell of which
        it does not know the socket.
        """
        if cell_id not in self._sockets or None in self._sockets.values():
            return cell_id,
        return self._by_socket[self._sockets[cell_id]]

    @functools.cached_property
    def _by_socket(self) -> dict[int | None, tuple[int, ...]]:
        cells_by_socket: dict[int | None, tuple[int, ...]] = {}
        for cell_id, socket in self._sockets.items():
            cells_by_socket[socket] = *cells_by_socket.get(socket, ()), cell_id
        return cells_by_socket


class DeviceCheck(abc.ABC):
    """What ``fit.fit`` takes to mind a host's devices, a ``fit.PciCheck``.

    Nothing but the devices is counted before the guest turns out to ask for
    some.

    :param free: NUMA node and count of each pool of free devices
    :param is_requested: whether the guest asks for devices
    :ivar short: sets of cells, of those that were asked about, that nova takes
        for the guest though it gets too few devices there
    """

    def __init__(self, free: Iterable[tuple[int | None, int]],
                 is_requested: bool) -> None:
        self.is_requested = is_requested
        self._counts: dict[int | None, int] = {}
        for node, count in free:
            self._counts[node] = self._counts.get(node, 0) + count
        self._known: dict[tuple[int, ...], bool] = {}
        self.short: set[tuple[int, ...]] = set()

    @property
    def total_devices(self) -> int:
        return sum(self._counts.values())

    def device_count(self, cell_id: int) -> int:
        return self._counts.get(cell_id, 0)

    def label(self, cell: model.CellView) -> Hashable:
        """Only devices of the kinds asked for tell cells apart."""
        return self._reach.label(cell.id)

    def shortfall(self, cell_ids: tuple[int, ...], count: int) -> str:
        return self._reach.shortfall(cell_ids, count)

    def supports(self, cell_ids: tuple[int, ...]) -> bool:
        """Whether nova finds all of the guest's devices, remembered."""
        known = self._known.get(cell_ids)
        if known is None:
            known = self._known[cell_ids] = self._can_serve(cell_ids)
        return known

    def nova_supports(self, cell_ids: tuple[int, ...]) -> bool:
        """As nova.pci.stats.PciDeviceStats.support_requests."""
        return self.supports(cell_ids) or cell_ids in self.short

    @functools.cached_property
    def _reach(self) -> DeviceReach:
        return self._make_reach()

    @abc.abstractmethod
    def _make_reach(self) -> DeviceReach:
        """The devices as seen by the guest's requests."""

    @abc.abstractmethod
    def _can_serve(self, cell_ids: tuple[int, ...]) -> bool:
        """Whether this set of cells can have the guest's devices.

        If not, but nova takes it, the set is noted in ``short``.
        """


@compat.dataclass(slots=True)
class _DeviceDemand:
    """A request, or several for which nova does the same with the same pools.

    :param total: devices on the whole host that it may take
    :param matching_at: devices by node that count where nova looks for near
        ones
    :param usable_at: those of them in pools from which it may take some
    :param takes_at: as many as it may take
    :param is_entangled: whether it matters from which pools it is met
    """

    name: str
    count: int
    policy: str
    total: int
    matching_at: dict[int | None, int]
    usable_at: dict[int | None, int]
    takes_at: dict[int | None, int]
    is_entangled: bool

    def label(self, cell_id: int) -> Hashable:
        if not self.is_entangled:
            return self.matching_at.get(cell_id), self.usable_at.get(cell_id)
        return cell_id if cell_id in self.matching_at else None


def _demands(
    pools: Sequence[DevicePool], requests: Sequence[DeviceRequest],
) -> list[_DeviceDemand]:
    alike: dict[Hashable, list[DeviceRequest]] = {}
    for index, request in enumerate(requests):
        key: Hashable = index
        if request.count and request.allotted is None:
            key = request.policy, request.matching, request.usable
        alike.setdefault(key, []).append(request)
    demands = []
    for index, group in enumerate(alike.values()):
        first = group[0]
        # Nova counts all that match to see whether there are enough near
        # devices. If it may take them all, it is only the sum that has to
        # be enough for several requests.
        is_sum = len(group) == 1 or first.matching == first.usable
        is_entangled = not is_sum or any(
            first.matching & others[0].matching
            for other_index, others in enumerate(alike.values())
            if other_index != index)
        takes_at = _by_node(pools, first.usable, first.allotted)
        demands.append(_DeviceDemand(
            ' and '.join(dict.fromkeys(each.name for each in group)),
            sum(each.count for each in group), first.policy,
            sum(takes_at.values()), _by_node(pools, first.matching),
            _by_node(pools, first.usable), takes_at, is_entangled))
    return demands


def _by_node(
    pools: Sequence[DevicePool], places: frozenset[int],
    allotted: Mapping[int, int] | None = None,
) -> dict[int | None, int]:
    by_node: dict[int | None, int] = {}
    for place in places:
        pool = pools[place]
        count = pool.count if allotted is None else allotted[place]
        by_node[pool.numa_node] = by_node.get(pool.numa_node, 0) + count
    return by_node
