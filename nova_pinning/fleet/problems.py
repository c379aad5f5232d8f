# SPDX-License-Identifier: Apache-2.0
"""Inconsistencies of a fleet: two guests on one CPU, guests on no host.

A snapshot of a real cloud may have any of it, and all else goes on: what is
found here is told, and is for people to judge. An error makes figures wrong,
or is two guests in each other's way. A warning may be meant.
"""

import collections
from collections.abc import Iterator
import sys

from nova_pinning.admission import devices
from nova_pinning.admission import l3_layout
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.checks import report
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.fleet import host_view
from nova_pinning.fleet import snapshot
from nova_pinning.host import core_division
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning import units

_REREAD = ('import the snapshot again; if it is still so, look at the host '
           'with nova-pinning host check')
_SOURCE = 'correct what the snapshot was made from'


@check_rule.rule(
    'F101', Severity.WARNING, 'a host without NUMA topology',
    why='nova places no pinned guest there, nor any other that asks for NUMA '
        'cells, huge pages or a thread policy',
    advice='start nova-compute on it, with libvirt as its driver, and import '
           'the snapshot again')
def no_topology(view: host_view.HostView) -> check_rule.Violations:
    if not view.host.cells and not view.gap_texts(outcome.DoubtKind.CELLS):
        yield view.violation('nova knows of no NUMA cells')


@check_rule.rule(
    'F102', Severity.ERROR, 'cores of a host that cannot be told apart',
    why='which CPUs are sibling threads is not known, so no pinned guest '
        'with a thread policy is placed rightly',
    advice='import the snapshot again once nova-compute has run there, or '
           'correct the file that it was imported from')
def odd_cores(view: host_view.HostView) -> check_rule.Violations:
    return map(view.violation, view.layout.odd_cores)


@check_rule.rule(
    'F103', Severity.ERROR, 'CPUs that stand in two cells',
    why='they are counted twice', advice=_SOURCE)
def in_two_cells(view: host_view.HostView) -> check_rule.Violations:
    return map(view.violation, view.layout.overlaps)


@check_rule.rule(
    'F104', Severity.WARNING, 'last-level caches that overlap',
    why='how many of them a guest is spread over comes out wrong',
    advice=_SOURCE)
def overlapping_caches(view: host_view.HostView) -> check_rule.Violations:
    seen = cpuset.CpuSet()
    for domain in view.host.l3_domains:
        if not domain.isdisjoint(seen):
            yield view.violation(
                f'{words.cpus(domain & seen)} under two caches')
        seen |= domain


@check_rule.rule(
    'F105', Severity.WARNING, 'a host in an aggregate that is not listed',
    why='what the aggregate keeps off the host is not known', advice=_SOURCE)
def unlisted_aggregate(view: host_view.HostView) -> check_rule.Violations:
    unlisted = [name for name in view.host.aggregates
                if name not in view.aggregates]
    if unlisted:
        yield view.violation(f'in {", ".join(unlisted)}')


@check_rule.rule(
    'F106', Severity.NOTE, 'a host whose class cannot be told',
    why='it is not known whether it is for dedicated or for shared guests',
    advice='mark it with openstack pinning host set')
def no_class(view: host_view.HostView) -> check_rule.Violations:
    if view.host.host_class is None:
        yield view.violation('neither dedicated nor shared')


@check_rule.rule(
    'F107', Severity.WARNING, 'a host of which too little is known for exact '
    'answers',
    why='how many guests with NUMA cells fit there is known as a bound only: '
        'no more will fit, less may',
    advice="import the snapshot from nova's database, or give openstack "
           'pinning fleet import a host file of the host')
def unknown_cells(view: host_view.HostView) -> check_rule.Violations:
    yield from map(view.violation, view.gap_texts(
        outcome.DoubtKind.CELLS, outcome.DoubtKind.EMULATOR_CPUS,
        outcome.DoubtKind.HELD))


@check_rule.rule(
    'F108', Severity.ERROR, 'a host file that contradicts Placement',
    why='the file is not of the host as it is now; of what both tell, the '
        'smaller is counted',
    advice='write the file again with nova-pinning host discover or host plan '
           'and import again, or start nova-compute again if it is nova.conf '
           'that was changed')
def contradicted(view: host_view.HostView) -> check_rule.Violations:
    yield from map(view.violation, view.gap_texts(
        outcome.DoubtKind.CONTRADICTION))


