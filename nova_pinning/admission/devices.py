# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a host, and which of them nova gives to a guest.

The rules are those of nova.pci.stats.PciDeviceStats, for devices that are not
tracked in Placement: requests are met one after the other, each from the
first pools that its affinity policy allows.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import NamedTuple

from nova_pinning.fit import reach
from nova_pinning import model


class DeviceKind(NamedTuple):
    """What PCI devices are told apart by; four hexadecimal digits each."""

    vendor_id: str
    product_id: str


class PciPool(NamedTuple):
    """Like PCI devices of a host, near the same NUMA node.

    :param numa_node: id of the host cell, None if it belongs to none
    :param total: devices that nova may pass through, used ones included
    """

    kind: DeviceKind
    numa_node: int | None
    total: int


@dataclasses.dataclass(frozen=True, slots=True)
class PciUse:
    """The devices of one pool that a guest has."""

    kind: DeviceKind
    numa_node: int | None
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class PciRequest:
    """What a guest asks for by one PCI alias.

    :param kinds: of which any will do
    :param policy: 'legacy', 'preferred', 'required' or 'socket'
    """

    alias: str
    kinds: tuple[DeviceKind, ...]
    count: int
    policy: str = 'legacy'


def check(
    pools: Sequence[PciPool],
    uses: Iterable[PciUse],
    requests: Sequence[PciRequest],
    cells: Iterable[model.CellView],
) -> reach.DeviceCheck:
    """What ``fit.fit`` takes to mind a host's devices.

    :param pools: the host's, in nova's order
    :param uses: what guests have of them
    :param requests: what the guest asks for; () for none
    :param cells: the host's cells
    """
    return _PoolCheck(free(pools, uses), requests, cells)


def take(
    pools: Sequence[PciPool],
    uses: Iterable[PciUse],
    requests: Sequence[PciRequest],
    cell_ids: Iterable[int],
    cells: Iterable[model.CellView],
) -> tuple[PciUse, ...] | None:
    """The devices that nova would give to a guest.

    :param cell_ids: host cells that the guest lies in; none for a guest
        without NUMA topology, which gets devices from anywhere
    :returns: None if these cells cannot have what it asks for
    """
    return _take(free(pools, uses), requests, frozenset(cell_ids),
                 _sockets(cells))


def device_shortages(
    pools: Sequence[PciPool], requests: Sequence[PciRequest],
) -> Iterator[str]:
    """What a host has too few of, wherever they are: a clause each.

    :param pools: with what is free only
    """
    needs: dict[str, int] = {}
    for request in requests:
        needs[request.alias] = needs.get(request.alias, 0) + request.count
    kinds = {request.alias: request.kinds for request in requests}
    for alias, need in needs.items():
        have = sum(pool.total for pool in pools if pool.kind in kinds[alias])
        if have < need:
            yield f'{have} free devices with alias {alias}, {need} needed'


def free(
    pools: Sequence[PciPool],
    uses: Iterable[PciUse],
) -> tuple[PciPool, ...]:
    """The pools with what is free of each for a total, if anything is.

    Devices in use that no pool has are left out.
    """
    left = [pool.total for pool in pools]
    for use in uses:
        count = use.count
        for index, pool in enumerate(pools):
            if (pool.kind, pool.numa_node) == (use.kind, use.numa_node):
                taken = min(count, left[index])
                left[index] -= taken
                count -= taken
    return tuple(pool._replace(total=count)
                 for pool, count in zip(pools, left) if count > 0)


class _PoolCheck(reach.DeviceCheck):
    """A ``fit.PciCheck`` over pools.

    :param pools: with what is free only
    """

    def __init__(self, pools: Sequence[PciPool],
                 requests: Sequence[PciRequest],
                 cells: Iterable[model.CellView]) -> None:
        super().__init__([(pool.numa_node, pool.total) for pool in pools],
                         bool(requests))
        self._pools = pools
        self._requests = requests
        self._sockets = _sockets(cells)

    def _make_reach(self) -> reach.DeviceReach:
        requests = []
        for request in self._requests:
            places = frozenset([
                index for index, pool in enumerate(self._pools)
                if pool.kind in request.kinds])
            requests.append(reach.DeviceRequest(
                f'alias "{request.alias}"', request.count, request.policy,
                places, places))
        return reach.DeviceReach([
            reach.DevicePool(pool.numa_node, pool.total)
            for pool in self._pools], requests, self._sockets)

    def _can_serve(self, cell_ids: tuple[int, ...]) -> bool:
        return _take(self._pools, self._requests, frozenset(cell_ids),
                     self._sockets) is not None


def _sockets(cells: Iterable[model.CellView]) -> dict[int, int | None]:
    """The socket of each cell, by the cell's id."""
    return {cell.id: getattr(cell, 'socket', None) for cell in cells}


def _take(
    pools: Sequence[PciPool],
    requests: Sequence[PciRequest],
    cell_ids: frozenset[int],
    sockets: Mapping[int, int | None],
) -> tuple[PciUse, ...] | None:
    left = list(pools)
    taken: dict[tuple[DeviceKind, int | None], int] = {}
    for request in requests:
        missing = request.count
        for pool in _usable(left, request, cell_ids, sockets):
            count = min(missing, pool.total)
            index = left.index(pool)
            if count == pool.total:
                del left[index]
            else:
                left[index] = pool._replace(total=pool.total - count)
            key = pool.kind, pool.numa_node
            taken[key] = taken.get(key, 0) + count
            missing -= count
            if not missing:
                break
        if missing:
            return None
    return tuple(PciUse(kind, numa_node, count)
                 for (kind, numa_node), count in taken.items())


def _usable(
    pools: Sequence[PciPool],
    request: PciRequest,
    cell_ids: frozenset[int],
    sockets: Mapping[int, int | None],
) -> list[PciPool]:
    """The pools that a request may be met from, in the order of their use.

    See nova.pci.stats.PciDeviceStats._filter_pools_for_numa_cells: devices
    near the guest's cells if there are enough of them; if not, what the
    policy allows besides.
    """
    fitting = [pool for pool in pools if pool.kind in request.kinds]
    if not cell_ids:
        return fitting
    near = [pool for pool in fitting if pool.numa_node in cell_ids]
    if request.policy == 'required' or _are_enough(near, request):
        return near
    if request.policy == 'socket':
        return _on_sockets(fitting, cell_ids, sockets)
    allowed = cell_ids | {None}
    somewhere = [pool for pool in fitting if pool.numa_node in allowed]
    if request.policy != 'preferred' or _are_enough(somewhere, request):
        return somewhere
    return sorted(fitting, key=lambda pool: pool.numa_node not in allowed)


def _are_enough(pools: Sequence[PciPool],
                request: PciRequest) -> bool:
    return sum(pool.total for pool in pools) >= request.count


def _on_sockets(
    pools: Sequence[PciPool], cell_ids: frozenset[int],
    sockets: Mapping[int, int | None],
) -> list[PciPool]:
    """The pools on the sockets of these cells.

    Nova finds none if there is a cell of which it does not know the socket.
    """
    if None in sockets.values():
        return []
    here = {sockets[cell_id] for cell_id in cell_ids if cell_id in sockets}
    return [pool for pool in pools
            if pool.numa_node is not None
            and pool.numa_node in sockets
            and sockets[pool.numa_node] in here]
