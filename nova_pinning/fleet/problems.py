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

"""What is odd about a fleet: two guests on one CPU, guests on no host.

A snapshot of a real cloud may have any of it, and all else goes on: what is
found here is told, and is for people to judge.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import occupancy
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.model import severity

#: An error makes figures wrong, or is two guests in each other's way. A
#: warning may be meant. A note is worth knowing.
Severity = severity.Severity

_KIB_PER_MIB = 1024
# Guests or CPUs named in a message.
_SHOWN = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is odd.

    :param code: the rule's stable code, such as 'F303'
    :param subject: what it is about, for people: 'host cmp-1'
    :param message: what is wrong, a sentence without a full stop
    :param why: what comes of it
    :param advice: what to do about it
    :param host: the name of the host, '' if it is about none
    :param guests: uuids of the guests that it is about
    :param mends: commands; none are known here
    """

    code: str
    severity: Severity
    subject: str
    message: str
    why: str
    advice: str
    host: str = ''
    guests: tuple[str, ...] = ()
    mends: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One thing to look for.

    :param code: never given to another rule
    :param title: what is found, in a few words
    :param why: what comes of it
    :param advice: what to do about it
    """

    code: str
    severity: Severity
    title: str
    why: str
    advice: str


_REREAD = ('import the snapshot again; if it is still so, look at the host '
           'with nova-pinning host check')

#: All that is looked for, by code.
RULES: Mapping[str, Rule] = {rule.code: rule for rule in (
    Rule('F101', Severity.WARNING, 'a host without NUMA topology',
         'nova places no pinned guest there, nor any other that asks for NUMA '
         'cells, huge pages or a thread policy',
         'start nova-compute on it, with libvirt as its driver, and import '
         'the snapshot again'),
    Rule('F102', Severity.ERROR, 'cores of a host that cannot be told apart',
         'which CPUs are sibling threads is not known, so no pinned guest '
         'with a thread policy is placed rightly',
         'import the snapshot again once nova-compute has run there, or mend '
         'the file that it was imported from'),
    Rule('F103', Severity.ERROR, 'CPUs that stand in two cells',
         'they are counted twice', 'mend what the snapshot was made from'),
    Rule('F104', Severity.WARNING, 'last-level caches that overlap',
         'how many of them a guest is spread over comes out wrong',
         'mend what the snapshot was made from'),
    Rule('F105', Severity.WARNING, 'a host in an aggregate that is not listed',
         'what the aggregate keeps off the host is not known',
         'mend what the snapshot was made from'),
    Rule('F106', Severity.NOTE, 'a host whose class cannot be told',
         'it is not known whether it is for dedicated or for shared guests',
         'mark it with openstack pinning host set'),
    Rule('F201', Severity.ERROR, 'guests on a host that is not in the fleet',
         'they are left out of everything',
         'import all hosts, or delete guests whose host is gone'),
    Rule('F202', Severity.ERROR, 'a guest on cells that its host has not',
         'what it uses there is not counted', _REREAD),
    Rule('F203', Severity.WARNING, 'a guest with two cells on one host cell',
         'nova puts each cell of a guest on a host cell of its own, and '
         'counts wrongly otherwise', _REREAD),
    Rule('F204', Severity.ERROR, 'a guest with vCPUs that are not pinned',
         'it has fewer CPUs than were sold, and others may get them',
         'migrate it, which pins it again'),
    Rule('F205', Severity.NOTE, 'guests of the other class than their host',
         'the host is not for them',
         'migrate them, or see openstack pinning segregation check'),
    Rule('F301', Severity.ERROR, 'a guest pinned to CPUs that its host cell '
         'has not',
         'nova-compute cannot count it (CPUPinningUnknown), so no further '
         'pinned guest is placed in the cell until it is gone', _REREAD),
    Rule('F302', Severity.ERROR, 'a guest pinned to CPUs that are not '
         'dedicated ones',
         'other guests may run there, and nova places no further pinned '
         'guest in the cell',
         'migrate it, or put the CPUs into cpu_dedicated_set again'),
    Rule('F303', Severity.ERROR, 'two guests on one CPU',
         'each slows down the other, and the CPU is free only when both are '
         'gone', 'migrate one of them'),
    Rule('F304', Severity.WARNING, 'floating guests where no CPU is shared',
         'their vCPUs have no CPUs to run on but those of others',
         'migrate them, or set cpu_shared_set on the host'),
    Rule('F401', Severity.WARNING, 'more huge pages in use than there are',
         'what is free is taken to be nothing',
         'give the host as many pages as guests were promised'),
    Rule('F402', Severity.WARNING, 'more memory in use than there is',
         'what is free is taken to be nothing',
         'migrate guests, or see whether the allocation ratio was lowered'),
    Rule('F501', Severity.ERROR, 'more PCI devices in use than there are',
         'what is free is taken to be nothing',
         'see whether [pci] device_spec was changed under the guests'),
)}


def find(fleet: fleet_model.Fleet) -> tuple[Finding, ...]:
    """All that is odd, by code, hosts in the fleet's order."""
    found = sorted(_find(fleet), key=lambda one: one.code)
    return tuple(found)


