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

"""PCI devices near NUMA cells, judged by nova's own code."""

from collections.abc import Hashable
from collections.abc import Sequence
import copy
import types
from typing import Any

from nova_pinning import model


class NovaPciCheck:
    """What a host has of the PCI devices that a guest asks for.

    A :class:`nova_pinning.fit.PciCheck`.

    :param stats: the host's nova.pci.stats.PciDeviceStats
    :param requests: nova.objects.InstancePCIRequest, none or several
    :param provider_mapping: as numa_fit_instance_to_host takes it
    """

    def __init__(
        self,
        stats: Any,
        requests: Sequence[Any] | None,
        provider_mapping: dict[str, list[str]] | None,
    ) -> None:
        self._stats = stats
        self._light_stats: Any = None
        self._requests = requests
        self._provider_mapping = provider_mapping
        self._known: dict[tuple[int, ...], bool] = {}
        self.is_requested = bool(requests)
        self._counts: dict[int | None, int] = {}
        for pool in stats.pools:
            node = pool.get('numa_node')
            self._counts[node] = self._counts.get(node, 0) + pool['count']
        self._sockets: dict[int, int | None] | None = None
        if 'socket' in map(self._policy, requests or ()):
            topology = stats.numa_topology
            self._sockets = {
                cell.id: cell.socket if 'socket' in cell else None
                for cell in (topology.cells if topology else ())}

    def device_count(self, cell_id: int) -> int:
        return self._counts.get(cell_id, 0)

    def label(self, cell: model.CellView) -> Hashable:
        """Cells without devices stand for each other, within their socket.

        Nova's affinity policies look at a cell's own pools and, for policy
        ``socket``, at which sockets the cells lie in, and at nothing else.
        """
        if cell.id in self._counts:
            return 'cell', cell.id
        if self._sockets is not None:
            return 'socket', self._sockets.get(cell.id)
        return None

    def supports(self, cell_ids: tuple[int, ...]) -> bool:
        """As nova.pci.stats.PciDeviceStats.support_requests, but remembered.

        It is nova's function that is asked.
        """
        known = self._known.get(cell_ids)
        if known is None:
            if self._light_stats is None:
                self._light_stats = self._make_light_stats()
            # Nova reads nothing of the guest's cells but the host cells' ids.
            cells = [types.SimpleNamespace(id=cell_id) for cell_id in cell_ids]
            known = self._known[cell_ids] = bool(
                self._light_stats.support_requests(
                    self._requests, self._provider_mapping, cells))
        return known

    def _make_light_stats(self) -> Any:
        """The stats without what makes nova take long to copy them.

        Nova copies them each time, with the host's NUMA topology, of which it
        needs the sockets only.
        """
        stats = copy.copy(self._stats)
        stats.dev_filter = None
        stats.numa_topology = types.SimpleNamespace(cells=[
            types.SimpleNamespace(id=cell_id, socket=socket)
            for cell_id, socket in (self._sockets or {}).items()])
        return stats

    def as_stats(self) -> Any:
        """A stand-in for the stats with which nova can be asked many times.

        :returns: what numa_fit_instance_to_host reads of PciDeviceStats
        """
        def support_requests(
            _requests: Any, _mapping: Any, cells: Sequence[Any],
        ) -> bool:
            return self.supports(tuple(sorted(cell.id for cell in cells)))

        return types.SimpleNamespace(
            pools=self._stats.pools, support_requests=support_requests)

    @staticmethod
    def _policy(request: Any) -> str | None:
        return request.numa_policy if 'numa_policy' in request else None
