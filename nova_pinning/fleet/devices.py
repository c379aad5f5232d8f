#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The PCI devices of a host, and which of them nova gives to a guest.

The rules are those of nova.pci.stats.PciDeviceStats, for devices that are not
tracked in Placement: requests are met one after the other, each from the
first pools that its affinity policy allows.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence

from nova_pinning import fit
from nova_pinning.fleet import model as fleet_model
from nova_pinning import model


def check(
    pools: Sequence[fleet_model.PciPool],
    uses: Iterable[fleet_model.PciUse],
    requests: Sequence[fleet_model.PciRequest],
    cells: Sequence[model.CellView],
) -> fit.PciCheck:
    """What ``fit.fit`` takes to mind a host's devices.

    :param pools: the host's, in nova's order
    :param uses: what guests have of them
    :param requests: what the guest asks for; () for none
    :param cells: the host's cells
    """
    return _Check(free(pools, uses), requests, cells)


def take(
    pools: Sequence[fleet_model.PciPool],
    uses: Iterable[fleet_model.PciUse],
    requests: Sequence[fleet_model.PciRequest],
    cell_ids: Iterable[int],
    cells: Sequence[model.CellView],
) -> tuple[fleet_model.PciUse, ...] | None:
    """The devices that nova would give to a guest.

    :param cell_ids: host cells that the guest lies in; none for a guest
        without NUMA topology, which gets devices from anywhere
    :returns: None if what it asks for is not to be had for these cells
    """
    return _take(free(pools, uses), requests, frozenset(cell_ids),
                 _sockets(cells))


def free(
    pools: Sequence[fleet_model.PciPool],
    uses: Iterable[fleet_model.PciUse],
) -> tuple[fleet_model.PciPool, ...]:
    """The pools with what is free of each for a total, if anything is.

    Devices in use that no pool has are left out.
    """
    left = [pool.total for pool in pools]
    for use in uses:
        count = use.count
        for place, pool in enumerate(pools):
            if (pool.kind, pool.numa_node) == (use.kind, use.numa_node):
                taken = min(count, left[place])
                left[place] -= taken
                count -= taken
    return tuple(pool._replace(total=count)
                 for pool, count in zip(pools, left) if count > 0)


class _Check:
    """A ``fit.PciCheck`` over pools.

    :param pools: with what is free only
    """

    def __init__(self, pools: Sequence[fleet_model.PciPool],
                 requests: Sequence[fleet_model.PciRequest],
                 cells: Sequence[model.CellView]) -> None:
        self.is_requested = bool(requests)
        self._pools = pools
        self._requests = requests
        self._sockets = _sockets(cells)
        self._minds_sockets = any(
            request.policy == 'socket' for request in requests)
        self._counts: dict[int | None, int] = {}
        for pool in pools:
            self._counts[pool.numa_node] = (
                self._counts.get(pool.numa_node, 0) + pool.total)
        self._known: dict[tuple[int, ...], bool] = {}

    def device_count(self, cell_id: int) -> int:
        return self._counts.get(cell_id, 0)

    def label(self, cell: model.CellView) -> Hashable:
        """Cells without devices stand for each other, within a socket."""
        if cell.id in self._counts:
            return 'cell', cell.id
        if self._minds_sockets:
            return 'socket', self._sockets.get(cell.id)
        return None

    def supports(self, cell_ids: tuple[int, ...]) -> bool:
        """As nova.pci.stats.PciDeviceStats.support_requests."""
        known = self._known.get(cell_ids)
        if known is None:
            known = self._known[cell_ids] = _take(
                self._pools, self._requests, frozenset(cell_ids),
                self._sockets) is not None
        return known


def _sockets(cells: Sequence[model.CellView]) -> dict[int, int | None]:
    """The socket of each cell, by the cell's id."""
    return {cell.id: getattr(cell, 'socket', None) for cell in cells}


def _take(
    pools: Sequence[fleet_model.PciPool],
    requests: Sequence[fleet_model.PciRequest],
    cell_ids: frozenset[int],
    sockets: dict[int, int | None],
) -> tuple[fleet_model.PciUse, ...] | None:
    left = list(pools)
    taken: dict[tuple[fleet_model.DeviceKind, int | None], int] = {}
    for request in requests:
        missing = request.count
        for pool in _usable(left, request, cell_ids, sockets):
            count = min(missing, pool.total)
            place = left.index(pool)
            if count == pool.total:
                del left[place]
            else:
                left[place] = pool._replace(total=pool.total - count)
            key = pool.kind, pool.numa_node
            taken[key] = taken.get(key, 0) + count
            missing -= count
            if not missing:
                break
        if missing:
            return None
    return tuple(fleet_model.PciUse(kind, numa_node, count)
                 for (kind, numa_node), count in taken.items())


def _usable(
    pools: Sequence[fleet_model.PciPool],
    request: fleet_model.PciRequest,
    cell_ids: frozenset[int],
    sockets: dict[int, int | None],
) -> list[fleet_model.PciPool]:
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


def _are_enough(pools: Sequence[fleet_model.PciPool],
                request: fleet_model.PciRequest) -> bool:
    return sum(pool.total for pool in pools) >= request.count


def _on_sockets(
    pools: Sequence[fleet_model.PciPool], cell_ids: frozenset[int],
    sockets: dict[int, int | None],
) -> list[fleet_model.PciPool]:
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
