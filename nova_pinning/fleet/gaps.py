# SPDX-License-Identifier: Apache-2.0
"""What is not known of a host, and which answers are bounds for it.

An import through the compute API knows of a host what Placement has of it.
For a guest that floats that is all there is to know. For others it tells how
many fit at most.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning.admission import guest_request
from nova_pinning.fleet import placement
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory

#: Gaps in answers about guests with NUMA cells.
_OF_CELLS = frozenset({
    snapshot.GapKind.CELLS, snapshot.GapKind.CONTRADICTION,
    snapshot.GapKind.HELD})
#: Kinds of gaps in words, for a sentence about some hosts.
NAMES: Mapping[snapshot.GapKind, str] = {
    snapshot.GapKind.CELLS: 'cells of hosts are not known',
    snapshot.GapKind.CONTRADICTION: 'host files contradict Placement',
    snapshot.GapKind.DEVICES: 'PCI devices of hosts are not known',
    snapshot.GapKind.EMULATOR_CPUS:
        'CPUs of emulator threads are not known',
    snapshot.GapKind.HELD: 'what is held beside guests is not known',
}


def are_bounds(hosts: Iterable[snapshot.FleetHost]) -> bool:
    """Whether answers about guests with NUMA cells are bounds on any host."""
    return any(gap.kind is not snapshot.GapKind.DEVICES
               for host in hosts for gap in host.gaps)


def relevant(
    host: snapshot.FleetHost, request: guest_request.GuestRequest,
) -> tuple[snapshot.HostGap, ...]:
    """The gaps that make an answer about a guest on a host a bound."""
    guest = request.topology
    return tuple(
        gap for gap in host.gaps
        if (guest is not None and gap.kind in _OF_CELLS)
        or (guest is not None and guest.is_pinned
            and gap.kind is snapshot.GapKind.EMULATOR_CPUS)
        or (request.devices and gap.kind is snapshot.GapKind.DEVICES))


def without_devices(
    host: snapshot.FleetHost, request: guest_request.GuestRequest,
) -> guest_request.GuestRequest:
    """What can be told of a guest where the host's devices are not known."""
    if request.devices and any(gap.kind is snapshot.GapKind.DEVICES
                               for gap in host.gaps):
        return dataclasses.replace(request, devices=())
    return request


def device_limit(
    provider: placement.Provider, request: guest_request.GuestRequest,
) -> int | None:
    """How many guests Placement has PCI devices for; None if it has none.

    It has them where hosts report them ([pci] report_in_placement), under
    names of nova's unless [pci] device_spec gives others.
    """
    limits = []
    for wanted in request.devices:
        names = [f'CUSTOM_PCI_{kind.vendor_id}_{kind.product_id}'.upper()
                 for kind in wanted.kinds]
        told = [name for name in names if name in provider.inventories]
        if told and wanted.count:
            free = sum(_free(provider, name) for name in told)
            limits.append(free // wanted.count)
    return min(limits, default=None)


def _free(provider: placement.Provider, name: str) -> int:
    has = provider.inventories.get(name, inventory.Inventory(0))
    return max(0, int(has.capacity) - provider.resources_used.get(name, 0))


def counted(
    hosts: Iterable[snapshot.FleetHost],
) -> list[tuple[snapshot.GapKind, int, str]]:
    """How many hosts have each kind of gap, and an example: 'cmp-1: ...'."""
    by_kind: dict[snapshot.GapKind, list[tuple[str, str]]] = {}
    for host in hosts:
        for gap in host.gaps:
            by_kind.setdefault(gap.kind, []).append((host.name, gap.text))
    return [(kind, len(by_kind[kind]), ': '.join(by_kind[kind][0]))
            for kind in snapshot.GapKind if kind in by_kind]


def as_list(hosts: Iterable[snapshot.FleetHost]) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [{'kind': str(kind), 'hosts': number, 'example': example}
            for kind, number, example in counted(hosts)]