def _find(fleet: fleet_model.Fleet) -> Iterator[Finding]:
    yield from _homeless(fleet)
    guests = occupancy.guests_by_host(fleet)
    aggregates = {one.name for one in fleet.aggregates}
    layouts: dict[int, tuple[tuple[str, str], ...]] = {}
    for host in fleet.hosts:
        # Very many hosts are of one layout, which is then one object.
        if id(host.cells) not in layouts:
            layouts[id(host.cells)] = tuple(_layout(host.cells))
        for code, message in layouts[id(host.cells)]:
            yield _finding(code, host, message)
        yield from _host(host, aggregates)
        yield from _Guests(host, guests[host.name]).find()


def _finding(code: str, host: fleet_model.FleetHost, message: str,
             guests: Iterable[fleet_model.FleetGuest] = (),
             is_host: bool = True) -> Finding:
    """A finding about a host, or about one guest on it."""
    guests = tuple(guests)
    subject = f'host {host.name}'
    if not is_host:
        subject = f'guest {_name(guests[0])} on host {host.name}'
    return _told(code, subject, message, host.name, guests)


def _told(code: str, subject: str, message: str, host: str = '',
          guests: Iterable[fleet_model.FleetGuest] = ()) -> Finding:
    rule = RULES[code]
    return Finding(
        code=code, severity=rule.severity, subject=subject, message=message,
        why=rule.why, advice=rule.advice, host=host,
        guests=tuple(guest.uuid for guest in guests))


def _name(guest: fleet_model.FleetGuest) -> str:
    return f'{guest.uuid} ({guest.name})' if guest.name else guest.uuid


def _names(guests: Sequence[fleet_model.FleetGuest]) -> str:
    shown = ', '.join(map(_name, guests[:_SHOWN]))
    left = len(guests) - _SHOWN
    return f'{shown} and {left:,} more' if left > 0 else shown


def _homeless(fleet: fleet_model.Fleet) -> Iterator[Finding]:
    hosts = {host.name for host in fleet.hosts}
    homeless = collections.defaultdict(list)
    for guest in fleet.guests:
        if guest.host not in hosts:
            homeless[guest.host].append(guest)
    for name, guests in homeless.items():
        yield _told('F201', f'host {name}',
                    f'{words.count(len(guests), "guest")}: {_names(guests)}',
                    name, guests)


def _layout(
    cells: tuple[model.HostCell, ...],
) -> Iterator[tuple[str, str]]:
    """What is wrong with the cells themselves, as (code, message)."""
    if not cells:
        yield 'F101', 'nova knows of no NUMA cells'
    for cell in cells:
        listed = [cpu for core in cell.cores for cpu in core]
        cores = cpuset.CpuSet(listed)
        if len(cores) < len(listed):
            yield 'F102', f'cell {cell.id} has a CPU in two cores'
        left_out = cell.dedicated_cpus - cores
        if left_out:
            yield ('F102', f'{words.cpus(left_out)} of cell {cell.id} '
                   f'{"is" if len(left_out) == 1 else "are"} in no core')
    seen = cpuset.CpuSet()
    for cell in cells:
        cpus = cell.dedicated_cpus | cell.shared_cpus
        if not cpus.isdisjoint(seen):
            yield ('F103', f'{words.cpus(cpus & seen)} of cell {cell.id} '
                   f'{"is" if len(cpus & seen) == 1 else "are"} also in a '
                   'cell before it')
        seen |= cpus


