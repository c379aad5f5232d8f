# SPDX-License-Identifier: Apache-2.0
"""What the kernel says a guest is: the threads of its QEMU, and their CPUs.

Threads are told by the names that QEMU gives them, since libvirt starts it
with debug-threads=on: 'CPU 3/KVM', 'IO iothread1'. Those of vhost are
processes of the kernel, or from Linux 6.4 on threads of QEMU itself.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning import cpuset
from nova_pinning.host import domain_xml

# Fields of /proc/PID/stat behind the name, counted from 0: see proc(5), where
# they are 9, 39, 40 and 41.
_FLAGS, _LAST_CPU, _PRIORITY, _POLICY = 6, 36, 37, 38
# PF_NO_SETAFFINITY of include/linux/sched.h.
_MUST_STAY = 0x04000000
_POLICIES = {0: 'other', 1: 'fifo', 2: 'rr', 3: 'batch', 5: 'idle',
             6: 'deadline'}

_VCPU = re.compile(r'CPU (\d+)/\w+')
_IOTHREAD = re.compile(r'IO iothread(\d+)')
_VHOST = re.compile(r'vhost-\d+')
# Of thread contexts, see util/thread-context.c of QEMU 7.2 and later.
_PREALLOCATION = re.compile(r'TC .*')

_NODES = re.compile(r'(?:bind|prefer(?: \(many\))?)(?:=[\w|]+)?:([\d,-]+)')
# What guest memory may be a mapping of. Programs and libraries are none: their
# pages may be on any node, where another process has read them first.
_GUEST_FILE = re.compile(r' file=(?:/memfd:|\S*/libvirt/qemu/)')
_PAGES = re.compile(r'\bN(\d+)=(\d+)')
_PAGE_SIZE = re.compile(r'\bkernelpagesize_kB=(\d+)')


@dataclasses.dataclass(frozen=True, slots=True)
class QemuThread:
    """A thread.

    :param cpus: the host CPUs that the kernel lets it run on
    :param last_cpu: the one that it has run on last
    :param may_move: whether anybody but the kernel can set its CPUs
    """

    tid: int
    name: str
    cpus: cpuset.CpuSet
    scheduler: domain_xml.ThreadScheduler
    last_cpu: int = dataclasses.field(default=0, compare=False)
    may_move: bool = True

    @property
    def is_for_memory(self) -> bool:
        """Whether it only sets memory of a node up, before the guest runs.

        libvirt keeps it near that node: on some of the emulator threads' CPUs.
        """
        return _PREALLOCATION.fullmatch(self.name) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryRegion:
    """Memory that is bound to nodes, or in huge pages.

    :param bound_to: host NUMA nodes it may come from, empty for any
    :param pages: how many of its pages are on each host NUMA node
    :param page_size_kib: 0 if not known
    """

    bound_to: cpuset.CpuSet
    pages: Mapping[int, int]
    page_size_kib: int

    @property
    def nodes(self) -> cpuset.CpuSet:
        """Host NUMA nodes it does come from, as far as it is in use."""
        return cpuset.CpuSet(self.pages)


@dataclasses.dataclass(frozen=True, slots=True)
class QemuProcess:
    """A running QEMU.

    :param vcpus: threads by vCPU
    :param iothreads: threads by the number libvirt gives them
    :param emulator: all other threads of the process
    :param vhost: those that move packets for it
    :param locked_kib: memory that cannot be swapped out
    :param regions: in the order of their addresses
    """

    pid: int
    vcpus: Mapping[int, QemuThread]
    iothreads: Mapping[int, QemuThread]
    emulator: tuple[QemuThread, ...]
    vhost: tuple[QemuThread, ...]
    locked_kib: int
    regions: tuple[MemoryRegion, ...]

    @property
    def threads(self) -> tuple[QemuThread, ...]:
        """All of them."""
        return (*self.vcpus.values(), *self.iothreads.values(),
                *self.emulator, *self.vhost)


def qemu_process_of(
    pid: int,
    threads: Iterable[QemuThread],
    locked_kib: int,
    regions: tuple[MemoryRegion, ...],
    vcpu_tids: Mapping[int, int] | None = None,
) -> QemuProcess:
    """A QEMU, made up of its threads, those of vhost among them.

    :param vcpu_tids: vCPUs by the id of their thread, as far as libvirt
        tells; where it does not, the threads' names do
    """
    vcpus, iothreads = {}, {}
    vhost, emulator = [], []
    known = vcpu_tids or {}
    for thread in threads:
        if thread.tid in known:
            vcpus[known[thread.tid]] = thread
        elif not known and (match := _VCPU.fullmatch(thread.name)):
            vcpus[int(match[1])] = thread
        elif match := _IOTHREAD.fullmatch(thread.name):
            iothreads[int(match[1])] = thread
        elif _VHOST.fullmatch(thread.name):
            vhost.append(thread)
        else:
            emulator.append(thread)
    return QemuProcess(pid, vcpus, iothreads, tuple(emulator), tuple(vhost),
                       locked_kib, regions)


def parse_thread(stat: str, cpus: cpuset.CpuSet) -> QemuThread:
    """A thread, from its /proc/PID/task/TID/stat.

    :param cpus: Cpus_allowed_list of its status
    :raises ValueError: if it makes no sense
    """
    # The name may hold blanks and brackets.
    start, _bracket, rest = stat.rpartition(')')
    tid, _bracket, name = start.partition('(')
    numbers = rest.split()
    policy = int(numbers[_POLICY])
    return QemuThread(
        int(tid), name, cpus,
        domain_xml.ThreadScheduler(_POLICIES.get(policy, str(policy)),
                                   int(numbers[_PRIORITY])),
        int(numbers[_LAST_CPU]), not int(numbers[_FLAGS]) & _MUST_STAY)


def is_vcpu(name: str) -> bool:
    """Whether a thread of QEMU that has this name is a vCPU."""
    return _VCPU.fullmatch(name) is not None


def is_guest_memory(line: str) -> bool:
    """Whether a line of /proc/PID/numa_maps may be about guest memory."""
    return (' file=' not in line or ' huge ' in line or
            bool(_GUEST_FILE.search(line)))


def parse_region(line: str) -> MemoryRegion:
    """A line of /proc/PID/numa_maps.

    :raises ValueError: if it makes no sense
    """
    bound_to = _NODES.search(line)
    page_size = _PAGE_SIZE.search(line)
    return MemoryRegion(
        cpuset.CpuSet.parse(bound_to[1] if bound_to else ''),
        {int(node): int(pages) for node, pages in _PAGES.findall(line)},
        int(page_size[1]) if page_size else 0)
