# SPDX-License-Identifier: Apache-2.0
"""What cannot be seen from inside a container, and what it runs.

A process in a PID namespace finds only those of that namespace in /proc, so
who else runs on a CPU is hidden from it. How much all of them run is not:
/proc/stat is the whole machine's.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import re

from nova_pinning import cpuset
from nova_pinning.host import machine_files

# PROC_PID_INIT_INO of include/linux/proc_ns.h: the namespace of all processes.
_WHOLE = 'pid:[4026531836]'
# The unit of /proc/stat, the same on all architectures (USER_HZ).
_TICKS_PER_SECOND = 100
_CPU = re.compile(r'^cpu(\d+) (\d+) (\d+) (\d+)', re.MULTILINE)
#: What is hidden, for those who are told that something is.
HIDES = 'processes outside of it, and what they run where'


def is_inside(tree: machine_files.Tree) -> bool:
    """Whether other processes than those in /proc run on the machine."""
    namespace = tree.link_name('/proc/self/ns/pid')
    return namespace.startswith('pid:') and namespace != _WHOLE


def busy_seconds(tree: machine_files.Tree,
                 cpus: cpuset.CpuSet) -> Mapping[int, float]:
    """How long threads have run on each of some CPUs since it was started.

    What a guest ran is part of it, what interrupts took is not; see
    proc_stat(5).
    """
    return {
        int(cpu): sum(map(int, ticks)) / _TICKS_PER_SECOND
        for cpu, *ticks in _CPU.findall(tree.text('/proc/stat') or '')
        if int(cpu) in cpus}


def unseen_seconds(
    before: Mapping[int, float], after: Mapping[int, float],
    seen: Iterable[Mapping[int, float]],
) -> dict[int, float]:
    """How long threads ran on each CPU that nobody could see, of all that did.

    :param before: what :func:`busy_seconds` gave at first
    :param after: and in the end
    :param seen: how long each thread ran, by CPU
    """
    unseen = {cpu: seconds - before[cpu]
              for cpu, seconds in after.items() if cpu in before}
    for run in seen:
        for cpu, seconds in run.items():
            if cpu in unseen:
                unseen[cpu] -= seconds
    # Ticks are coarse, and where a thread that moves ran is an estimate.
    return {cpu: max(0.0, seconds) for cpu, seconds in unseen.items()}
