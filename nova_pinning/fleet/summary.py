# SPDX-License-Identifier: Apache-2.0
"""A fleet in figures: its hosts, what is sold of them, and to whom."""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning.admission import gaps
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.fleet import occupied
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass

# No architecture's usual pages are larger.
_MAX_SMALL_PAGE_KIB = 64


@dataclasses.dataclass(slots=True, kw_only=True)
class FleetTotal:
    """What there is of something, and how much of it is used.

    :param pinned_cpus: dedicated CPUs that guests have
    :param floating_vcpus: of guests
    :param floating_limit: floating vCPUs that the allocation ratio allows
    :param memory_mib: without what is reserved
    """

    hosts: int = 0
    disabled: int = 0
    guests: int = 0
    dedicated_cpus: int = 0
    pinned_cpus: int = 0
    shared_cpus: int = 0
    floating_vcpus: int = 0
    floating_limit: int = 0
    memory_mib: int = 0
    memory_used_mib: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class HostKind:
    """Hosts that are alike.

    :param cells: (dedicated CPUs, shared CPUs, MiB) of each
    :param threads: of the largest core
    :param l3_domains: how many, 0 if not known
    :param huge_pages_mib: MiB of each cell in pages of each size in KiB
    :param devices: PCI devices of each kind
    """

    host_class: hostclass.HostClass | None
    cells: tuple[tuple[int, int, int], ...]
    threads: int
    l3_domains: int
    huge_pages_mib: tuple[tuple[tuple[int, int], ...], ...]
    devices: tuple[tuple[str, int], ...]


@dataclasses.dataclass(slots=True)
class FlavorUse:
    """The guests of one flavor and class.

    :param name: of the flavor, or what its guests are where the snapshot has
        no such flavor
    """

    name: str
    guest_class: hostclass.HostClass
    guests: int = 0
    vcpus: int = 0
    memory_mib: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    """A fleet in figures.

    :param classes: by class of the hosts, None for hosts of no known class
    :param kinds: how many hosts there are of each, most first
    :param flavors: most vCPUs first
    :param homeless: guests on hosts that the fleet does not have
    :param caches: the L3 caches of the guests
    """

    classes: Mapping[hostclass.HostClass | None, FleetTotal]
    kinds: Mapping[HostKind, int]
    flavors: tuple[FlavorUse, ...]
    homeless: int
    findings: tuple[check_rule.Finding, ...]
    caches: l3_layout.CacheSum


def summarise(fleet: snapshot.Fleet) -> FleetSummary:
    """The figures of a fleet."""
    guests = occupied.guests_by_host(fleet)
    classes: dict[hostclass.HostClass | None, FleetTotal] = {}
    kinds: collections.Counter[HostKind] = collections.Counter()
    layouts = l3_layout.L3Layouts(occupied.rules_of(fleet).aggregates)
    caches: list[l3_layout.GuestCaches | None] = []
    for host in fleet.hosts:
        total = classes.setdefault(host.host_class, FleetTotal())
        here = guests[host.name]
        engine = host_occupancy.engine_host(host, here)
        taken = cpuset.union(
            cell.pinned_cpus for cell in engine.cells
            if isinstance(cell, model.HostCell))
        pinned = (_pinned(here) if host.is_opaque
                  else len(taken & host.dedicated_cpus))
        _add(total, host, pinned)
        total.guests += len(here)
        caches += [layouts.caches(host, guest.topology, guest.fit)
                   for guest in here]
        total.memory_used_mib += sum(guest.memory_mib for guest in here)
        total.floating_vcpus += sum(map(_floating, here))
        kinds[_kind(host)] += 1
    return FleetSummary(
        classes={host_class: classes[host_class]
                 for host_class in (*hostclass.HostClass, None)
                 if host_class in classes},
        kinds=dict(kinds.most_common()), flavors=_flavors(fleet),
        homeless=len(fleet.guests) - sum(map(len, guests.values())),
        findings=problems.find(fleet), caches=l3_layout.total(caches))


