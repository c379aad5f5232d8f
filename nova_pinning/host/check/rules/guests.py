# SPDX-License-Identifier: Apache-2.0
"""H6xx, the second half: all of a guest but its vCPUs."""

from collections.abc import Callable

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host.check.rules import pins
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process
from nova_pinning.host import words

# Unbound memory of QEMU's own, such as its heaps, is in smaller pieces.
_LEAST_UNBOUND_KIB = 65536
_PREFERENCES = ('preferred', 'interleave')


@check_rule.rule(
    'H606', check_rule.Severity.WARNING,
    'emulator, I/O or vhost threads that are not where libvirt pinned them',
    why='QEMU handles disks, networks and its monitor, and the kernel the '
        "guest's packets, on CPUs that are not meant for it; vhost threads go "
        'with the emulator threads',
    advice='pin them again, and look for what moves threads')
def not_as_told(view: facts.CheckedHost) -> check_rule.Violations:
    for guest in view.guests:
        strays: dict[str, list[pins.Other]] = {}
        for other in pins.others(view, guest):
            if not other.is_as_told and other.thread.may_move:
                strays.setdefault(other.kind, []).append(other)
        for kind, others in strays.items():
            where = cpuset.union(other.thread.cpus for other in others)
            pin = cpuset.union(other.pin for other in others)
            harms = where & pins.not_for(view, guest)
            message = (f'{words.count(len(others), f"{kind} thread")} may run '
                       f'on {words.cpus(where)}, libvirt has pinned to '
                       f'{words.cpus(pin)}')
            if harms:
                message += f'; {words.cpus(harms)} not for this guest'
            yield check_rule.Violation(
                subject=pins.subject(guest), message=message,
                evidence=tuple(other.evidence(guest.qemu.pid, other.pin)
                               for other in others),
                remediation=_pin_remediation(
                    guest, others, lambda other: other.pin),
                severity=check_rule.Severity.ERROR if harms else None)


def _pin_remediation(
    guest: facts.RunningGuest, threads: list[pins.Other],
    target: Callable[[pins.Other], cpuset.CpuSet],
) -> tuple[str, ...]:
    """Commands that pin I/O threads one by one, and the others at once."""
    remediation: list[str] = []
    for thread in threads:
        if thread.iothread is not None:
            remediation.append(commands.pin_iothread(
                guest, thread.iothread, target(thread)))
        else:
            remediation.extend(commands.pin_emulator(guest, target(thread)))
    return tuple(dict.fromkeys(remediation))


@check_rule.rule(
    'H609', check_rule.Severity.ERROR,
    'guest whose other threads are let on dedicated CPUs of others',
    why='nobody has pinned its emulator, I/O or vhost threads, or has pinned '
        'them to CPUs that are not its own, where they take time from '
        'other guests',
    advice='set hw:emulator_threads_policy=share for pinned guests, with a '
           'cpu_shared_set; pins may also be left from another host')
def astray(view: facts.CheckedHost) -> check_rule.Violations:
    for guest in view.guests:
        not_for = pins.not_for(view, guest)
        others = [other for other in pins.others(view, guest)
                  if other.is_as_told and other.thread.may_move and
                  not not_for.isdisjoint(other.thread.cpus)]
        if not others:
            continue
        where = cpuset.union(other.thread.cpus for other in others) & not_for
        target = view.shared_cpus or pins.held(view, guest)
        kinds = list(dict.fromkeys(other.kind for other in others))
        yield check_rule.Violation(
            subject=pins.subject(guest),
            message=f'its {words.listed(kinds)} threads may run on '
                    f'{words.cpus(where)}, not for this guest',
            evidence=tuple(other.evidence(guest.qemu.pid, target)
                           for other in others),
            remediation=_pin_remediation(guest, others, lambda _other: target)
            if target else ())


@check_rule.rule(
    'H610', check_rule.Severity.ERROR, 'guest memory on the wrong node',
    why='each access that misses the caches goes over the link to another '
        'node',
    advice='make room on the right node and migrate the pages, or the guest; '
           'look whether memory was full when it started')