def _host(host: fleet_model.FleetHost,
          aggregates: set[str]) -> Iterator[Finding]:
    seen = cpuset.CpuSet()
    for domain in host.l3_domains:
        if not domain.isdisjoint(seen):
            yield _finding('F104', host, f'{words.cpus(domain & seen)} '
                           'under two caches')
        seen |= domain
    unlisted = [name for name in host.aggregates if name not in aggregates]
    if unlisted:
        yield _finding('F105', host, f'in {", ".join(unlisted)}')
    if host.host_class is None:
        yield _finding('F106', host, 'neither dedicated nor shared')


class _Guests:
    """What is odd about the guests of one host."""

    def __init__(self, host: fleet_model.FleetHost,
                 guests: Sequence[fleet_model.FleetGuest]) -> None:
        self._host = host
        self._guests = guests
        self._cells = {cell.id: cell for cell in host.cells}

    def find(self) -> Iterator[Finding]:
        strangers = [guest for guest in self._guests
                     if self._host.host_class is not None
                     and guest.guest_class is not self._host.host_class]
        if strangers:
            what = f'{strangers[0].guest_class} guest'
            yield self._finding('F205', strangers, (
                f'{words.count(len(strangers), what)}: {_names(strangers)}'))
        for guest in self._guests:
            if guest.topology is not None and guest.fit is not None:
                yield from self._placed(guest, guest.topology, guest.fit)
        yield from self._shared_cpus()
        yield from self._floating()
        yield from self._memory()
        yield from self._pages()
        yield from self._devices()

    def _finding(self, code: str,
                 guests: Iterable[fleet_model.FleetGuest],
                 message: str) -> Finding:
        return _finding(code, self._host, message, guests)

    def _placed(self, guest: fleet_model.FleetGuest, topology: model.Guest,
                fit: model.Fit) -> Iterator[Finding]:
        """Whether a guest lies where a guest can lie."""
        problems: list[tuple[str, str]] = []
        seen = set()
        for guest_cell, cell_fit in zip(topology.cells, fit.cells):
            if cell_fit.host_cell in seen:
                problems.append((
                    'F203', f'on cell {cell_fit.host_cell}'))
            seen.add(cell_fit.host_cell)
            problems += self._cell_problems(guest_cell, cell_fit,
                                            topology.is_pinned)
        for code, message in problems:
            yield _finding(code, self._host, message, (guest,), is_host=False)

    def _cell_problems(
        self, guest_cell: model.GuestCell, cell_fit: model.CellFit,
        is_pinned: bool,
    ) -> Iterator[tuple[str, str]]:
        cell = self._cells.get(cell_fit.host_cell)
        if cell is None:
            yield 'F202', f'there is no cell {cell_fit.host_cell}'
            return
        if is_pinned and len(cell_fit.pins) < len(guest_cell.dedicated_vcpus):
            missing = set(guest_cell.dedicated_vcpus).difference(
                vcpu for vcpu, _cpu in cell_fit.pins)
            yield ('F204', f'vCPU{"" if len(missing) == 1 else "s"} '
                   f'{cpuset.CpuSet(missing)}')
        cpus = cpuset.CpuSet([cpu for _vcpu, cpu in cell_fit.pins])
        cpus |= cpuset.CpuSet(cell_fit.emulator_cpus)
        if cpus.issubset(cell.dedicated_cpus):
            return
        there = cell.dedicated_cpus | cell.shared_cpus | cpuset.CpuSet(
            [cpu for core in cell.cores for cpu in core])
        if not cpus.issubset(there):
            yield 'F301', f'{words.cpus(cpus - there)} of cell {cell.id}'
        stray = (cpus & there) - cell.dedicated_cpus
        if stray:
            yield 'F302', f'{words.cpus(stray)} of cell {cell.id}'

    def _shared_cpus(self) -> Iterator[Finding]:
        """CPUs that two guests are pinned to, or one guest twice."""
        taken = twice = 0
        for _guest, cpus in self._pins():
            for cpu in cpus:
                twice |= taken & 1 << cpu
                taken |= 1 << cpu
        if not twice:
            return
        owners: dict[int, list[fleet_model.FleetGuest]] = (
            collections.defaultdict(list))
        for guest, cpus in self._pins():
            for cpu in cpus:
                if twice >> cpu & 1:
                    owners[cpu].append(guest)
        groups: dict[tuple[str, ...], list[int]] = (
            collections.defaultdict(list))
        guests = {guest.uuid: guest for guest in self._guests}
        for cpu, owner in sorted(owners.items()):
            groups[tuple(sorted({one.uuid for one in owner}))].append(cpu)
        for uuids, cpus_of_both in groups.items():
            both = [guests[uuid] for uuid in uuids]
            yield self._finding('F303', both, (
                f'{words.cpus(cpuset.CpuSet(cpus_of_both))} taken by '
                f'{_names(both)}' + ('' if len(both) > 1 else ' twice')))

    def _pins(self) -> Iterator[tuple[fleet_model.FleetGuest, list[int]]]:
        """The CPUs that each cell of each guest has for itself."""
        for guest in self._guests:
            if (guest.topology is None or guest.fit is None
                    or not guest.topology.is_pinned):
                continue
            for cell_fit in guest.fit.cells:
                yield guest, [*(cpu for _vcpu, cpu in cell_fit.pins),
                              *cell_fit.emulator_cpus]

    def _floating(self) -> Iterator[Finding]:
        if self._host.shared_cpus or not self._host.cells:
            return
        floating = [
            guest for guest in self._guests
            if guest.topology is None
            or any(cell.shared_vcpus for cell in guest.topology.cells)]
        if floating:
            yield self._finding('F304', floating, (
                f'{words.count(len(floating), "guest")}: {_names(floating)}'))

    def _memory(self) -> Iterator[Finding]:
        host = self._host
        if not host.cells:
            return
        used_mib = sum(guest.memory_mib for guest in self._guests)
        limit_mib = (int(host.memory_mib * host.ram_allocation_ratio)
                     - host.reserved_memory_mib)
        if used_mib > max(limit_mib, 0):
            used, limit = quantities.shown_alike(used_mib, max(limit_mib, 0))
            yield self._finding('F402', self._guests,
                                f'{used} in use, {limit} to sell')

    def _pages(self) -> Iterator[Finding]:
        """Huge pages; what is in use of the smallest may be swapped."""
        used_kib: dict[tuple[int, int], int] = collections.Counter()
        for guest in self._guests:
            if guest.topology is None or guest.fit is None:
                continue
            for asked, cell_fit in zip(guest.topology.cells,
                                       guest.fit.cells):
                if cell_fit.page_size_kib and cell_fit.page_size_kib > 0:
                    used_kib[cell_fit.host_cell, cell_fit.page_size_kib] += (
                        asked.memory_mib * _KIB_PER_MIB)
        for (cell_id, size_kib), amount_kib in sorted(used_kib.items()):
            cell = self._cells.get(cell_id)
            if cell is None:
                continue
            pools = {pool.size_kib: pool for pool in cell.pages}
            pool = pools.get(size_kib, model.PagePool(size_kib, 0))
            used = -(-amount_kib // size_kib)
            if used > pool.total - pool.reserved:
                size = quantities.shown_page_size(size_kib)
                yield self._finding('F401', (), (
                    f'cell {cell_id}: {used:,} pages of {size} in use, '
                    f'{max(pool.total - pool.reserved, 0):,} for guests'))

    def _devices(self) -> Iterator[Finding]:
        used: dict[tuple[fleet_model.DeviceKind, int | None], int] = (
            collections.Counter())
        for guest in self._guests:
            for use in guest.devices:
                used[use.kind, use.numa_node] += use.count
        if not used:
            return
        total: dict[tuple[fleet_model.DeviceKind, int | None], int] = (
            collections.Counter())
        for pool in self._host.pci_pools:
            total[pool.kind, pool.numa_node] += pool.total
        for (kind, node), count in used.items():
            if count > total[kind, node]:
                near = 'no cell' if node is None else f'cell {node}'
                yield self._finding('F501', [
                    guest for guest in self._guests if any(
                        (use.kind, use.numa_node) == (kind, node)
                        for use in guest.devices)], (
                    f'{count:,} of {":".join(kind)} near {near} in use, '
                    f'{total[kind, node]:,} there are'))
