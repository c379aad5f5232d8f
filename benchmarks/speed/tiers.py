# SPDX-License-Identifier: Apache-2.0
"""What nova-compute makes of a guest: at first, and after an aborted claim.

Nova's fit knows the guest's cells by their ids, and goes wrong for some: see
``nova_pinning.bridge.claim``. This is worked out here with nova's function
alone, so that what the filter says can be compared with it.
"""

# nova.objects has its classes only once they are registered.
from __future__ import annotations

from collections.abc import Iterable
import enum

from nova import objects
from nova.virt import hardware

from benchmarks import requests
from benchmarks.speed import hosts


class Tier(enum.Enum):
    """Which attempts of nova-compute end well on a host."""

    FIRST = 'both'
    SECOND = 'only the first'
    NONE = 'not even the first'


def of_host(record: hosts.Record, request: requests.Request) -> Tier:
    """Ask nova about the ids of a new guest, and those after an abort."""
    count = len(request.spec().numa_topology.cells)
    if not _is_right(record, request, range(count)):
        return Tier.NONE
    if not _is_right(record, request, [-1] * count):
        return Tier.SECOND
    return Tier.FIRST


def _is_right(record: hosts.Record, request: requests.Request,
              ids: Iterable[int]) -> bool:
    """Whether nova pins all of the guest where there is room for it."""
    host = hosts.host_state(record).numa_topology
    guest = request.spec().numa_topology
    for cell, cell_id in zip(guest.cells, ids):
        cell.id = cell_id
    answer = hardware.numa_fit_instance_to_host(
        host, guest, provider_mapping=None)
    if answer is None:
        return False
    cells = {cell.id: cell for cell in host.cells}
    return (len({cell.id for cell in answer.cells}) == len(answer.cells) and
            all(_is_pinned(cell, cells[cell.id]) for cell in answer.cells))


def _is_pinned(guest_cell: objects.InstanceNUMACell,
               host_cell: objects.NUMACell) -> bool:
    pins = guest_cell.cpu_pinning or {}
    return (pins.keys() == guest_cell.pcpuset and
            len(set(pins.values())) == len(pins) and
            host_cell.free_pcpus.issuperset(pins.values()) and
            guest_cell.memory <= host_cell.avail_memory)
