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

"""H6xx, the second half: all of a guest but its vCPUs."""

from collections.abc import Callable
from collections.abc import Iterator

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host.check import finding
from nova_pinning.host.check import rule
from nova_pinning.host.check.rules import pins
from nova_pinning.host import domain as domain_module
from nova_pinning.host import qemu_process
from nova_pinning.host import words

# Unbound memory of QEMU's own, such as its heaps, is in smaller pieces.
_LEAST_UNBOUND_KIB = 65536
_SMALL_PAGE_KIB = 4
_PREFERENCES = ('preferred', 'interleave')

_PIN_AGAIN = ('pin them again, and look for what moves threads; vhost threads '
              'go with the emulator threads')


def _not_as_told(view: rule.View, kind: str) -> Iterator[rule.Problem]:
    for guest in view.guests:
        found = [one for one in pins.others(view, guest)
                 if one.kind == kind and not one.is_as_told and
                 one.thread.may_move]
        if not found:
            continue
        where = cpuset.union(one.thread.cpus for one in found)
        pin = cpuset.union(one.pin for one in found)
        harms = where & pins.not_for(view, guest)
        message = (f'{words.count(len(found), f"{kind} thread")} may run on '
                   f'{words.cpus(where)}, libvirt has pinned to '
                   f'{words.cpus(pin)}')
        if harms:
            message += f'; {words.cpus(harms)} not for this guest'
        yield rule.Problem(
            subject=pins.subject(guest), message=message,
            evidence=tuple(
                one.evidence(guest.qemu.pid, one.pin) for one in found),
            mends=_pin_mends(guest, found, lambda one: one.pin),
            severity=finding.Severity.ERROR if harms else None)


def _pin_mends(
    guest: facts.Guest, found: list[pins.Other],
    target: Callable[[pins.Other], cpuset.CpuSet],
) -> tuple[str, ...]:
    """Commands that pin I/O threads one by one, and the others at once."""
    mends: list[str] = []
    for one in found:
        if one.iothread is not None:
            mends.append(commands.pin_iothread(
                guest, one.iothread, target(one)))
        else:
            mends.extend(commands.pin_emulator(guest, target(one)))
    return tuple(dict.fromkeys(mends))


@rule.rule(
    'H606', finding.Severity.WARNING,
    'emulator threads that are not where libvirt pinned them',
    why='QEMU handles disks, networks and its monitor on CPUs that are not '
        'meant for it',
    advice=_PIN_AGAIN)
def emulator(view: rule.View) -> Iterator[rule.Problem]:
    yield from _not_as_told(view, 'emulator')


@rule.rule(
    'H607', finding.Severity.WARNING,
    'I/O threads that are not where libvirt pinned them',
    why="QEMU handles the guest's disks on CPUs that are not meant for it",
    advice=_PIN_AGAIN)
def iothreads(view: rule.View) -> Iterator[rule.Problem]:
    yield from _not_as_told(view, 'I/O')


@rule.rule(
    'H608', finding.Severity.WARNING,
    'vhost threads that are not where libvirt pinned emulator threads',
    why="the kernel moves the guest's packets on CPUs that are not meant for "
        'it',
    advice=_PIN_AGAIN)
def vhost(view: rule.View) -> Iterator[rule.Problem]:
    yield from _not_as_told(view, 'vhost')


@rule.rule(
    'H609', finding.Severity.ERROR,
    'guest whose other threads are let on dedicated CPUs of others',
    why='nobody has pinned its emulator, I/O or vhost threads, or has pinned '
        'them to CPUs that are not its own, where they take time from '
        'other guests',
    advice='set hw:emulator_threads_policy=share for pinned guests, with a '
           'cpu_shared_set; pins may also be left from another host')
def astray(view: rule.View) -> Iterator[rule.Problem]:
    for guest in view.guests:
        not_for = pins.not_for(view, guest)
        found = [one for one in pins.others(view, guest)
                 if one.is_as_told and one.thread.may_move and
                 not not_for.isdisjoint(one.thread.cpus)]
        if not found:
            continue
        where = cpuset.union(one.thread.cpus for one in found) & not_for
        target = view.shared_cpus or pins.held(view, guest)
        kinds = list(dict.fromkeys(one.kind for one in found))
        yield rule.Problem(
            subject=pins.subject(guest),
            message=f'its {words.listed(kinds)} threads may run on '
                    f'{words.cpus(where)}, not for this guest',
            evidence=tuple(one.evidence(guest.qemu.pid, target)
                           for one in found),
            mends=_pin_mends(guest, found, lambda _one: target)
            if target else ())


@rule.rule(
    'H610', finding.Severity.ERROR, 'guest memory on the wrong node',
    why='each access that misses the caches goes over the link to another '
        'node',
    advice='make room on the right node and migrate the pages, or the guest; '
           'look whether memory was full when it started')
def memory(view: rule.View) -> Iterator[rule.Problem]:
    for guest in view.guests:
        told = _told_nodes(guest.domain)
        on_node: dict[int, int] = {}
        wrong: dict[int, int] = {}
        expected = told
        for region in filter(_is_guest_memory, guest.qemu.regions):
            # A cell's memory is bound to its own node.
            nodes = told & region.bound_to or told or region.bound_to
            expected |= nodes
            for node, pages in region.pages.items():
                kib = pages * (region.page_size_kib or _SMALL_PAGE_KIB)
                on_node[node] = on_node.get(node, 0) + kib
                if nodes and node not in nodes:
                    wrong[node] = wrong.get(node, 0) + kib
        if wrong:
            yield _misplaced(guest, expected, on_node, wrong)