def memory(view: facts.CheckedHost) -> check_rule.Violations:
    small_kib = view.facts.host.system.page_size_kib
    for guest in view.guests:
        told = _told_nodes(guest.domain)
        on_node: dict[int, int] = {}
        wrong: dict[int, int] = {}
        expected = told
        for region in guest.qemu.regions:
            if not _is_guest_memory(region, small_kib):
                continue
            # A cell's memory is bound to its own node.
            nodes = told & region.bound_to or told or region.bound_to
            expected |= nodes
            for node, pages in region.pages.items():
                kib = pages * (region.page_size_kib or small_kib)
                on_node[node] = on_node.get(node, 0) + kib
                if nodes and node not in nodes:
                    wrong[node] = wrong.get(node, 0) + kib
        if wrong:
            yield _misplaced(guest, expected, on_node, wrong)


def _misplaced(
    guest: facts.RunningGuest,
    expected: cpuset.CpuSet,
    on_node: dict[int, int],
    wrong: dict[int, int],
) -> check_rule.Violation:
    share = sum(wrong.values()) / sum(on_node.values())
    nodes = ','.join(map(str, sorted(wrong)))
    amount = quantities.shown_memory(max(1, sum(wrong.values()) // 1024))
    return check_rule.Violation(
        subject=pins.subject(guest),
        message=f'{_percent(share)} of its memory '
                f'({amount}) on NUMA node {nodes}, not on {expected}',
        evidence=tuple(
            facts.HostEvidence(pid=guest.qemu.pid, node=node,
                               name=quantities.shown_memory(kib // 1024))
            for node, kib in sorted(wrong.items())),
        remediation=(f'migratepages {guest.qemu.pid} {nodes} {expected}',))


def _percent(share: float) -> str:
    return 'less than 1 %' if share < 0.01 else f'{share:.0%}'.replace(
        '%', ' %')


def _told_nodes(domain: domain_xml.DomainXml | None) -> cpuset.CpuSet:
    """Where all memory of a guest has to be; empty if anywhere."""
    if domain is None:
        return cpuset.CpuSet()
    cells = [cell.host_nodes for cell in domain.cells if cell.host_nodes]
    if domain.memory_mode in _PREFERENCES or any(
            cell.mode in _PREFERENCES for cell in domain.cells):
        return cpuset.CpuSet()
    return cpuset.union((domain.memory_nodes, *cells))


def _is_guest_memory(region: qemu_process.MemoryRegion,
                     small_kib: int) -> bool:
    page_size_kib = region.page_size_kib or small_kib
    return bool(region.bound_to) or page_size_kib > small_kib or (
        sum(region.pages.values()) * page_size_kib >= _LEAST_UNBOUND_KIB)


@check_rule.rule(
    'H611', check_rule.Severity.WARNING, 'QEMU that libvirt does not know',
    why='libvirt and nova count on the CPUs and the memory that it uses, and '
        'do not stop it; it may be left of a guest that was evacuated',
    advice='find out who has started it; end it if the guest runs elsewhere')
def stranger(view: facts.CheckedHost) -> check_rule.Violations:
    for guest in view.guests:
        if guest.is_stranger:
            yield check_rule.Violation(
                subject=pins.subject(guest),
                message=f'libvirt does not know QEMU process {guest.qemu.pid}',
                evidence=(facts.HostEvidence(
                    pid=guest.qemu.pid, name=guest.uuid or guest.name),))


@check_rule.rule(
    'H612', check_rule.Severity.WARNING, 'vCPUs and memory on different nodes',
    why='libvirt was told to pin the vCPUs of a NUMA cell to one node and to '
        'take its memory from another; a migration leaves such pins behind',
    advice='a hard reboot or another migration writes its XML anew')
def split_cells(view: facts.CheckedHost) -> check_rule.Violations:
    node_of = {cpu: node.id
               for node in view.facts.host.nodes for cpu in node.cpus}
    for guest in view.guests:
        for cell in guest.domain.cells if guest.domain else ():
            cpus = cpuset.union(
                pins.recorded(guest, vcpu) for vcpu in cell.cpus)
            nodes = cpuset.CpuSet(
                node_of[cpu] for cpu in cpus if cpu in node_of)
            if cell.host_nodes and nodes - cell.host_nodes:
                yield check_rule.Violation(
                    subject=pins.subject(guest),
                    message=f'vCPUs of NUMA cell {cell.id} are pinned to node '
                            f'{nodes}, its memory is to be on '
                            f'{cell.host_nodes}',
                    evidence=(facts.HostEvidence(
                        pid=guest.qemu.pid, name=f'NUMA cell {cell.id}',
                        cpus=cpus),))