def _add(total: FleetTotal, host: offered_host.OfferedHost,
         pinned: int) -> None:
    total.hosts += 1
    total.disabled += not host.is_enabled
    total.dedicated_cpus += host.dedicated_count
    total.pinned_cpus += pinned
    total.shared_cpus += host.shared_count
    total.floating_limit += int(
        host.shared_count * host.cpu_allocation_ratio)
    total.memory_mib += max(0, host.memory_mib - host.reserved_memory_mib)


def _pinned(guests: Iterable[resident_guest.ResidentGuest]) -> int:
    """CPUs that guests have, where no cells tell which."""
    return sum(demand.dedicated + demand.emulator for guest in guests
               if guest.topology is not None
               for demand in guest.topology.demands)


def _floating(guest: resident_guest.ResidentGuest) -> int:
    if guest.topology is None:
        return guest.vcpus
    return sum(len(cell.shared_vcpus) for cell in guest.topology.cells)


def _kind(host: offered_host.OfferedHost) -> HostKind:
    devices: collections.Counter[str] = collections.Counter()
    for pool in host.pci_pools:
        devices[pool.kind] += pool.total
    return HostKind(
        host_class=host.host_class,
        cells=tuple((len(cell.dedicated_cpus), len(cell.shared_cpus),
                     cell.memory_mib) for cell in host.cells),
        threads=max((size for cell in host.cells
                     for size in cell.core_sizes), default=0),
        l3_domains=len(host.l3_domains),
        huge_pages_mib=tuple(tuple(
            (pool.size_kib, pool.total_kib // 1024) for pool in cell.pages
            if pool.size_kib > _MAX_SMALL_PAGE_KIB)
            for cell in host.cells),
        devices=tuple(sorted(devices.items())))


def _flavors(fleet: snapshot.Fleet) -> tuple[FlavorUse, ...]:
    uses: dict[tuple[str, hostclass.HostClass], FlavorUse] = {}
    listed = {flavor.name for flavor in fleet.flavors}
    for guest in fleet.guests:
        name = guest.flavor
        if not name or listed and name not in listed:
            # It has no name, or was deleted.
            name = guest.shape
        key = name, guest.guest_class
        use = uses.setdefault(key, FlavorUse(*key))
        use.guests += 1
        use.vcpus += guest.vcpus
        use.memory_mib += guest.memory_mib
    return tuple(sorted(uses.values(), key=lambda use: (
        -use.vcpus, use.name, use.guest_class)))


def as_dict(fleet: snapshot.Fleet, summary: FleetSummary) -> dict[str, Any]:
    """The figures for JSON; every key is always there."""
    return {
        'version': 1,
        'taken_at': fleet.taken_at,
        'source': fleet.source,
        'hosts': len(fleet.hosts),
        'guests': len(fleet.guests),
        'guests_on_unknown_hosts': summary.homeless,
        **summary.caches.means,
        'gaps': gaps.as_list(fleet.hosts),
        'classes': [{'class': None if host_class is None else str(host_class),
                     **dataclasses.asdict(total)}
                    for host_class, total in summary.classes.items()],
        'kinds': [{
            'class': kind.host_class and str(kind.host_class),
            'hosts': number,
            'cells': [
                {'dedicated_cpus': dedicated, 'shared_cpus': shared,
                 'memory_mib': memory_mib,
                 'huge_pages': [{'size_kib': size_kib, 'mib': mib}
                                for size_kib, mib in pages]}
                for (dedicated, shared, memory_mib), pages
                in zip(kind.cells, kind.huge_pages_mib)],
            'threads_per_core': kind.threads,
            'l3_domains': kind.l3_domains,
            'pci_devices': dict(kind.devices),
        } for kind, number in summary.kinds.items()],
        'flavors': [{
            'name': use.name, 'class': str(use.guest_class),
            'guests': use.guests, 'vcpus': use.vcpus,
            'memory_mib': use.memory_mib} for use in summary.flavors],
        'findings': {str(severity): number for severity, number
                     in check_rule.count(summary.findings).items()}}