def _misplaced(
    guest: facts.Guest, expected: cpuset.CpuSet, on_node: dict[int, int],
    wrong: dict[int, int],
) -> rule.Problem:
    share = sum(wrong.values()) / sum(on_node.values())
    nodes = ','.join(map(str, sorted(wrong)))
    amount = quantities.shown_memory(max(1, sum(wrong.values()) // 1024))
    return rule.Problem(
        subject=pins.subject(guest),
        message=f'{_percent(share)} of its memory '
                f'({amount}) on NUMA node {nodes}, not on {expected}',
        evidence=tuple(
            finding.Evidence(pid=guest.qemu.pid, node=node,
                             name=quantities.shown_memory(kib // 1024))
            for node, kib in sorted(wrong.items())),
        mends=(f'migratepages {guest.qemu.pid} {nodes} {expected}',))


def _percent(share: float) -> str:
    return 'less than 1 %' if share < 0.01 else f'{share:.0%}'.replace(
        '%', ' %')


def _told_nodes(domain: domain_module.Domain | None) -> cpuset.CpuSet:
    """Where all memory of a guest has to be; empty if anywhere."""
    if domain is None:
        return cpuset.CpuSet()
    cells = [cell.host_nodes for cell in domain.cells if cell.host_nodes]
    if domain.memory_mode in _PREFERENCES or any(
            cell.mode in _PREFERENCES for cell in domain.cells):
        return cpuset.CpuSet()
    return cpuset.union((domain.memory_nodes, *cells))


def _is_guest_memory(region: qemu_process.Region) -> bool:
    page_size_kib = region.page_size_kib or _SMALL_PAGE_KIB
    return bool(region.bound_to) or page_size_kib > _SMALL_PAGE_KIB or (
        sum(region.pages.values()) * page_size_kib >= _LEAST_UNBOUND_KIB)


@rule.rule(
    'H611', finding.Severity.WARNING, 'QEMU that libvirt does not know',
    why='libvirt and nova count on the CPUs and the memory that it uses, and '
        'do not stop it; it may be left of a guest that was evacuated',
    advice='find out who has started it; end it if the guest runs elsewhere')
def stranger(view: rule.View) -> Iterator[rule.Problem]:
    for guest in view.guests:
        if guest.is_stranger:
            yield rule.Problem(
                subject=pins.subject(guest),
                message=f'libvirt does not know QEMU process {guest.qemu.pid}',
                evidence=(finding.Evidence(
                    pid=guest.qemu.pid, name=guest.uuid or guest.name),))


@rule.rule(
    'H612', finding.Severity.WARNING, 'vCPUs and memory on different nodes',
    why='libvirt was told to pin the vCPUs of a NUMA cell to one node and to '
        'take its memory from another; a migration leaves such pins behind',
    advice='a hard reboot or another migration writes its XML anew')
def split_cells(view: rule.View) -> Iterator[rule.Problem]:
    node_of = {cpu: node.id
               for node in view.facts.host.nodes for cpu in node.cpus}
    for guest in view.guests:
        for cell in guest.domain.cells if guest.domain else ():
            cpus = cpuset.union(
                pins.recorded(guest, vcpu) for vcpu in cell.cpus)
            nodes = cpuset.CpuSet(
                node_of[cpu] for cpu in cpus if cpu in node_of)
            if cell.host_nodes and nodes - cell.host_nodes:
                yield rule.Problem(
                    subject=pins.subject(guest),
                    message=f'vCPUs of NUMA cell {cell.id} are pinned to node '
                            f'{nodes}, its memory is to be on '
                            f'{cell.host_nodes}',
                    evidence=(finding.Evidence(
                        pid=guest.qemu.pid, name=f'NUMA cell {cell.id}',
                        cpus=cpus),))


@rule.rule(
    'H613', finding.Severity.WARNING, 'stale pins in what libvirt has stored',
    why='started again by anybody but nova, it runs on the CPUs of the host '
        'that it has come from',
    advice='a hard reboot by nova writes its XML anew')
def stale(view: rule.View) -> Iterator[rule.Problem]:
    for guest in view.guests:
        if guest.domain is None or guest.stored is None:
            continue
        differing = [what for what, now, stored in zip(
            _WHAT, _placement(guest.domain), _placement(guest.stored))
            if now != stored]
        if differing:
            yield rule.Problem(
                subject=pins.subject(guest),
                message=f'{words.listed(differing)} differ between what runs '
                        'and what is stored',
                evidence=tuple(
                    finding.Evidence(
                        pid=guest.qemu.pid, name=f'vCPU {vcpu}',
                        cpus=guest.stored.vcpu_affinity(vcpu),
                        expected_cpus=guest.domain.vcpu_affinity(vcpu))
                    for vcpu in range(guest.domain.vcpus)
                    if guest.stored.vcpu_affinity(vcpu)
                    != guest.domain.vcpu_affinity(vcpu)))


_WHAT = ('pins of vCPUs', 'pins of emulator threads', 'pins of I/O threads',
         'nodes of memory')


def _placement(domain: domain_module.Domain) -> tuple[object, ...]:
    return (
        [domain.vcpu_affinity(vcpu) for vcpu in range(domain.vcpus)],
        domain.emulator_pin, domain.iothread_pins,
        (domain.memory_nodes,
         [(cell.id, cell.host_nodes) for cell in domain.cells]))


RULES = (emulator, iothreads, vhost, astray, memory, stranger, split_cells,
         stale)
