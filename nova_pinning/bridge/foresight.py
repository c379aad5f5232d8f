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

"""What nova-compute's claim makes of a guest of a fleet.

Importing this imports nova: call ``bridge.standalone.prepare()`` first.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import types
from typing import Any

from nova import objects

from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import settings
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning.fleet import model as fleet_model
from nova_pinning import model


def foresee(
    host: model.Host,
    guest: model.Guest,
    choice: fit.Choice,
    check: fit.PciCheck | None,
    free: Sequence[fleet_model.PciPool],
    max_permutations: int,
    packs_cells: bool,
) -> model.Fit | model.Refusal | None:
    """As :func:`nova_pinning.bridge.claim.foresee`, of the engine's objects.

    :param host: of ``model.HostCell``
    :param check: the devices that the engine chose with
    :param free: the same devices
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    """
    objects.register_all()
    stats = None
    if check is not None:
        stats = _stats(check, free)
    host_topology = nova_objects.host_topology(host)
    arguments = claim.NovaArguments(
        host_topology,
        nova_objects.instance_topology(guest), None,
        objects.NUMATopologyLimits(
            cpu_allocation_ratio=host.cpu_allocation_ratio,
            ram_allocation_ratio=host.ram_allocation_ratio),
        # Nova only asks whether there are any.
        [None] if check is not None and check.is_requested else [], stats)
    packing = 'compute', 'packing_host_numa_cells_allocation_strategy'
    with settings.applied({packing: packs_cells}):
        return claim.foresee(
            arguments,
            # Read from nova's sets, as the filter does: they can have the
            # threads of a core in another order.
            claim.Attempt(
                topology.host_from_nova(
                    host_topology, host.cpu_allocation_ratio,
                    host.ram_allocation_ratio), guest, check),
            choice, max_permutations)


def _stats(check: fit.PciCheck,
           free: Sequence[fleet_model.PciPool]) -> Any:
    """What numa_fit_instance_to_host reads of PciDeviceStats."""
    def support_requests(
        _requests: Any, _mapping: Mapping[str, Any] | None,
        cells: Sequence[Any],
    ) -> bool:
        return check.supports(tuple(sorted(cell.id for cell in cells)))

    return types.SimpleNamespace(
        pools=[{'numa_node': pool.numa_node, 'count': pool.total}
               for pool in free],
        support_requests=support_requests)
