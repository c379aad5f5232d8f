# SPDX-License-Identifier: Apache-2.0
"""What is not known of a host, and which answers are bounds for it.

An import through the compute API knows of a host what Placement has of it.
For a guest that floats that is all there is to know. For others it tells how
many fit at most.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any
from typing import TypeAlias

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias

#: A kind of gap, how many hosts have it, and an example: 'cmp-1: ...'.
Counted: TypeAlias = tuple[outcome.DoubtKind, int, str]

#: Gaps in answers about guests with NUMA cells.
_OF_CELLS = frozenset({
    outcome.DoubtKind.CELLS, outcome.DoubtKind.CONTRADICTION,
    outcome.DoubtKind.HELD})
#: Kinds of gaps in words, for a sentence about some hosts.
NAMES: Mapping[outcome.DoubtKind, str] = {
    outcome.DoubtKind.CELLS: 'cells of hosts are not known',
    outcome.DoubtKind.CONTRADICTION: 'host files contradict Placement',
    outcome.DoubtKind.DEVICES: 'PCI devices of hosts are not known',
    outcome.DoubtKind.EMULATOR_CPUS:
        'CPUs of emulator threads are not known',
    outcome.DoubtKind.HELD: 'what is held beside guests is not known',
    outcome.DoubtKind.DEVICE_TAGS: 'tags of PCI devices are not known',
    outcome.DoubtKind.PROVIDERS:
        'what Placement has of hosts is not known',
    outcome.DoubtKind.TRAITS: 'traits of hosts are not known',
    outcome.DoubtKind.REQUEST: 'what guests ask for is not all known',
    outcome.DoubtKind.FILTER: 'what filters say is not known',
}


def are_bounds(hosts: Iterable[offered_host.OfferedHost]) -> bool:
    """Whether answers about guests with NUMA cells are bounds on any host."""
    return any(gap.kind in _OF_CELLS
               or gap.kind is outcome.DoubtKind.EMULATOR_CPUS
               for host in hosts for gap in host.gaps)


def of_devices(
    pools: Iterable[devices.PciPool], requests: Sequence[devices.PciRequest],
) -> Iterator[str]:
    """What is not known of devices that a guest may get: a clause each."""
    for pool in pools:
        if pool.is_complete:
            continue
        known = {key for key, _value in pool.keys}
        missing = {
            key for request in requests if request.may_have(pool)
            for key in request.bearing(pool) if key not in known}
        if missing:
            yield (f'of its devices {pool.kind} the '
                   f'{" and ".join(sorted(missing))} is not known')


def relevant(
    host: offered_host.OfferedHost, request: guest_request.GuestRequest,
) -> tuple[outcome.Doubt, ...]:
    """The gaps that make an answer about a guest on a host a bound."""
    guest = request.topology
    return tuple(
        gap for gap in host.gaps
        if (guest is not None and gap.kind in _OF_CELLS)
        or (guest is not None and guest.is_pinned
            and gap.kind is outcome.DoubtKind.EMULATOR_CPUS)
        or (request.devices and gap.kind is outcome.DoubtKind.DEVICES))


def without_devices(
    host: offered_host.OfferedHost, request: guest_request.GuestRequest,
) -> guest_request.GuestRequest:
    """What can be told of a guest where the host's devices are not known."""
    if request.devices and any(gap.kind is outcome.DoubtKind.DEVICES
                               for gap in host.gaps):
        return dataclasses.replace(request, devices=(), claims=())
    return request


def device_limit(
    occupancy: host_occupancy.HostOccupancy,
    request: guest_request.GuestRequest,
) -> int | None:
    """How many guests Placement has PCI devices for; None if it has none.

    It has them where hosts report them ([pci] report_in_placement), under
    names of nova's unless [pci] device_spec gives others.
    """
    wanted = collections.Counter[frozenset[str]]()
    for asked in request.devices:
        wanted[frozenset(pci_alias.resource_class(dict(spec))
                         for spec in asked.specs)] += asked.count
    limits = []
    for names, count in wanted.items():
        free = [has.free(occupancy.used[index].get(name, 0))
                for name in names for index, has
                in occupancy.host.offers.get(name, ())]
        if free and count:
            limits.append(sum(free) // count)
    return min(limits, default=None)


def counted(hosts: Iterable[offered_host.OfferedHost]) -> list[Counted]:
    """How many hosts have each kind of gap, and an example: 'cmp-1: ...'."""
    by_kind: dict[outcome.DoubtKind, list[tuple[str, str]]] = {}
    for host in hosts:
        for gap in host.gaps:
            by_kind.setdefault(gap.kind, []).append((host.name, gap.text))
    return [(kind, len(by_kind[kind]), ': '.join(by_kind[kind][0]))
            for kind in outcome.DoubtKind if kind in by_kind]


def as_list(hosts: Iterable[offered_host.OfferedHost]) -> list[dict[str, Any]]:
    """The same for JSON."""
    return counted_as_list(counted(hosts))


def counted_as_list(gaps: Iterable[Counted]) -> list[dict[str, Any]]:
    """What :func:`counted` gives, for JSON."""
    return [{'kind': str(kind), 'hosts': number, 'example': example}
            for kind, number, example in gaps]
