# SPDX-License-Identifier: Apache-2.0
"""Whom a defect of nova can hit, by the name that the register has for it.

Each function tells in a few words what it is about a guest on its host, or
about a host with its guests, that a defect is after; '' if there is nothing.
Equal guests get equal words, so that they can be told together.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import functools
import math

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning.fit import known_defects
from nova_pinning import model

# The days on which nova came out, as launched_at has them.
_PIKE = '2017-08-30'
_VICTORIA = '2020-10-14'
# Of the largest small pages that a host can have, on ARM and POWER.
_SMALL_PAGE_KIB = 64
# What vm_state is while a guest has CPUs, or may have: it is not known then.
_RUNNING = ('', 'active', 'paused', 'rescued')
# A claim that goes through more orders takes a second or longer.
_MANY_ORDERS = known_defects.PERMUTATIONS_PER_SECOND


@dataclasses.dataclass(frozen=True, slots=True)
class GuestOnHost:
    """A guest where it is."""

    guest: resident_guest.ResidentGuest
    host: offered_host.OfferedHost

    @property
    def topology(self) -> model.Guest | None:
        return self.guest.topology


@dataclasses.dataclass(frozen=True, slots=True)
class HostWithGuests:
    """A host and all its guests."""

    host: offered_host.OfferedHost
    guests: Sequence[resident_guest.ResidentGuest]


GuestTest = Callable[[GuestOnHost], str]
HostTest = Callable[[HostWithGuests], str]

#: By the name in the register.
GUEST_HITS: dict[str, GuestTest] = {}
HOST_HITS: dict[str, HostTest] = {}


def _guests(test: GuestTest) -> GuestTest:
    GUEST_HITS[test.__name__] = test
    return test


def _guests_with_cells(
    test: Callable[[model.Guest, GuestOnHost], str],
) -> GuestTest:
    """The same for guests with a NUMA topology, which the test is given."""
    @functools.wraps(test)
    def of_guest(subject: GuestOnHost) -> str:
        return test(subject.topology, subject) if subject.topology else ''

    return _guests(of_guest)


def _hosts(test: HostTest) -> HostTest:
    HOST_HITS[test.__name__] = test
    return test


# Guests.

@_guests
def any_guest(subject: GuestOnHost) -> str:
    return 'it is a guest'


@_guests_with_cells
def pinned(topology: model.Guest, _subject: GuestOnHost) -> str:
    return 'it has pinned CPUs' if topology.is_pinned else ''


@_guests_with_cells
def with_cells(_topology: model.Guest, subject: GuestOnHost) -> str:
    """Those whose vCPUs and emulator threads have places in the XML.

    Nova writes these for each guest with a NUMA topology, be it for huge
    pages, and whatever its CPU policy is (_get_guest_numa_config).
    """
    return pinned(subject) or 'it has NUMA cells'


@_guests
def floating(subject: GuestOnHost) -> str:
    return '' if subject.topology else 'its vCPUs float over the whole host'


@_guests_with_cells
def mixed(topology: model.Guest, _subject: GuestOnHost) -> str:
    return ('some of its vCPUs are pinned and some float'
            if topology.cpu_policy is model.CpuPolicy.MIXED else '')


@_guests_with_cells
def emulator_isolated(topology: model.Guest, _subject: GuestOnHost) -> str:
    return ('its emulator threads have a CPU of their own'
            if topology.emulator_isolated else '')


@_guests_with_cells
def isolated_twice(topology: model.Guest, subject: GuestOnHost) -> str:
    if (not topology.emulator_isolated
            or topology.thread_policy is not model.ThreadPolicy.ISOLATE
            or not _sells_twice(subject.host.cells)):
        return ''
    return ('it isolates its threads and its emulator threads, on a host that '
            'sells CPUs as shared and as dedicated')


@functools.lru_cache(maxsize=4096)
def _sells_twice(cells: tuple[model.HostCell, ...]) -> bool:
    return any(cell.shared_cpus & cell.dedicated_cpus for cell in cells)


@_guests_with_cells
def under_limits(topology: model.Guest, _subject: GuestOnHost) -> str:
    if any(cell.shared_vcpus for cell in topology.cells):
        return 'it has NUMA cells with floating vCPUs'
    # With a page size, what is free is looked at instead.
    if not topology.is_pinned and any(
            cell.page_size_kib is None for cell in topology.cells):
        return 'it has NUMA cells without a page size'
    return ''


@_guests_with_cells
def pinned_beside_huge_pages(
    topology: model.Guest, subject: GuestOnHost,
) -> str:
    if (not topology.is_pinned
            or not any(cell.page_size_kib is None for cell in topology.cells)
            or not any(len(cell.pages) > 1 for cell in subject.host.cells)):
        return ''
    return 'it is pinned and asks for no page size, on a host with huge pages'


@_guests_with_cells
def pinned_with_huge_pages(
    topology: model.Guest, _subject: GuestOnHost,
) -> str:
    if not topology.is_pinned or not any(
            cell.page_size_kib in (model.PAGES_LARGE, model.PAGES_ANY)
            or (cell.page_size_kib or 0) > _SMALL_PAGE_KIB
            for cell in topology.cells):
        return ''
    return 'it is pinned, and has huge pages or may have them'


@_guests
def with_devices(subject: GuestOnHost) -> str:
    return 'it has PCI devices' if subject.guest.devices else ''


@_guests_with_cells
def cells_with_devices(topology: model.Guest, subject: GuestOnHost) -> str:
    if not subject.guest.devices:
        return ''
    return ('it has a NUMA cell and PCI devices' if len(topology.cells) == 1
            else 'it has several NUMA cells and PCI devices')


@_guests
def cells_with_several_devices(subject: GuestOnHost) -> str:
    if sum(use.count for use in subject.guest.devices) < 2:
        return ''
    return cells_with_devices(subject)


@_guests_with_cells
def several_cells_with_devices(
    topology: model.Guest, subject: GuestOnHost,
) -> str:
    return cells_with_devices(subject) if len(topology.cells) > 1 else ''


@_guests_with_cells
def beside_devices(topology: model.Guest, subject: GuestOnHost) -> str:
    host = subject.host
    if (subject.guest.devices or len(topology.cells) >= len(host.cells)
            or not _has_uneven_devices(host.cells, host.pci_pools)):
        return ''
    return ('it has no PCI devices, on a host that has more near some cells '
            'than near others')


@functools.lru_cache(maxsize=4096)
def _has_uneven_devices(cells: tuple[model.HostCell, ...],
                        pools: tuple[devices.PciPool, ...]) -> bool:
    counts = {cell.id: 0 for cell in cells}
    for pool in pools:
        if pool.numa_node in counts:
            counts[pool.numa_node] += pool.total
    return len(set(counts.values())) > 1


@_guests_with_cells
def unlike_cells(topology: model.Guest, subject: GuestOnHost) -> str:
    # On two cells nova goes wrong at a second attempt only.
    if len(topology.cells) < 2 or len(subject.host.cells) < 3:
        return ''
    return _unlike(topology)


def _unlike(topology: model.Guest) -> str:
    if len(set(topology.demands)) > 1:
        return 'its NUMA cells differ'
    if (topology.cpu_policy is model.CpuPolicy.MIXED
            and len(topology.cells) > 1):
        return 'it has several NUMA cells of mixed CPU policy'
    return ''


@_guests_with_cells
def three_unlike_cells(topology: model.Guest, _subject: GuestOnHost) -> str:
    return ('it has three NUMA cells or more, which differ'
            if len(topology.cells) > 2 and _unlike(topology) else '')


@_guests_with_cells
def unlike_cells_with_devices(
    topology: model.Guest, subject: GuestOnHost,
) -> str:
    if not subject.guest.devices or (
            len(topology.cells) < 2 or not _unlike(topology)):
        return ''
    return 'it has NUMA cells that differ, and PCI devices'


@_guests_with_cells
def open_page_size(topology: model.Guest, _subject: GuestOnHost) -> str:
    open_sizes = (model.PAGES_LARGE, model.PAGES_ANY)
    return ('it leaves its page size to the host' if any(
        cell.page_size_kib in open_sizes for cell in topology.cells) else '')


@_guests_with_cells
def changed_by_a_fit(topology: model.Guest, subject: GuestOnHost) -> str:
    if len(topology.cells) > 1 and (text := _unlike(topology)):
        return text
    return open_page_size(subject)


@_guests_with_cells
def many_orders(topology: model.Guest, subject: GuestOnHost) -> str:
    most, asked = len(subject.host.cells), len(topology.cells)
    if asked < 2 or math.perm(most, asked) < _MANY_ORDERS:
        return ''
    return f'it has {asked} NUMA cells, and its host {most}'


@_guests
def pinned_before_victoria(subject: GuestOnHost) -> str:
    return ('it is pinned, and as old as nova before Victoria'
            if pinned(subject) and _is_older(subject.guest, _VICTORIA) else '')


@_guests_with_cells
def floating_cells_before_victoria(
    topology: model.Guest, subject: GuestOnHost,
) -> str:
    if topology.is_pinned or not _is_older(subject.guest, _VICTORIA):
        return ''
    return 'it has floating NUMA cells, and is as old as nova before Victoria'


@_guests
def cells_before_pike(subject: GuestOnHost) -> str:
    return ('it has NUMA cells, and is as old as nova before Pike'
            if subject.topology and _is_older(subject.guest, _PIKE) else '')


def _is_older(guest: resident_guest.ResidentGuest, day: str) -> bool:
    return bool(guest.launched_at) and guest.launched_at < day


#: What needs to be known of guests for these to tell: launched_at.
NEED_LAUNCHED_AT = frozenset({
    'pinned_before_victoria', 'floating_cells_before_victoria',
    'cells_before_pike'})


# Hosts.

@_hosts
def has_guests(subject: HostWithGuests) -> str:
    return 'it has guests' if subject.guests else ''


@_hosts
def sells_dedicated_cpus(subject: HostWithGuests) -> str:
    return ('it has dedicated CPUs, where it manages their power'
            if subject.host.dedicated_cpus else '')


@_hosts
def runs_pinned_guests(subject: HostWithGuests) -> str:
    return ('it runs pinned guests, where it manages the power of CPUs'
            if any(guest.topology is not None and guest.topology.is_pinned
                   and guest.vm_state in _RUNNING
                   for guest in subject.guests) else '')


@_hosts
def sells_no_dedicated_cpus(subject: HostWithGuests) -> str:
    host = subject.host
    return ('it has no dedicated CPUs, where it manages their power'
            if host.cells and not host.dedicated_cpus else '')


@_hosts
def dedicates_cpu_0(subject: HostWithGuests) -> str:
    return ('CPU 0 is dedicated, where it manages the power of CPUs'
            if 0 in subject.host.dedicated_cpus else '')


@_hosts
def guests_without_cpus(subject: HostWithGuests) -> str:
    """As nova's _validate_pinning_configuration, of what the host sells."""
    host = subject.host
    if not host.cells:
        return ''
    topologies = [guest.topology for guest in subject.guests]
    if not host.shared_cpus and any(
            topology is None or not topology.is_pinned
            for topology in topologies):
        return 'it has floating guests and no shared CPUs'
    if not host.dedicated_cpus and any(
            topology is not None and topology.is_pinned
            for topology in topologies):
        return 'it has pinned guests and no dedicated CPUs'
    if not host.shared_cpus and any(
            topology is not None
            and topology.cpu_policy is model.CpuPolicy.MIXED
            for topology in topologies):
        return 'it has mixed guests and no shared CPUs'
    return ''


@_hosts
def pins_outside(subject: HostWithGuests) -> str:
    dedicated = subject.host.dedicated_cpus
    if not dedicated:
        return ''
    pins = cpuset.CpuSet(
        cpu for guest in subject.guests if guest.fit
        for cell in guest.fit.cells for _vcpu, cpu in cell.pins)
    outside = pins - dedicated
    return (f'guests are pinned to CPUs {outside}, which it does not sell as '
            'dedicated' if outside else '')
