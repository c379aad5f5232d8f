# SPDX-License-Identifier: Apache-2.0
"""What a compute host is made of: its CPUs, NUMA nodes and huge pages."""

from collections.abc import Mapping
import dataclasses
import re

from nova_pinning import cpuset
from nova_pinning.tempest_plugin import output

_SIBLINGS = re.compile(r'/cpu(\d+)/topology/thread_siblings_list$')
_NODE = re.compile(r'/node(\d+)/cpulist$')
_PAGES = re.compile(r'/node(\d+)/hugepages/hugepages-(\d+)kB/free_hugepages$')

# See capabilities(7). What no process of this host can have, libvirt cannot.
_CAP_SYS_RESOURCE = 24

#: The shell commands that print what parse() reads.
SCRIPT = r"""
grep -Hs '' /sys/devices/system/cpu/online \
    /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list \
    /sys/devices/system/node/node[0-9]*/cpulist \
    /sys/devices/system/node/node[0-9]*/hugepages/*/free_hugepages
grep -Hs ^CapBnd: /proc/self/status
chrt -f 1 true 2>/dev/null && echo /chrt:works
true
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeMachine:
    """A host, as its kernel describes it.

    :param cores: the CPUs of each core, each core once
    :param nodes: the CPUs of each NUMA node
    :param free_pages: by node and size in KiB
    :param can_lock_memory: whether libvirt can let a guest lock its memory,
        which a container may forbid
    :param can_run_realtime: whether threads may ask for real time
    """

    online: cpuset.CpuSet
    cores: tuple[cpuset.CpuSet, ...]
    nodes: Mapping[int, cpuset.CpuSet]
    free_pages: Mapping[tuple[int, int], int]
    can_lock_memory: bool
    can_run_realtime: bool

    def has_threads(self, cpus: cpuset.CpuSet) -> bool:
        """Whether any of the CPUs are siblings."""
        return any(len(core & cpus) > 1 for core in self.cores)

    def siblings(self, cpu: int) -> cpuset.CpuSet:
        """All threads of a CPU's core, itself included."""
        return next((core for core in self.cores if cpu in core),
                    cpuset.CpuSet([cpu]))

    def per_node(self, cpus: cpuset.CpuSet) -> dict[int, cpuset.CpuSet]:
        """Those of the CPUs that each node has; only nodes that have some."""
        return {node: mine & cpus for node, mine in self.nodes.items()
                if mine & cpus}


def parse(text: str) -> ComputeMachine:
    """Read what SCRIPT prints.

    :raises ValueError: if it makes no sense
    """
    online = cpuset.CpuSet()
    cores = set()
    nodes = {}
    free_pages = {}
    capabilities = 0
    can_run_realtime = False
    for path, line in output.files(text):
        if path.endswith('/cpu/online'):
            online = cpuset.CpuSet.parse(line)
        elif path.endswith('/status'):
            capabilities = int(line.partition(':')[2], 16)
        elif path == '/chrt':
            can_run_realtime = True
        elif _SIBLINGS.search(path):
            cores.add(cpuset.CpuSet.parse(line))
        elif match := _NODE.search(path):
            nodes[int(match[1])] = cpuset.CpuSet.parse(line)
        elif match := _PAGES.search(path):
            free_pages[int(match[1]), int(match[2])] = int(line)
    if not online:
        raise ValueError('the host does not tell which CPUs it has')
    return ComputeMachine(
        online, tuple(sorted(cores)),
        # A kernel without NUMA has no nodes; libvirt and nova see one then.
        nodes or {0: online}, free_pages,
        bool(capabilities >> _CAP_SYS_RESOURCE & 1), can_run_realtime)
