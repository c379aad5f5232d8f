# SPDX-License-Identifier: Apache-2.0
"""What must hold for guests, and what is said where it does not.

Each check returns complaints, sentences with figures; none if all is well.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import functools
import itertools
from typing import ParamSpec

from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process
from nova_pinning.tempest_plugin import guest_look
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import machine
from nova_pinning.tempest_plugin import topology

_OTHER = domain_xml.ThreadScheduler('other')
_P = ParamSpec('_P')


def _check(find: Callable[_P, Iterator[str]]) -> Callable[_P, list[str]]:
    @functools.wraps(find)
    def found(*args: _P.args, **kwargs: _P.kwargs) -> list[str]:
        return list(find(*args, **kwargs))

    return found


def all_of(
    guest: guest_look.ObservedGuest,
    kept: topology.ServerTopology,
    sets: hosts.CpuSets,
    host: machine.ComputeMachine,
    policy: str,
) -> list[str]:
    """What must hold for any running guest, whatever its flavor.

    The kernel may do what the XML says, and both may be stale. So the XML is
    held against what nova keeps of the guest.

    :param kept: what nova keeps of it
    :param policy: hw:emulator_threads_policy of its flavor, '' for none
    """
    return [*agreement(guest.live, kept, host),
            *within(guest.live, kept, sets),
            *emulator(guest.live, kept, sets, policy),
            *persistence(guest), *affinities(guest, host.online),
            *memory_of_cells(guest, kept, host)]


@_check
def affinities(guest: guest_look.ObservedGuest,
               anywhere: cpuset.CpuSet) -> Iterator[str]:
    """Whether the kernel runs each thread where the domain XML says.

    :param anywhere: where threads run for which the XML says nothing
    """
    if guest.qemu is None:
        yield 'the guest does not run'
        return
    qemu, xml = guest.qemu, guest.live
    if set(qemu.vcpus) != set(range(xml.vcpus)):
        yield (f'QEMU has threads for the vCPUs {cpuset.CpuSet(qemu.vcpus)}, '
               f'not for all {xml.vcpus}')
    if len(qemu.iothreads) != xml.iothreads:
        yield (f'QEMU has {len(qemu.iothreads)} I/O threads, the XML has '
               f'{xml.iothreads}')
    floats_over = xml.floats_over or anywhere
    emulator = floats_over if xml.emulator_pin is None else xml.emulator_pin
    for vcpu, thread in qemu.vcpus.items():
        yield from _affinity(
            f'vCPU {vcpu}', thread, xml.vcpu_affinity(vcpu) or anywhere)
        expected = xml.vcpu_schedulers.get(vcpu, _OTHER)
        if thread.scheduler != expected:
            yield (f'vCPU {vcpu} (thread {thread.tid}) is scheduled as '
                   f'{thread.scheduler.policy} {thread.scheduler.priority}, '
                   f'the XML says {expected.policy} {expected.priority}')
    for number, thread in qemu.iothreads.items():
        yield from _affinity(f'I/O thread {number}', thread,
                             xml.iothread_pins.get(number, floats_over))
    for thread in qemu.emulator:
        if not (thread.is_for_memory and thread.cpus.issubset(emulator)):
            yield from _affinity('emulator', thread, emulator)
    for thread in qemu.vhost:
        # The kernel gives them the CPUs of the thread that opened the device.
        if not thread.cpus.issubset(emulator):
            yield from _affinity('vhost', thread, emulator)


@_check
def agreement(
    xml: domain_xml.DomainXml,
    kept: topology.ServerTopology,
    host: machine.ComputeMachine,
) -> Iterator[str]:
    """Whether the domain XML has what nova keeps: pins, cells, memory."""
    strangers = cpuset.CpuSet(set(xml.vcpu_pins) - set(range(xml.vcpus)))
    if strangers:
        yield (f'the vCPUs {strangers} are pinned, of which the guest has '
               f'only {xml.vcpus}')
    for vcpu, cpu in kept.pins.items():
        cpus = xml.vcpu_affinity(vcpu)
        if cpus != cpuset.CpuSet([cpu]):
            yield (f'vCPU {vcpu} is pinned to {_text(cpus)}, for nova it is '
                   f'on {cpu}')
    if not kept.cells:
        if xml.vcpu_pins:
            yield 'vCPUs are pinned that float for nova'
        if xml.cells:
            yield f'the XML has {len(xml.cells)} NUMA cells, nova none'
        if xml.memory_nodes:
            yield (f'memory comes from nodes {xml.memory_nodes}, for nova '
                   f'from any')
        yield from _page_size(xml, 0)
        return
    yield from _page_size(xml, _huge_page_kib(kept, host))
    nodes = kept.nodes
    if xml.memory_nodes != nodes or xml.memory_mode != 'strict':
        yield (f'memory comes from nodes {_text(xml.memory_nodes)} (mode '
               f'{xml.memory_mode or "none"}), it must come from nodes '
               f'{nodes}')
    if len(xml.cells) != len(kept.cells):
        yield (f'the XML has {len(xml.cells)} NUMA cells, nova '
               f'{len(kept.cells)}')
        return
    for number, (cell, nova) in enumerate(zip(xml.cells, kept.cells)):
        node = cpuset.CpuSet([nova.host_node])
        if cell.cpus != nova.vcpus:
            yield (f'cell {number} has the vCPUs {_text(cell.cpus)}, for nova '
                   f'{_text(nova.vcpus)}')
        if cell.memory_kib != nova.memory_mib * 1024:
            yield (f'cell {number} has {cell.memory_kib} KiB, for nova '
                   f'{nova.memory_mib} MiB')
        if cell.host_nodes != node or cell.mode != 'strict':
            yield (f'memory of cell {number} comes from nodes '
                   f'{_text(cell.host_nodes)} (mode {cell.mode or "none"}), '
                   f'it must come from node {node}')


@_check
def within(
    xml: domain_xml.DomainXml,
    kept: topology.ServerTopology,
    sets: hosts.CpuSets,
) -> Iterator[str]:
    """Whether vCPUs are on CPUs of their kind, pinned ones each on its own."""
    by_cpu: dict[int, int] = {}
    for vcpu, cpu in sorted(kept.pins.items()):
        if cpu not in sets.dedicated:
            yield (f'vCPU {vcpu} is pinned to {cpu}, which is not among the '
                   f'dedicated CPUs {_text(sets.dedicated)}')
        if cpu in by_cpu:
            yield f'vCPUs {by_cpu[cpu]} and {vcpu} are both pinned to {cpu}'
        by_cpu[cpu] = vcpu
    for vcpu in sorted(set(range(xml.vcpus)) - set(kept.pins)):
        cpus = xml.vcpu_affinity(vcpu)
        if not cpus or not cpus.issubset(sets.shared):
            yield (f'vCPU {vcpu} floats over {_text(cpus)}, which are not all '
                   f'shared CPUs ({_text(sets.shared)})')


def persistence(guest: guest_look.ObservedGuest) -> list[str]:
    """Whether libvirt will start the guest as it runs now."""
    return [
        f'{name} is {getattr(guest.live, name)} now and '
        f'{getattr(guest.persistent, name)} at the next start'
        for name in ('vcpus', 'floats_over', 'vcpu_pins', 'emulator_pin',
                     'iothread_pins', 'vcpu_schedulers', 'cells',
                     'memory_nodes', 'memory_mode', 'huge_pages')
        if getattr(guest.live, name) != getattr(guest.persistent, name)]


def disjoint(cpus: Mapping[str, cpuset.CpuSet]) -> list[str]:
    """Whether guests on one host share none of their dedicated CPUs.

    :param cpus: dedicated CPUs by guest
    """
    return [f'{guest} and {other} both have {cpus[guest] & cpus[other]}'
            for guest, other in itertools.combinations(sorted(cpus), 2)
            if cpus[guest] & cpus[other]]


@_check
def emulator(
    xml: domain_xml.DomainXml,
    kept: topology.ServerTopology,
    sets: hosts.CpuSets,
    policy: str,
) -> Iterator[str]:
    """Whether emulator threads are where hw:emulator_threads_policy says.

    I/O threads go with them. Without NUMA cells nothing is pinned. See
    nova.virt.libvirt.driver.LibvirtDriver._get_guest_numa_config.

    :param policy: 'share', 'isolate' or '' for none
    """
    if not kept.cells:
        for what, pins in (('emulator', xml.emulator_pin),
                           ('I/O', xml.iothread_pins)):
            if pins:
                yield f'{what} threads are pinned, the guest floats for nova'
        return
    cpus = xml.emulator_pin or domain_xml.NO_CPUS
    if reason := _misplaced(xml, kept, sets, policy, cpus):
        yield f'emulator threads are on {_text(cpus)}, {reason}'
    for number in range(1, xml.iothreads + 1):
        pin = xml.iothread_pins.get(number, domain_xml.NO_CPUS)
        if pin != cpus:
            yield (f'I/O thread {number} is on {_text(pin)}, the emulator '
                   f'threads are on {_text(cpus)}')


def _misplaced(
    xml: domain_xml.DomainXml, kept: topology.ServerTopology,
    sets: hosts.CpuSets, policy: str, cpus: cpuset.CpuSet,
) -> str:
    """Why emulator threads must not be on CPUs, '' if they may."""
    # Nova takes 'share' for no policy where there is nothing to share.
    if policy == 'share' and sets.shared:
        return '' if cpus == sets.shared else (
            f'not on the shared CPUs {_text(sets.shared)}')
    if policy == 'isolate':
        if len(cpus) != 1 or not cpus.issubset(sets.dedicated):
            return 'not on one dedicated CPU'
        return '' if cpus.isdisjoint(kept.pinned_cpus) else 'where a vCPU is'
    # Real time is not to be disturbed.
    own = cpuset.union(xml.vcpu_affinity(vcpu) for vcpu in range(xml.vcpus)
                       if vcpu not in xml.vcpu_schedulers)
    return '' if cpus == own else f"not on the guest's own CPUs {_text(own)}"


def siblings(kept: topology.ServerTopology,
             host: machine.ComputeMachine) -> list[str]:
    """Whether pinned vCPUs share cores, as the thread policy require says."""
    pinned = kept.pinned_cpus
    return [f'{core & pinned} is alone on its core {core}'
            for core in host.cores
            if len(core & pinned) == 1 and len(pinned) % 2 == 0]


@_check
def isolated(
    kept: topology.ServerTopology, host: machine.ComputeMachine,
    others: Mapping[str, cpuset.CpuSet],
) -> Iterator[str]:
    """Whether each pinned vCPU has a core for itself: the policy isolate.

    :param others: CPUs in use by other guests of the host, by guest
    """
    for vcpu, cpu in sorted(kept.pins.items()):
        core = host.siblings(cpu)
        mine = core & kept.pinned_cpus
        if len(mine) > 1:
            yield (f'vCPU {vcpu} is on {cpu}, and {mine} are threads of one '
                   f'core')
        for guest, cpus in sorted(others.items()):
            if core & cpus:
                yield (f'{guest} uses {core & cpus} of the core {core}, on '
                       f'which vCPU {vcpu} is to be alone')


@_check
def guest_threads(
    xml: domain_xml.DomainXml,
    kept: topology.ServerTopology,
    host: machine.ComputeMachine,
) -> Iterator[str]:
    """Whether vCPUs that the guest takes for siblings are siblings."""
    threads = xml.topology.threads if xml.topology else 1
    for first in range(0, xml.vcpus, threads):
        vcpus = range(first, first + threads)
        cores = {host.siblings(kept.pins[vcpu]) for vcpu in vcpus}
        if len(cores) > 1:
            yield (f'the vCPUs {cpuset.CpuSet(vcpus)} are threads of one core '
                   f'for the guest, but on several: {_text(*sorted(cores))}')


@_check
def memory_of_cells(
    guest: guest_look.ObservedGuest,
    kept: topology.ServerTopology,
    host: machine.ComputeMachine,
) -> Iterator[str]:
    """Whether the memory of all cells is where nova says."""
    if guest.qemu is None or not kept.cells:
        return
    for nodes in sorted({region.bound_to for region in guest.qemu.regions
                         if not region.bound_to.issubset(kept.nodes)}):
        yield (f'memory is bound to nodes {nodes}, the guest is on nodes '
               f'{kept.nodes}')
    for node in kept.nodes:
        yield from memory(guest.qemu, node, _huge_page_kib(kept, host))


@_check
def memory(qemu: qemu_process.QemuProcess, node: int,
           page_size_kib: int) -> Iterator[str]:
    """Whether memory is bound to a node, in pages of a size.

    :param page_size_kib: 0 if any will do
    """
    cpus = cpuset.CpuSet([node])
    regions = [region for region in qemu.regions if region.bound_to == cpus]
    if not regions:
        yield f'no memory of the guest is bound to node {node}'
        return
    for region in regions:
        if not region.nodes.issubset(cpus):
            yield f'memory bound to node {node} is on {region.nodes}'
    sizes = {region.page_size_kib for region in regions}
    if page_size_kib and page_size_kib not in sizes:
        yield (f'memory bound to node {node} is in pages of {sorted(sizes)} '
               f'KiB, not of {page_size_kib} KiB')


def _affinity(what: str, thread: qemu_process.QemuThread,
              expected: cpuset.CpuSet) -> Iterator[str]:
    if thread.cpus != expected:
        yield (f'{what} (thread {thread.tid}, {thread.name!r}) runs on '
               f'{_text(thread.cpus)}, the XML says {_text(expected)}')


def _huge_page_kib(kept: topology.ServerTopology,
                   host: machine.ComputeMachine) -> int:
    """The size of the huge pages that a guest has, 0 if it has none."""
    size = kept.page_size_kib
    # It may have asked for small ones, which libvirt is not told.
    is_huge = any(size == huge for _node, huge in host.free_pages)
    return size if size and is_huge else 0


def _page_size(xml: domain_xml.DomainXml, size_kib: int) -> Iterator[str]:
    """Whether all memory is in huge pages of a size.

    :param size_kib: 0 for no huge pages
    """
    sizes = [pages.size_kib for pages in xml.huge_pages]
    if sizes != ([size_kib] if size_kib else []):
        yield (f'the XML has huge pages of {sizes} KiB, nova of '
               f'{size_kib or "no"} KiB')
        return
    cells = cpuset.CpuSet(cell.id for cell in xml.cells)
    for pages in xml.huge_pages:
        if pages.cells and pages.cells != cells:
            yield f'only the cells {pages.cells} of {cells} have huge pages'


def _text(*cpus: cpuset.CpuSet) -> str:
    return ' and '.join(str(cpu) or 'none' for cpu in cpus)