@check_rule.rule(
    'F109', Severity.WARNING, 'cores divided between uses',
    why=core_division.WHY, advice=core_division.ADVICE)
def divided_cores(view: host_view.HostView) -> check_rule.Violations:
    return map(view.violation, view.layout.divided_cores)


UNLISTED_HOST = check_rule.Rule[host_view.HostView](
    'F201', Severity.ERROR, 'guests on a host that is not in the fleet',
    why='they are left out of everything',
    advice='import all hosts, or delete guests whose host is gone')


@check_rule.rule(
    'F202', Severity.ERROR, 'a guest on cells that its host has not',
    why='what it uses there is not counted', advice=_REREAD)
def no_such_cell(view: host_view.HostView) -> check_rule.Violations:
    if view.host.is_opaque:
        # Placement has counted what it uses.
        return
    for placed in view.guest_cells:
        if placed.cell is None:
            yield view.guest_violation(
                f'there is no cell {placed.fit.host_cell}', placed.guest)


@check_rule.rule(
    'F203', Severity.WARNING, 'a guest with two cells on one host cell',
    why='nova puts each cell of a guest on its own host cell, and '
        'counts wrongly otherwise', advice=_REREAD)
def two_on_one_cell(view: host_view.HostView) -> check_rule.Violations:
    seen: set[tuple[int, int]] = set()
    for placed in view.guest_cells:
        key = id(placed.guest), placed.fit.host_cell
        if key in seen:
            yield view.guest_violation(
                f'on cell {placed.fit.host_cell}', placed.guest)
        seen.add(key)


@check_rule.rule(
    'F204', Severity.ERROR, 'a guest with vCPUs that are not pinned',
    why='it has fewer CPUs than were sold, and others may get them',
    advice='migrate it, which pins it again')
def not_pinned(view: host_view.HostView) -> check_rule.Violations:
    for placed in view.guest_cells:
        vcpus, pins = placed.topology.dedicated_vcpus, placed.fit.pins
        if placed.cell and placed.is_pinned and len(pins) < len(vcpus):
            missing = set(vcpus).difference(vcpu for vcpu, _cpu in pins)
            yield view.guest_violation(
                f'vCPU{"" if len(missing) == 1 else "s"} '
                f'{cpuset.CpuSet(missing)}', placed.guest)


@check_rule.rule(
    'F205', Severity.NOTE, 'guests of the other class than their host',
    why='the host is not for them',
    advice='migrate them, or see openstack pinning segregation check')
def other_class(view: host_view.HostView) -> check_rule.Violations:
    others = [guest for guest in view.guests
              if view.host.host_class is not None
              and guest.guest_class is not view.host.host_class]
    if others:
        yield host_view.of_guests(view.host.name, others,
                                  f'{others[0].guest_class} guest')


@check_rule.rule(
    'F206', Severity.WARNING, 'guests in a server group that is not listed',
    why='where the group keeps them from being moved to is not known',
    advice=_SOURCE)
def unlisted_group(view: host_view.HostView) -> check_rule.Violations:
    guests = [guest for guest in view.guests if guest.server_group
              and guest.server_group not in view.server_groups]
    if guests:
        yield host_view.of_guests(view.host.name, guests)


def _strays(view: host_view.HostView) -> Iterator[tuple[
        resident_guest.ResidentGuest, model.HostCell, cpuset.CpuSet,
        cpuset.CpuSet]]:
    """Guests with CPUs that are not dedicated: cell, CPUs, all that it has."""
    for placed in view.guest_cells:
        cell = placed.cell
        if cell and placed.strays:
            yield placed.guest, cell, placed.strays, (
                cell.dedicated_cpus | cell.shared_cpus | cpuset.CpuSet(
                    [cpu for core in cell.cores for cpu in core]))


@check_rule.rule(
    'F301', Severity.ERROR, 'a guest pinned to CPUs that its host cell has '
    'not',
    why='nova-compute cannot count it (CPUPinningUnknown), so no further '
        'pinned guest is placed in the cell until it is gone',
    advice=_REREAD)
def unknown_cpus(view: host_view.HostView) -> check_rule.Violations:
    for guest, cell, cpus, there in _strays(view):
        if not cpus.issubset(there):
            yield view.guest_violation(
                f'{words.cpus(cpus - there)} of cell {cell.id}', guest)


@check_rule.rule(
    'F302', Severity.ERROR, 'a guest pinned to CPUs that are not dedicated '
    'ones',
    why='other guests may run there, and nova places no further pinned guest '
        'in the cell',
    advice='migrate it, or put the CPUs into cpu_dedicated_set again')
