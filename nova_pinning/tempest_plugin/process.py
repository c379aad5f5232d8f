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
from nova_pinning.tempest_plugin import domain
from nova_pinning.tempest_plugin import output

# Fields of /proc/PID/stat behind the name, counted from 0: see proc(5), where
# they are 40 and 41.
_PRIORITY, _POLICY = 37, 38
_POLICIES = {0: 'other', 1: 'fifo', 2: 'rr', 3: 'batch', 5: 'idle',
             6: 'deadline'}

_VCPU = re.compile(r'CPU (\d+)/\w+')
_IOTHREAD = re.compile(r'IO iothread(\d+)')
_VHOST = re.compile(r'vhost-\d+')

_NODES = re.compile(r'(?:bind|prefer(?: \(many\))?)(?:=[\w|]+)?:([\d,-]+)')
# What guest memory may be a mapping of. Programs and libraries are none: their
# pages may be on any node, where another process has read them first.
_GUEST_FILE = re.compile(r' file=(?:/memfd:|\S*/libvirt/qemu/)')
_PAGES = re.compile(r'\bN(\d+)=\d+')
_PAGE_SIZE = re.compile(r'\bkernelpagesize_kB=(\d+)')

# UUID is part of a word wherever it stands, so that no other process than
# QEMU has it as an argument of its own.
_SCRIPT = r"""
for found in $(grep -lsxzF -eUUID /proc/[0-9]*/cmdline); do
    dir=${found%/cmdline}
    grep -Hs '' $dir/task/*/stat
    grep -Hs -e ^Cpus_allowed_list: -e ^VmLck: $dir/task/*/status
    grep -Hs -e ' huge ' -e ' bind' -e ' prefer' $dir/numa_maps
    for comm in $(grep -lsx vhost-${dir#/proc/} /proc/[0-9]*/comm); do
        grep -Hs '' ${comm%/comm}/stat
        grep -Hs ^Cpus_allowed_list: ${comm%/comm}/status
    done
done
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Thread:
    """A thread.

    :param cpus: the host CPUs that the kernel lets it run on
    """

    tid: int
    name: str
    cpus: cpuset.CpuSet
    scheduler: domain.Scheduler


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """Memory that is bound to nodes, or in huge pages.

    :param bound_to: host NUMA nodes it may come from, empty for any
    :param nodes: host NUMA nodes it does come from, as far as it is in use
    """

    bound_to: cpuset.CpuSet
    nodes: cpuset.CpuSet
    page_size_kib: int


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """A running QEMU.

    :param vcpus: threads by vCPU
    :param iothreads: threads by the number libvirt gives them
    :param emulator: all other threads of the process
    :param vhost: those that move packets for it
    :param locked_kib: memory that cannot be swapped out
    :param regions: in the order of their addresses
    """

    pid: int
    vcpus: Mapping[int, Thread]
    iothreads: Mapping[int, Thread]
    emulator: tuple[Thread, ...]
    vhost: tuple[Thread, ...]
    locked_kib: int
    regions: tuple[Region, ...]

    @property
    def threads(self) -> tuple[Thread, ...]:
        """All of them."""
        return (*self.vcpus.values(), *self.iothreads.values(),
                *self.emulator, *self.vhost)


def script(server_id: str) -> str:
    """The shell commands that print what parse() reads.

    :param server_id: the server's UUID, which is the domain's as well
    """
    return _SCRIPT.replace('UUID', server_id)


def parse(text: str) -> Process | None:
    """Read what script() prints.

    :returns: None if there is no such process
    :raises ValueError: if there are several, or if it makes no sense
    """
    stats = {}
    fields: dict[str, dict[str, str]] = {}
    regions = []
    for path, line in output.files(text):
        directory, _slash, file = path.rpartition('/')
        if file == 'stat':
            stats[directory] = line
        elif file == 'status':
            key, _colon, value = line.partition(':')
            fields.setdefault(directory, {})[key] = value.strip()
        elif file == 'numa_maps' and _is_memory(line):
            regions.append(_region(line))
    pids = {path.split('/')[2] for path in stats if '/task/' in path}
    if not pids:
        return None
    if len(pids) > 1:
        raise ValueError(
            f'one guest has several processes: {", ".join(sorted(pids))}')
    threads = [_thread(stats[path], fields[path]['Cpus_allowed_list'])
               for path in stats
               # Else it ended between the two looks.
               if 'Cpus_allowed_list' in fields.get(path, {})]
    pid = pids.pop()
    leader = fields.get(f'/proc/{pid}/task/{pid}', {})
    return _process(int(pid), threads, leader, tuple(regions))


def _process(
    pid: int, threads: Iterable[Thread], leader: Mapping[str, str],
    regions: tuple[Region, ...],
) -> Process:
    vcpus, iothreads = {}, {}
    vhost, emulator = [], []
    for thread in threads:
        if match := _VCPU.fullmatch(thread.name):
            vcpus[int(match[1])] = thread
        elif match := _IOTHREAD.fullmatch(thread.name):
            iothreads[int(match[1])] = thread
        elif _VHOST.fullmatch(thread.name):
            vhost.append(thread)
        else:
            emulator.append(thread)
    locked = leader.get('VmLck', '0 kB').split()
    return Process(pid, vcpus, iothreads, tuple(emulator), tuple(vhost),
                   int(locked[0]), regions)


def _thread(stat: str, cpus: str) -> Thread:
    # The name may hold blanks and brackets.
    start, _bracket, rest = stat.rpartition(')')
    tid, _bracket, name = start.partition('(')
    numbers = rest.split()
    policy = int(numbers[_POLICY])
    return Thread(
        int(tid), name, cpuset.CpuSet.parse(cpus),
        domain.Scheduler(_POLICIES.get(policy, str(policy)),
                         int(numbers[_PRIORITY])))


def _is_memory(line: str) -> bool:
    return (' file=' not in line or ' huge ' in line or
            bool(_GUEST_FILE.search(line)))


def _region(line: str) -> Region:
    bound_to = _NODES.search(line)
    page_size = _PAGE_SIZE.search(line)
    return Region(
        cpuset.CpuSet.parse(bound_to[1] if bound_to else ''),
        cpuset.CpuSet(map(int, _PAGES.findall(line))),
        int(page_size[1]) if page_size else 0)
