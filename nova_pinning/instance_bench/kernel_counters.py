# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts while something is measured.

All counts go up from some start that means nothing; their differences count.
What a kernel does not count is left out.

Of threads of vCPUs there is the run delay (/proc/PID/task/TID/schedstat, see
the kernel's Documentation/scheduler/sched-stats.rst), which is lost when a
thread ends, so that of other threads it would tell little.
"""

from collections.abc import Iterable
from collections.abc import Mapping

from nova_pinning import cpuset
from nova_pinning.host import machine_files
from nova_pinning.host import qemu_process

# Of /proc/stat, the same on all architectures (USER_HZ).
_TICKS_PER_SECOND = 100
# Fields of a line of /proc/stat behind its name.
_STEAL = 7
_IDLE = 3
# The first of four fields of /proc/PID/stat behind the name: utime, stime,
# and these of children.
_UTIME = 11


def difference(before: Mapping[str, float],
               after: Mapping[str, float]) -> dict[str, float]:
    """How much counters went up; what ended unseen is not in them."""
    return {name: max(value - before[name], 0.0)
            for name, value in after.items() if name in before}


def run_delay(tree: machine_files.Tree, pid: int) -> dict[str, float]:
    """How long threads of vCPUs of a QEMU were runnable and had no CPU."""
    waited = []
    for tid in tree.names(f'/proc/{pid}/task'):
        path = f'/proc/{pid}/task/{tid}'
        fields = (tree.text(f'{path}/schedstat') or '').split()
        if len(fields) == 3 and qemu_process.is_vcpu(
                tree.text(f'{path}/comm') or ''):
            waited.append(int(fields[1]) / 1e9)
    return {'run_delay_seconds': sum(waited)} if waited else {}


def steal(stat: str, cpus: cpuset.CpuSet) -> dict[str, float]:
    """What /proc/stat tells of CPU time that another guest had.

    :param stat: its text
    :returns: nothing if it does not tell
    """
    ticks = [own[_STEAL] for cpu, own in _ticks(stat).items()
             if cpu in cpus and len(own) > _STEAL]
    return {'steal_seconds': sum(ticks) / _TICKS_PER_SECOND} if ticks else {}


def _ticks(stat: str) -> dict[int, list[int]]:
    """What /proc/stat tells of each CPU."""
    return {int(fields[0].removeprefix('cpu')): list(map(int, fields[1:]))
            for fields in map(str.split, stat.splitlines())
            if fields and fields[0].startswith('cpu') and fields[0] != 'cpu'}


def idle(stat: str, or_interrupted: bool = False) -> dict[int, float]:
    """For how many seconds each CPU has been idle, by its number.

    Where idle CPUs have no ticks this is measured (get_idle_time in the
    kernel's fs/proc/stat.c), while what they did is mostly a sample.

    :param stat: the text of /proc/stat
    :param or_interrupted: or has handled interrupts and softirqs
    """
    end = _IDLE + (4 if or_interrupted else 2)
    return {cpu: sum(ticks[_IDLE:end]) / _TICKS_PER_SECOND
            for cpu, ticks in _ticks(stat).items()}


def cpu_seconds(tree: machine_files.Tree, pids: Iterable[int]) -> float:
    """CPU time of processes, and of their children that they waited for.

    Of all their threads, ended or not; what ignores SIGCHLD waits for none.
    See proc_pid_stat(5).

    :param pids: those that have ended are left out
    """
    return sum(
        sum(map(int, stat.rpartition(')')[2].split()[_UTIME:_UTIME + 4]))
        for pid in pids if (stat := tree.text(f'/proc/{pid}/stat'))
    ) / _TICKS_PER_SECOND


def foreign_seconds(
    busy: Mapping[int, float],
    instances: Mapping[str, tuple[cpuset.CpuSet, float]],
) -> dict[str, float]:
    """How long CPUs worked for nobody that they were given to.

    Instances that share CPUs may use them unevenly, so that their CPUs are
    looked at together, and those of others that share these.

    :param busy: seconds, by CPU
    :param instances: all there are: CPUs, and seconds of CPU time meanwhile
    :returns: seconds of each CPU that an instance may use, the mean; none of
        instances one of whose CPUs is not in ``busy``
    """
    found = {}
    for name, (group, _seconds) in instances.items():
        # The farthest that others can be is through all of them.
        for _step in instances:
            own = [one for one in instances.values()
                   if not one[0].isdisjoint(group)]
            group = cpuset.union(cpus for cpus, _seconds in own)
        if group and all(cpu in busy for cpu in group):
            found[name] = max(0.0, sum(busy[cpu] for cpu in group) - sum(
                seconds for _cpus, seconds in own)) / len(group)
    return found