def not_dedicated(view: host_view.HostView) -> check_rule.Violations:
    for guest, cell, cpus, there in _strays(view):
        inside = (cpus & there) - cell.dedicated_cpus
        if inside:
            yield view.guest_violation(
                f'{words.cpus(inside)} of cell {cell.id}', guest)


@check_rule.rule(
    'F303', Severity.ERROR, 'two guests on one CPU',
    why='each slows down the other, and the CPU is free only when both are '
        'gone', advice='migrate one of them')
def shared_pins(view: host_view.HostView) -> check_rule.Violations:
    taken = twice = 0
    for _guest, cpus in _pins(view):
        for cpu in cpus:
            twice |= taken & 1 << cpu
            taken |= 1 << cpu
    if not twice:
        return
    owners: dict[int, set[str]] = collections.defaultdict(set)
    for guest, cpus in _pins(view):
        for cpu in cpus:
            if twice >> cpu & 1:
                owners[cpu].add(guest.uuid)
    groups: dict[tuple[str, ...], list[int]] = collections.defaultdict(list)
    for cpu, uuids in sorted(owners.items()):
        groups[tuple(sorted(uuids))].append(cpu)
    guests = {guest.uuid: guest for guest in view.guests}
    for group, shared in groups.items():
        sharing = [guests[uuid] for uuid in group]
        yield view.violation(
            f'{words.cpus(cpuset.CpuSet(shared))} taken by '
            f'{host_view.names(sharing)}'
            + ('' if len(sharing) > 1 else ' twice'), sharing)


def _pins(
    view: host_view.HostView,
) -> Iterator[tuple[resident_guest.ResidentGuest, list[int]]]:
    """The CPUs that each cell of each guest has for itself."""
    for guest in view.guests:
        if (guest.topology is not None and guest.fit is not None
                and guest.topology.is_pinned):
            for cell_fit in guest.fit.cells:
                yield guest, [*(cpu for _vcpu, cpu in cell_fit.pins),
                              *cell_fit.emulator_cpus]


@check_rule.rule(
    'F304', Severity.WARNING, 'floating guests where no CPU is shared',
    why='their vCPUs have no CPUs to run on but those of others',
    advice='migrate them, or set cpu_shared_set on the host')
def floating(view: host_view.HostView) -> check_rule.Violations:
    if view.host.shared_cpus or not view.host.cells:
        return
    guests = [
        guest for guest in view.guests
        if guest.topology is None
        or any(cell.shared_vcpus for cell in guest.topology.cells)]
    if guests:
        yield host_view.of_guests(view.host.name, guests)


@check_rule.rule(
    'F305', Severity.NOTE, 'guests on more L3 caches than they need',
    why='what they share goes from cache to cache, and more neighbours are '
        'in their way',
    advice='see nova-pinning host plan for settings under which nova places '
           'guests on fewer; a guest that is migrated is pinned again')
def many_caches(view: host_view.HostView) -> check_rule.Violations:
    if view.caches is None:
        return
    spread = [(guest, found) for guest in view.guests
              if (found := view.caches.caches(guest.topology, guest.fit))
              and found.caches > found.fewest]
    if spread:
        guests, caches = zip(*spread)
        total = l3_layout.total(caches)
        yield view.violation(
            f'{words.count(len(guests), "guest")} on {total.caches:,} L3 '
            f'caches where {total.fewest:,} would do: '
            f'{host_view.names(guests)}', guests)


@check_rule.rule(
    'F401', Severity.WARNING, 'more huge pages in use than there are',
    why='what is free is taken to be nothing',
    advice='give the host as many pages as guests were promised')
def too_many_pages(view: host_view.HostView) -> check_rule.Violations:
    # What is in use of the smallest may be swapped.
    used_kib: dict[tuple[int, int], int] = collections.Counter()
    for placed in view.guest_cells:
        size_kib = placed.fit.page_size_kib
        if size_kib and size_kib > 0:
            used_kib[placed.fit.host_cell, size_kib] += (
                placed.topology.memory_mib * units.KIB_PER_MIB)
    for (cell_id, size_kib), amount_kib in sorted(used_kib.items()):
        cell = view.layout.by_id.get(cell_id)
        if cell is None:
            continue
        pools = {pool.size_kib: pool for pool in cell.pages}
        pool = pools.get(size_kib, model.PagePool(size_kib, 0))
        used = -(-amount_kib // size_kib)
        if used > pool.total - pool.reserved:
            size = quantities.shown_page_size(size_kib)
            yield view.violation(
                f'cell {cell_id}: {used:,} pages of {size} in use, '
                f'{max(pool.total - pool.reserved, 0):,} for guests')


@check_rule.rule(
    'F402', Severity.WARNING, 'more memory in use than there is',
    why='what is free is taken to be nothing',
    advice='migrate guests, or see whether the allocation ratio was lowered')
def too_much_memory(view: host_view.HostView) -> check_rule.Violations:
    host = view.host
    if not host.cells:
        return
    used_mib = sum(guest.memory_mib for guest in view.guests)
    has = host.root_inventories.get(inventory.MEMORY_MB)
    if has is None:
        return
    limit_mib = max(0, int(has.capacity))
    if used_mib > limit_mib:
        used, limit = quantities.shown_alike(used_mib, limit_mib)
        yield view.violation(f'{used} in use, {limit} to sell', view.guests)


@check_rule.rule(
    'F501', Severity.ERROR, 'more PCI devices in use than there are',
    why='what is free is taken to be nothing',
    advice='see whether [pci] device_spec was changed under the guests')
def too_many_devices(view: host_view.HostView) -> check_rule.Violations:
    used: dict[tuple[devices.Pairs, int | None], int] = (
        collections.Counter())
    for guest in view.guests:
        for use in guest.devices:
            used[use.keys, use.numa_node] += use.count
    if not used:
        return
    total: dict[tuple[devices.Pairs, int | None], int] = (
        collections.Counter())
    for pool in view.host.pci_pools:
        total[pool.keys, pool.numa_node] += pool.total
    for (keys, node), count in used.items():
        if count > total[keys, node]:
            near = 'no cell' if node is None else f'cell {node}'
            yield view.violation(
                f'{count:,} of {devices.kind(keys)} near {near} in use, '
                f'{total[keys, node]:,} there are', [
                    guest for guest in view.guests if any(
                        (use.keys, use.numa_node) == (keys, node)
                        for use in guest.devices)])


#: All rules, by code.
RULES: check_rule.Registry[host_view.HostView] = check_rule.Registry(
    sys.modules[__name__], groups={
        'F1': 'Hosts',
        'F2': 'Where guests are',
        'F3': 'CPUs',
        'F4': 'Memory',
        'F5': 'Devices'})


def find(fleet: snapshot.Fleet) -> tuple[check_rule.Finding, ...]:
    """All that is odd, by code, hosts in the fleet's order."""
    guests = collections.defaultdict(list)
    for guest in fleet.guests:
        guests[guest.host].append(guest)
    aggregates = {aggregate.name: aggregate for aggregate in fleet.aggregates}
    l3_layouts = l3_layout.L3Layouts(aggregates)
    server_groups = frozenset(group.id for group in fleet.server_groups)
    # By the object: very many hosts are of one layout.
    layouts: dict[int, host_view.CellLayout] = {}
    findings: list[check_rule.Finding] = []
    for host in fleet.hosts:
        if id(host.cells) not in layouts:
            layouts[id(host.cells)] = host_view.CellLayout(host.cells)
        findings += RULES.run(host_view.HostView(
            host, guests.pop(host.name, ()), layouts[id(host.cells)],
            frozenset(aggregates), server_groups, l3_layouts.of_host(host)))
    findings += (
        UNLISTED_HOST.finding(host_view.of_guests(name, homeless))
        for name, homeless in guests.items())
    return tuple(sorted(findings, key=lambda finding: finding.code))


def make_report(fleet: snapshot.Fleet, findings: tuple[check_rule.Finding,
                                                       ...],
                source: str) -> report.CheckReport:
    """What was found in a fleet.

    :param source: the snapshot
    """
    hosts, guests = len(fleet.hosts), len(fleet.guests)
    return report.CheckReport(
        name='fleet', rules=RULES, findings=findings, source=source,
        scope=f'in {size(fleet)}', head={'hosts': hosts, 'guests': guests},
        figures=(report.Figure('hosts', 'Hosts of the fleet', {(): hosts}),
                 report.Figure('guests', 'Guests of the fleet',
                               {(): guests})))


def size(fleet: snapshot.Fleet) -> str:
    """'1 host with 20 guests'."""
    return (f'{words.count(len(fleet.hosts), "host")} with '
            f'{words.count(len(fleet.guests), "guest")}')
